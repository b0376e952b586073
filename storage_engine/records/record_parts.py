"""The parts of a record in the log that queues and index are made of; pure functions.

They trust the bytes: the record was verified when it was taken over or written by this engine.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from storage_engine.records.record import (
    BODY_LENGTH_AT,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    LENGTH_4,
    MAGIC_V1,
    STORE_TIMESTAMP_AT,
    SYSFLAG_BORN_HOST_V6,
    SYSFLAG_STORE_HOST_V6,
    SYSFLAG_TRANSACTION,
    TRANSACTIONS_UNSEEN,
)

# TOTALSIZE, MAGICCODE, QUEUEID, QUEUEOFFSET, SYSFLAG, STORETIMESTAMP, BODYLENGTH; the last two
# stand there when both hosts are IPv4, which nearly all are.
_RECONSUME_TIMES_AT: Final = 72
_HEAD = struct.Struct(">II4xi4xq8xI16xq20xI")
_STAMP = struct.Struct(">q")
_V6_MORE: Final = HOST_V6_BYTES - HOST_V4_BYTES
HEAD_BYTES_MAX: Final = _RECONSUME_TIMES_AT + 4 + 2 * _V6_MORE  # all before the body, but its size
_V6: Final = SYSFLAG_BORN_HOST_V6 | SYSFLAG_STORE_HOST_V6
_UNUSUAL: Final = _V6 | SYSFLAG_TRANSACTION
assert _HEAD.size == BODY_LENGTH_AT + 4


class RecordParts(NamedTuple):
    """``tail`` are the record's bytes behind its body; the properties start in it at
    ``properties_at`` and end with it. ``store_timestamp_ms``: STORETIMESTAMP.
    """

    record_bytes: int
    queue_id: int
    queue_offset: int
    store_timestamp_ms: int
    topic: bytes
    tail: bytes
    properties_at: int


def parts_of(buffer: bytes | memoryview, at: int = 0) -> RecordParts:
    """The parts of the record at ``buffer[at]``."""
    record_bytes, magic, queue_id, queue_offset, sysflag, stamp, body_bytes = _HEAD.unpack_from(
        buffer, at
    )
    topic_at = at + BODY_LENGTH_AT + 4
    if sysflag & _V6:
        born_more = _V6_MORE if sysflag & SYSFLAG_BORN_HOST_V6 else 0
        topic_at += born_more + (_V6_MORE if sysflag & SYSFLAG_STORE_HOST_V6 else 0)
        stamp = _STAMP.unpack_from(buffer, at + STORE_TIMESTAMP_AT + born_more)[0]
        body_bytes = LENGTH_4.unpack_from(buffer, topic_at - 4)[0]
    tail = bytes(buffer[topic_at + body_bytes : at + record_bytes])
    if magic == MAGIC_V1:
        topic_end = 1 + tail[0]
        topic = tail[1:topic_end]
    else:
        topic_end = 2 + ((tail[0] << 8) | tail[1])
        topic = tail[2:topic_end]
    return RecordParts(record_bytes, queue_id, queue_offset, stamp, topic, tail, topic_end + 2)


def plain_parts_of(buffer: bytes | memoryview, at: int) -> tuple[int, int, int, int, bytes]:
    """record_bytes, queue_id, queue_offset, store_timestamp_ms, tail of a record as nearly all are:
    of version 1, with IPv4 hosts and of no transaction. Of any other the tail is empty, and the
    rest means nothing.

    For millions of records: half the time of ``parts_of``.
    """
    record_bytes, magic, queue_id, queue_offset, sysflag, stamp, body_bytes = _HEAD.unpack_from(
        buffer, at
    )
    if sysflag & _UNUSUAL or magic != MAGIC_V1:
        return record_bytes, 0, 0, 0, b""
    tail = bytes(buffer[at + _HEAD.size + body_bytes : at + record_bytes])
    return record_bytes, queue_id, queue_offset, stamp, tail


def properties_of(record: memoryview) -> bytes | None:
    """The encoded property list of one record; its body is not touched.

    Trusts no byte: None when the lengths in it do not fit together, some bytes when they do.
    """
    try:
        record_bytes, magic, _, _, sysflag, _, body_bytes = _HEAD.unpack_from(record)
        topic_at = BODY_LENGTH_AT + 4
        if sysflag & _V6:
            topic_at += _V6_MORE * (sysflag & _V6).bit_count()
            body_bytes = LENGTH_4.unpack_from(record, topic_at - 4)[0]
        topic_at += body_bytes
        # One byte says how long a topic is, or two; two how long the properties are.
        start = topic_at + 3 + record[topic_at]
        if magic != MAGIC_V1:
            start = topic_at + 4 + ((record[topic_at] << 8) | record[topic_at + 1])
    except (struct.error, IndexError):
        return None
    return bytes(record[start:]) if start <= record_bytes == len(record) else None


def is_unseen(buffer: bytes | memoryview, at: int = 0) -> bool:
    """Whether the record at ``buffer[at]`` is a part of a transaction that has no consume queue
    unit: RocketMQ's prepared and rolled-back ones.
    """
    return _HEAD.unpack_from(buffer, at)[4] & SYSFLAG_TRANSACTION in TRANSACTIONS_UNSEEN


def reconsume_times_of(buffer: bytes | memoryview, at: int = 0) -> int:
    """RECONSUMETIMES of the record at ``buffer[at]``."""
    sysflag = _HEAD.unpack_from(buffer, at)[4]
    at += _RECONSUME_TIMES_AT + _V6_MORE * (sysflag & _V6).bit_count()
    times: int = LENGTH_4.unpack_from(buffer, at)[0]
    return times


def store_timestamp_of(buffer: bytes | memoryview, at: int = 0) -> int:
    """STORETIMESTAMP of the record at ``buffer[at]``, ms."""
    sysflag = _HEAD.unpack_from(buffer, at)[4]
    at += STORE_TIMESTAMP_AT + (_V6_MORE if sysflag & SYSFLAG_BORN_HOST_V6 else 0)
    stamp: int = _STAMP.unpack_from(buffer, at)[0]
    return stamp
