"""A plain record is byte for byte the one of the encoder that knows everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.errors import RecordRefused
from storage_engine.records import record
from storage_engine.records.message_id import new_message_id
from storage_engine.records.record import StoreMessage, encode_plain, encode_record

ADDRESSES = st.sampled_from(["127.0.0.1", "10.1.2.3", "::1", "2001:db8::7", "no address", ""])


@given(
    topic=st.text(max_size=140).filter(lambda text: text.isprintable()),
    queue_id=st.integers(0, 1 << 16),
    body=st.binary(max_size=300),
    born_timestamp_ms=st.integers(0, 1 << 45),
    born_host=st.tuples(ADDRESSES, st.integers(0, 65_535)),
)
def test_it_is_the_record_of_the_same_message(
    topic: str, queue_id: int, body: bytes, born_timestamp_ms: int, born_host: tuple[str, int]
) -> None:
    message = StoreMessage(
        topic=topic,
        queue_id=queue_id,
        body=body,
        message_id=new_message_id(),
        born_timestamp_ms=born_timestamp_ms,
        born_host=born_host,
    )
    try:
        expected = encode_record(message)
    except RecordRefused:
        expected = b""
    for _ in range(2):  # the second one finds what the first has kept
        try:
            found = encode_plain(
                topic=topic,
                queue_id=queue_id,
                body=body,
                message_id=message.message_id,
                born_timestamp_ms=born_timestamp_ms,
                born_host=born_host,
            )
        except RecordRefused:
            found = b""
        assert found == expected


def test_what_is_kept_of_topics_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "_TOPICS_MAX", 3)
    monkeypatch.setattr(record, "_middles", {})
    for number in range(10):
        encode_plain(
            topic=f"t{number}",
            queue_id=0,
            body=b"a",
            message_id=new_message_id(),
            born_timestamp_ms=1,
            born_host=("127.0.0.1", 1),
        )
        assert len(record._middles) <= 3
