"""Topics and groups as the engine knows them, in RocketMQ's ``topics.json`` and
``subscriptionGroup.json``.

    store ── staged, write ──▶ [TopicTable, GroupTable] ── whole file by rename ──▶ config/*.json

What RocketMQ has no field for travels in its ``attributes``. A file that cannot be read stops the
start-up; it is never replaced by an empty one. Loop thread only, but for ``write``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from storage_engine.clock import Clock
from storage_engine.disk.files import Files
from storage_engine.errors import StoreCorrupt
from storage_engine.groups.assignment import Strategy
from storage_engine.groups.assignment_policy import AssignmentPolicy
from storage_engine.groups.retry_policy import LevelDelays, RetryPolicy
from storage_engine.layout import CONFIG_DIR, GROUPS_FILE, TOPICS_FILE
from storage_engine.wire.groups import CONSUME_TIMEOUT_MS, Dispatch, GroupConfig, StartFrom
from storage_engine.wire.topics import Durability, TopicConfig

_PERM_READ_WRITE: Final = 6
_DURABILITY: Final = "mq.durability"
_RETENTION_MS: Final = "reserve.time"  # RocketMQ 5 knows it from tiered storage
_START_FROM: Final = "mq.start_from"
_START_MS: Final = "mq.start_ms"
_LEASE_MS: Final = "mq.lease_ms"
_CONSUME_TIMEOUT_MS: Final = "mq.consume_timeout_ms"
_RETRY: Final = "mq.retry"
_DISPATCH: Final = "mq.dispatch"
_STRATEGY: Final = "mq.strategy"
_ASSIGNMENT: Final = "mq.assignment"
_BATCH_PER_GROUP: Final = "mq.batch.per.group"
_RETRY_TOPICS: Final = "mq.retry_topics"

FileT = TypeVar("FileT", bound=msgspec.Struct)
ValueT = TypeVar("ValueT")
ConfigT = TypeVar("ConfigT")
ExtraT = TypeVar("ExtraT")


class _DataVersion(msgspec.Struct, kw_only=True):
    counter: int = 0
    stateVersion: int = 0
    timestamp: int = 0


class _TopicRow(msgspec.Struct, kw_only=True, rename="camel"):
    topic_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int = _PERM_READ_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}


class _TopicFile(msgspec.Struct, kw_only=True, rename="camel"):
    data_version: _DataVersion = msgspec.field(default_factory=_DataVersion)
    topic_config_table: dict[str, _TopicRow] = {}


class _GroupRow(msgspec.Struct, kw_only=True, rename="camel"):
    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    attributes: dict[str, str] = {}


class _GroupFile(msgspec.Struct, kw_only=True, rename="camel"):
    data_version: _DataVersion = msgspec.field(default_factory=_DataVersion)
    subscription_group_table: dict[str, _GroupRow] = {}


class Staged(Generic[ConfigT, ExtraT]):
    """A table as it is to be; ``rows`` are those of its file."""

    __slots__ = ("configs", "extras", "rows", "version")

    def __init__(
        self,
        version: _DataVersion,
        rows: dict[str, bytes],
        configs: dict[str, ConfigT],
        extras: dict[str, ExtraT],
    ) -> None:
        self.version = version
        self.rows = rows
        self.configs = configs
        self.extras = extras


class ConfigTable(Generic[ConfigT, ExtraT]):
    """All configurations of one kind, by full name, and one thing more that is kept of each.

    ``is_doubtful``: the last write failed, and nobody knows what the file says.
    """

    def __init__(self, files: Files, path: Path, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._path = path
        self._version = _DataVersion()
        # New ones for each change: whoever goes through the old ones may do so to the end.
        self.configs: dict[str, ConfigT] = {}
        self.extras: dict[str, ExtraT] = {}
        self._rows: dict[str, bytes] = {}  # as they stand in the file
        self.is_doubtful = False

    def name_of(self, config: ConfigT) -> str:
        raise NotImplementedError

    def _extra_of(self, config: ConfigT, before: ExtraT | None) -> ExtraT:
        raise NotImplementedError

    def _row_of(self, config: ConfigT, extra: ExtraT) -> bytes:
        """As it stands in the table, with its name before it."""
        raise NotImplementedError

    def _empty_file(self, version: _DataVersion) -> _TopicFile | _GroupFile:
        raise NotImplementedError

    def staged(
        self, changes: Sequence[ConfigT], extras: Mapping[str, ExtraT] | None = None
    ) -> Staged[ConfigT, ExtraT]:
        """The table with changes, later ones last. Of ten thousand topics few are encoded."""
        staged = self._staged({**self._rows}, {**self.configs}, {**self.extras, **(extras or {})})
        for config in changes:
            name = self.name_of(config)
            extra = staged.extras[name] = self._extra_of(config, staged.extras.get(name))
            staged.configs[name] = config
            staged.rows[name] = self._row_of(config, extra)
        return staged

    def _staged(
        self, rows: dict[str, bytes], configs: dict[str, ConfigT], extras: dict[str, ExtraT]
    ) -> Staged[ConfigT, ExtraT]:
        return Staged(_next_version(self._version, self._clock), rows, configs, extras)

    def remove(self, name: str) -> None:
        """Forget one; durable on return (two fsyncs). Raises ``DiskFull``, ``SyncFailed``."""
        tables = _without(self._rows, name), _without(self.configs, name)
        self.change(self._staged(*tables, _without(self.extras, name)))

    def change(self, staged: Staged[ConfigT, ExtraT]) -> None:
        """Let the table be so; durable on return. Raises ``DiskFull``, ``SyncFailed``."""
        self.write(staged)
        self.take(staged)

    def write(self, staged: Staged[ConfigT, ExtraT]) -> None:
        """Let the file be so, all or nothing, in one pass over bytes; durable on return.

        Any thread, one at a time. Raises ``DiskFull``, ``SyncFailed``.
        """
        self.is_doubtful = True
        content = _file_of(self._empty_file(staged.version), staged.rows)
        self._files.replace(self._path, content)
        self.is_doubtful = False

    def take(self, staged: Staged[ConfigT, ExtraT]) -> None:
        """Let memory be as the file, which is durable."""
        self._version, self._rows = staged.version, staged.rows
        self.configs, self.extras = staged.configs, staged.extras

    def _loaded(self, config: ConfigT, extra: ExtraT) -> None:
        name = self.name_of(config)
        self.configs[name], self.extras[name] = config, extra
        self._rows[name] = self._row_of(config, extra)


class TopicTable(ConfigTable[TopicConfig, int]):
    """All topics.

    Kept of each: how many queues it has had at most (``read_counts``); what stands in those that it
    has no more is still to be read, though nothing is put there.
    """

    def __init__(self, files: Files, store_path: Path, clock: Clock) -> None:
        super().__init__(files, store_path / CONFIG_DIR / TOPICS_FILE, clock)

    @property
    def read_counts(self) -> dict[str, int]:
        return self.extras

    def load(self) -> None:
        """Raises ``StoreCorrupt`` when the file is there and cannot be read."""
        file = _read(self._path, _TopicFile)
        self._version = file.data_version
        for name, row in file.topic_config_table.items():
            topic = TopicConfig(
                topic=name,
                queue_count=row.write_queue_nums,
                durability=Durability(row.attributes.get(_DURABILITY, Durability.SYNC)),
                retention_ms=int(row.attributes.get(_RETENTION_MS, "0")),
            )
            self._loaded(topic, max(row.read_queue_nums, row.write_queue_nums))

    def name_of(self, config: TopicConfig) -> str:
        return config.topic

    def _extra_of(self, config: TopicConfig, before: int | None) -> int:
        return max(config.queue_count, before or 0)

    def _row_of(self, config: TopicConfig, extra: int) -> bytes:
        return _topic_row(config, extra)

    def _empty_file(self, version: _DataVersion) -> _TopicFile:
        return _TopicFile(data_version=version)


class GroupTable(ConfigTable[GroupConfig, list[str]]):
    """All groups.

    Kept of each: topics that it has read, in the order of its retry topic's queues
    (``retry_topics``).
    """

    def __init__(self, files: Files, store_path: Path, clock: Clock) -> None:
        super().__init__(files, store_path / CONFIG_DIR / GROUPS_FILE, clock)

    @property
    def retry_topics(self) -> dict[str, list[str]]:
        return self.extras

    def load(self) -> None:
        """Raises ``StoreCorrupt`` when the file is there and cannot be read."""
        file = _read(self._path, _GroupFile)
        self._version = file.data_version
        for name, row in file.subscription_group_table.items():
            group = GroupConfig(
                group=name,
                start_from=StartFrom(row.attributes.get(_START_FROM, StartFrom.EARLIEST)),
                start_ms=int(row.attributes.get(_START_MS, "0")),
                lease_ms=int(row.attributes.get(_LEASE_MS, "60000")),
                consume_timeout_ms=_consume_timeout_ms(row.attributes),
                max_reconsume_times=row.retry_max_times,
                retry=_retry_of(row.attributes.get(_RETRY)),
                is_paused=not row.consume_enable,
                dispatch=Dispatch(row.attributes.get(_DISPATCH, Dispatch.SHARED)),
                strategy=Strategy(row.attributes.get(_STRATEGY, Strategy.AVG)),
                assignment=_assignment_of(row.attributes.get(_ASSIGNMENT)),
                is_ordered=row.consume_message_orderly,
                batch_per_group=int(row.attributes.get(_BATCH_PER_GROUP, "1")),
            )
            topics = row.attributes.get(_RETRY_TOPICS, "")
            self._loaded(group, topics.split(",") if topics else [])

    def put_retry_topics(self, config: GroupConfig, topics: list[str]) -> None:
        """Say whose messages a group retries; durable on return. Raises ``DiskFull``."""
        self.change(self.staged([config], {config.group: topics}))

    def name_of(self, config: GroupConfig) -> str:
        return config.group

    def _extra_of(self, config: GroupConfig, before: list[str] | None) -> list[str]:
        return before or []

    def _row_of(self, config: GroupConfig, extra: list[str]) -> bytes:
        return _group_row(config, extra)

    def _empty_file(self, version: _DataVersion) -> _GroupFile:
        return _GroupFile(data_version=version)


def _without(table: Mapping[str, ValueT], name: str) -> dict[str, ValueT]:
    return {each: value for each, value in table.items() if each != name}


def _file_of(empty: _TopicFile | _GroupFile, rows: dict[str, bytes]) -> bytes:
    """The content of a file whose table, its last field, has these rows."""
    head = msgspec.json.encode(empty)
    assert head.endswith(b"{}}"), "the table is empty, and comes last"
    return b"%b%b}}" % (head[:-2], b",".join(rows.values()))


def _topic_row(topic: TopicConfig, read_count: int) -> bytes:
    row = _TopicRow(
        topic_name=topic.topic,
        read_queue_nums=read_count,
        write_queue_nums=topic.queue_count,
        attributes={_DURABILITY: topic.durability, _RETENTION_MS: str(topic.retention_ms)},
    )
    return _named(topic.topic, row)


def _group_row(group: GroupConfig, retry_topics: list[str]) -> bytes:
    row = _GroupRow(
        group_name=group.group,
        consume_enable=not group.is_paused,
        consume_from_min_enable=group.start_from is StartFrom.EARLIEST,
        retry_max_times=group.max_reconsume_times,
        consume_message_orderly=group.is_ordered,
        retry_queue_nums=max(len(retry_topics), 1),
        attributes=_attributes_of(group, retry_topics),
    )
    return _named(group.group, row)


def _named(name: str, row: _TopicRow | _GroupRow) -> bytes:
    return b"%b:%b" % (msgspec.json.encode(name), msgspec.json.encode(row))


def _attributes_of(group: GroupConfig, retry_topics: list[str]) -> dict[str, str]:
    """What RocketMQ has no field for; left out where it is as the oldest stores have it."""
    attributes: dict[str, str] = {
        _START_FROM: group.start_from,
        _LEASE_MS: str(group.lease_ms),
        _RETRY: msgspec.json.encode(group.retry).decode(),
        _DISPATCH: group.dispatch,
        _STRATEGY: group.strategy,
        **_shown_assignment(group.assignment),
        _RETRY_TOPICS: ",".join(retry_topics),
    }
    if group.batch_per_group != 1:
        attributes[_BATCH_PER_GROUP] = str(group.batch_per_group)
    if group.start_ms:
        attributes[_START_MS] = str(group.start_ms)
    if group.consume_timeout_ms != _consume_timeout_ms(attributes):
        attributes[_CONSUME_TIMEOUT_MS] = str(group.consume_timeout_ms)
    return attributes


def _consume_timeout_ms(attributes: dict[str, str]) -> int:
    """Groups from before there was one keep leases that are longer."""
    lease_ms = int(attributes.get(_LEASE_MS, "60000"))
    return int(attributes.get(_CONSUME_TIMEOUT_MS, max(CONSUME_TIMEOUT_MS, lease_ms)))


def _retry_of(content: str | None) -> RetryPolicy:
    return msgspec.json.decode(content, type=RetryPolicy) if content else LevelDelays()


def _assignment_of(content: str | None) -> AssignmentPolicy:
    return msgspec.json.decode(content or "{}", type=AssignmentPolicy)


def _shown_assignment(policy: AssignmentPolicy) -> dict[str, str]:
    content = msgspec.json.encode(policy).decode()
    return {} if content == "{}" else {_ASSIGNMENT: content}


def _read(path: Path, kind: type[FileT]) -> FileT:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return kind()
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise StoreCorrupt(f"{path}: {exc}") from exc


def _next_version(version: _DataVersion, clock: Clock) -> _DataVersion:
    return _DataVersion(
        counter=version.counter + 1, stateVersion=version.stateVersion, timestamp=clock.now_ms()
    )
