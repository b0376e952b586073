"""The fast path from a scheduled record to the one that is delivered; no side effects.

    record of a waiting message ── due_fast_path ──▶ the same bytes as ``due_record``, but
                                                     for the order of its properties

A producer's message has the properties that delivery spends in front, so they can be cut off. All
others (retries, messages that retention appended again) take the long way; None says so. Of a
record that had one key, its id, the layout is remembered: records of the same layout become what
they become in the same way, which ``due_moves.py`` does for many at once.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from storage_engine.records.message_keys import (
    ID_BACK,
    ID_END_BACK,
    ID_HEAD,
    ID_HEAD_BACK,
    keys_of,
)
from storage_engine.records.record import (
    BODY_LENGTH_AT,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_HEAD,
    MAGIC_V1,
    TOPIC_BYTES_V1_MAX,
)
from storage_engine.records.retry_record import RETRY_TOPIC
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
HEAD = struct.Struct(">II4sI20xI44xI")
assert HEAD.size == BODY_LENGTH_AT + 4
NEW_HEAD = struct.Struct(">II4sI")  # the first four of them
_TOPIC: Final = bytes([len(SCHEDULE_TOPIC_BYTES)]) + SCHEDULE_TOPIC_BYTES
_REAL_TOPIC: Final = f"{REAL_TOPIC}\x01".encode()
_REAL_QUEUE_ID: Final = f"{REAL_QUEUE_ID}\x01".encode()
_DELIVER_AT: Final = f"\x02{PROPERTY_DELIVER_AT}\x01".encode()
_TAG: Final = b"TAGS\x01"
_DELAYS: Final = (f"{DELAY_LEVEL}\x01".encode(), f"{DELAY_MS}\x01".encode())
_QUEUE_DIGITS_MAX: Final = 9
_HEADS_MAX: Final = 4_096
# Properties of the schedule that must not stay, and that only the long way finds anywhere.
_SPENT: Final = (b"TIMER_DEL", b"DELAY\x01", SETTLES_HEAD, f"{RETRY_TOPIC}\x01".encode())
_DUE_DIGITS: Final = 13  # of any day between 2001 and 2286


# Of records whose bytes behind the body have one length, positions in these bytes: the due time,
# the id, and the separator before all that stays. A record is like another when ``middle``, all
# between due time and id, is the same, and the due time is a number; then ``tag_hash`` is the same
# too. (due_at, due_to, id_at, id_to, rest_at, middle, tag_hash), a plain tuple: records are many.
Layout = tuple[int, int, int, int, int, bytes, int]


class FastDueRecord(NamedTuple):
    """``tag_hash`` and ``keys`` are those of the record, as whoever appends it needs them.

    ``layout``: of the record that it was made of; None when that has not one key, its id.
    """

    topic: bytes
    queue_id: int
    record: bytes
    tag_hash: int
    keys: list[bytes]
    layout: Layout | None


class DueFastPath:
    """Remembers what records had in common; what it answers does not depend on that.

    ``layouts``: by the bytes behind the body.
    """

    def __init__(self) -> None:
        self.layouts: dict[int, Layout] = {}
        # From the topic's length to the due time → the real topic and queue.
        self._places: dict[bytes, tuple[bytes, int]] = {}

    def due(self, record: bytes, settles: bytes) -> FastDueRecord | None:
        """The record to deliver, with the holes of a producer's; ``settles`` is what it settles,
        as a value.
        """
        size, magic, body_crc, _, sysflag, body_bytes = HEAD.unpack_from(record)
        if magic != MAGIC_V1 or sysflag or size != len(record):
            return None
        if not record.startswith(CRC_PROPERTY_HEAD, size - CRC_PROPERTY_BYTES):
            return None  # the engine writes it over these bytes
        topic_at = HEAD.size + body_bytes
        due_at = record.find(_DELIVER_AT, topic_at)
        place = self._place(record[topic_at:due_at]) if due_at >= 0 else None
        if place is None:
            return None
        due_at += len(_DELIVER_AT)
        due_to = record.find(b"\x02", due_at)
        at = due_to + 1
        if record.startswith(_DELAYS, at):
            at = record.find(b"\x02", at) + 1
        if _has_spent(record, at):
            return None
        tag_hash = tag_hash_of(record[at:]) if record.find(_TAG, at) >= 0 else 0
        keys = keys_of(record, at, size)
        layout = None
        if (
            due_to - due_at == _DUE_DIGITS
            and size - ID_HEAD_BACK >= at
            and record.startswith(ID_HEAD, size - ID_HEAD_BACK)
            and keys == [record[size - ID_BACK : size - ID_END_BACK]]
        ):
            layout = self._remember(
                (
                    due_at - topic_at,
                    due_to - topic_at,
                    size - ID_BACK - topic_at,
                    size - ID_END_BACK - topic_at,
                    at - 1 - topic_at,
                    record[due_to : size - ID_BACK],
                    tag_hash,
                ),
                size - topic_at,
            )
        topic, queue_id = place
        properties_bytes = len(SETTLES_HEAD) + len(settles) + 1 + size - at
        new_size = topic_at + 1 + len(topic) + 2 + properties_bytes
        made = b"".join(
            (
                NEW_HEAD.pack(new_size, magic, body_crc, queue_id),
                record[NEW_HEAD.size : topic_at],
                bytes([len(topic)]),
                topic,
                properties_bytes.to_bytes(2),
                SETTLES_HEAD,
                settles,
                b"\x02",
                record[at:],
            )
        )
        return FastDueRecord(topic, queue_id, made, tag_hash, keys, layout)

    def _remember(self, layout: Layout, tail_bytes: int) -> Layout:
        if len(self.layouts) >= _HEADS_MAX:
            self.layouts.clear()
        self.layouts[tail_bytes] = layout
        return layout

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
