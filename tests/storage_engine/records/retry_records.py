"""Messages whose delivery fails, the records they become, and these as the engine leaves them."""

from __future__ import annotations

import struct
import zlib
from typing import Any  # overrides of a struct's fields, as its constructor takes them

import msgspec

from storage_engine.records.record import StoreMessage, verify_record
from storage_engine.records.retry_record import dead_letter_record, retry_record
from tests.storage_engine.independent_reader import read_record

ID = "01" + "0A" * 16
GROUP = "acme%billing"
DUE_MS = 1_700_000_090_000
STORED_MS = 1_700_000_000_500
FIRST_MS, LAST_MS = 1_700_000_010_000, 1_700_000_020_000


def message(**fields: Any) -> StoreMessage:
    plain = StoreMessage(
        topic="acme%orders",
        queue_id=3,
        body=b"body \x00\x01\x02",
        message_id=ID,
        born_timestamp_ms=1_699_999_999_000,
        born_host=("10.1.2.3", 4_660),
        tag="paid",
        keys=["order-1", "order-2"],
        message_group="customer-7",
        properties={"source": "web", "ü": ""},
        flag=-7,
    )
    return msgspec.structs.replace(plain, **fields)


def stored(record: bytes, *, queue_offset: int = 5, physical_offset: int = 4_096) -> bytes:
    """The record as the engine leaves it: holes filled, whole by its CRC."""
    filled = bytearray(record)
    struct.pack_into(">qq", filled, 20, queue_offset, physical_offset)
    more = 12 if int.from_bytes(record[36:40]) & 16 else 0
    struct.pack_into(">q8s", filled, 56 + more, STORED_MS, b"\x7f\0\0\x01\0\0\x2a\x9f")
    crc = zlib.crc32(filled[:-20]) & 0x7FFF_FFFF
    filled[-11:-1] = f"{crc:010d}"[::-1].encode()
    verify_record(bytes(filled))
    read_record(bytes(filled))
    return bytes(filled)


def retried(record: bytes, **arguments: Any) -> bytes:
    given: dict[str, Any] = {
        "group": GROUP, "due_ms": DUE_MS, "delivered_ms": FIRST_MS, "schedule_queue_id": 2,
    }  # fmt: skip
    return retry_record(record, **{**given, **arguments})


def given_up(record: bytes, **arguments: Any) -> bytes:
    given: dict[str, Any] = {"group": GROUP, "reason": "db down", "delivered_ms": LAST_MS}
    return dead_letter_record(record, **{**given, **arguments})


def properties_of(record: bytes) -> dict[str, str]:
    return read_record(stored(record)).properties
