"""The records that a message becomes when its delivery fails, and the way back; pure functions.

    orders            delivery failed
      └─ retry_record ──▶ SCHEDULE_TOPIC_XXXX   REAL_TOPIC = %RETRY%group, TIMER_DELIVER_MS = due
           └─ due_record ──▶ %RETRY%group       delivered again; shown_record: as it was in orders
                └─ failed again: retry_record … until the group gives up
                     └─ dead_letter_record ──▶ %DLQ%group
                          └─ redrive_record ──▶ orders, or another topic, as if new

    property               in               meaning
    RETRY_TOPIC            retry, DLQ       topic that the message was produced to
    ORIGIN_MESSAGE_ID      retry, DLQ       its id there, which UNIQ_KEY keeps as well
    1ST_POP_TIME           retry, DLQ       when it was first delivered, ms
    FIRST_STORED_MS        retry            when it was stored in its topic, ms; this engine's own
    RETRY_DELIVERY_MS      retry            when the delivery began that failed, ms; for traces, as
    RETRY_MEMBER           retry, DLQ       the member that had it, and
    RETRY_REASON           retry            why it failed; these three are this engine's own
    REAL_TOPIC, REAL_QID   schedule         where it goes when it is due
    TIMER_DELIVER_MS       schedule         when that is, ms
    DELAY                  schedule         delay level, if the delay is one of a level
    DLQ_ORIGIN_TOPIC       DLQ              RETRY_TOPIC under the name that RocketMQ 5 has for it
    DLQ_ORIGIN_MESSAGE_ID  DLQ              ORIGIN_MESSAGE_ID, likewise
    DLQ_LAST_DELIVERY_MS   DLQ              when it was last delivered, ms; this engine's own
    DLQ_REASON             DLQ              why it was given up; this engine's own
    __SETTLES              all              place of the message that it takes the place of

RECONSUMETIMES is 0 in the first record and one more in each retry; in the DLQ it is the number of
deliveries made, one more than in the last retry, as in RocketMQ. The message itself is never
touched: body, flag, born time and host, id, keys, tag, message group and the producer's own
properties are the same bytes in every record. Only a reason is cut when properties grow too long,
and what is there for traces is left out.
The properties of a schedule record are dropped when it is due; RocketMQ keeps REAL_TOPIC and
REAL_QID, which then say what the record's topic and queue say.

Records come back with the holes of a producer's record, to be appended by the engine. Input is one
record of the log, verified when it was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from storage_engine.errors import RecordRefused, StoreCorrupt
from storage_engine.records.dedup_mark import PROPERTY_DEDUP
from storage_engine.records.record import PROPERTIES_BYTES_MAX, Record
from storage_engine.records.record_draft import INT_MAX, PAIR_BYTES, RecordDraft, read_draft
from storage_engine.records.record_parts import store_timestamp_of
from storage_engine.records.schedule_topic import (
    DELAY_LEVEL,
    DELAY_MS,
    DUE_HOLE,
    PROPERTY_DELIVER_AT,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SCHEDULE_TOPIC_BYTES,
    due_ms_of,
)
from storage_engine.records.settles import PROPERTY_SETTLES, Settles, settles_value
from storage_engine.records.topic_names import dlq_topic_of, retry_topic_of

RETRY_TOPIC: Final = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
FIRST_DELIVERY_MS: Final = "1ST_POP_TIME"
FIRST_STORED_MS: Final = "FIRST_STORED_MS"
RETRY_DELIVERY_MS: Final = "RETRY_DELIVERY_MS"
RETRY_MEMBER: Final = "RETRY_MEMBER"
RETRY_REASON: Final = "RETRY_REASON"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
DLQ_LAST_DELIVERY_MS: Final = "DLQ_LAST_DELIVERY_MS"
DLQ_REASON: Final = "DLQ_REASON"

# TIMER_DELAY_… are how a producer may ask for a delay; they are spent as well once it is due.
SCHEDULE_PROPERTIES: Final = frozenset(
    {
        REAL_TOPIC,
        REAL_QUEUE_ID,
        PROPERTY_DELIVER_AT,
        DELAY_LEVEL,
        DELAY_MS,
        "TIMER_DELAY_SEC",
    }
)
DLQ_PROPERTIES: Final = frozenset(
    {DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID, DLQ_LAST_DELIVERY_MS, DLQ_REASON}
)
TRACE_PROPERTIES: Final = frozenset({RETRY_DELIVERY_MS, RETRY_MEMBER, RETRY_REASON})
RETRY_PROPERTIES: Final = (
    frozenset({RETRY_TOPIC, ORIGIN_MESSAGE_ID, FIRST_DELIVERY_MS, FIRST_STORED_MS})
    | TRACE_PROPERTIES
)
DELIVERY_PROPERTIES: Final = (
    SCHEDULE_PROPERTIES | DLQ_PROPERTIES | RETRY_PROPERTIES | {PROPERTY_SETTLES, PROPERTY_DEDUP}
)
_SCHEDULE_NAMES: Final = frozenset(name.encode() for name in SCHEDULE_PROPERTIES)
_DELIVERY_NAMES: Final = frozenset(name.encode() for name in DELIVERY_PROPERTIES)
_TRACE_NAMES: Final = frozenset(name.encode() for name in TRACE_PROPERTIES)

REASON_BYTES_MAX: Final = 4 * 1024
TRACE_REASON_BYTES_MAX: Final = 1024
_CUT_MARK: Final = "…".encode()
# What traces leave for those who come later: a forwarded record says more of what it settles.
_TRACE_ROOM_BYTES: Final = 1024
# What the properties above can take, with names of full length and an id of up to 255 bytes. A
# message whose own properties leave that much can be retried and dead-lettered for certain.
PROPERTIES_RESERVE_BYTES: Final = 2 * 1024
_MS_DIGITS_MAX: Final = 15
_DUE_MS_END: Final = 10**15  # ``due_ms_of`` reads 15 digits


_OLD_DELAY: Final = frozenset({DELAY_LEVEL.encode(), DELAY_MS.encode()})


def rescheduled_record(record: bytes, *, due_ms: int, queue_id: int, settles: Settles) -> bytes:
    """The same message, due at ``due_ms`` in a queue of the schedule topic, in the place of the one
    that ``settles`` names.

    Raises:
        RecordRefused: its properties leave no room, see ``PROPERTIES_RESERVE_BYTES``.
        StoreCorrupt: it is no record.
    """
    draft = read_draft(forwarded_record(record, settles=settles))
    draft.drop(_OLD_DELAY)
    draft.set(PROPERTY_DELIVER_AT.encode(), b"%0*d" % (len(DUE_HOLE), due_ms))
    draft.queue_id = queue_id
    return draft.encode()


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Why and when a message was given up; its times are 0 where the record does not say."""

    origin_topic: str
    origin_message_id: str
    attempts: int
    first_delivery_ms: int
    last_delivery_ms: int
    reason: str


