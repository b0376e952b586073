"""Records that differ only in place, time, ID and body, as columns for those that pass them on.

engine's reply ── bytes ──▶ [columns_of] ── queue ids, offsets, ids, bodies ──▶ frames, answers
                                 └── one is of another kind ──▶ None: ``decode_records`` for all

What is received is mostly of one producer, tag and kind. Then no object is made for a message by
itself, which would be half of what decoding and encoding it costs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import repeat
from operator import add
from typing import Final, NamedTuple

from storage_engine.records.record import (
    BODY_LENGTH_AT,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_HEAD,
    FIXED_BYTES,
    LENGTH_4,
    MAGIC_V1,
    PROPERTY_END,
    split_properties,
)
from storage_engine.records.record_run import before_id

RECORDS_MIN: Final = 8  # fewer are quicker decoded one by one

# Magic, queue id, queue offset, sysflag, born, store time, length of the body.
_HEAD = struct.Struct(">4xI4xi4xq8xiq8xq20xI")
_HEAD_BYTES: Final = _HEAD.size
assert _HEAD_BYTES == BODY_LENGTH_AT + 4


class RecordColumns(NamedTuple):
    """Each column runs along the records; topic, tag and properties are those of all."""

    topic: str
    tag: str | None
    properties: dict[str, str]
    queue_ids: Sequence[int]
    queue_offsets: Sequence[int]
    born_timestamps_ms: Sequence[int]
    store_timestamps_ms: Sequence[int]
    message_ids: Sequence[str]
    body_sizes: Sequence[int]
    bodies: Sequence[bytes]


def columns_of(buffer: bytes, at: int, count: int) -> RecordColumns | None:
    """The ``count`` records that stand back to back from ``at`` to the end, if they are so alike.

    V1 with IPv4 hosts, without keys and message group. They say what ``decode_records`` says.
    """
    if count < RECORDS_MIN:
        return None
    starts: list[int] = []
    length_at, end = LENGTH_4.unpack_from, len(buffer)
    for _ in range(count):
        if end - at < FIXED_BYTES:
            return None
        starts.append(at)
        at += length_at(buffer, at)[0]
    if at != end:
        return None
    heads = map(_HEAD.unpack_from, repeat(buffer), starts)
    magics, queue_ids, queue_offsets, sysflags, born, times, sizes = zip(*heads, strict=True)
    if magics.count(MAGIC_V1) != len(starts) or any(sysflags):
        return None
    body_ats = [start + _HEAD_BYTES for start in starts]
    topic_ats = list(map(add, body_ats, sizes))
    ends = [*starts[1:], end]
    topic_at = topic_ats[0]
    topic_end = topic_at + 1 + buffer[topic_at]
    common = before_id(buffer, topic_at, topic_end + 2, ends[0])
    if not common or not all(map(buffer.startswith, repeat(common), topic_ats)):
        return None
    crc_ats = [tail_end - CRC_PROPERTY_BYTES for tail_end in ends]
    if not all(map(buffer.startswith, repeat(CRC_PROPERTY_HEAD), crc_ats)):
        return None
    text = str(buffer[topic_end + 2 : ends[0] - CRC_PROPERTY_BYTES], "utf-8", "replace")
    tag, keys, group, _, properties = split_properties(text)
    if keys or group is not None:
        return None
    common_bytes = len(common)
    ids = b"".join(
        [
            buffer[tail_at + common_bytes : tail_end - CRC_PROPERTY_BYTES]
            for tail_at, tail_end in zip(topic_ats, ends, strict=True)
        ]
    )
    message_ids = str(ids, "utf-8", "replace").split(PROPERTY_END)
    if len(message_ids) != len(starts) + 1:  # a property behind an id
        return None
    message_ids.pop()
    bodies = [buffer[a:b] for a, b in zip(body_ats, topic_ats, strict=True)]
    topic = str(buffer[topic_at + 1 : topic_end], "utf-8")
    given = queue_ids, queue_offsets, born, times, message_ids, sizes, bodies
    return RecordColumns(topic, tag, properties, *given)
