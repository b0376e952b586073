"""A RocketMQ store as one of this engine, in a directory that is not there yet.

    source ── gather_facts ──▶ Facts ── Conversion ──▶ log, config/*.json ──▶ Store.open
                                             │                                     │
                                             └── count and hash of each queue ── the same?

The target is made whole before anybody may believe in it: whoever calls gives it its name in the
end. The source is read twice and not written.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.config_table import GroupTable, TopicTable
from storage_engine.disk.files import Files
from storage_engine.errors import RecordRefused, StoreCorrupt
from storage_engine.layout import (
    COMMIT_LOG_DIR,
    CONFIG_DIR,
    CONSUMER_OFFSET_FILE,
    MIN_OFFSETS_FILE,
)
from storage_engine.records.record import FIXED_BYTES
from storage_engine.records.record_draft import read_draft
from storage_engine.records.record_parts import store_timestamp_of
from storage_engine.records.schedule_topic import SCHEDULE_QUEUES, SCHEDULE_TOPIC
from storage_engine.store import STORE_HOST, Store
from storage_engine.topic_names import DLQ_PREFIX, dlq_topic_of, retry_topic_of
from storage_engine.transfer.conversion import (
    Conversion,
    Converted,
    ImportLimits,
    refuse_namespace,
)
from storage_engine.transfer.facts import Facts, gather_facts
from storage_engine.transfer.log_writer import LogWriter
from storage_engine.transfer.names import full_name
from storage_engine.transfer.report import ImportReport
from storage_engine.transfer.source import RocketmqStore, SourceRecord, SourceRefused
from storage_engine.wire.groups import GroupConfig
from storage_engine.wire.topics import TopicConfig

Progress = Callable[[int, int], None]  # bytes of the log that were read, bytes in all
_STEP_RECORDS: Final = 4_096
# Records get longer names and a CRC; queues and keys come on top.
_ROOM_PART: Final = 4

QueueKey = tuple[str, int]


def inspect_store(
    source: Path, namespace: str, limits: ImportLimits, *, told: Progress
) -> ImportReport:
    """What an import would bring. Changes nothing. Raises ``SourceRefused``."""
    refuse_namespace(namespace, limits.name_chars_max)
    with RocketmqStore(source) as store:
        facts = gather_facts(store)
        conversion = Conversion(store, facts, namespace, limits)
        for record in _counted(store, told):
            conversion.take(record)
        store.require_unchanged()
        return conversion.report()


async def import_store(
    source: Path,
    config: StoreConfig,
    namespace: str,
    limits: ImportLimits,
    *,
    clock: Clock,
    told: Progress,
) -> ImportReport:
    """Make the store of ``config`` of the source's messages, and compare both.

    Blocks the loop: a program of its own calls it. The store's directory must be empty or not
    there. Durable on return; after an error nothing in the directory is of any use.

    Raises:
        SourceRefused: the source is damaged, in use, or was changed meanwhile.
        DiskFull: there is no room; with the bytes that are missing.
        StoreCorrupt: what was written is not what was read.
    """
    refuse_namespace(namespace, limits.name_chars_max)
    target = config.store_path
    with RocketmqStore(source) as store:
        _require_room(store, target)
        facts = gather_facts(store)
        conversion = Conversion(store, facts, namespace, limits)
        writing = _Writing(config, facts, namespace)
        try:
            for record in _counted(store, told):
                converted = conversion.take(record)
                if converted is not None:
                    writing.write(record, converted, conversion)
            writing.log.finish()
        finally:
            writing.log.abandon()
        store.require_unchanged()
        report = conversion.report()
        floors = _floors(facts, conversion, namespace)
        _write_config(config, conversion, namespace, floors, clock)
    expected = writing.queues()
    await _take_over(config, expected, clock)
    report.verified_queues = len(expected)
    report.verified_messages = sum(queue.count for queue in expected.values())
    return report


def _counted(store: RocketmqStore, told: Progress) -> Iterable[SourceRecord]:
    """The records of the store; ``told`` now and then how far they are."""
    for number, record in enumerate(store.records()):
        if number % _STEP_RECORDS == 0:
            told(record.head.physical_offset - store.start_offset, store.log_bytes)
        yield record
    told(store.log_bytes, store.log_bytes)


def _require_room(store: RocketmqStore, target: Path) -> None:
    place = target
    while not place.exists():
        place = place.parent
    wanted = store.log_bytes + store.log_bytes // _ROOM_PART
    free = shutil.disk_usage(place).free
    if free < wanted:
        raise SourceRefused(
            f"{place} has {free} bytes free, the import needs about {wanted}; nothing was changed"
        )


class QueueDigest:
    """Number of messages of a queue, and a hash over what must be the same of them."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, queue_offset: int, view: bytes | memoryview, at: int) -> None:
        """Queue offset, store and born time, body."""
        draft = read_draft(view, at)
        self._hash.update(queue_offset.to_bytes(8))
        self._hash.update(store_timestamp_of(view, at).to_bytes(8))
        self._hash.update(draft.born)
        self._hash.update(draft.body)
        self.count += 1

    @property
    def digest(self) -> bytes:
        return self._hash.digest()