def retry_record(
    record: bytes,
    *,
    group: str,
    due_ms: int = 0,
    delivered_ms: int,
    schedule_queue_id: int | None,
    retry_queue_id: int = 0,
    delay_level: int = 0,
    settles: Settles | None = None,
    member_id: str = "",
    reason: str = "",
) -> bytes:
    """The record that brings a message to the group again at ``due_ms``, for the schedule topic.

    Or at once, for the retry topic itself.

    Args:
        record: whose delivery failed, of the topic or the retry topic.
        group: the full name, ``namespace%name``.
        due_ms: when it is to be delivered again, epoch ms.
        delivered_ms: when the delivery that failed began, epoch ms.
        schedule_queue_id: queue of the schedule topic in which it waits; None: at once.
        retry_queue_id: queue of the retry topic to which it goes then.
        delay_level: RocketMQ's level when the delay is that of one; its brokers compute the due
            time from it when they build their queues anew.
        settles: the place that it takes the place of.
        member_id: whose delivery failed; with ``reason`` for traces, as far as there is room.

    Raises:
        RecordRefused: the record stands in the schedule topic itself, or its properties leave no
            room, see ``PROPERTIES_RESERVE_BYTES``.
        StoreCorrupt: it is no record.
    """
    assert 0 <= due_ms < _DUE_MS_END
    draft = _delivered(record, delivered_ms)
    stored_ms = first_stored_ms(draft.properties, store_timestamp_of(record))
    _set(draft, FIRST_STORED_MS, str(stored_ms))
    draft.reconsume_times += 1
    _settle(draft, settles)
    if schedule_queue_id is None:
        draft.topic, draft.queue_id = retry_topic_of(group).encode(), retry_queue_id
    else:
        _set(draft, REAL_TOPIC, retry_topic_of(group))
        _set(draft, REAL_QUEUE_ID, str(retry_queue_id))
        _set(draft, PROPERTY_DELIVER_AT, str(due_ms))
        if delay_level:
            _set(draft, DELAY_LEVEL, str(delay_level))
        draft.topic, draft.queue_id = SCHEDULE_TOPIC_BYTES, schedule_queue_id
    _set_trace_property(draft, RETRY_DELIVERY_MS, str(delivered_ms))
    _set_trace_property(draft, RETRY_MEMBER, member_id)
    _set_trace_property(draft, RETRY_REASON, reason)
    return draft.encode()


