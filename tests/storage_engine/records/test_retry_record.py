"""What a message becomes when its delivery fails: every record on its way to the DLQ and back."""

from __future__ import annotations

import asyncio
import struct
import zlib
from pathlib import Path

import pytest

from storage_engine.errors import RecordRefused, StoreCorrupt
from storage_engine.records.record import decode_record, encode_record, verify_record
from storage_engine.records.retry_record import (
    due_record,
    find_dead_letter,
    redrive_record,
    shown_record,
)
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC, unit_tag_of
from storage_engine.records.topic_names import dlq_topic_of, retry_topic_of
from tests.storage_engine.doubles import WAIT_S, OpenStore
from tests.storage_engine.independent_reader import read_log, read_record
from tests.storage_engine.records.retry_records import (
    DUE_MS,
    FIRST_MS,
    GROUP,
    ID,
    LAST_MS,
    STORED_MS,
    given_up,
    message,
    properties_of,
    retried,
    stored,
)


def test_golden_bytes_of_a_retry_and_of_its_record_when_due() -> None:
    """The properties by hand, in RocketMQ's names: the message's own, what is new, the id."""
    own = (
        b"source\x01web\x02\xc3\xbc\x01\x02KEYS\x01order-1 order-2\x02TAGS\x01paid\x02"
        b"__SHARDINGKEY\x01customer-7\x02"
    )
    origin = (
        f"RETRY_TOPIC\x01acme%orders\x02ORIGIN_MESSAGE_ID\x01{ID}\x021ST_POP_TIME\x01{FIRST_MS}\x02"
        f"FIRST_STORED_MS\x01{STORED_MS}\x02"
    ).encode()
    schedule = (
        f"REAL_TOPIC\x01%RETRY%{GROUP}\x02REAL_QID\x011\x02TIMER_DELIVER_MS\x01{DUE_MS}\x02"
        "DELAY\x013\x02"
    ).encode()
    trace = (
        f"RETRY_DELIVERY_MS\x01{FIRST_MS}\x02RETRY_MEMBER\x01consumer-w\x02"
        "RETRY_REASON\x01db down\x02"
    ).encode()
    end = f"UNIQ_KEY\x01{ID}\x02__CRC32#\x010000000000\x02".encode()
    source = stored(encode_record(message()))

    who = {"member_id": "consumer-w", "reason": "db down"}
    waiting = retried(source, retry_queue_id=1, delay_level=3, **who)
    due = due_record(stored(waiting))

    assert waiting == expected_bytes(SCHEDULE_TOPIC, 2, 1, own + origin + schedule + trace + end)
    assert due == expected_bytes(f"%RETRY%{GROUP}", 1, 1, own + origin + trace + end)


def test_what_is_for_traces_is_of_the_last_delivery_only() -> None:
    first = retried(
        stored(encode_record(message())), schedule_queue_id=None, member_id="a", reason="one"
    )
    second = retried(stored(first), schedule_queue_id=None, delivered_ms=LAST_MS, member_id="b")
    dead = given_up(stored(second), member_id="c")

    assert properties_of(first)["RETRY_REASON"] == "one"
    again = properties_of(second)
    assert (again["RETRY_MEMBER"], again["RETRY_DELIVERY_MS"]) == ("b", str(LAST_MS))
    assert "RETRY_REASON" not in again
    given = properties_of(dead)
    assert (given["RETRY_MEMBER"], given["DLQ_REASON"]) == ("c", "db down")
    assert not {"RETRY_DELIVERY_MS", "RETRY_REASON"} & given.keys()
    assert shown_record(decode_record(stored(second))).properties == message().properties


def expected_bytes(topic: str, queue_id: int, reconsume_times: int, properties: bytes) -> bytes:
    body = b"body \x00\x01\x02"
    rest = b"".join(
        (
            struct.pack(">I", zlib.crc32(body) & 0x7FFF_FFFF),
            struct.pack(">ii", queue_id, -7),
            bytes(16),
            bytes(4),
            struct.pack(">q", 1_699_999_999_000),
            bytes((10, 1, 2, 3, 0, 0, 0x12, 0x34)),
            bytes(16),
            struct.pack(">iq", reconsume_times, 0),
            struct.pack(">I", len(body)) + body,
            bytes([len(topic)]) + topic.encode(),
            struct.pack(">H", len(properties)) + properties,
        )
    )
    return struct.pack(">II", 8 + len(rest), 0xDAA320A7) + rest


def test_a_retry_of_an_older_store_counts_its_age_from_its_first_delivery() -> None:
    old = message(properties={"RETRY_TOPIC": "acme%orders", "1ST_POP_TIME": str(STORED_MS - 70)})

    again = retried(stored(encode_record(old)))

    assert read_record(stored(again)).properties["FIRST_STORED_MS"] == str(STORED_MS - 70)


