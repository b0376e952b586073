"""Imports a RocketMQ store into a new store of this engine.

    source ── gather_facts ──▶ Facts ── Conversion ──▶ log, config/*.json ──▶ Store.open
                                             │                                     │
                                             └── count and hash of each queue ── the same?

The target is made whole before anybody may believe in it: whoever calls gives it its name in the
end. The source is read twice and not written.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from storage_engine.catalog.config_table import GroupTable, TopicTable
from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    COMMIT_LOG_DIR,
    CONFIG_DIR,
    CONSUMER_OFFSET_FILE,
    MIN_OFFSETS_FILE,
)
from storage_engine.errors import RecordRefused
from storage_engine.records.schedule_topic import SCHEDULE_QUEUES, SCHEDULE_TOPIC
from storage_engine.records.topic_names import DLQ_PREFIX, dlq_topic_of, retry_topic_of
from storage_engine.tools.transfer.conversion import (
    Conversion,
    Converted,
    ImportLimits,
    refuse_namespace,
)
from storage_engine.tools.transfer.facts import Facts, gather_facts
from storage_engine.tools.transfer.names import full_name
from storage_engine.tools.transfer.report import ImportReport
from storage_engine.tools.transfer.source import RocketmqStore, SourceRecord
from storage_engine.tools.transfer.target import NewStore, OnProgress, counted, require_room
from storage_engine.wire.groups import GroupConfig
from storage_engine.wire.topics import TopicConfig


def inspect_store(
    source: Path, namespace: str, limits: ImportLimits, *, on_progress: OnProgress
) -> ImportReport:
    """What an import would bring. Changes nothing. Raises ``SourceRejected``."""
    refuse_namespace(namespace, limits.name_chars_max)
    with RocketmqStore(source) as store:
        facts = gather_facts(store)
        conversion = Conversion(store, facts, namespace, limits)
        for record in counted(store, on_progress):
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
    on_progress: OnProgress,
) -> ImportReport:
    """Make the store of ``config`` of the source's messages, and compare both.

    Blocks the loop: a program of its own calls it. The store's directory must be empty or not
    there. Durable on return; after an error nothing in the directory is of any use.

    Raises:
        SourceRejected: the source is damaged, in use, or was changed meanwhile.
        DiskFull: there is no room; with the bytes that are missing.
        StoreCorrupt: what was written is not what was read.
    """
    refuse_namespace(namespace, limits.name_chars_max)
    with RocketmqStore(source) as store:
        require_room(store, config.store_path)
        facts = gather_facts(store)
        conversion = Conversion(store, facts, namespace, limits)
        # A log that starts at 0 has the first message of every queue; this one may lack some.
        begins_late = any(queue.first for queue in facts.queues.values())
        with NewStore(config, begins_late=begins_late) as new:
            for record in counted(store, on_progress):
                converted = conversion.take(record)
                if converted is not None:
                    _write(new, record, converted, conversion)
        store.require_unchanged()
        report = conversion.report()
        floors = _floors(facts, conversion, namespace)
        _write_config(config, conversion, namespace, floors, clock)
    report.verified_queues, report.verified_messages = await new.take_over(clock)
    return report


def _write(
    new: NewStore, record: SourceRecord, converted: Converted, conversion: Conversion
) -> None:
    try:
        new.write(record, converted.draft, converted.queue_offset)
    except RecordRefused as exc:
        head = record.head
        what = f"message {head.queue_offset} of {head.topic.decode()}/{head.queue_id}"
        conversion.reject_record(what, str(exc))


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