def dead_letter_record(
    record: bytes,
    *,
    group: str,
    reason: str,
    delivered_ms: int,
    attempts: int | None = None,
    settles: Settles | None = None,
    member_id: str = "",
) -> bytes:
    """The record of a message that the group gave up, for ``%DLQ%group``.

    Args:
        record: whose delivery failed, of the topic or the retry topic.
        group: the full name, ``namespace%name``.
        reason: cut to ``REASON_BYTES_MAX``, and further to what the properties leave.
        delivered_ms: when the last delivery began, epoch ms.
        attempts: deliveries made; by default as many as the record tells. An ordered group retries
            in place, which no record tells.
        settles: the place that it takes the place of.
        member_id: who had the last delivery, as far as there is room.

    Raises as ``retry_record``.
    """
    draft = _delivered(record, delivered_ms)
    draft.properties.pop(FIRST_STORED_MS.encode(), None)
    draft.reconsume_times = draft.reconsume_times + 1 if attempts is None else attempts
    draft.properties.pop(DLQ_REASON.encode(), None)
    _settle(draft, settles)
    for name, origin in (
        (DLQ_ORIGIN_TOPIC, RETRY_TOPIC),
        (DLQ_ORIGIN_MESSAGE_ID, ORIGIN_MESSAGE_ID),
    ):
        draft.set(name.encode(), draft.properties[origin.encode()])
    _set(draft, DLQ_LAST_DELIVERY_MS, str(delivered_ms))
    room = PROPERTIES_BYTES_MAX - draft.properties_bytes() - len(DLQ_REASON) - PAIR_BYTES
    told = _cut(reason, min(room, REASON_BYTES_MAX))
    if told:
        draft.set(DLQ_REASON.encode(), told)
    _set_trace_property(draft, RETRY_MEMBER, member_id)
    draft.topic, draft.queue_id = dlq_topic_of(group).encode(), 0
    return draft.encode()


def due_record(record: bytes, *, settles: Settles | None = None) -> bytes:
    """The record that a scheduled one becomes when it is due, for the topic that it names.

    ``settles`` is the place that it takes the place of.

    Raises:
        RecordRefused: it does not say where it belongs.
        StoreCorrupt: it is no record.
    """
    draft = read_draft(record)
    topic = draft.properties.get(REAL_TOPIC.encode(), b"")
    queue_id = draft.properties.get(REAL_QUEUE_ID.encode(), b"")
    if not topic or not queue_id.isdigit() or int(queue_id) > INT_MAX:
        raise RecordRefused(
            f"scheduled message {draft.message_id!r} names topic {topic!r}, queue {queue_id!r}"
        )
    draft.drop(_SCHEDULE_NAMES)
    _settle(draft, settles)
    draft.topic, draft.queue_id = topic, int(queue_id)
    return draft.encode()


def scheduled_queue_of(record: bytes, topic: str) -> int | None:
    """To which queue of ``topic`` a scheduled record goes when it is due; None: not to that topic.

    Nearly all are told from their bytes alone.
    """
    if f"{REAL_TOPIC}\x01{topic}\x02".encode() not in record:
        return None
    try:
        properties = read_draft(record).properties
    except (RecordRefused, StoreCorrupt):
        return None
    queue_id = properties.get(REAL_QUEUE_ID.encode(), b"")
    is_there = properties.get(REAL_TOPIC.encode()) == topic.encode() and queue_id.isdigit()
    return int(queue_id) if is_there else None


def forwarded_record(record: bytes, *, settles: Settles) -> bytes:
    """The same record again, still to come, in the place of the one that ``settles`` names.

    What is there for traces only goes when there is no room for both.

    Raises:
        RecordRefused: its properties leave no room, see ``PROPERTIES_RESERVE_BYTES``.
        StoreCorrupt: it is no record.
    """
    draft = read_draft(record)
    if (
        DELAY_LEVEL.encode() in draft.properties
        and PROPERTY_DELIVER_AT.encode() not in draft.properties
    ):
        # RocketMQ's own: its delay must not begin again.
        properties = b"".join(b"%b\x01%b\x02" % pair for pair in draft.properties.items())
        due_ms = due_ms_of(properties, store_timestamp_of(record))
        draft.set(PROPERTY_DELIVER_AT.encode(), str(due_ms).encode())
    _settle(draft, settles)
    if draft.properties_bytes() > PROPERTIES_BYTES_MAX:
        draft.drop(_TRACE_NAMES)
    return draft.encode()


