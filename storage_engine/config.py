"""Every setting of the engine, with its unit, default and reason; read from the environment.

``MQ_ENGINE_<NAME>`` sets the field of that name, upper case, for example
``MQ_ENGINE_SEGMENT_BYTES=67108864``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from storage_engine.errors import ConfigInvalid

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
SECOND_MS: Final = 1_000
HOUR_MS: Final = 3_600 * SECOND_MS
ENV_PREFIX: Final = "MQ_ENGINE_"
SOCKET_PATH_BYTES_MAX: Final = 107
_MAY_BE_ZERO: Final = frozenset(
    {
        "prefault_bytes",
        "prepare_segments",
        "retention_bytes",
        "local_retention_bytes",
        "reserve_bytes",
        "warm_bytes",
        "metrics_port",
        "schedule_step_ms",
        "shard_epoch",
    }
)


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one store and of the process that owns it."""

    store_dir: str
    socket: str = ""  # path of the unix socket
    listen: str = ""  # tcp://HOST:PORT or tls://HOST:PORT, beside the unix socket or without it
    # Unix socket on which a replica is told to take over, and an owner to give up; see
    # ``server/control.py``.
    control: str = ""
    shard: str = "main"  # what clients know the store by
    broker: str = "broker-0"  # what metrics and samples call it; of another shard, the shard's name
    secret: str = ""  # which clients over a network have to prove that they know
    secret_file: str = ""  # holds it
    tls_cert_file: str = ""  # for tls://: the certificate and those it rests on, PEM
    tls_key_file: str = ""
    metrics_port: int = 0  # of /metrics; 0: none
    metrics_bind: str = "127.0.0.1"  # address of /metrics; whoever reaches it may read them

    segment_bytes: int = GIB  # RocketMQ's mappedFileSizeCommitLog
    consume_queue_units: int = 300_000  # RocketMQ's file of 6,000,000 bytes
    consume_queue_allocate_bytes: int = 64 * KIB  # disk allocated in advance per consume queue file
    prefault_bytes: int = 8 * MIB  # pages touched ahead of the writer
    warm_bytes: int = 32 * MIB  # of the log's durable end, stays in the engine's memory
    prepare_segments: int = 1  # 1: create the next segment in advance; 0: when needed
    map_count_max: int = 4_096  # consume queue files mapped at the same time

    index_slots: int = 5_000_000  # of one index file; RocketMQ's maxHashSlotNum
    index_entries: int = 20_000_000  # of one index file; RocketMQ's maxIndexNum
    index_allocate_bytes: int = 4 * MIB  # disk allocated in advance per index file

    body_bytes_max: int = 4 * MIB  # RocketMQ's maxMessageSize
    queue_count_max: int = 1_024  # per topic
    topic_count_max: int = 20_000
    group_count_max: int = 20_000
    broadcast_client_count_max: int = 1_000  # per group; each costs as much as a group
    broadcast_client_total_max: int = 20_000  # in all groups
    broadcast_client_expiry_ms: int = 168 * HOUR_MS  # progress is stored until then

    frame_bytes_max: int = 16 * MIB  # a batch of 4 MiB bodies with all its properties fits
    connection_count_max: int = 1_024
    unsynced_bytes_max: int = 256 * MIB  # appended and not yet durable; beyond it puts wait
    reply_buffer_bytes_max: int = 64 * MIB  # per connection that does not read its replies

    receive_messages_max: int = 1_024
    receive_bytes_max: int = 8 * MIB
    poll_wait_ms_max: int = 5 * 60 * SECOND_MS  # a waiting receive takes 1 KiB; a request, 0.1 ms
    waiting_receive_count_max: int = 100_000
    member_count_max: int = 1_024  # per exclusive group and topic
    lease_ms_min: int = SECOND_MS
    lease_ms_max: int = 12 * HOUR_MS
    auto_extend_ms_max: int = 3 * HOUR_MS  # as long as RocketMQ's proxy renews
    inflight_count_max: int = 20_000  # per group and queue
    inflight_span_max: int = 20_000  # from the consumer offset to the newest message in flight
    # Per ordered group and queue: messages that wait for others of their message group; no message
    # behind them is checked. RocketMQ's consumeConcurrentlyMaxSpan.
    message_group_waiting_max: int = 2_000
    dedup_window_ms: int = 600 * SECOND_MS  # how long the key of a request is remembered
    dedup_count_max: int = 400_000  # keys; 250 bytes each, at most a quarter per namespace
    filter_compiled_max: int = 256  # SQL92 conditions; up to 200 KB each
    saved_session_ms_max: int = 5 * 60 * SECOND_MS  # how long a consumer may be disconnected
    saved_session_count_max: int = 10_000  # disconnected consumers
    saved_session_bytes_max: int = 64 * MIB  # all sessions of disconnected consumers
    notice_count_max: int = 1_024  # unread notices of a connection; then it is dropped

    retention_ms: int = 72 * HOUR_MS  # for topics that set none; RocketMQ's fileReservedTime
    retention_bytes: int = 0  # of the whole log; 0: as much as the disk has
    retention_interval_ms: int = 10 * SECOND_MS
    snapshot_count_max: int = 4  # readers of the log's files that retention waits for
    snapshot_lease_ms_max: int = 6 * HOUR_MS  # longest that retention waits for one
    retention_files_max: int = 10  # segments deleted in one pass; RocketMQ's deleteFileBatchMax
    disk_clean_percent: int = 75  # from here on expired segments are deleted immediately
    disk_force_percent: int = 85  # from here on the oldest segments are deleted, expired or not
    disk_full_percent: int = 90  # from here on puts are rejected
    # With more free, puts are accepted at any percentage; with more than twice this nothing is
    # deleted before its time; with more than four times this the percentages do not apply.
    disk_enough_bytes: int = 4 * GIB
    reserve_bytes: int = 16 * MIB  # disk reserved for settles and checkpoints when it is full

    async_flush_interval_ms: int = 200  # how much of an async topic a power failure may lose
    replicated_log: str = ""  # URL of the log that outlives this machine; empty: none
    deployment: str = "mqservice"  # whose shard it is; a log of another one is refused
    # Who owns the shard: above that of every owner before. 0: one more than is known.
    shard_epoch: int = 0
    replication_interval_ms: int = (
        200  # how much of a topic that is not replicated a lost host may cost
    )
    replication_timeout_ms: int = 4 * SECOND_MS  # then puts to replicated topics are refused
    snapshot_url: str = ""  # URL of the bucket for snapshots; empty: where the replicated log is
    # How much of the replicated log there is behind the newest snapshot in the bucket, until
    # another one is made.
    snapshot_log_bytes: int = 256 * MIB
    snapshot_log_entries: int = 4_000  # the same, in entries
    # How much of the log stays on the local disk; older segments are only in the bucket with the
    # snapshots. 0: all of it.
    local_retention_bytes: int = 0
    local_cache_bytes: int = 4 * GIB  # of what is read of segments that only the bucket has
    repair_interval_ms: int = 2 * SECOND_MS  # between attempts to repair a failed sync
    checkpoint_interval_ms: int = 5 * SECOND_MS
    # Messages that become due within it are delivered together, between ticks; 0: at ticks only.
    schedule_step_ms: int = 20
    tick_interval_ms: int = 100  # how often leases and waiting receives are checked

    @property
    def store_path(self) -> Path:
        return Path(self.store_dir)

    @property
    def consume_queue_file_bytes(self) -> int:
        return self.consume_queue_units * 20

    @property
    def torn_bytes_max(self) -> int:
        """What a power cut can leave behind the log's end, at most."""
        return self.unsynced_bytes_max + self.frame_bytes_max

    def check(self) -> StoreConfig:
        """Itself, when the limits fit together.

        Raises:
            ConfigInvalid: names the field and the number that would be right.
        """
        for name, value in msgspec.structs.asdict(self).items():
            if isinstance(value, int) and value < (0 if name in _MAY_BE_ZERO else 1):
                raise ConfigInvalid(f"{name} is {value}, it must be positive")
        page = 4 * KIB
        if not self.store_dir:
            raise ConfigInvalid("store_dir is empty: set it to the directory of the store")
        for name, path in (("socket", self.socket), ("control", self.control)):
            if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
                raise ConfigInvalid(
                    f"{name} {path} is longer than {SOCKET_PATH_BYTES_MAX} bytes, "
                    "the longest path of a Unix socket"
                )
        if self.segment_bytes % page:
            raise ConfigInvalid(f"segment_bytes is {self.segment_bytes}, not a multiple of {page}")
        if self.consume_queue_allocate_bytes < 20:
            raise ConfigInvalid(
                "consume_queue_allocate_bytes is "
                f"{self.consume_queue_allocate_bytes}, it must hold at least one unit "
                "of 20 bytes"
            )
        marks = self.disk_clean_percent, self.disk_force_percent, self.disk_full_percent
        if not marks[0] <= marks[1] <= marks[2] <= 100:
            raise ConfigInvalid(
                "disk_clean_percent, disk_force_percent and disk_full_percent are "
                f"{marks}, they must increase and not exceed 100"
            )
        if self.local_retention_bytes and not self.replicated_log:
            raise ConfigInvalid(
                "local_retention_bytes is set, but there is no bucket with the rest of the log: "
                "set replicated_log, or let it be 0"
            )
        if self.local_retention_bytes and self.local_cache_bytes < 2 * self.segment_bytes:
            raise ConfigInvalid(
                f"local_cache_bytes is {self.local_cache_bytes}, it must be two segments or more, "
                f"which are {2 * self.segment_bytes}"
            )
        if self.body_bytes_max >= self.frame_bytes_max:
            raise ConfigInvalid(
                f"frame_bytes_max is {self.frame_bytes_max}, it must be more than "
                f"body_bytes_max, which is {self.body_bytes_max}"
            )
        return self