class _Writing:
    def __init__(self, config: StoreConfig, facts: Facts, namespace: str) -> None:
        self._namespace = namespace
        self._next: defaultdict[QueueKey, int] = defaultdict(int)
        self._queues: defaultdict[QueueKey, QueueDigest] = defaultdict(QueueDigest)
        directory = config.store_path / COMMIT_LOG_DIR
        directory.mkdir(parents=True, mode=0o700)
        # A log that starts at 0 has the first message of every queue; this one may lack some.
        begins_late = any(queue.first for queue in facts.queues.values())
        self.log = LogWriter(
            directory,
            segment_bytes=config.segment_bytes,
            start_offset=config.segment_bytes if begins_late else 0,
            store_host=STORE_HOST,
        )

    def write(self, record: SourceRecord, converted: Converted, conversion: Conversion) -> None:
        draft = converted.draft
        key = draft.topic.decode(), draft.queue_id
        queue_offset = converted.queue_offset
        if queue_offset is None:
            queue_offset = self._next[key]
        try:
            encoded = draft.encode()
            self.log.append(
                encoded, queue_offset=queue_offset, stored_ms=record.head.store_timestamp_ms
            )
        except RecordRefused as exc:
            what = f"message {queue_offset} of {record.head.topic.decode()}/{record.head.queue_id}"
            conversion.refuse_record(what, str(exc))
            return
        self._next[key] = queue_offset + 1
        self._queues[key].add(queue_offset, record.view, record.at)

    def queues(self) -> dict[QueueKey, QueueDigest]:
        return dict(self._queues)


def _floors(facts: Facts, conversion: Conversion, namespace: str) -> dict[str, list[int]]:
    """Where the queues begin, by full topic name: what came before has expired."""
    floors: dict[str, list[int]] = {}
    for (topic, queue_id), queue in sorted(facts.queues.items()):
        if topic in conversion.topics:
            name, count = full_name(namespace, topic), conversion.topics[topic].queues
        else:
            group = topic.removeprefix(DLQ_PREFIX)
            if not topic.startswith(DLQ_PREFIX) or group not in conversion.dead_letter_queues:
                continue
            name = dlq_topic_of(full_name(namespace, group))
            count = conversion.dead_letter_queues[group]
        if queue_id < count:
            floors.setdefault(name, [0] * count)[queue_id] = queue.first
    return {topic: offsets for topic, offsets in floors.items() if any(offsets)}


