"""Topics and groups as the engine knows them, in RocketMQ's ``topics.json`` and
``subscriptionGroup.json``.

    store ── staged, write ──▶ [TopicTable, GroupTable] ── whole file by rename ──▶ config/*.json

What RocketMQ has no field for travels in its ``attributes``. Fields and attributes that this engine
has no use for are written again as they were found. A file that cannot be read stops the start-up;
it is never replaced by an empty one. Loop thread only, but for ``write``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from storage_engine.clock import Clock
from storage_engine.disk import config_json
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, GROUPS_FILE, TOPICS_FILE
from storage_engine.errors import StoreCorrupt
from storage_engine.settings.assignment import Strategy
from storage_engine.settings.assignment_policy import AssignmentPolicy
from storage_engine.settings.retry_policy import LevelDelays, RetryPolicy
from storage_engine.wire.groups import CONSUME_TIMEOUT_MS, Dispatch, GroupConfig, StartFrom
from storage_engine.wire.topics import DURABILITY_ATTRIBUTE, Durability, TopicConfig

_PERM_READ_WRITE: Final = 6
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

_QUEUE_TYPE: Final = "queue.type"
_SIMPLE_QUEUE: Final = "SimpleCQ"
# Attributes that are made anew from the configuration whenever a row is written.
_ATTRIBUTES: Final = frozenset(
    {
        DURABILITY_ATTRIBUTE, _RETENTION_MS, _START_FROM, _START_MS, _LEASE_MS,
        _CONSUME_TIMEOUT_MS, _RETRY,
        _DISPATCH, _STRATEGY, _ASSIGNMENT, _BATCH_PER_GROUP, _RETRY_TOPICS,
    }
)  # fmt: skip
# Fields of a row that are.
_MANAGED: Final = frozenset(
    {
        "topicName", "readQueueNums", "writeQueueNums", "groupName", "consumeEnable",
        "consumeFromMinEnable", "retryMaxTimes", "consumeMessageOrderly", "retryQueueNums",
        "attributes",
    }
)  # fmt: skip

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


# What a row of ours says where nobody said otherwise.
_DEFAULTS: Final[dict[str, Any]] = {
    **msgspec.to_builtins(_TopicRow(topic_name="", read_queue_nums=0, write_queue_nums=0)),
    **msgspec.to_builtins(_GroupRow(group_name="")),
}


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
        # What only RocketMQ understands: fields of the file, and of each row.
        self._file_unknown: dict[str, msgspec.Raw] = {}
        self._unknown: dict[str, dict[str, Any]] = {}
        self.is_doubtful = False

    def name_of(self, config: ConfigT) -> str:
        raise NotImplementedError

    def _extra_of(self, config: ConfigT, before: ExtraT | None) -> ExtraT:
        raise NotImplementedError

    def _known_row(self, config: ConfigT, extra: ExtraT) -> _TopicRow | _GroupRow:
        raise NotImplementedError

    def _row_of(self, config: ConfigT, extra: ExtraT) -> bytes:
        """As it stands in the table, with its name before it."""
        name, row = self.name_of(config), self._known_row(config, extra)
        return b"%b:%b" % (msgspec.json.encode(name), self._merged(name, row))

    def _merged(self, name: str, row: _TopicRow | _GroupRow) -> bytes:
        """The row with what only RocketMQ understands of it."""
        unknown = self._unknown.get(name)
        if unknown is None:
            return msgspec.json.encode(row)
        known: dict[str, Any] = msgspec.to_builtins(row)  # Any: as JSON has it
        attributes = {**unknown.get("attributes", {}), **known["attributes"]}
        return msgspec.json.encode({**known, **unknown, "attributes": attributes})

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

    def remove(self, *names: str) -> None:
        """Forget some; durable on return (two fsyncs). Raises ``DiskFull``, ``SyncFailed``."""
        gone = frozenset(names)
        for name in gone:
            self._unknown.pop(name, None)
        tables = _without(self._rows, gone), _without(self.configs, gone)
        self.change(self._staged(*tables, _without(self.extras, gone)))

    def change(self, staged: Staged[ConfigT, ExtraT]) -> None:
        """Let the table be so; durable on return. Raises ``DiskFull``, ``SyncFailed``."""
        self.write(staged)
        self.take(staged)

    def write(self, staged: Staged[ConfigT, ExtraT]) -> None:
        """Let the file be so, all or nothing, in one pass over bytes; durable on return.

        Any thread, one at a time. Raises ``DiskFull``, ``SyncFailed``.
        """
        self.is_doubtful = True
        content = _file_of(self._file_unknown, self._empty_file(staged.version), staged.rows)
        self._files.replace(self._path, content)
        self.is_doubtful = False

    def take(self, staged: Staged[ConfigT, ExtraT]) -> None:
        """Let memory be as the file, which is durable."""
        self._version, self._rows = staged.version, staged.rows
        self.configs, self.extras = staged.configs, staged.extras

    def _read(self, kind: type[FileT], table: str) -> FileT:
        """The file; what is unknown in it is kept. Raises ``StoreCorrupt``."""
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return kind()
        # Without attributes the library of RocketMQ may write null.
        fields = config_json.decode(content, dict[str, Any], self._path)
        rows = fields.get(table)
        for row in rows.values() if isinstance(rows, dict) else ():
            if isinstance(row, dict) and row.get("attributes", "") is None:
                del row["attributes"]
        file = config_json.convert(fields, kind, self._path)
        known = {field.encode_name for field in msgspec.structs.fields(kind)}
        self._file_unknown = {
            name: msgspec.Raw(msgspec.json.encode(value))
            for name, value in fields.items()
            if name not in known
        }
        for name, row in (rows or {}).items():
            unknown = _unknown_of(row)
            if unknown:
                self._unknown[name] = unknown
        return file

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
        file = self._read(_TopicFile, "topicConfigTable")
        self._version = file.data_version
        for name, row in file.topic_config_table.items():
            if row.attributes.get(_QUEUE_TYPE, _SIMPLE_QUEUE) != _SIMPLE_QUEUE:
                raise StoreCorrupt(
                    f"{self._path}: topic {name} has "
                    f"{_QUEUE_TYPE}={row.attributes[_QUEUE_TYPE]}, but this engine "
                    f"reads only {_SIMPLE_QUEUE}; let RocketMQ serve this store"
                )
            try:
                topic = TopicConfig(
                    topic=name,
                    queue_count=row.write_queue_nums,
                    durability=Durability(
                        row.attributes.get(DURABILITY_ATTRIBUTE, Durability.SYNC)
                    ),
                    # RocketMQ says -1 where nothing is set.
                    retention_ms=max(int(row.attributes.get(_RETENTION_MS, "0")), 0),
                )
            except ValueError as exc:
                raise StoreCorrupt(f"{self._path}: topic {name}: {exc}") from exc
            self._loaded(topic, max(row.read_queue_nums, row.write_queue_nums))

    def name_of(self, config: TopicConfig) -> str:
        return config.topic

    def _extra_of(self, config: TopicConfig, before: int | None) -> int:
        return max(config.queue_count, before or 0)

    def _known_row(self, config: TopicConfig, extra: int) -> _TopicRow:
        return _TopicRow(
            topic_name=config.topic,
            read_queue_nums=extra,
            write_queue_nums=config.queue_count,
            attributes={
                DURABILITY_ATTRIBUTE: config.durability,
                _RETENTION_MS: str(config.retention_ms),
            },
        )

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
        file = self._read(_GroupFile, "subscriptionGroupTable")
        self._version = file.data_version
        for name, row in file.subscription_group_table.items():
            try:
                group = _group_of(name, row)
            except (ValueError, msgspec.MsgspecError) as exc:
                raise StoreCorrupt(f"{self._path}: group {name}: {exc}") from exc
            topics = row.attributes.get(_RETRY_TOPICS, "")
            self._loaded(group, topics.split(",") if topics else [])

    def put_retry_topics(self, config: GroupConfig, topics: list[str]) -> None:
        """Say whose messages a group retries; durable on return. Raises ``DiskFull``."""
        self.change(self.staged([config], {config.group: topics}))

    def name_of(self, config: GroupConfig) -> str:
        return config.group

    def _extra_of(self, config: GroupConfig, before: list[str] | None) -> list[str]:
        return before or []

    def _known_row(self, config: GroupConfig, extra: list[str]) -> _GroupRow:
        return _GroupRow(
            group_name=config.group,
            consume_enable=not config.is_paused,
            consume_from_min_enable=config.start_from is StartFrom.EARLIEST,
            retry_max_times=config.max_reconsume_times,
            consume_message_orderly=config.is_ordered,
            retry_queue_nums=max(len(extra), 1),
            attributes=_attributes_of(config, extra),
        )

    def _empty_file(self, version: _DataVersion) -> _GroupFile:
        return _GroupFile(data_version=version)


def _without(table: Mapping[str, ValueT], names: frozenset[str]) -> dict[str, ValueT]:
    return {name: value for name, value in table.items() if name not in names}


def _file_of(
    unknown: dict[str, msgspec.Raw], empty: _TopicFile | _GroupFile, rows: dict[str, bytes]
) -> bytes:
    """The content of a file whose table, its last field, has these rows."""
    head = msgspec.json.encode(empty)
    assert head.endswith(b"{}}"), "the table is empty, and comes last"
    if unknown:
        head = b"%b,%b" % (msgspec.json.encode(unknown)[:-1], head[1:])
    return b"%b%b}}" % (head[:-2], b",".join(rows.values()))


def _unknown_of(row: dict[str, Any]) -> dict[str, Any]:  # Any: as JSON has it
    """What this engine does not manage of a row; its attributes hold those that are not ours."""
    unknown = {name: value for name, value in row.items() if name not in _MANAGED}
    attributes = row.get("attributes", {})
    kept = {name: value for name, value in attributes.items() if name not in _ATTRIBUTES}
    if kept:
        unknown["attributes"] = kept
    return {} if all(_DEFAULTS.get(name) == value for name, value in unknown.items()) else unknown


def _group_of(name: str, row: _GroupRow) -> GroupConfig:
    return GroupConfig(
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


def _next_version(version: _DataVersion, clock: Clock) -> _DataVersion:
    return _DataVersion(
        counter=version.counter + 1, stateVersion=version.stateVersion, timestamp=clock.now_ms()
    )
