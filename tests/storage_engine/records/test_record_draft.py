"""A draft takes over what it does not change, bit for bit, also from records of others."""

from __future__ import annotations

import struct

import pytest

from storage_engine.errors import RecordRefused
from storage_engine.records.message_keys import keys_of
from storage_engine.records.record import (
    CRC_PROPERTY_BYTES,
    encode_record,
    parse_head,
    verify_record,
)
from storage_engine.records.record_draft import read_draft
from tests.storage_engine.independent_reader import read_record
from tests.storage_engine.records.retry_records import ID, message, stored


def with_properties(properties: bytes) -> bytes:
    """A record, not sealed, with that property list before its CRC."""
    record = encode_record(message(topic="t"))
    head = parse_head(record)
    properties += record[-CRC_PROPERTY_BYTES:]
    front = record[: head.properties_at - 2] + struct.pack(">H", len(properties))
    return struct.pack(">I", len(front) + len(properties)) + front[4:] + properties


def test_an_unchanged_draft_is_the_producers_record_again() -> None:
    for host in [("10.0.0.1", 1), ("::1", 2)]:
        record = encode_record(message(born_host=host, topic="n" * 200))
        assert read_draft(stored(record)).encode() == record


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    record = with_properties(b"\xff\xfe\x01\xc3\x02UNIQ_KEY\x01\xf0\x02")
    assert read_draft(record).encode() == record


def test_the_last_value_of_a_name_counts_and_the_id_comes_last() -> None:
    record = with_properties(
        b"a\x011\x02UNIQ_KEY\x01x\x02a\x012\x02UNIQ_KEY\x01%b\x02KEYS\x01k\x02" % ID.encode()
    )
    expected = b"a\x012\x02KEYS\x01k\x02UNIQ_KEY\x01%b\x02" % ID.encode()

    draft = read_draft(record)

    assert draft.encode() == with_properties(expected)
    assert draft.message_id == ID.encode()
    head = parse_head(draft.encode())
    keys = keys_of(draft.encode(), head.properties_at, head.record_bytes)
    assert keys == [ID.encode(), b"k"]


def test_a_wide_store_host_makes_room_for_the_engines_own() -> None:
    record = encode_record(message(topic="t"))
    place = struct.pack(">q", 77) + bytes(15) + b"\x01" + struct.pack(">I", 9)
    wide = b"".join(
        (
            struct.pack(">I", len(record) + 12),
            record[4:28],
            place[:8],
            struct.pack(">I", 32 | 1),  # store host v6, body compressed
            record[40:64],
            place[8:],
            record[72:],
        )
    )

    draft = read_draft(wide)

    assert draft.encode() == record[:36] + struct.pack(">I", 1) + record[40:]
    assert draft.offset_message_id == (place[8:] + place[:8]).hex().upper()


@pytest.mark.parametrize(("length", "version"), [(1, 1), (127, 1), (128, 2), (255, 2)])
def test_length_of_the_new_topic_chooses_the_version(length: int, version: int) -> None:
    draft = read_draft(stored(encode_record(message())))
    draft.topic = b"t" * length

    record = stored(draft.encode())

    assert read_record(record).version == version
    assert verify_record(record).topic == draft.topic


@pytest.mark.parametrize("length", [0, 256])
def test_a_topic_that_the_layout_cannot_hold_is_refused(length: int) -> None:
    draft = read_draft(stored(encode_record(message())))
    draft.topic = b"t" * length

    with pytest.raises(RecordRefused, match=f"the topic has {length} bytes"):
        draft.encode()