def test_the_schedule_reads_the_due_time_of_a_retry() -> None:
    waiting = stored(retried(stored(encode_record(message()))))
    head = verify_record(waiting)

    assert unit_tag_of(head.topic, waiting[head.properties_at :]) == DUE_MS


def test_a_second_retry_keeps_the_origin_and_replaces_the_schedule() -> None:
    first = due_record(stored(retried(stored(encode_record(message())), delay_level=3)))

    second = retried(stored(first), due_ms=DUE_MS + 1, delivered_ms=LAST_MS, schedule_queue_id=4)

    fields = read_record(stored(second))
    assert (fields.topic, fields.queue_id, fields.reconsume_times) == (SCHEDULE_TOPIC, 4, 2)
    assert fields.properties["RETRY_TOPIC"] == "acme%orders"
    assert fields.properties["ORIGIN_MESSAGE_ID"] == ID
    assert fields.properties["1ST_POP_TIME"] == str(FIRST_MS)
    assert fields.properties["FIRST_STORED_MS"] == str(STORED_MS)
    assert fields.properties["TIMER_DELIVER_MS"] == str(DUE_MS + 1)
    assert "DELAY" not in fields.properties


def test_a_dead_letter_says_where_it_came_from_and_why_it_is_there() -> None:
    first = due_record(stored(retried(stored(encode_record(message())))))

    dead = given_up(stored(first))

    fields = read_record(stored(dead))
    assert (fields.topic, fields.queue_id, fields.reconsume_times) == (f"%DLQ%{GROUP}", 0, 2)
    assert fields.properties == {
        "source": "web",
        "ü": "",
        "KEYS": "order-1 order-2",
        "TAGS": "paid",
        "__SHARDINGKEY": "customer-7",
        "UNIQ_KEY": ID,
        "RETRY_TOPIC": "acme%orders",
        "ORIGIN_MESSAGE_ID": ID,
        "1ST_POP_TIME": str(FIRST_MS),
        "DLQ_ORIGIN_TOPIC": "acme%orders",
        "DLQ_ORIGIN_MESSAGE_ID": ID,
        "DLQ_LAST_DELIVERY_MS": str(LAST_MS),
        "DLQ_REASON": "db down",
    }
    letter = find_dead_letter(decode_record(stored(dead)))
    assert letter is not None
    assert (letter.origin_topic, letter.origin_message_id) == ("acme%orders", ID)
    assert (letter.attempts, letter.reason) == (2, "db down")
    assert (letter.first_delivery_ms, letter.last_delivery_ms) == (FIRST_MS, LAST_MS)


def test_a_delay_that_was_asked_for_once_is_not_asked_for_again() -> None:
    """RocketMQ leaves some of these in a message that was delivered."""
    spent = {"REAL_TOPIC": "x", "REAL_QID": "9", "DELAY": "3", "TIMER_DELIVER_MS": "1",
             "TIMER_DELAY_MS": "2", "TIMER_DELAY_SEC": "3", "own": "1"}  # fmt: skip
    source = stored(encode_record(message(properties=spent)))

    dead = properties_of(given_up(source))
    waiting = properties_of(retried(source))

    assert not spent.keys() & dead.keys() - {"own"}
    assert spent.keys() & waiting.keys() == {"REAL_TOPIC", "REAL_QID", "TIMER_DELIVER_MS", "own"}
    assert waiting["REAL_TOPIC"] == f"%RETRY%{GROUP}"
    assert shown_record(decode_record(source)).properties == {"own": "1"}


def test_deliveries_in_place_are_reported_by_the_caller() -> None:
    dead = given_up(stored(encode_record(message())), attempts=17)

    letter = find_dead_letter(decode_record(stored(dead)))
    assert letter is not None
    assert letter.attempts == 17
    assert letter.first_delivery_ms == letter.last_delivery_ms == LAST_MS


def test_a_dead_letter_of_the_first_delivery_has_one_attempt() -> None:
    letter = find_dead_letter(decode_record(given_up(stored(encode_record(message())), reason="")))

    assert letter is not None
    assert (letter.attempts, letter.reason) == (1, "")
    assert letter.first_delivery_ms == letter.last_delivery_ms == LAST_MS


def test_a_dead_letter_that_fails_again_forgets_its_old_reason() -> None:
    dead = stored(given_up(stored(encode_record(message()))))

    assert "DLQ_REASON" not in properties_of(given_up(dead, reason=""))
    assert properties_of(given_up(dead, reason="x"))["DLQ_REASON"] == "x"


def test_no_letter_in_what_is_no_dead_letter() -> None:
    assert find_dead_letter(decode_record(encode_record(message()))) is None
    odd = message(properties={"DLQ_ORIGIN_TOPIC": "t", "1ST_POP_TIME": "²", "DLQ_REASON": "r"})
    letter = find_dead_letter(decode_record(encode_record(odd)))
    assert letter is not None
    assert (letter.first_delivery_ms, letter.origin_message_id, letter.reason) == (0, "", "r")


