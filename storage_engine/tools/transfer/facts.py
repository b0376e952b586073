"""Facts about a whole RocketMQ log that are needed to understand its single records.

    records, in the order of the log ──▶ [gather_facts] ──▶ Facts

A later record can say that an earlier one does not count: a topic was deleted and made again, a
timer was moved on in its wheel or cancelled, a transaction ended, a popped message acknowledged.
What is kept is bounded by what is open, not by the log.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from storage_engine.records.record import PROPERTY_MESSAGE_ID, PROPERTY_TAG
from storage_engine.records.record_draft import RecordDraft, read_draft
from storage_engine.records.record_parts import is_unseen
from storage_engine.records.schedule_topic import REAL_TOPIC
from storage_engine.tools.transfer.names import (
    HALF_TOPIC,
    REVIVE_GROUP,
    REVIVE_PREFIX,
    TRANSACTION_GROUP,
    Kind,
    TopicName,
    read_topic_name,
)
from storage_engine.tools.transfer.source import RocketmqStore, SourceRecord

TIMER_OUT_MS: Final = b"TIMER_OUT_MS"
_ROLL_TIMES: Final = b"TIMER_ROLL_TIMES"
_CANCELS: Final = b"TIMER_DEL_UNIQKEY"
_CHECKPOINT_TAG: Final = b"ck"
_ACK_TAGS: Final = frozenset({b"ack", b"bAck"})
_ENDED_TAG: Final = b"d"

QueueKey = tuple[str, int]
TimerKey = tuple[bytes, int]  # what names the message, TIMER_OUT_MS
PoppedKey = tuple[str, str, int]  # topic, group, queue id


@dataclass(slots=True)
class QueueFacts:
    """One queue: the records from ``start`` (physical) on are its messages ``first`` to ``end``.

    ``former_count``: records from before, of a topic of this name that was deleted;
    ``missing_count``: queue offsets between the first and the last that no record has.
    """

    start: int
    first: int
    end: int
    former_count: int = 0
    missing_count: int = 0
    count: int = 0


class _Checkpoint(msgspec.Struct, frozen=True):
    """POP's note of what it gave out; the names are those of RocketMQ's JSON."""

    so: int
    t: str
    c: str
    q: int
    pt: int
    n: int = 0
    bm: int = 0
    d: list[int] | None = None

    def open_offsets(self) -> set[int]:
        """Queue offsets that it does not know to be acknowledged."""
        found = [self.so + self.d[at] if self.d else self.so + at for at in range(self.n)]
        return {offset for at, offset in enumerate(found) if not self.bm >> at & 1}


class _Ack(msgspec.Struct, frozen=True):
    t: str
    c: str
    q: int
    so: int
    pt: int
    ao: int = -1
    aol: list[int] | None = None


@dataclass(slots=True)
class Facts:
    """See the module's docstring."""

    names: dict[str, TopicName] = field(default_factory=dict)
    queues: dict[QueueKey, QueueFacts] = field(default_factory=dict)
    record_count: int = 0
    rolled: dict[TimerKey, int] = field(default_factory=dict)  # how often it was moved on
    cancelled: set[TimerKey] = field(default_factory=set)
    # Half message's queue offset → real topic and id.
    open_transactions: dict[int, tuple[str, str]] = field(default_factory=dict)
    popped: dict[PoppedKey, set[int]] = field(default_factory=dict)  # and not acknowledged
    unreadable_pop_count: int = 0


def gather_facts(store: RocketmqStore) -> Facts:
    """Read the whole log once. Raises ``SourceRejected``: it is damaged, or a part of it
    missing.
    """
    gathering = _Gathering(store)
    for record in store.records():
        gathering.read_record(record)
    store.require_complete()
    return gathering.finish()


def name_of(store: RocketmqStore, facts: Facts, topic: str) -> TopicName:
    """What a topic is; remembered."""
    known = facts.names.get(topic)
    if known is None:
        row = store.topics.get(topic)
        known = facts.names[topic] = read_topic_name(
            topic, perm=row.perm if row else 6, groups=store.groups, topics=store.topics
        )
    return known


def number(properties: dict[bytes, bytes], name: bytes) -> int:
    """A property's value; 0 when it is missing or no number."""
    digits = properties.get(name, b"")
    return int(digits) if digits.isdigit() and len(digits) < 19 else 0


def timer_key(draft: RecordDraft) -> TimerKey:
    """What the wheel knows a message by."""
    real_topic = draft.properties.get(REAL_TOPIC.encode(), b"")
    message_id = draft.properties.get(PROPERTY_MESSAGE_ID.encode(), b"")
    return real_topic + b"+" + message_id, number(draft.properties, TIMER_OUT_MS)


def is_cancellation(draft: RecordDraft) -> bool:
    """Whether a record of the timer topic takes another one back."""
    return _CANCELS in draft.properties


def roll_times(draft: RecordDraft) -> int:
    """How often the wheel has moved a message on."""
    return number(draft.properties, _ROLL_TIMES)


