"""Exports messages of this engine's store to a new RocketMQ store.

    own store ── settle_moved, Export.take ──▶ log, config ──▶ Store.open: queues, index, compared
                                              files of ours go, JSON as RocketMQ has it ◀─┘

    ns%orders, queue 2, offset 17        ─▶ orders, queue 2, offset 17
    %RETRY%ns%g, not settled             ─▶ %RETRY%g, queue 0, next offset
    %DLQ%ns%g, neither redriven nor gone ─▶ %DLQ%g, queue 0, next offset
    SCHEDULE_TOPIC_XXXX, still to come   ─▶ rmq_sys_wheel_timer, queue 0, TIMER_OUT_MS

All delayed messages go into the timing wheel: RocketMQ never delivers what stands in queues 18 and
19 of the schedule topic, and its levels know no other times than their own. A broker without a
``timercheck`` file reads the wheel's topic from its start. The source is only read.
"""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.catalog.config_table import GroupTable, TopicTable
from storage_engine.clock import Clock, SystemClock
from storage_engine.config import StoreConfig
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.progress import Progress
from storage_engine.disk import config_json
from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    CHECKPOINT_FILE,
    COMMIT_LOG_DIR,
    CONFIG_DIR,
    CONSUMER_OFFSET_FILE,
    DEDUP_DIR,
    GROUPS_FILE,
    JOURNAL_FILE,
    LOCK_FILE,
    MIN_OFFSETS_FILE,
    REPLICATION_FILE,
    RESERVE_FILE,
    SPARE_FILE,
    TOPICS_FILE,
)
from storage_engine.errors import ConfigInvalid, StoreCorrupt
from storage_engine.log.bucket_files import reject_bucket_files
from storage_engine.log.checkpoint import read_checkpoint
from storage_engine.queues.min_offsets import MinOffsets
from storage_engine.records.record_draft import RecordDraft, read_draft
from storage_engine.records.record_parts import is_unseen, parts_of
from storage_engine.records.schedule_topic import (
    DELAY_LEVEL,
    PROPERTY_DELIVER_AT,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SCHEDULE_TOPIC,
    due_ms_of,
)
from storage_engine.records.settles import SETTLES_HEAD, settles_of
from storage_engine.records.topic_names import (
    DLQ_PREFIX,
    LETTERS_GROUP,
    RETRY_PREFIX,
    dlq_topic_of,
    retry_topic_of,
)
from storage_engine.schedule.schedule import SCHEDULE_GROUP
from storage_engine.tools.transfer.facts import TIMER_OUT_MS
from storage_engine.tools.transfer.names import TIMER_TOPIC
from storage_engine.tools.transfer.report import DelayedReport, ExportedTopic, ExportReport
from storage_engine.tools.transfer.source import SourceRecord, SourceRejected, StoreFiles
from storage_engine.tools.transfer.target import NewStore, OnProgress, counted, require_room
from storage_engine.wire.groups import Dispatch, GroupConfig

_RETRY_TOPIC: Final = b"RETRY_TOPIC"
_DLQ_ORIGIN_TOPIC: Final = b"DLQ_ORIGIN_TOPIC"
_JSON_BODY: Final = b"__MQ_BODY"  # of ``mqservice/delivery/bodies.py``
_OURS: Final = frozenset({b"__SETTLES", b"__DEDUP"})
_SPENT: Final = frozenset(
    name.encode() for name in (REAL_TOPIC, REAL_QUEUE_ID, DELAY_LEVEL, PROPERTY_DELIVER_AT)
)
_WHEEL_TICK_MS: Final = 1_000
_TIMES: Final = struct.Struct(">qqqqq")
_CHECKPOINT_BYTES: Final = 4_096


