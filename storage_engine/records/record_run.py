"""Decodes consecutive records, as the engine sends them, into messages.

engine's reply ── bytes ──▶ [decode_records] ── Record, Record, … ──▶ consumers
"""

from __future__ import annotations

import struct
from typing import Final

from storage_engine.errors import StoreCorrupt
from storage_engine.records.record import (
    BODY_LENGTH_AT,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_HEAD,
    FIXED_BYTES,
    MAGIC_V1,
    NAME_VALUE,
    PROPERTY_END,
    PROPERTY_MESSAGE_ID,
    SYSFLAG_BORN_HOST_V6,
    SYSFLAG_COMPRESSED,
    SYSFLAG_STORE_HOST_V6,
    Record,
    decode_record,
    properties_end,
    split_properties,
)

# What a consumer needs of everything before the body of a record with IPv4 hosts.
_USUAL_HEAD = struct.Struct(">II4xi4xqqiq8xq8xi8xI")
_HEAD_BYTES: Final = _USUAL_HEAD.size
assert _HEAD_BYTES == BODY_LENGTH_AT + 4
_ID_NAME: Final = (PROPERTY_MESSAGE_ID + NAME_VALUE).encode()
_END: Final = PROPERTY_END.encode()
_AFTER_ID_BYTES: Final = CRC_PROPERTY_BYTES + len(_END)  # where the id is the last but the CRC
_UNUSUAL: Final = SYSFLAG_BORN_HOST_V6 | SYSFLAG_STORE_HOST_V6 | SYSFLAG_COMPRESSED


def decode_records(buffer: bytes, at: int = 0) -> list[Record]:
    """All records that stand back to back in ``buffer`` from ``at`` to its end.

    They are as ``decode_record`` has them. Every message that is consumed comes through here, hence
    one loop for the usual kind, V1 with IPv4 hosts. The id is the last of a message's properties,
    and what stands between body and id is mostly the same bytes as in the message before: then it
    says the same.

    Raises:
        StoreCorrupt: a record claims fewer bytes than it must have, so that none would be the last.
    """
    records: list[Record] = []
    append, unpack = records.append, _USUAL_HEAD.unpack_from
    stands_at, find = buffer.startswith, buffer.find
    topic_bytes, topic = b"", ""
    # What stands before the id, once it was read: topic, length of the properties, properties.
    common, common_bytes = b"", 0
    said: tuple[str, str | None, dict[str, str]] = "", None, {}
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
        ) = unpack(buffer, at)
        if magic != MAGIC_V1 or sysflag & _UNUSUAL:
            _check_size(record_bytes)
            append(decode_record(buffer, at))
            at += record_bytes
            continue
        body_at = at + _HEAD_BYTES
        topic_at = body_at + body_bytes
        at += record_bytes
        id_at = topic_at + common_bytes
        id_end = at - _AFTER_ID_BYTES
        if (
            common
            and stands_at(common, topic_at)
            and find(_END, id_at, at) == id_end
            and stands_at(CRC_PROPERTY_HEAD, id_end + 1)
        ):
            name, tag, properties = said
            append(
                Record(
                    name,
                    queue_id,
                    queue_offset,
                    physical_offset,
                    born_timestamp_ms,
                    store_timestamp_ms,
                    reconsume_times,
                    buffer[body_at:topic_at],
                    tag,
                    [],
                    None,
                    buffer[id_at:id_end].decode("utf-8", "replace"),
                    properties.copy(),
                )
            )
            continue
        _check_size(record_bytes)
        topic_end = topic_at + 1 + buffer[topic_at]
        name_bytes = buffer[topic_at + 1 : topic_end]
        if name_bytes != topic_bytes:
            topic_bytes, topic = name_bytes, str(name_bytes, "utf-8")
        end_at = properties_end(buffer, topic_end + 2, at)
        text = str(buffer[topic_end + 2 : end_at], "utf-8", "replace")
        tag, keys, group, message_id, properties = split_properties(text)
        append(
            Record(
                topic,
                queue_id,
                queue_offset,
                physical_offset,
                born_timestamp_ms,
                store_timestamp_ms,
                reconsume_times,
                buffer[body_at:topic_at],
                tag,
                keys,
                group,
                message_id,
                properties,
            )
        )
        if keys or group is not None or at == end:
            continue  # keys mostly are others in the next message, if there is one
        found = before_id(buffer, topic_at, topic_end + 2, at)
        if found:
            common, common_bytes = found, len(found)
            said = topic, tag, properties.copy()
    return records


def before_id(buffer: bytes, topic_at: int, properties_at: int, end: int) -> bytes:
    """What stands before the id of a record that ends there, from its topic on; empty where the id
    is not the last of the properties before a CRC.
    """
    name_at = buffer.rfind(_ID_NAME, properties_at, end)
    if properties_end(buffer, properties_at, end) == end:
        return b""
    is_property = name_at == properties_at or buffer.startswith(_END, name_at - 1)
    if name_at < 0 or not is_property or buffer.find(_END, name_at, end) != end - _AFTER_ID_BYTES:
        return b""
    return buffer[topic_at : name_at + len(_ID_NAME)]


def _check_size(record_bytes: int) -> None:
    if record_bytes < FIXED_BYTES:
        raise StoreCorrupt(
            f"the record says it has {record_bytes} bytes, but a record has at least {FIXED_BYTES}"
        )