def _write_config(
    config: StoreConfig,
    conversion: Conversion,
    namespace: str,
    floors: dict[str, list[int]],
    clock: Clock,
) -> None:
    files, store = Files(), config.store_path
    files.make_dirs(store / CONFIG_DIR)
    topics = TopicTable(files, store, clock)
    topics.change(topics.staged(_topic_configs(conversion, namespace)))
    groups = GroupTable(files, store, clock)
    groups.change(groups.staged(*_group_configs(conversion, namespace)))
    offsets: dict[str, dict[int, int]] = {}
    for (topic, group), of_topic in conversion.offsets.items():
        name = f"{full_name(namespace, topic)}@{full_name(namespace, group)}"
        offsets[name] = of_topic
    for group, retried in conversion.retry_topics.items():
        name = full_name(namespace, group)
        offsets[f"{retry_topic_of(name)}@{name}"] = dict.fromkeys(range(len(retried)), 0)
    files.replace(
        store / CONFIG_DIR / CONSUMER_OFFSET_FILE, msgspec.json.encode({"offsetTable": offsets})
    )
    if floors:
        files.replace(
            store / CONFIG_DIR / MIN_OFFSETS_FILE, msgspec.json.encode({"offsetTable": floors})
        )
    files.sync_dir(store / COMMIT_LOG_DIR)
    files.sync_dir(store)


def _topic_configs(conversion: Conversion, namespace: str) -> list[TopicConfig]:
    configs = [
        TopicConfig(
            topic=full_name(namespace, topic.name),
            queue_count=topic.queues,
            retention_ms=topic.retention_ms,
        )
        for topic in conversion.topics.values()
    ]
    for group, retried in conversion.retry_topics.items():
        name = retry_topic_of(full_name(namespace, group))
        configs.append(TopicConfig(topic=name, queue_count=len(retried)))
    for group, count in conversion.dead_letter_queues.items():
        name = dlq_topic_of(full_name(namespace, group))
        configs.append(TopicConfig(topic=name, queue_count=count))
    configs.append(TopicConfig(topic=SCHEDULE_TOPIC, queue_count=SCHEDULE_QUEUES))
    return configs


def _group_configs(
    conversion: Conversion, namespace: str
) -> tuple[list[GroupConfig], dict[str, list[str]]]:
    configs, retried = [], {}
    for group in conversion.groups.values():
        name = full_name(namespace, group.name)
        configs.append(
            GroupConfig(
                group=name,
                max_reconsume_times=group.max_reconsume_times,
                is_paused=group.paused,
                is_ordered=group.ordered,
            )
        )
        topics = conversion.retry_topics.get(group.name, [])
        retried[name] = [full_name(namespace, topic) for topic in topics]
    return configs, retried


async def _take_over(
    config: StoreConfig, expected: dict[QueueKey, QueueDigest], clock: Clock
) -> None:
    """Let the engine build queues and keys, read every message through them, and stop in order."""
    store = Store(config, clock)
    store.open(asyncio.get_running_loop())
    try:
        # Nothing else runs on the loop before this is through: no delayed message is delivered yet.
        for key, wanted in expected.items():
            found = _digest_of(store, *key)
            if (found.count, found.digest) != (wanted.count, wanted.digest):
                raise StoreCorrupt(
                    f"{key[0]}/{key[1]} has {found.count} messages and the source {wanted.count}, "
                    "or they differ: the import is not used. Please report this"
                )
    finally:
        await store.close()


def _digest_of(store: Store, topic: str, queue_id: int) -> QueueDigest:
    """Of one queue, read as a consumer reads it."""
    digest = QueueDigest()
    queue = store.queries.queues_of(topic)[queue_id]
    for queue_offset in range(queue.min_offset, queue.max_offset):
        physical_offset, record_bytes, _ = queue.unit(queue_offset)
        if record_bytes >= FIXED_BYTES:  # else no record of the source had that offset
            content = store.read_records([(physical_offset, record_bytes)])
            digest.add(queue_offset, content, 0)
    return digest