class OwnStore(StoreFiles):
    """A store of this engine opened for export: read as a start reads it, and not changed.

    config/*.json, offsets.journal, log ──▶ [OwnStore] ──▶ topics, groups, progress, records()
    """

    how_to_stop = "Stop it first (mqservice stop)"
    how_to_repair = "Nothing was changed. Run `mqservice engine verify`, or restore a backup"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        files, clock = Files(), SystemClock()  # only to read
        self.topics = TopicTable(files, path, clock)
        self.groups = GroupTable(files, path, clock)
        self._floors = MinOffsets(StoreConfig(store_dir=str(path)), files)
        self._offsets = ConsumerOffsets(files, path)

    def _require_kind(self) -> None:
        if not (self.path / COMMIT_LOG_DIR).is_dir():
            raise SourceRejected(
                f"{self.path} is not a store of this service: it has no "
                f"{COMMIT_LOG_DIR} directory. Name a data directory in which a "
                "service was started"
            )
        try:
            reject_bucket_files(self.path)
        except ConfigInvalid as exc:
            raise SourceRejected(str(exc)) from exc
        try:
            mark = read_checkpoint(self.path / CHECKPOINT_FILE)
        except StoreCorrupt as exc:
            raise SourceRejected(str(exc)) from exc
        if mark is None:
            raise SourceRejected(
                f"{self.path} has no checkpoint of this service: start the service on "
                "it once, and stop it again"
            )

    def _read_config(self) -> None:
        try:
            self.topics.load()
            self.groups.load()
            self._floors.load()
            self._offsets.load()
        except StoreCorrupt as exc:
            raise SourceRejected(f"{exc}. Nothing was changed") from exc

    def settle_moved(self) -> None:
        """Read the log once, for the records that took another one's place. Raises
        ``SourceRejected``.
        """
        found = []
        for record in self.records():
            parts = parts_of(record.view, record.at)
            if SETTLES_HEAD in parts.tail:
                settled = settles_of(parts.tail, parts.properties_at)
                if settled is not None:
                    found.append(settled)
        self._offsets.settle_recovered(found)

    def floor(self, topic: str, queue_id: int) -> int:
        """Where a queue begins: what stands below was deleted."""
        of_topic = self._floors.table.get(topic, [])
        return of_topic[queue_id] if queue_id < len(of_topic) else 0

    def progress(self, group: str, topic: str, queue_id: int) -> Progress | None:
        """How far a group is on a queue, by full names; None when it has not read it."""
        return self._offsets.find(group, topic, queue_id)

    def is_scheduled(self, queue_id: int, queue_offset: int) -> bool:
        """Whether a message of the schedule topic is still to come."""
        progress = self._offsets.find(SCHEDULE_GROUP, SCHEDULE_TOPIC, queue_id)
        return progress is None or not progress.is_settled(queue_offset)

    def is_to_retry(self, group: str, queue_id: int, queue_offset: int) -> bool:
        """Whether a message of the group's retry topic is still to be delivered."""
        progress = self._offsets.find(group, retry_topic_of(group), queue_id)
        return progress is None or not progress.is_settled(queue_offset)

    def is_dead(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Whether a dead letter was neither redriven nor dropped."""
        progress = self._offsets.find(LETTERS_GROUP, topic, queue_id)
        return progress is None or not progress.is_settled(queue_offset)


class _Export:
    """One export; ``take`` each record in the order of the log. ``namespace``: "" for all, which
    keep their names, ``namespace%name`` as RocketMQ's own namespaces have it.
    """

    def __init__(self, store: OwnStore, namespace: str, now_ms: int) -> None:
        self._store = store
        self._now_ms = now_ms
        self._prefix = f"{namespace}%" if namespace else ""
        self._namespace = namespace
        self.topics = {
            topic: ExportedTopic(
                name=self.short_name(topic), queues=self._store.topics.read_counts[topic]
            )
            for topic in sorted(store.topics.configs)
            if self._is_exported(topic) and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
        }
        self.groups = sorted(filter(self._is_exported, store.groups.configs))
        self.delayed = DelayedReport()
        self.retries = self.dead_letters = 0
        self._seen: Counter[str] = Counter()
        self._ends: dict[tuple[str, int], int] = {}

    def _is_exported(self, name: str) -> bool:
        return "%" in name and name.startswith(self._prefix)

    def short_name(self, name: str) -> str:
        """The name that a topic or group has in RocketMQ."""
        return name.removeprefix(self._prefix)

    def config_of(self, group: str) -> GroupConfig:
        """A group's settings, by its full name."""
        return self._store.groups.configs[group]

    def take(self, record: SourceRecord) -> tuple[RecordDraft, int | None] | None:
        """What a record becomes, and its queue offset or None for the next; None: it stays."""
        topic, head = record.head.topic.decode(), record.head
        if is_unseen(record.view, record.at):
            return None
        if head.queue_offset < self._store.floor(topic, head.queue_id):
            return None
        if topic in self.topics:
            return self._take_message(topic, record)
        if topic.startswith(RETRY_PREFIX):
            return self._take_retry(topic.removeprefix(RETRY_PREFIX), record)
        if topic.startswith(DLQ_PREFIX):
            return self._take_dead_letter(topic, record)
        if topic == SCHEDULE_TOPIC:
            return self._take_scheduled(record)
        return None

    def _take_message(
        self, topic: str, record: SourceRecord
    ) -> tuple[RecordDraft, int | None] | None:
        head = record.head
        place = topic, head.queue_id
        if self._ends.setdefault(place, head.queue_offset) != head.queue_offset:
            raise SourceRejected(
                f"messages {self._ends[place]} to {head.queue_offset - 1} of "
                f"{topic}/{head.queue_id} are missing from the log, and RocketMQ's "
                "queues cannot have gaps. Run `mqservice engine verify`"
            )
        self._ends[place] = head.queue_offset + 1
        draft = self._draft(record, self.short_name(topic), head.queue_id)
        self.topics[topic].messages += 1
        return draft, head.queue_offset

    def _take_retry(self, group: str, record: SourceRecord) -> tuple[RecordDraft, None] | None:
        head = record.head
        if group not in self.groups or not self._store.is_to_retry(
            group, head.queue_id, head.queue_offset
        ):
            return None
        self.retries += 1
        return self._draft(record, retry_topic_of(self.short_name(group)), 0), None

    def _take_dead_letter(
        self, topic: str, record: SourceRecord
    ) -> tuple[RecordDraft, None] | None:
        group, head = topic.removeprefix(DLQ_PREFIX), record.head
        if group not in self.groups or not self._store.is_dead(
            topic, head.queue_id, head.queue_offset
        ):
            return None
        self.dead_letters += 1
        return self._draft(record, dlq_topic_of(self.short_name(group)), 0), None

    def _take_scheduled(self, record: SourceRecord) -> tuple[RecordDraft, None] | None:
        head = record.head
        properties = read_draft(record.view, record.at).properties
        real_topic = properties.get(REAL_TOPIC.encode(), b"").decode("utf-8", "replace")
        queue_id = properties.get(REAL_QUEUE_ID.encode(), b"0")
        is_retry = real_topic.startswith(RETRY_PREFIX)
        group = real_topic.removeprefix(RETRY_PREFIX)
        if not self._store.is_scheduled(head.queue_id, head.queue_offset):
            return None
        if (group not in self.groups) if is_retry else (real_topic not in self.topics):
            return None
        encoded = b"".join(b"%b\x01%b\x02" % pair for pair in properties.items())
        due_ms = due_ms_of(encoded, head.store_timestamp_ms)
        name = retry_topic_of(self.short_name(group)) if is_retry else self.short_name(real_topic)
        draft = self._draft(record, TIMER_TOPIC, 0)
        # As HookUtils.transformTimerMessage rounds: the tick before the one in which it is due. A
        # broker looks through the last seven days of its wheel and never sees what is older.
        out_ms = (max(due_ms, self._now_ms) - 1) // _WHEEL_TICK_MS * _WHEEL_TICK_MS
        draft.properties[REAL_TOPIC.encode()] = name.encode()
        draft.properties[REAL_QUEUE_ID.encode()] = b"0" if is_retry else queue_id
        draft.properties[PROPERTY_DELIVER_AT.encode()] = str(due_ms).encode()
        draft.properties[TIMER_OUT_MS] = str(out_ms).encode()
        self.delayed.count(due_ms)
        return draft, None

    def _draft(self, record: SourceRecord, topic: str, queue_id: int) -> RecordDraft:
        draft = read_draft(record.view, record.at)
        draft.topic, draft.queue_id = topic.encode(), queue_id
        draft.drop(_OURS | _SPENT)
        for name in (_RETRY_TOPIC, _DLQ_ORIGIN_TOPIC):
            if name in draft.properties:
                origin = draft.properties[name].decode("utf-8", "replace")
                draft.properties[name] = self.short_name(origin).encode()
        self._seen["json"] += _JSON_BODY in draft.properties
        self._seen["empty"] += b"" in draft.properties.values()
        return draft

    def offsets(self) -> dict[str, dict[int, int]]:
        """``topic@group`` → queue id → consumer offset, by RocketMQ's names."""
        table: dict[str, dict[int, int]] = {}
        for group in self.groups:
            if self._store.groups.configs[group].dispatch is Dispatch.BROADCAST:
                self._seen["broadcast"] += 1
                continue
            for topic, exported in self.topics.items():
                for queue_id in range(exported.queues):
                    progress = self._store.progress(group, topic, queue_id)
                    if progress is None:
                        continue
                    name = f"{exported.name}@{self.short_name(group)}"
                    table.setdefault(name, {})[queue_id] = progress.consumer_offset
                    self._seen["ahead"] += progress.settled.count + progress.skipped.count
        return table

    def floors(self) -> dict[str, list[int]]:
        """Where queues begin, by RocketMQ's names."""
        floors = {
            exported.name: [self._store.floor(topic, at) for at in range(exported.queues)]
            for topic, exported in self.topics.items()
        }
        return {name: offsets for name, offsets in floors.items() if any(offsets)}

    def notes(self) -> list[str]:
        """What RocketMQ will not do with it."""
        notes = []
        if self.delayed.messages:
            notes.append(
                f"{self.delayed.messages} delayed messages are in {TIMER_TOPIC}: a "
                "broker with timerWheelEnable=true, its default, delivers them, up "
                "to a second early"
            )
        if self.retries:
            notes.append(
                f"{self.retries} retries are in %RETRY%group, which push consumers "
                "read; POP consumers (SimpleConsumer, gRPC) read retries from "
                "%RETRY%group_topic and do not get these"
            )
        told = {
            "json": "bodies were sent as JSON: their property __MQ_BODY says so",
            "empty": "messages have a property with an empty value, which RocketMQ's clients drop",
            "ahead": (
                "messages were settled out of order: RocketMQ has one offset per queue, so "
                "it delivers them again"
            ),
            "broadcast": (
                "groups have broadcast dispatch: RocketMQ keeps their progress in its "
                "clients, which start where their own settings say"
            ),
        }
        notes += [f"{self._seen[key]} {text}" for key, text in told.items() if self._seen[key]]
        notes.append(
            "RocketMQ keeps durability, leases, retry delays, dispatch and topic "
            "types differently or not at all: set them there (mqadmin updateTopic, "
            "updateSubGroup)"
        )
        return notes


async def export_store(
    source: Path, config: StoreConfig, namespace: str, *, clock: Clock, on_progress: OnProgress
) -> ExportReport:
    """Write a namespace, or all ("") of the store at ``source`` into that of ``config``.

    Its directory must be empty or not there; blocks the loop. Durable on return; after an error
    nothing in the directory is of any use.

    Raises:
        SourceRejected: the source is in use, damaged, or has no such namespace.
        DiskFull: there is no room.
        StoreCorrupt: what was written is not what was read.
    """
    files, target = Files(), config.store_path
    with OwnStore(source) as store:
        require_room(store, target)
        export = _Export(store, namespace, clock.now_ms())
        if not (export.topics or export.groups):
            known = [*store.topics.configs, *store.groups.configs]
            names = sorted({name.partition("%")[0] for name in known if "%" in name[1:]} - {""})
            raise SourceRejected(
                f"{source} has no topic or group of namespace {namespace or '(any)'}; it has "
                f"{', '.join(names) or 'none at all'}"
            )
        store.settle_moved()
        floors, offsets = export.floors(), export.offsets()
        with NewStore(config, begins_late=bool(floors)) as new:
            for record in counted(store, on_progress):
                taken = export.take(record)
                if taken is not None:
                    new.write(record, *taken)
        store.require_unchanged()
    files.make_dirs(target / CONFIG_DIR)
    if floors:
        content = msgspec.json.encode({"offsetTable": floors})
        files.replace(target / CONFIG_DIR / MIN_OFFSETS_FILE, content)
    _write_tables(files, target, export, new.queue_counts())
    verified = await new.take_over(clock)
    _strip(files, target)
    _write_tables(files, target, export, new.queue_counts())
    _write_offsets(files, target, offsets)
    files.sync_dir(target)
    return ExportReport(
        source=str(source),
        namespace=namespace,
        topics=list(export.topics.values()),
        groups=[export.short_name(group) for group in export.groups],
        messages=sum(topic.messages for topic in export.topics.values()),
        delayed=export.delayed,
        retries=export.retries,
        dead_letters=export.dead_letters,
        notes=export.notes(),
        verified_queues=verified[0],
        verified_messages=verified[1],
    )


def _write_tables(files: Files, target: Path, export: _Export, queues: dict[str, int]) -> None:
    """``topics.json`` and ``subscriptionGroup.json``, as a broker writes them."""
    counts = {topic.name: topic.queues for topic in export.topics.values()}
    counts.update({topic: count for topic, count in queues.items() if topic not in counts})
    topics = {
        name: {
            "attributes": {}, "order": False, "perm": 6, "readQueueNums": count,
            "topicFilterType": "SINGLE_TAG", "topicName": name, "topicSysFlag": 0,
            "writeQueueNums": count,
        }
        for name, count in sorted(counts.items())
    }  # fmt: skip
    groups = {}
    for name in export.groups:
        config = export.config_of(name)
        groups[export.short_name(name)] = {
            "attributes": {}, "brokerId": 0, "consumeBroadcastEnable": True,
            "consumeEnable": not config.is_paused, "consumeFromMinEnable": True,
            "consumeMessageOrderly": config.is_ordered, "consumeTimeoutMinute": 15,
            "groupName": export.short_name(name), "groupSysFlag": 0,
            "notifyConsumerIdsChangedEnable": True, "retryMaxTimes": config.max_reconsume_times,
            "retryQueueNums": 1, "whichBrokerWhenConsumeSlowly": 1,
        }  # fmt: skip
    version = {"counter": 1, "stateVersion": 0, "timestamp": 0}
    for file, table, rows in (
        (TOPICS_FILE, "topicConfigTable", topics),
        (GROUPS_FILE, "subscriptionGroupTable", groups),
    ):
        content = msgspec.json.encode({"dataVersion": version, table: rows})
        files.replace(target / CONFIG_DIR / file, content)


def _write_offsets(files: Files, target: Path, offsets: dict[str, dict[int, int]]) -> None:
    """``consumerOffset.json`` with integer keys as RocketMQ writes them."""
    rows = b",".join(
        msgspec.json.encode(name) + b":" + config_json.integer_table(of_topic)
        for name, of_topic in sorted(offsets.items())
    )
    files.replace(target / CONFIG_DIR / CONSUMER_OFFSET_FILE, b'{"offsetTable":{%b}}' % rows)


def _strip(files: Files, target: Path) -> None:
    """Take away what only this engine knows; the checkpoint becomes one of RocketMQ's."""
    stamp = _TIMES.unpack((target / CHECKPOINT_FILE).read_bytes()[: _TIMES.size])[0]
    times = _TIMES.pack(stamp, stamp, stamp, 0, 0)
    files.replace(target / CHECKPOINT_FILE, times.ljust(_CHECKPOINT_BYTES, b"\0"))
    for path in (target / CONFIG_DIR).iterdir():
        path.unlink()
    for name in (JOURNAL_FILE, RESERVE_FILE, SPARE_FILE, LOCK_FILE, REPLICATION_FILE):
        (target / name).unlink(missing_ok=True)
    shutil.rmtree(target / DEDUP_DIR, ignore_errors=True)
