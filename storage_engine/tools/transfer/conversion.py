"""Converts records of a RocketMQ store to records of this engine, and reports what is left behind.

    orders, queue 2, offset 17            ─▶ ns%orders, queue 2, offset 17
    %RETRY%g, not consumed yet            ─▶ %RETRY%ns%g, the queue of its topic, next offset
    %DLQ%g                                ─▶ %DLQ%ns%g, same queue and offset
    SCHEDULE_TOPIC_XXXX, still to come    ─▶ the same queue, next offset, TIMER_DELIVER_MS = due
    rmq_sys_wheel_timer, still to come    ─▶ SCHEDULE_TOPIC_XXXX, queue 19, TIMER_DELIVER_MS = due
    all else                              ─▶ counted, with the reason

Consumer offsets mean the same messages because topics keep their queue ids and queue offsets. Of
retries and delayed messages only those come that are still to be delivered, so their queues begin
anew. Born time and host, store time, flags, keys, tag, id and the producer's properties stay.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from storage_engine.records.delay_levels import DELAY_LEVEL_MAX
from storage_engine.records.record import SYSFLAG_COMPRESSED, SYSFLAG_COMPRESSOR
from storage_engine.records.record_draft import RecordDraft, read_draft
from storage_engine.records.record_parts import is_unseen
from storage_engine.records.schedule_topic import (
    MOMENT_QUEUE,
    PROPERTY_DELIVER_AT,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SCHEDULE_TOPIC,
    due_ms_of,
)
from storage_engine.records.topic_names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    dlq_topic_of,
    retry_topic_of,
)
from storage_engine.tools.transfer.facts import (
    TIMER_OUT_MS,
    Facts,
    is_cancellation,
    is_past_the_wheel,
    name_of,
    number,
    roll_times,
    timer_key,
)
from storage_engine.tools.transfer.names import (
    REVIVE_PREFIX,
    Kind,
    TopicName,
    full_name,
    is_system_group,
    name_fault,
)
from storage_engine.tools.transfer.report import (
    DelayedReport,
    GroupReport,
    ImportReport,
    LeftBehind,
    TopicReport,
)
from storage_engine.tools.transfer.source import RocketmqStore, SourceRecord, SourceRejected

_RETRY_TOPIC: Final = b"RETRY_TOPIC"
_DLQ_ORIGIN_TOPIC: Final = b"DLQ_ORIGIN_TOPIC"
_DELIVER_AT: Final = PROPERTY_DELIVER_AT.encode()
_REAL_TOPIC: Final = REAL_TOPIC.encode()
_REAL_QUEUE_ID: Final = REAL_QUEUE_ID.encode()
# What this engine would act on: it is about other records than the ones that are written here.
_STALE: Final = frozenset({b"__SETTLES", b"__DEDUP"})
_SPENT: Final = frozenset({_REAL_TOPIC, _REAL_QUEUE_ID}) | _STALE
_WHEEL_TICK_MS: Final = 1_000
_TYPES: Final = {"NORMAL": "normal", "FIFO": "fifo", "DELAY": "delay"}
_MESSAGE_TYPE: Final = "message.type"
_QUEUE_TYPE: Final = "queue.type"
_SIMPLE_QUEUE: Final = "SimpleCQ"
_CLEANUP: Final = "cleanup.policy"
_COMPACTION: Final = "COMPACTION"
_ZLIB: Final = frozenset({0, 3 << 8})
_SHOWN_MAX: Final = 5
_RECONSUME_TIMES_MAX: Final = 1_000


class ImportLimits(NamedTuple):
    """What the service that gets the store allows."""

    name_chars_max: int
    queue_count_max: int
    retention_ms: int


class Converted(NamedTuple):
    """A record for the new log. ``queue_offset``: None, the next one of its queue."""

    draft: RecordDraft
    queue_offset: int | None


class Conversion:
    """One import of one store; ``take`` each record in the order of the log."""

    def __init__(
        self, store: RocketmqStore, facts: Facts, namespace: str, limits: ImportLimits
    ) -> None:
        self._store = store
        self._facts = facts
        self._namespace = namespace
        self._limits = limits
        self._left: Counter[tuple[str, str, bool]] = Counter()
        self._notes: list[str] = []
        self._unread_bodies = 0
        self.topics: dict[str, TopicReport] = {}
        self.groups: dict[str, GroupReport] = {}
        self.retry_topics: dict[str, list[str]] = {}  # group → topics, by retry queue id
        self.dead_letter_queues: dict[str, int] = {}  # group → queues of its DLQ
        self._delayed, self._timers = DelayedReport(), DelayedReport()
        self._retries = self._dead_letters = 0
        self._plan_topics()
        self._plan_groups()
        self.offsets = self._plan_offsets()

    # Plan -----------------------------------------------------------------------------------

    def _plan_topics(self) -> None:
        highest: dict[str, int] = {}
        for topic, queue_id in self._facts.queues:
            highest[topic] = max(highest.get(topic, 0), queue_id + 1)
        for topic, row in sorted(self._store.topics.items()):
            if name_of(self._store, self._facts, topic).kind is not Kind.TOPIC:
                continue
            count = max(row.queue_count, highest.get(topic, 0), 1)
            fault = name_fault(topic, self._limits.name_chars_max)
            if row.attribute(_QUEUE_TYPE) not in ("", _SIMPLE_QUEUE):
                fault = f"its queues are of type {row.attribute(_QUEUE_TYPE)}"
            elif count > self._limits.queue_count_max:
                fault = f"it has {count} queues, at most {self._limits.queue_count_max} are allowed"
            if fault:
                self._leave_behind(f"topic {topic}", fault, is_loss=True, count=0)
                continue
            kind = row.attribute(_MESSAGE_TYPE)
            if kind == "TRANSACTION":
                self._notes.append(
                    f"topic {topic} becomes a topic of type mixed: there are no transactions here"
                )
            if row.attribute(_CLEANUP) == _COMPACTION:
                self._notes.append(
                    f"topic {topic} was compacted by key; here all its messages are kept"
                )
            self.topics[topic] = TopicReport(
                name=topic,
                type=_TYPES.get(kind, "mixed"),
                queues=count,
                retention_ms=self._limits.retention_ms,
            )

    def _plan_groups(self) -> None:
        found = set(self._store.groups)
        for name in self._store.offsets:
            topic, _, group = name.partition("@")
            if topic in self.topics:
                found.add(group)
        for topic, _ in self._facts.queues:
            if topic.startswith(DLQ_PREFIX):
                found.add(topic.removeprefix(DLQ_PREFIX))
        for group in sorted(found):
            if is_system_group(group):
                continue
            fault = name_fault(group, self._limits.name_chars_max)
            if fault:
                self._leave_behind(f"group {group}", fault, is_loss=True, count=0)
                continue
            row = self._store.groups.get(group)
            if row is None:
                self._notes.append(
                    f"group {group} has no settings in the store; it gets the defaults"
                )
            elif (row.group_retry_policy or {}).keys() - {"type"}:
                self._notes.append(
                    f"group {group} gets the default retry delays, not its own policy"
                )
            times = row.retry_max_times if row else 16
            self.groups[group] = GroupReport(
                name=group,
                max_reconsume_times=min(max(times, -1), _RECONSUME_TIMES_MAX),
                ordered=row is not None and row.consume_message_orderly,
                paused=row is not None and not row.consume_enable,
            )

    def _plan_offsets(self) -> dict[tuple[str, str], dict[int, int]]:
        """Topic and group, as the source names them → queue id → consumer offset."""
        planned: dict[tuple[str, str], dict[int, int]] = {}
        for name, offsets in sorted(self._store.offsets.items()):
            topic, _, group = name.partition("@")
            if group not in self.groups or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                continue
            if topic not in self.topics:
                if name_of(self._store, self._facts, topic).kind is Kind.TOPIC:
                    why = "the topic is not imported"
                    self._leave_behind("consumer offsets", why, is_loss=False, count=len(offsets))
                continue
            of_topic = planned.setdefault((topic, group), {})
            for queue_id, offset in offsets.items():
                if queue_id < self.topics[topic].queues:
                    of_topic[queue_id] = self._clamped(topic, group, queue_id, offset)
        for (topic, group), of_topic in planned.items():
            report = self.groups[group]
            report.topics.append(topic)
            report.offsets += len(of_topic)
        return planned

    def _clamped(self, topic: str, group: str, queue_id: int, offset: int) -> int:
        queue = self._facts.queues.get((topic, queue_id))
        first, end = (queue.first, queue.end) if queue else (0, 0)
        popped = self._facts.popped.get((topic, group, queue_id), set())
        waiting = [each for each in popped if first <= each < offset]
        if waiting:
            self._notes.append(
                f"group {group} goes back to {min(waiting)} of {topic}/{queue_id}, "
                f"from {offset}: {len(waiting)} messages that POP handed out were not "
                "acknowledged. Others after that offset are delivered again"
            )
            offset = min(waiting)
        if offset < first:
            why = "its messages have expired: it starts at the first that is left"
            self._leave_behind(f"offset of group {group} on {topic}", why, is_loss=False)
        if offset > end:
            self._notes.append(
                f"group {group} was at {offset} of {topic}/{queue_id}, which ends at "
                f"{end}: it starts there"
            )
        return min(max(offset, first), end)

    # Records --------------------------------------------------------------------------------

    def take(self, record: SourceRecord) -> Converted | None:
        """What a record becomes; None when it stays behind. Each record once, in their order."""
        if is_unseen(record.view, record.at):
            why = "only their commit is a message, and that is imported"
            return self._leave_behind("half messages of transactions", why, is_loss=False)
        topic = record.head.topic.decode()
        name = name_of(self._store, self._facts, topic)
        if not record.is_supported:
            return self._leave_behind(
                f"inner batches of {topic}", "they cannot be read", is_loss=True
            )
        match name.kind:
            case Kind.TOPIC:
                return self._take_message(topic, record)
            case Kind.DEAD_LETTERS:
                return self._take_dead_letter(topic, name, record)
            case Kind.RETRY:
                return self._take_retry(topic, name, record)
            case Kind.SCHEDULE:
                return self._take_scheduled(record)
            case Kind.TIMER:
                return self._take_timer(record)
            case Kind.POP:
                return self._leave_behind(
                    "records of POP", "RocketMQ's own bookkeeping", is_loss=False
                )
            case Kind.TRANSACTION | Kind.TRANSACTION_END:
                why = "RocketMQ's own bookkeeping"
                return self._leave_behind("records of transactions", why, is_loss=False)
        return self._leave_behind(
            f"messages of {topic}", "a topic of RocketMQ's own", is_loss=False
        )

    def _take_message(self, topic: str, record: SourceRecord) -> Converted | None:
        report = self.topics.get(topic)
        if report is None:
            is_known = topic in self._store.topics
            why = "the topic is not imported" if is_known else "the topic was deleted"
            return self._leave_behind(f"messages of {topic}", why, is_loss=is_known)
        if self._is_former(topic, record):
            why = "they belong to a deleted topic of the same name"
            return self._leave_behind(f"messages of {topic}", why, is_loss=False)
        draft = self._draft(record, full_name(self._namespace, topic), record.head.queue_id)
        draft.drop(_SPENT)
        stored_ms = record.head.store_timestamp_ms
        report.oldest_ms = report.oldest_ms or stored_ms
        report.newest_ms = stored_ms
        report.messages += 1
        report.bytes += record.head.record_bytes
        return Converted(draft, record.head.queue_offset)

    def _is_former(self, topic: str, record: SourceRecord) -> bool:
        head = record.head
        return head.physical_offset < self._facts.queues[topic, head.queue_id].start

    def _take_dead_letter(
        self, topic: str, name: TopicName, record: SourceRecord
    ) -> Converted | None:
        report = self.groups.get(name.group)
        if report is None:
            return self._leave_behind(
                f"messages of {topic}", "the group is not imported", is_loss=True
            )
        if self._is_former(topic, record):
            why = "they belong to a deleted group of the same name"
            return self._leave_behind(f"messages of {topic}", why, is_loss=False)
        full_group = full_name(self._namespace, name.group)
        draft = self._draft(record, dlq_topic_of(full_group), record.head.queue_id)
        if _DLQ_ORIGIN_TOPIC not in draft.properties and _RETRY_TOPIC in draft.properties:
            draft.properties[_DLQ_ORIGIN_TOPIC] = draft.properties[_RETRY_TOPIC]
        draft.drop(_SPENT)
        queues = self.dead_letter_queues.get(name.group, 1)
        self.dead_letter_queues[name.group] = max(queues, record.head.queue_id + 1)
        report.dead_letters += 1
        self._dead_letters += 1
        return Converted(draft, record.head.queue_offset)

    def _take_retry(self, topic: str, name: TopicName, record: SourceRecord) -> Converted | None:
        report = self.groups.get(name.group)
        if report is None:
            return self._leave_behind(
                f"messages of {topic}", "the group is not imported", is_loss=True
            )
        head = record.head
        done = self._store.offsets.get(f"{topic}@{name.group}", {}).get(head.queue_id, 0)
        popped = self._facts.popped.get((topic, name.group, head.queue_id), set())
        if head.queue_offset < done and head.queue_offset not in popped:
            return self._leave_behind("retries", "the group has consumed them", is_loss=False)
        draft = self._draft(record, topic, 0)
        if name.topic:
            draft.properties[_RETRY_TOPIC] = full_name(self._namespace, name.topic).encode()
        place = self._retry_place(draft, name.group)
        if place is None:
            return None
        draft.topic, draft.queue_id = place[0].encode(), place[1]
        draft.drop(_SPENT)
        report.retries += 1
        self._retries += 1
        return Converted(draft, None)

    def _retry_place(self, draft: RecordDraft, group: str) -> tuple[str, int] | None:
        """Retry topic, and the queue that it has for messages of the draft's topic."""
        prefix = full_name(self._namespace, "")
        origin = draft.properties.get(_RETRY_TOPIC, b"").decode("utf-8", "replace")
        origin = origin.removeprefix(prefix)
        if origin not in self.topics:
            what = f"retries of group {group}"
            why = f"their topic {origin or '(not said)'} is not imported"
            self._leave_behind(what, why, is_loss=True)
            return None
        topics = self.retry_topics.setdefault(group, [])
        if origin not in topics:
            topics.append(origin)
        return retry_topic_of(full_name(self._namespace, group)), topics.index(origin)

    def _take_scheduled(self, record: SourceRecord) -> Converted | None:
        head = record.head
        if head.queue_offset < self._store.level_offsets.get(head.queue_id + 1, 0):
            return self._leave_behind("delayed messages", "they were delivered", is_loss=False)
        draft = self._draft(record, SCHEDULE_TOPIC, head.queue_id)
        # The unit says when by the levels that the broker had, which need not be the usual ones.
        due_ms = self._store.unit_tag(head)
        if due_ms is None or due_ms <= 0:
            properties = b"".join(b"%b\x01%b\x02" % pair for pair in draft.properties.items())
            due_ms = due_ms_of(properties, head.store_timestamp_ms)
        if head.queue_id >= DELAY_LEVEL_MAX:
            draft.queue_id = MOMENT_QUEUE
        return self._delay(draft, due_ms, self._delayed)

    def _take_timer(self, record: SourceRecord) -> Converted | None:
        draft = self._draft(record, SCHEDULE_TOPIC, MOMENT_QUEUE)
        key = timer_key(draft)
        if draft.properties.get(_REAL_TOPIC, b"").startswith(REVIVE_PREFIX.encode()):
            return self._leave_behind("records of POP", "RocketMQ's own bookkeeping", is_loss=False)
        if is_past_the_wheel(self._store, record.head.queue_offset, key[1]):
            return self._leave_behind("timers", "they were delivered", is_loss=False)
        if is_cancellation(draft) or key in self._facts.cancelled:
            return self._leave_behind("timers", "they were cancelled", is_loss=False)
        if roll_times(draft) < self._facts.rolled.get(key, 0):
            return self._leave_behind(
                "timers", "a later record of the timer wheel replaces them", is_loss=False
            )
        # The wheel's own time is rounded down, up to one tick before what the producer asked for.
        asked_ms = number(draft.properties, _DELIVER_AT)
        due_ms = asked_ms or number(draft.properties, TIMER_OUT_MS) + _WHEEL_TICK_MS
        return self._delay(draft, due_ms, self._timers)

    def _delay(self, draft: RecordDraft, due_ms: int, report: DelayedReport) -> Converted | None:
        """Let it wait until ``due_ms`` for the place that it names."""
        real_topic = draft.properties.get(_REAL_TOPIC, b"").decode("utf-8", "replace")
        name = name_of(self._store, self._facts, real_topic)
        place: tuple[str, int] | None
        if name.kind is Kind.TOPIC and real_topic in self.topics:
            queue_id = number(draft.properties, _REAL_QUEUE_ID)
            topic = full_name(self._namespace, real_topic)
            place = topic, queue_id % self.topics[real_topic].queues
        elif name.kind is Kind.RETRY and name.group in self.groups:
            if name.topic:
                draft.properties[_RETRY_TOPIC] = full_name(self._namespace, name.topic).encode()
            place = self._retry_place(draft, name.group)
        elif name.kind is Kind.POP:
            return self._leave_behind("records of POP", "RocketMQ's own bookkeeping", is_loss=False)
        else:
            why = f"their topic {real_topic or '(not said)'} is not imported"
            return self._leave_behind(
                "delayed messages", why, is_loss=real_topic in self._store.topics
            )
        if place is None:
            return None
        draft.drop(_STALE)
        draft.properties[_REAL_TOPIC] = place[0].encode()
        draft.properties[_REAL_QUEUE_ID] = str(place[1]).encode()
        draft.properties[_DELIVER_AT] = str(due_ms).encode()
        report.count(due_ms)
        return Converted(draft, None)

    def _draft(self, record: SourceRecord, topic: str, queue_id: int) -> RecordDraft:
        draft = read_draft(record.view, record.at)
        draft.topic, draft.queue_id = topic.encode(), queue_id
        for name in (_RETRY_TOPIC, _DLQ_ORIGIN_TOPIC):
            origin = draft.properties.get(name)
            if origin is not None and origin.decode("utf-8", "replace") in self.topics:
                draft.properties[name] = full_name(self._namespace, origin.decode()).encode()
        compressor = draft.sysflag & SYSFLAG_COMPRESSOR
        if draft.sysflag & SYSFLAG_COMPRESSED and compressor not in _ZLIB:
            self._unread_bodies += 1
        return draft

    def reject_record(self, what: str, why: str) -> None:
        """A record that was taken cannot be written."""
        self._leave_behind(what, why, is_loss=True)

    def _leave_behind(
        self, what: str, why: str, *, is_loss: bool, count: int = 1
    ) -> Converted | None:
        """Count what stays behind; None, for whoever returns that."""
        self._left[what, why, is_loss] += count
        return None

    # Report ---------------------------------------------------------------------------------

    def report(self) -> ImportReport:
        """What came and what did not; after the last record."""
        store, facts = self._store, self._facts
        left = [
            LeftBehind(what=what, count=count, why=why, is_loss=is_loss)
            for (what, why, is_loss), count in sorted(self._left.items())
        ]
        left += self._open_transactions()
        return ImportReport(
            source=str(store.path),
            namespace=self._namespace,
            log_start=store.start_offset,
            log_end=store.end_offset,
            record_count=facts.record_count,
            topics=list(self.topics.values()),
            groups=list(self.groups.values()),
            messages=sum(topic.messages for topic in self.topics.values()),
            bytes=sum(topic.bytes for topic in self.topics.values()),
            delayed=self._delayed,
            timers=self._timers,
            retries=self._retries,
            dead_letters=self._dead_letters,
            left_behind=left,
            notes=[*self._notes, *self._more_notes()],
        )

    def _open_transactions(self) -> list[LeftBehind]:
        by_topic: dict[str, list[str]] = {}
        for topic, message_id in self._facts.open_transactions.values():
            by_topic.setdefault(topic, []).append(message_id)
        found = []
        for topic, ids in sorted(by_topic.items()):
            shown = sorted(set(ids))
            some = ", ".join(shown[:_SHOWN_MAX]) + (", …" if len(shown) > _SHOWN_MAX else "")
            why = f"neither committed nor rolled back: {some}. Send them again if you need them"
            what = f"open transactions of {topic}"
            found.append(LeftBehind(what=what, count=len(shown), why=why, is_loss=True))
        return found

    def _more_notes(self) -> list[str]:
        store, facts = self._store, self._facts
        notes = []
        if not store.was_shut_down_cleanly:
            notes.append(
                "the broker did not shut down cleanly: offsets may be some seconds "
                "old, so some messages may be delivered twice"
            )
        if store.tail_bytes:
            notes.append(
                f"after the last whole record, at {store.end_offset}, there are bytes "
                "of an incomplete one; RocketMQ would cut them off as well"
            )
        if store.timer is None and self._timers.messages:
            notes.append(
                "config/timercheck is missing: timer messages that were delivered "
                "may be delivered once more"
            )
        missing = sum(queue.missing_count for queue in facts.queues.values())
        if missing:
            notes.append(f"{missing} queue offsets have no record in the log; they stay empty")
        if self._unread_bodies:
            notes.append(
                f"{self._unread_bodies} bodies are compressed with LZ4 or ZSTD: "
                "consumers get them compressed"
            )
        if facts.unreadable_pop_count:
            notes.append(f"{facts.unreadable_pop_count} records of POP could not be read")
        if (store.path / "kvStore").is_dir():
            notes.append(
                "POP's RocksDB (kvStore) is not read: messages that it handed out "
                "and that were not acknowledged are not delivered again"
            )
        return notes


def refuse_namespace(namespace: str, chars_max: int) -> None:
    """Raises ``SourceRejected``: the service can have no namespace of that name."""
    fault = name_fault(namespace, chars_max)
    if fault:
        raise SourceRejected(f"namespace {namespace!r}: {fault}")
