"""The short way from a scheduled record to the one that is delivered; pure functions.

    record of a producer's message that waits ── quick_due ──▶ the same bytes as ``due_record``, but
                                                               for the order of its properties

A producer's message has the properties that delivery spends in front, so they can be cut off. All
others (retries, messages that retention appended again) take the long way; None says so.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

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

# TOTALSIZE, MAGICCODE, BODYCRC, QUEUEID, SYSFLAG, BODYLENGTH of a record whose hosts are IPv4.
_HEAD = struct.Struct(">II4sI20xI44xI")
assert _HEAD.size == BODY_LENGTH_AT + 4
_NEW_HEAD = struct.Struct(">II4sI")
_TOPIC: Final = bytes([len(SCHEDULE_TOPIC_BYTES)]) + SCHEDULE_TOPIC_BYTES
_REAL_TOPIC: Final = f"{REAL_TOPIC}\x01".encode()
_REAL_QUEUE_ID: Final = f"{REAL_QUEUE_ID}\x01".encode()
_DELIVER_AT: Final = f"{PROPERTY_DELIVER_AT}\x01".encode()
_DELAYS: Final = (f"{DELAY_LEVEL}\x01".encode(), f"{DELAY_MS}\x01".encode())
_QUEUE_DIGITS_MAX: Final = 9


class QuickDue(NamedTuple):
    topic: bytes
    queue_id: int
    record: bytes


def quick_due(record: bytes, settles: bytes) -> QuickDue | None:
    """The record to deliver, with the holes of a producer's; ``settles`` is what it settles, as
    a value.
    """
    size, magic, body_crc, _, sysflag, body_bytes = _HEAD.unpack_from(record)
    topic_at = _HEAD.size + body_bytes
    at = topic_at + len(_TOPIC) + 2
    if (
        magic != MAGIC_V1
        or sysflag
        or size != len(record)
        or not record.startswith(_TOPIC, topic_at)
        or not record.startswith(_REAL_TOPIC, at)
    ):
        return None
    end = record.find(b"\x02", at)
    topic = record[at + len(_REAL_TOPIC) : end]
    at = end + 1
    if not record.startswith(_REAL_QUEUE_ID, at):
        return None
    end = record.find(b"\x02", at)
    digits = record[at + len(_REAL_QUEUE_ID) : end]
    at = end + 1
    if not record.startswith(_DELIVER_AT, at):
        return None
    at = record.find(b"\x02", at) + 1
    if record.startswith(_DELAYS, at):
        at = record.find(b"\x02", at) + 1
    if (
        not 1 <= len(topic) <= TOPIC_BYTES_V1_MAX
        or not digits.isdigit()
        or len(digits) > _QUEUE_DIGITS_MAX
        or record.find(SETTLES_HEAD, at) >= 0
        or record.find(b"\x02TIMER_DEL", at) >= 0
        or record.find(b"\x02DELAY\x01", at) >= 0
        or record.startswith((b"TIMER_DEL", b"DELAY\x01"), at)
    ):
        return None
    queue_id = int(digits)
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
    return QuickDue(topic, queue_id, made)
