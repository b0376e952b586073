"""Single fields of a record in the log, for readers that want no more; pure functions.

They trust the bytes: the record was verified when it was taken over or written by this engine.
"""

from __future__ import annotations

import struct
from typing import Final

from storage_engine.record import (
    BODY_LENGTH_AT,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    LENGTH_4,
    MAGIC_V1,
    STORE_TIMESTAMP_AT,
    SYSFLAG_AT,
    SYSFLAG_BORN_HOST_V6,
    SYSFLAG_STORE_HOST_V6,
)

_HEAD = struct.Struct(">II28xI")
_STAMP = struct.Struct(">q")
_V6_MORE: Final = HOST_V6_BYTES - HOST_V4_BYTES
assert _HEAD.size == SYSFLAG_AT + 4


def store_timestamp_of(buffer: bytes | memoryview, at: int = 0) -> int:
    """STORETIMESTAMP of the record at ``buffer[at]``, ms."""
    _, _, sysflag = _HEAD.unpack_from(buffer, at)
    at += STORE_TIMESTAMP_AT + (_V6_MORE if sysflag & SYSFLAG_BORN_HOST_V6 else 0)
    stamp: int = _STAMP.unpack_from(buffer, at)[0]
    return stamp


def topic_and_properties(buffer: bytes | memoryview, at: int = 0) -> tuple[bytes, bytes, int]:
    """(bytes of the record behind its body, topic, where the properties start in those bytes)."""
    record_bytes, magic, sysflag = _HEAD.unpack_from(buffer, at)
    length_at = at + BODY_LENGTH_AT
    if sysflag & SYSFLAG_BORN_HOST_V6:
        length_at += _V6_MORE
    if sysflag & SYSFLAG_STORE_HOST_V6:
        length_at += _V6_MORE
    topic_at = length_at + 4 + LENGTH_4.unpack_from(buffer, length_at)[0]
    content = bytes(buffer[topic_at : at + record_bytes])
    if magic == MAGIC_V1:
        topic_end = 1 + content[0]
        return content, content[1:topic_end], topic_end + 2
    topic_end = 2 + ((content[0] << 8) | content[1])
    return content, content[2:topic_end], topic_end + 2
