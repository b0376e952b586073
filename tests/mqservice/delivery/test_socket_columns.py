"""What is pushed and held by columns is what it is message by message."""

from __future__ import annotations

import pytest
from hypothesis import given

from mqservice.delivery.bodies import JSON_PROPERTY
from mqservice.delivery.socket.codec import CODECS
from mqservice.delivery.socket.leased_batch import LeasedBatch
from mqservice.store import (
    Received,
    ReceiveHead,
    StoreMessage,
    encode_record,
    is_shown_as_it_is,
    shown_record,
)
from tests.storage_engine.records.test_record_columns_random import runs

COUNT = 12


def received(bodies: list[bytes], properties: dict[str, str], tag: str | None) -> Received:
    records = [
        encode_record(
            StoreMessage(
                topic="acme%orders",
                queue_id=number % 3,
                body=body,
                message_id=f"m-{number:03}",
                born_timestamp_ms=1,
                born_host=("127.0.0.1", 1),
                properties=properties,
                tag=tag,
            )
        )
        for number, body in enumerate(bodies)
    ]
    attempts = [number % 4 + 1 for number in range(len(bodies))]
    head = ReceiveHead(lease_generation=3, lease_until_ms=4, attempts=attempts)
    return Received(head, content=b"head" + b"".join(records), at=4)


TEXTS = ["täxt".encode()] * COUNT
MIXED = ["täxt".encode(), *[b"\xff"] * (COUNT - 1)]
JSON = [b'{"a":\n1}', *[b"[]"] * (COUNT - 1)]


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize(
    ("bodies", "properties", "tag"),
    [
        (TEXTS, {}, None),
        (MIXED, {}, "paid"),
        (TEXTS, {"a": "b"}, None),
        (JSON, {JSON_PROPERTY: "1"}, None),
        (JSON, {JSON_PROPERTY: "1", "a": "b"}, "paid"),
    ],
)
def test_frames_are_the_same(
    name: str, bodies: list[bytes], properties: dict[str, str], tag: str | None
) -> None:
    codec = CODECS[name]
    what = received(bodies, properties, tag)
    tags, attempts = range(5, 5 + COUNT), what.head.attempts
    assert what.columns is not None
    by_columns = codec.encode_columns(1, tags, what.columns, attempts)
    assert by_columns == codec.encode_messages(1, tags, what.records, attempts)


@given(runs())
def test_frames_of_whatever_was_sent_are_the_same(run: tuple[list[bytes], int]) -> None:
    records, at = run
    head = ReceiveHead(lease_generation=3, lease_until_ms=4, attempts=[1] * len(records))
    what = Received(head, content=bytes(at) + b"".join(records), at=at)
    if what.columns is None or not is_shown_as_it_is(what.columns.properties):
        return
    tags = range(1, 1 + what.count)
    shown = [shown_record(each) for each in what.records]
    for codec in CODECS.values():
        by_columns = codec.encode_columns(1, tags, what.columns, head.attempts)
        assert by_columns == codec.encode_messages(1, tags, shown, head.attempts)


def test_held_batches_are_the_same() -> None:
    what = received([bytes(number) for number in range(COUNT)], {}, None)
    assert what.columns is not None
    one_by_one = Received(what.head, what.records)
    assert one_by_one.columns is None
    first, second = LeasedBatch(7, what, 9), LeasedBatch(7, one_by_one, 9)
    assert list(first.deliveries()) == list(second.deliveries())
    assert [(*each[:2], list(each[2])) for each in first.places()] == list(second.places())
    assert (first.tags, first.body_bytes) == (second.tags, second.body_bytes)


def test_what_retries_leave_is_not_shown() -> None:
    assert is_shown_as_it_is({"a": "b"})
    assert not is_shown_as_it_is({"a": "b", "RETRY_TOPIC": "t"})
