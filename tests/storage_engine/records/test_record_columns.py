"""Columns say what decoding each record says, or nothing."""

from __future__ import annotations

import pytest

from storage_engine.records.record import StoreMessage, encode_record
from storage_engine.records.record_columns import RECORDS_MIN, columns_of
from storage_engine.records.record_run import decode_records

COUNT = RECORDS_MIN + 3


def build(number: int, **fields: object) -> StoreMessage:
    """One of some messages that are alike, but for what is given."""
    given: dict[str, object] = {
        "topic": "acme%orders",
        "queue_id": number % 2,
        "body": b"\xff\x02" * number,
        "message_id": f"m-{number:03}",
        "born_timestamp_ms": 5,
        "born_host": ("10.1.2.3", 4),
    }
    return StoreMessage(**(given | fields))  # type: ignore[arg-type] # typed by the test


def run_of(*messages: StoreMessage) -> bytes:
    """Their records, with the places and times that an engine writes."""
    content = bytearray(b"head")
    for number, message in enumerate(messages):
        record = bytearray(encode_record(message))
        record[20:28] = (7 + number).to_bytes(8)
        record[56:64] = (1_700_000_000_000 + number).to_bytes(8)
        content += record
    return bytes(content)


def assert_same(content: bytes, count: int) -> None:
    columns, records = columns_of(content, 4, count), decode_records(content, 4)
    assert columns is not None
    assert len(records) == count
    told = zip(
        columns.queue_ids,
        columns.queue_offsets,
        columns.store_timestamps_ms,
        columns.message_ids,
        columns.body_sizes,
        columns.bodies,
        strict=True,
    )
    assert list(told) == [
        (each.queue_id, each.queue_offset, each.store_timestamp_ms, each.message_id,
         len(each.body), each.body)
        for each in records
    ]  # fmt: skip
    for each in records:
        common = (each.topic, each.tag, each.properties, each.keys, each.message_group)
        assert common == (columns.topic, columns.tag, columns.properties, [], None)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tag": "paid"},
        {"properties": {"a": "b", "UNIQ": "KEY"}, "tag": "paid"},
        {"topic": "n" * 127},
        {"message_id": ""},
        {"message_id": "ä"},
    ],
)
def test_alike_messages_are_the_same_by_columns(fields: dict[str, object]) -> None:
    messages = [build(number, **fields) for number in range(COUNT)]
    assert_same(run_of(*messages), COUNT)


@pytest.mark.parametrize(
    "fields",
    [
        {"tag": "paid"},
        {"keys": ["k"]},
        {"message_group": "g"},
        {"properties": {"a": "b"}},
        {"topic": "acme%other"},
        {"topic": "n" * 128},
        {"born_host": ("::1", 4)},
        {"message_id": "longer-than-the-others"},
    ],
)
@pytest.mark.parametrize("at", [0, 1, COUNT - 1])
def test_one_that_differs_is_no_column(fields: dict[str, object], at: int) -> None:
    messages = [build(number) for number in range(COUNT)]
    messages[at] = build(at, **fields)
    assert columns_of(run_of(*messages), 4, COUNT) is None


@pytest.mark.parametrize("fields", [{"keys": ["k"]}, {"message_group": "g"}])
def test_keys_and_message_groups_have_no_columns(fields: dict[str, object]) -> None:
    messages = [build(number, **fields) for number in range(COUNT)]
    assert columns_of(run_of(*messages), 4, COUNT) is None


def test_a_property_behind_an_id_is_not_taken_for_the_id() -> None:
    messages = [build(number, message_id=f"abc{number % 2}XkYv") for number in range(COUNT)]
    content = run_of(*messages)
    assert_same(content, COUNT)
    behind = content.replace(b"abc1XkYv", b"abc\x02k\x01vv")
    assert len(behind) == len(content)
    assert columns_of(behind, 4, COUNT) is None


def test_few_records_are_decoded_one_by_one() -> None:
    messages = [build(number) for number in range(RECORDS_MIN)]
    assert columns_of(run_of(*messages), 4, RECORDS_MIN) is not None
    assert columns_of(run_of(*messages[1:]), 4, RECORDS_MIN - 1) is None