def is_past_the_wheel(store: RocketmqStore, queue_offset: int, out_ms: int) -> bool:
    """Whether RocketMQ has delivered what stands at ``queue_offset`` of its timer topic."""
    timer = store.timer
    return timer is not None and queue_offset < timer.queue_offset and out_ms < timer.read_ms


class _Gathering:
    def __init__(self, store: RocketmqStore) -> None:
        self._store = store
        self._facts = Facts()
        self._ended: set[int] = set()
        self._checkpoints: dict[tuple[str, str, int, int, int], set[int]] = {}
        self._acked: dict[tuple[str, str, int, int, int], set[int]] = {}

    def read_record(self, record: SourceRecord) -> None:
        head, facts = record.head, self._facts
        facts.record_count += 1
        if not record.is_supported or is_unseen(record.view, record.at):
            return
        topic = head.topic.decode()
        name = name_of(self._store, facts, topic)
        match name.kind:
            case Kind.TOPIC | Kind.DEAD_LETTERS:
                self._count(topic, record)
            case Kind.TIMER:
                self._read_timer(record)
            case Kind.TRANSACTION:
                self._read_half_message(record)
            case Kind.TRANSACTION_END:
                draft = read_draft(record.view, record.at)
                if draft.properties.get(PROPERTY_TAG.encode()) == _ENDED_TAG:
                    offsets = draft.body[4:].split(b",")
                    self._ended |= {int(each) for each in offsets if each.isdigit()}
            case Kind.POP:
                self._read_revival(topic, record)
            case Kind.SCHEDULE | Kind.RETRY | Kind.SYSTEM:
                pass

    def _count(self, topic: str, record: SourceRecord) -> None:
        head = record.head
        key = topic, head.queue_id
        queue = self._facts.queues.get(key)
        if queue is None:
            queue = QueueFacts(head.physical_offset, head.queue_offset, head.queue_offset)
            self._facts.queues[key] = queue
        elif head.queue_offset < queue.end:
            former_count = queue.former_count + queue.count
            queue = QueueFacts(
                head.physical_offset, head.queue_offset, head.queue_offset, former_count
            )
            self._facts.queues[key] = queue
        queue.missing_count += head.queue_offset - queue.end
        queue.end = head.queue_offset + 1
        queue.count += 1

    def _read_timer(self, record: SourceRecord) -> None:
        draft = read_draft(record.view, record.at)
        key = timer_key(draft)
        if is_past_the_wheel(self._store, record.head.queue_offset, key[1]):
            return
        if is_cancellation(draft):
            self._facts.cancelled.add((draft.properties[_CANCELS], key[1]))
        elif rolls := roll_times(draft):
            self._facts.rolled[key] = max(rolls, self._facts.rolled.get(key, 0))
        real_topic = draft.properties.get(REAL_TOPIC.encode(), b"").decode("utf-8", "replace")
        if real_topic.startswith(REVIVE_PREFIX):
            self._record_pop(draft)

    def _read_half_message(self, record: SourceRecord) -> None:
        done = self._store.offsets.get(f"{HALF_TOPIC}@{TRANSACTION_GROUP}", {})
        if record.head.queue_offset >= done.get(record.head.queue_id, 0):
            draft = read_draft(record.view, record.at)
            real_topic = draft.properties.get(REAL_TOPIC.encode(), b"").decode("utf-8", "replace")
            message_id = draft.message_id.decode("utf-8", "replace")
            self._facts.open_transactions[record.head.queue_offset] = real_topic, message_id

    def _read_revival(self, topic: str, record: SourceRecord) -> None:
        done = self._store.offsets.get(f"{topic}@{REVIVE_GROUP}", {})
        if record.head.queue_offset >= done.get(record.head.queue_id, 0):
            self._record_pop(read_draft(record.view, record.at))

    def _record_pop(self, draft: RecordDraft) -> None:
        tag, body = draft.properties.get(PROPERTY_TAG.encode()), draft.body[4:]
        try:
            if tag == _CHECKPOINT_TAG:
                given = msgspec.json.decode(body, type=_Checkpoint)
                key = given.t, given.c, given.q, given.so, given.pt
                self._checkpoints.setdefault(key, given.open_offsets())
            elif tag in _ACK_TAGS:
                ack = msgspec.json.decode(body, type=_Ack)
                acked = self._acked.setdefault((ack.t, ack.c, ack.q, ack.so, ack.pt), set())
                acked.update(ack.aol or [ack.ao])
        except (msgspec.MsgspecError, IndexError):
            self._facts.unreadable_pop_count += 1

    def finish(self) -> Facts:
        """All has been looked at."""
        facts = self._facts
        for offset in self._ended & facts.open_transactions.keys():
            del facts.open_transactions[offset]
        for key, offsets in self._checkpoints.items():
            if left := offsets - self._acked.get(key, set()):
                facts.popped.setdefault(key[:3], set()).update(left)
        for topic, queue_id, end in self._store.queue_ends():
            if name_of(self._store, facts, topic).kind in (Kind.TOPIC, Kind.DEAD_LETTERS):
                # All that it held has expired: what comes next follows that.
                facts.queues.setdefault((topic, queue_id), QueueFacts(0, end, end))
        return facts