def config_from_env(env: Mapping[str, str]) -> StoreConfig:
    """The configuration that ``MQ_ENGINE_*`` describes.

    Raises:
        ConfigInvalid: a name that no field has, a value of the wrong kind, or limits that do not
        fit.
    """
    fields = {field.name: field for field in msgspec.structs.fields(StoreConfig)}
    values: dict[str, Any] = {}  # Any: msgspec.convert below gives each its type
    for name, text in env.items():
        if not name.startswith(ENV_PREFIX):
            continue
        field = name.removeprefix(ENV_PREFIX).lower()
        if field not in fields:
            raise ConfigInvalid(
                f"{name} is set, but the engine has no setting of that name; correct the "
                "name or unset it"
            )
        values[field] = text
    if "store_dir" not in values:
        raise ConfigInvalid(
            f"{ENV_PREFIX}STORE_DIR is not set: set it to the directory of the store"
        )
    if values.get("shard", "main") != "main":
        values.setdefault("broker", values["shard"])
    if "secret_file" in values:
        try:
            values["secret"] = Path(values["secret_file"]).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigInvalid(f"cannot read {ENV_PREFIX}SECRET_FILE: {exc}") from exc
    try:
        return msgspec.convert(values, StoreConfig, strict=False).check()
    except msgspec.ValidationError as exc:
        raise ConfigInvalid(f"{ENV_PREFIX}*: {exc}") from exc
