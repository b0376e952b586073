"""Many records that stand back to back, as the engine hands them out, into messages.

engine's reply ── bytes ──▶ [decode_records] ── Record, Record, … ──▶ consumers
"""

from __future__ import annotations

import struct
from typing import Final

from storage_engine.records.record import (
    BODY_LENGTH_AT,
    CRC_PROPERTY_BYTES,
    MAGIC_V1,
    SYSFLAG_BORN_HOST_V6,
    SYSFLAG_STORE_HOST_V6,
    Record,
    decode_record,
    split_properties,
)

# What a consumer needs of everything before the body of a record with IPv4 hosts.
_USUAL_HEAD = struct.Struct(">II4xi4xqqiq8xq8xi8xI")
assert _USUAL_HEAD.size == BODY_LENGTH_AT + 4
_SYSFLAG_V6: Final = SYSFLAG_BORN_HOST_V6 | SYSFLAG_STORE_HOST_V6


def decode_records(buffer: bytes, at: int = 0) -> list[Record]:
    """All records that stand back to back in ``buffer`` from ``at`` to its end.

    They are as ``decode_record`` has them. Every message that is consumed comes through here, hence
    one loop for the usual kind, V1 with IPv4 hosts, nearly all of them of one topic.
    """
    records: list[Record] = []
    topic_bytes, topic = b"", ""
    end = len(buffer)
    while at < end:
        (
            record_bytes,
            magic,
            queue_id,
            queue_offset,
            physical_offset,
            sysflag,
            born_timestamp_ms,
            store_timestamp_ms,
            reconsume_times,
            body_bytes,
        ) = _USUAL_HEAD.unpack_from(buffer, at)
        if magic != MAGIC_V1 or sysflag & _SYSFLAG_V6:
            records.append(decode_record(buffer, at))
            at += record_bytes
            continue
        body_at = at + _USUAL_HEAD.size
        topic_at = body_at + body_bytes
        topic_end = topic_at + 1 + buffer[topic_at]
        name = buffer[topic_at + 1 : topic_end]
        if name != topic_bytes:
            topic_bytes, topic = name, str(name, "utf-8")
        at += record_bytes
        text = str(buffer[topic_end + 2 : at - CRC_PROPERTY_BYTES], "utf-8", "replace")
        records.append(
            Record(
                topic,
                queue_id,
                queue_offset,
                physical_offset,
                born_timestamp_ms,
                store_timestamp_ms,
                reconsume_times,
                buffer[body_at:topic_at],
                *split_properties(text),
            )
        )
    return records