def redrive_record(
    record: bytes,
    *,
    queue_id: int,
    topic: str | None = None,
    settles: Settles | None = None,
) -> bytes:
    """The record that sends a dead letter on its way again: what was first produced, as if new.

    Args:
        record: the dead letter.
        queue_id: queue of the topic to which it goes.
        topic: by default the one that it was produced to.
        settles: the place that it takes the place of.

    Raises:
        RecordRefused: no topic is given and the record names none.
        StoreCorrupt: it is no record.
    """
    draft = read_draft(record)
    origin = draft.properties.get(DLQ_ORIGIN_TOPIC.encode()) or draft.properties.get(
        RETRY_TOPIC.encode()
    )
    target = topic.encode() if topic is not None else origin
    if not target:
        raise RecordRefused(f"dead letter {draft.message_id!r} does not say where it came from")
    draft.drop(_DELIVERY_NAMES)
    _settle(draft, settles)
    draft.topic, draft.queue_id, draft.reconsume_times = target, queue_id, 0
    return draft.encode()


def is_shown_as_it_is(properties: dict[str, str]) -> bool:
    """Whether ``shown_record`` changes nothing of a record with these."""
    return DELIVERY_PROPERTIES.isdisjoint(properties)


def shown_record(record: Record) -> Record:
    """A message as its consumer sees it: original topic, id and properties, whichever record it is.

    Its queue, offsets and store time stay those of this record; receipts are made of them.
    """
    properties = record.properties
    if is_shown_as_it_is(properties):
        return record
    return msgspec.structs.replace(
        record,
        topic=properties.get(RETRY_TOPIC, record.topic),
        message_id=record.message_id or properties.get(ORIGIN_MESSAGE_ID, ""),
        properties={
            name: value for name, value in properties.items() if name not in DELIVERY_PROPERTIES
        },
    )


def find_dead_letter(record: Record) -> DeadLetter | None:
    """What a record of a DLQ says about its end; None when it is no dead letter."""
    properties = record.properties
    if DLQ_ORIGIN_TOPIC not in properties:
        return None
    return DeadLetter(
        origin_topic=properties[DLQ_ORIGIN_TOPIC],
        origin_message_id=properties.get(DLQ_ORIGIN_MESSAGE_ID, ""),
        attempts=record.reconsume_times,
        first_delivery_ms=_ms_of(properties.get(FIRST_DELIVERY_MS, "")),
        last_delivery_ms=_ms_of(properties.get(DLQ_LAST_DELIVERY_MS, "")),
        reason=properties.get(DLQ_REASON, ""),
    )


def first_stored_ms(properties: Mapping[bytes, bytes], store_ms: int) -> int:
    """When the message of a record was first stored in its topic, epoch ms.

    ``store_ms``: when the record itself was. A retry of an older store does not say; then its first
    delivery is the earliest that is known of it.
    """
    for name in (FIRST_STORED_MS, FIRST_DELIVERY_MS):
        digits = properties.get(name.encode(), b"")
        if digits.isdigit() and len(digits) <= _MS_DIGITS_MAX:
            return min(int(digits), store_ms)
    return store_ms


def _delivered(record: bytes, first_delivered_ms: int) -> RecordDraft:
    """A draft that knows where its message came from and when it was first delivered."""
    draft = read_draft(record)
    if draft.topic == SCHEDULE_TOPIC_BYTES:
        raise RecordRefused(f"message {draft.message_id!r} is still in the schedule topic")
    draft.drop(_SCHEDULE_NAMES | _TRACE_NAMES)
    for name, value in (
        (RETRY_TOPIC, draft.topic),
        (ORIGIN_MESSAGE_ID, draft.message_id),
        (FIRST_DELIVERY_MS, str(first_delivered_ms).encode()),
    ):
        if name.encode() not in draft.properties:
            draft.set(name.encode(), value)
    return draft


def _settle(draft: RecordDraft, settles: Settles | None) -> None:
    draft.properties.pop(PROPERTY_SETTLES.encode(), None)
    if settles is not None:
        _set(draft, PROPERTY_SETTLES, settles_value(settles))


def _set(draft: RecordDraft, name: str, value: str) -> None:
    draft.set(name.encode(), value.encode())


def _set_trace_property(draft: RecordDraft, name: str, text: str) -> None:
    """Set what only traces need, cut to the room that there is; not at all when there is little."""
    room = PROPERTIES_BYTES_MAX - draft.properties_bytes() - len(name) - PAIR_BYTES
    told = _cut(text, min(room - _TRACE_ROOM_BYTES, TRACE_REASON_BYTES_MAX))
    if told:
        draft.set(name.encode(), told)


def _cut(text: str, room: int) -> bytes:
    """As much of the text as fits, in whole characters, without the separators of properties."""
    encoded = text.replace("\x01", " ").replace("\x02", " ").encode("utf-8", "replace")
    if len(encoded) <= room:
        return encoded
    if room <= len(_CUT_MARK):
        return b""
    kept = encoded[: room - len(_CUT_MARK)].decode("utf-8", "ignore")
    return kept.encode() + _CUT_MARK


def _ms_of(digits: str) -> int:
    return int(digits) if digits.isascii() and digits.isdigit() else 0
