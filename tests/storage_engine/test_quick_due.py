"""The short way to the record that is delivered gives what the long way gives, or none."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.groups.quick_due import quick_due
from storage_engine.groups.retry_record import due_record, forwarded_record
from storage_engine.records.record import StoreMessage, encode_record
from storage_engine.records.scheduled_message import Wait, scheduled
from storage_engine.records.settles import Settles, settles_value
from storage_engine.system_properties import SYSTEM_PROPERTIES
from tests.storage_engine.any_message import any_message
from tests.storage_engine.independent_reader import read_record
from tests.storage_engine.retrying import message, retried, stored

SETTLES = Settles("CID_RMQ_SYS_SCHEDULE", "SCHEDULE_TOPIC_XXXX", 18, 77, 3)
VALUE = settles_value(SETTLES).encode()
waits = st.one_of(
    st.builds(lambda level: Wait(level=level), st.integers(1, 40)),
    st.builds(lambda ms: Wait(delay_ms=ms), st.integers(1, 10**9)),
    st.builds(lambda ms: Wait(deliver_at_ms=ms), st.integers(1, 10**13)),
)


@given(any_message(SYSTEM_PROPERTIES), waits)
def test_both_ways_give_the_same_record(plain: StoreMessage, wait: Wait) -> None:
    record = stored(encode_record(scheduled(plain, wait)))
    quick = quick_due(record, VALUE)
    if quick is None:
        return
    long = read_record(stored(due_record(record, settles=SETTLES)))
    short = read_record(stored(quick.record))
    assert (quick.topic.decode(), quick.queue_id) == (plain.topic, plain.queue_id)
    assert short == long


def test_an_ordinary_message_takes_the_short_way() -> None:
    for wait in (Wait(level=3), Wait(delay_ms=5), Wait(deliver_at_ms=9)):
        assert quick_due(stored(encode_record(scheduled(message(), wait))), VALUE) is not None


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
    assert quick_due(record, VALUE) is None
