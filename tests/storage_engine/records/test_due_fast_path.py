"""The short way to the record that is delivered gives what the long way gives, or none."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.records.due_fast_path import DueFastPath
from storage_engine.records.message_keys import keys_of
from storage_engine.records.record import StoreMessage, encode_record
from storage_engine.records.record_parts import parts_of
from storage_engine.records.retry_record import due_record, forwarded_record
from storage_engine.records.schedule_topic import unit_tag_of
from storage_engine.records.scheduled_message import Wait, scheduled
from storage_engine.records.settles import Settles, settles_value
from storage_engine.records.system_properties import SYSTEM_PROPERTIES
from tests.storage_engine.independent_reader import read_record
from tests.storage_engine.records.any_message import any_message
from tests.storage_engine.records.retry_records import message, retried, stored

SETTLES = Settles("CID_RMQ_SYS_SCHEDULE", "SCHEDULE_TOPIC_XXXX", 18, 77, 3)
VALUE = settles_value(SETTLES).encode()
WAY = DueFastPath()  # one for all examples, so that what it remembers of one is used for others
waits = st.one_of(
    st.builds(lambda level: Wait(level=level), st.integers(1, 40)),
    st.builds(lambda ms: Wait(delay_ms=ms), st.integers(1, 10**9)),
    st.builds(lambda ms: Wait(deliver_at_ms=ms), st.integers(1, 10**13)),
)


@given(any_message(SYSTEM_PROPERTIES), waits)
def test_both_ways_give_the_same_record(plain: StoreMessage, wait: Wait) -> None:
    record = stored(encode_record(scheduled(plain, wait)))
    quick = WAY.due(record, VALUE)
    if quick is None:
        return
    long = read_record(stored(due_record(record, settles=SETTLES)))
    short = read_record(stored(quick.record))
    assert (quick.topic.decode(), quick.queue_id) == (plain.topic, plain.queue_id)
    assert short == long
    made = stored(quick.record)
    parts = parts_of(made)
    assert quick.tag_hash == unit_tag_of(parts.topic, parts.tail[parts.properties_at :])
    assert quick.keys == keys_of(parts.tail, parts.properties_at, len(parts.tail))
    fresh = DueFastPath().due(record, VALUE)
    assert fresh == quick


def test_what_is_remembered_of_one_is_true_of_the_next() -> None:
    way = DueFastPath()
    for tag, keys, body in [("a", [], b"1"), ("a", [], b"22"), ("b", ["k"], b"1"), ("a", [], b"")]:
        plain = msgspec.structs.replace(message(), tag=tag, keys=keys, body=body or b"0")
        record = stored(encode_record(scheduled(plain, Wait(delay_ms=5))))
        assert way.due(record, VALUE) == DueFastPath().due(record, VALUE) is not None


def test_an_ordinary_message_takes_the_short_way() -> None:
    for wait in (Wait(level=3), Wait(delay_ms=5), Wait(deliver_at_ms=9)):
        assert (
            DueFastPath().due(stored(encode_record(scheduled(message(), wait))), VALUE) is not None
        )


@pytest.mark.parametrize(
    "record",
    [
        stored(retried(stored(encode_record(message())))),
        stored(
            forwarded_record(
                stored(encode_record(scheduled(message(), Wait(delay_ms=5)))), settles=SETTLES
            )
        ),
        stored(encode_record(message())),
        stored(
            encode_record(
                msgspec.structs.replace(
                    scheduled(message(), Wait(delay_ms=5)), born_host=("2001:db8::1", 7)
                )
            )
        ),
    ],
    ids=["retry", "forwarded", "plain", "v6"],
)
def test_all_others_take_the_long_way(record: bytes) -> None:
    assert DueFastPath().due(record, VALUE) is None