def test_a_message_without_an_id_is_known_by_its_place() -> None:
    """RocketMQ's offsetMsgId: address, port and physical offset of the first record."""
    named = encode_record(message(message_id=""))
    nameless = named.replace(b"UNIQ_KEY\x01\x02", b"XNIQ_KEY\x01\x02")
    place = "7F00000100002A9F" + f"{4_096:016X}"

    for source in (named, nameless):
        first = due_record(stored(retried(stored(source)), physical_offset=8_192))
        again = due_record(stored(retried(stored(first, physical_offset=9_999))))
        assert properties_of(again)["ORIGIN_MESSAGE_ID"] == place
        assert shown_record(decode_record(again)).message_id == place
        assert properties_of(given_up(stored(again)))["DLQ_ORIGIN_MESSAGE_ID"] == place


def test_a_redrive_goes_where_it_is_told_or_where_it_came_from() -> None:
    dead = stored(given_up(stored(encode_record(message()))))

    assert redrive_record(dead, queue_id=3) == encode_record(message())
    elsewhere = redrive_record(dead, queue_id=1, topic="acme%again")
    assert elsewhere == encode_record(message(topic="acme%again", queue_id=1))
    foreign = stored(encode_record(message(properties={"RETRY_TOPIC": "acme%old"})))
    assert read_record(stored(redrive_record(foreign, queue_id=0))).topic == "acme%old"
    with pytest.raises(RecordRefused, match="does not say where it came from"):
        redrive_record(stored(encode_record(message())), queue_id=0)


def test_a_retried_message_shows_what_was_produced() -> None:
    source = decode_record(encode_record(message()))
    assert shown_record(source) is source

    record = decode_record(stored(due_record(stored(retried(stored(encode_record(message())))))))

    shown = shown_record(record)
    assert record.reconsume_times == shown.reconsume_times == 1
    for field in ("topic", "message_id", "keys", "tag", "message_group", "properties", "body",
                  "born_timestamp_ms"):  # fmt: skip
        assert getattr(shown, field) == getattr(source, field), field
    for field in ("queue_id", "queue_offset", "physical_offset", "store_timestamp_ms"):
        assert getattr(shown, field) == getattr(record, field), field


def test_what_waits_in_the_schedule_is_not_retried() -> None:
    waiting = stored(retried(stored(encode_record(message()))))

    with pytest.raises(RecordRefused, match="is still in the schedule topic"):
        retried(waiting)
    with pytest.raises(RecordRefused, match="is still in the schedule topic"):
        given_up(waiting)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "t"},
        {"REAL_QID": "0"},
        {"REAL_TOPIC": "t", "REAL_QID": "-1"},
        {"REAL_TOPIC": "t", "REAL_QID": "2147483648"},
        {"REAL_TOPIC": "t", "REAL_QID": "x"},
        {"REAL_TOPIC": "t" * 256, "REAL_QID": "0"},
    ],
)
def test_a_scheduled_record_without_a_place_to_go_is_refused(properties: dict[str, str]) -> None:
    with pytest.raises(RecordRefused):
        due_record(stored(encode_record(message(topic=SCHEDULE_TOPIC, properties=properties))))


def test_bytes_that_are_no_record_are_refused() -> None:
    record = stored(encode_record(message()))
    for damaged in (b"", record[:-1], record[:-20] + b"__CRC33#" + record[-12:]):
        with pytest.raises(StoreCorrupt):
            retried(damaged)


@pytest.mark.parametrize("name", ["a\x01", "a\x02b"])
def test_a_name_that_would_break_the_properties_is_refused(name: str) -> None:
    with pytest.raises(RecordRefused, match="REAL_TOPIC cannot hold"):
        retried(stored(encode_record(message())), group=name)


def test_the_count_of_deliveries_stops_at_what_its_field_holds() -> None:
    record = stored(encode_record(message(reconsume_times=2**31 - 1)))

    assert read_record(stored(retried(record))).reconsume_times == 2**31 - 1


async def test_engine_takes_the_records_and_stores_them_whole(tmp_path: Path) -> None:
    source = stored(encode_record(message(born_host=("2001:db8::1", 80))))
    records = [retried(source, schedule_queue_id=0), given_up(source)]
    async with OpenStore(tmp_path / "s") as store:
        store.topic(SCHEDULE_TOPIC)
        store.topic(retry_topic_of(GROUP))
        store.topic(dlq_topic_of(GROUP))
        done: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        store.store.put(b"".join(records), lambda appended, *_: done.set_result(appended.offsets))
        assert all(offset >= 0 for offset in await asyncio.wait_for(done, WAIT_S))
        queue = store.store.catalog.get_queues(SCHEDULE_TOPIC)[0]
        assert [unit[2] for unit in queue.units(0, 1)] == [DUE_MS]

    topics = [(record.topic, record.born_host) for record in read_log(tmp_path / "s")]
    host = ("2001:db8::1", 80)
    assert topics == [(SCHEDULE_TOPIC, host), (f"%DLQ%{GROUP}", host)]
