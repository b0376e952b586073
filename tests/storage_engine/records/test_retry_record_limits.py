"""Retried messages of any content come back as they were; what happens when there is no room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.errors import RecordRefused
from storage_engine.records.record import (
    PROPERTIES_BYTES_MAX,
    Record,
    StoreMessage,
    decode_record,
    encode_record,
    verify_record,
)
from storage_engine.records.retry_record import (
    PROPERTIES_RESERVE_BYTES,
    REASON_BYTES_MAX,
    due_record,
    find_dead_letter,
    forwarded_record,
    redrive_record,
    shown_record,
)
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.records.settles import Settles
from storage_engine.records.system_properties import SYSTEM_PROPERTIES
from storage_engine.records.topic_names import retry_topic_of
from tests.storage_engine.independent_reader import read_record
from tests.storage_engine.records.any_message import WORD, any_message
from tests.storage_engine.records.retry_records import (
    LAST_MS,
    given_up,
    message,
    properties_of,
    retried,
    stored,
)


def filled(room: int) -> bytes:
    """A record whose properties leave that many bytes."""
    bare = len(properties_field(encode_record(message(properties={"a": ""}))))
    value = "x" * (PROPERTIES_BYTES_MAX - bare - room)
    record = encode_record(message(properties={"a": value}))
    assert len(properties_field(record)) == PROPERTIES_BYTES_MAX - room
    return stored(record)


def properties_field(record: bytes) -> bytes:
    return record[verify_record(stored(record)).properties_at :]


def unsealed(record: bytes) -> bytes:
    """The same record as its producer sent it."""
    return encode_record(message(properties=decode_record(record).properties))


@pytest.mark.parametrize("letter", ["r", "é", "日", "😀"])
@pytest.mark.parametrize("room", [-20, 0, 3, 4, 5, 6, 7, 8, 99, 100])
def test_a_reason_that_does_not_fit_is_cut_and_never_the_message(letter: str, room: int) -> None:
    reason = letter * 101
    bare = PROPERTIES_BYTES_MAX - 4_096
    others = len(properties_field(given_up(filled(4_096), reason=""))) - bare
    source = filled(others + len(b"DLQ_REASON\x01\x02") + room if room >= 0 else others)

    record = given_up(source, reason=reason)

    prefixes = [reason[:count] + "…" for count in range(101)]
    fitting = [prefix for prefix in prefixes if 3 < room >= len(prefix.encode())]
    assert properties_of(record).get("DLQ_REASON") == (fitting[-1] if fitting else None)
    assert len(properties_field(record)) <= PROPERTIES_BYTES_MAX
    assert redrive_record(stored(record), queue_id=3) == unsealed(source)


def test_a_reason_loses_its_separators_and_has_an_end() -> None:
    source = stored(encode_record(message()))

    assert properties_of(given_up(source, reason="a\x01b\x02c\nd"))["DLQ_REASON"] == "a b c\nd"
    assert properties_of(given_up(source, reason="\ud800!"))["DLQ_REASON"] == "?!"
    long = properties_of(given_up(source, reason="x" * 10_000))["DLQ_REASON"]
    assert long == "x" * (REASON_BYTES_MAX - 3) + "…"


def test_the_reserve_is_enough_for_the_longest_names() -> None:
    topic, group = "t" * 255, "g" * 248
    assert len(retry_topic_of(group)) == 255
    value = "x" * (PROPERTIES_BYTES_MAX - PROPERTIES_RESERVE_BYTES - 1_000)
    record = encode_record(message(topic=topic, message_id="i" * 255, properties={"a": value}))
    own = len(properties_field(record))
    more = "x" * (PROPERTIES_BYTES_MAX - PROPERTIES_RESERVE_BYTES - own)
    source = stored(
        encode_record(message(topic=topic, message_id="i" * 255, properties={"a": value + more}))
    )
    assert len(properties_field(source)) == PROPERTIES_BYTES_MAX - PROPERTIES_RESERVE_BYTES

    arguments = {"group": group, "due_ms": 10**15 - 1, "delivered_ms": 10**15 - 1}
    waiting = retried(source, **arguments, retry_queue_id=2**31 - 1, delay_level=18)
    dead = given_up(stored(due_record(stored(waiting))), group=group, delivered_ms=10**15 - 1)

    assert properties_of(dead)["DLQ_REASON"] == "db down"


def test_a_message_that_leaves_no_room_is_refused_not_mutilated() -> None:
    with pytest.raises(RecordRefused, match="properties take 32"):
        retried(filled(50))
    with pytest.raises(RecordRefused, match="properties take 32"):
        given_up(filled(50))


MESSAGES = any_message(SYSTEM_PROPERTIES, id_chars_min=1, values=WORD | st.just(""))


@given(
    source=MESSAGES,
    retries=st.integers(0, 20),
    group=st.text("abcXYZ%_-", min_size=1, max_size=248),
    reason=st.text(max_size=100),
)
def test_retries_the_dlq_and_back_leave_the_message_as_it_was(
    source: StoreMessage, retries: int, group: str, reason: str
) -> None:
    produced = encode_record(source)
    original = decode_record(produced)
    record = stored(produced)
    for retry in range(1, retries + 1):
        waiting = stored(retried(record, group=group, due_ms=retry, schedule_queue_id=retry))
        assert read_record(waiting).topic == SCHEDULE_TOPIC
        record = stored(due_record(waiting), queue_offset=retry, physical_offset=retry << 20)
        seen = read_record(record)
        assert (seen.topic, seen.reconsume_times) == (retry_topic_of(group), retry)
        assert_shown_as(original, decode_record(record))
    dead = stored(given_up(record, group=group, reason=reason))
    letter = find_dead_letter(decode_record(dead))
    assert letter is not None
    assert (letter.origin_topic, letter.origin_message_id) == (source.topic, source.message_id)
    assert (letter.attempts, letter.last_delivery_ms) == (retries + 1, LAST_MS)
    assert_shown_as(original, decode_record(dead))

    assert redrive_record(dead, queue_id=source.queue_id) == produced


def assert_shown_as(original: Record, record: Record) -> None:
    shown = shown_record(record)
    for field in ("topic", "message_id", "body", "tag", "keys", "message_group", "properties",
                  "born_timestamp_ms"):  # fmt: skip
        assert getattr(shown, field) == getattr(original, field), field


def test_what_is_for_traces_takes_no_room_that_others_need() -> None:
    """Filled to the brim a message is retried as if there were no traces; with room, with them."""
    for room in (PROPERTIES_RESERVE_BYTES, 2 * PROPERTIES_RESERVE_BYTES, 8 * 1_024):
        source = filled(room)
        record = retried(source, member_id="m" * 80, reason="é" * 5_000)
        assert len(properties_field(record)) <= PROPERTIES_BYTES_MAX - 1_000
        again = forwarded_record(
            stored(record),
            settles=Settles("g" * 255, SCHEDULE_TOPIC, 18, 10**12, 10**6),
        )
        due_record(stored(again))
        given_up(stored(due_record(stored(again))), reason="x" * 5_000, member_id="m" * 80)
    assert len(properties_of(record)["RETRY_REASON"].encode()) > 1_000
