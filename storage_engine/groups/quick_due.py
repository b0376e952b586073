"""The short way from a scheduled record to the one that is delivered; no side effects.

    record of a producer's message that waits ── quick_due ──▶ the same bytes as ``due_record``, but
                                                               for the order of its properties

A producer's message has the properties that delivery spends in front, so they can be cut off. All
others (retries, messages that retention appended again) take the long way; None says so. What most
records of a batch have in common is looked at once.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from storage_engine.records.message_keys import (
    ID_BACK,
    ID_END_BACK,
    ID_HEAD,
    ID_HEAD_BACK,
    PAIR_END,
    keys_of,
)
from storage_engine.records.record import BODY_LENGTH_AT, MAGIC_V1, TOPIC_BYTES_V1_MAX
from storage_engine.records.schedule_topic import (
    DELAY_LEVEL,
    DELAY_MS,
    PROPERTY_DELIVER_AT,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SCHEDULE_TOPIC_BYTES,
)
from storage_engine.records.settles import SETTLES_HEAD
from storage_engine.records.tag_hash import tag_hash_of

# TOTALSIZE, MAGICCODE, BODYCRC, QUEUEID, SYSFLAG, BODYLENGTH of a record whose hosts are IPv4.
_HEAD = struct.Struct(">II4sI20xI44xI")
assert _HEAD.size == BODY_LENGTH_AT + 4
_NEW_HEAD = struct.Struct(">II4sI")
_TOPIC: Final = bytes([len(SCHEDULE_TOPIC_BYTES)]) + SCHEDULE_TOPIC_BYTES
_REAL_TOPIC: Final = f"{REAL_TOPIC}\x01".encode()
_REAL_QUEUE_ID: Final = f"{REAL_QUEUE_ID}\x01".encode()
_DELIVER_AT: Final = f"\x02{PROPERTY_DELIVER_AT}\x01".encode()
_TAG: Final = b"TAGS\x01"
_DELAYS: Final = (f"{DELAY_LEVEL}\x01".encode(), f"{DELAY_MS}\x01".encode())
_QUEUE_DIGITS_MAX: Final = 9
_HEADS_MAX: Final = 4_096
# Properties of the schedule that must not stay, and that only the long way finds anywhere.
_SPENT: Final = (b"TIMER_DEL", b"DELAY\x01", SETTLES_HEAD)


class QuickDue(NamedTuple):
    """``tag_hash`` and ``keys`` are those of the record, as whoever appends it needs them."""

    topic: bytes
    queue_id: int
    record: bytes
    tag_hash: int
    keys: list[bytes]


class QuickWay:
    """Remembers what records had in common; what it answers does not depend on that."""

    def __init__(self) -> None:
        # From the topic's length to the due time → the real topic and queue.
        self._places: dict[bytes, tuple[bytes, int]] = {}
        # Properties between the due time and the id, of the last record that had one key, its id.
        self._like: bytes | None = None
        self._like_tag_hash = 0

    def due(self, record: bytes, settles: bytes) -> QuickDue | None:
        """The record to deliver, with the holes of a producer's; ``settles`` is what it settles,
        as a value.
        """
        size, magic, body_crc, _, sysflag, body_bytes = _HEAD.unpack_from(record)
        if magic != MAGIC_V1 or sysflag or size != len(record):
            return None
        topic_at = _HEAD.size + body_bytes
        due_at = record.find(_DELIVER_AT, topic_at)
        place = self._place(record[topic_at:due_at]) if due_at >= 0 else None
        if place is None:
            return None
        at = record.find(b"\x02", due_at + 1) + 1
        if record.startswith(_DELAYS, at):
            at = record.find(b"\x02", at) + 1
        tag_hash, keys = self._like_tag_hash, [record[size - ID_BACK : size - ID_END_BACK]]
        middle = record[at : max(size - ID_HEAD_BACK, at)]
        is_plain = (
            record.startswith(ID_HEAD, size - ID_HEAD_BACK)
            and record[size - ID_END_BACK] == PAIR_END
            and b"\x02" not in keys[0]
            and size - ID_HEAD_BACK >= at
        )
        if not is_plain or middle != self._like:
            if _has_spent(record, at):
                return None
            tag_hash = tag_hash_of(record[at:]) if record.find(_TAG, at) >= 0 else 0
            found = keys_of(record, at, size)
            if is_plain and found == keys:
                self._like, self._like_tag_hash = middle, tag_hash
            keys = found
        topic, queue_id = place
        properties_bytes = len(SETTLES_HEAD) + len(settles) + 1 + size - at
        new_size = topic_at + 1 + len(topic) + 2 + properties_bytes
        made = b"".join(
            (
                _NEW_HEAD.pack(new_size, magic, body_crc, queue_id),
                record[_NEW_HEAD.size : topic_at],
                bytes([len(topic)]),
                topic,
                properties_bytes.to_bytes(2),
                SETTLES_HEAD,
                settles,
                b"\x02",
                record[at:],
            )
        )
        return QuickDue(topic, queue_id, made, tag_hash, keys)

    def _place(self, head: bytes) -> tuple[bytes, int] | None:
        place = self._places.get(head)
        if place is None:
            place = _place_of(head)
            if place is not None:
                if len(self._places) >= _HEADS_MAX:
                    self._places.clear()
                self._places[head] = place
        return place


def _place_of(head: bytes) -> tuple[bytes, int] | None:
    """Where a message is to go; ``head`` is all from the topic's length to the due time."""
    at = len(_TOPIC) + 2
    if not head.startswith(_TOPIC) or not head.startswith(_REAL_TOPIC, at):
        return None
    topic, _, rest = head[at + len(_REAL_TOPIC) :].partition(b"\x02")
    digits = rest[len(_REAL_QUEUE_ID) :]
    if (
        not rest.startswith(_REAL_QUEUE_ID)
        or not 1 <= len(topic) <= TOPIC_BYTES_V1_MAX
        or not digits.isdigit()
        or len(digits) > _QUEUE_DIGITS_MAX
    ):
        return None
    return topic, int(digits)


def _has_spent(record: bytes, at: int) -> bool:
    return record.startswith(_SPENT, at) or any(
        record.find(b"\x02" + name, at) >= 0 for name in _SPENT
    )
