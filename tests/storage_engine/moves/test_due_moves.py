"""What a batch of due messages becomes, against each of them made by itself the long way."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.catalog.catalog import Catalog
from storage_engine.config import StoreConfig
from storage_engine.delivery.progress import Progress
from storage_engine.disk.files import Files
from storage_engine.errors import StoreCorrupt, TopicNotFound
from storage_engine.moves.due_moves import DueMoves
from storage_engine.moves.moves import settles_for
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.min_offsets import MinOffsets
from storage_engine.records.key_hash import topic_hash
from storage_engine.records.message_keys import keys_of
from storage_engine.records.record import StoreMessage, encode_record
from storage_engine.records.record_parts import parts_of
from storage_engine.records.retry_record import due_record, forwarded_record
from storage_engine.records.schedule_topic import unit_tag_of
from storage_engine.records.scheduled_message import Wait, scheduled
from tests.storage_engine.independent_reader import read_record
from tests.storage_engine.records.retry_records import message, retried, stored

QUEUES = {"t": 3, "longer": 2}


def queue(topic: str, queue_id: int) -> ConsumeQueue:
    """Stands for one, which nobody asks anything here."""
    return cast(ConsumeQueue, f"{topic}/{queue_id}")


class KnownTopics:
    """A catalog of topics only."""

    def __init__(self) -> None:
        self.topics = QUEUES
        self._queues = {
            topic: [queue(topic, queue_id) for queue_id in range(count)]
            for topic, count in QUEUES.items()
        }

    def queues_of(self, topic: str) -> list[ConsumeQueue]:
        return self._queues[topic]


def due_moves(deleted_at: int = 0) -> DueMoves:
    """``deleted_at``: where the log ended when there was another topic ``t``."""

    min_offsets = MinOffsets(StoreConfig(store_dir="/nonexistent"), Files())
    min_offsets.deleted["t"] = deleted_at
    return DueMoves(cast(Catalog, KnownTopics()), min_offsets)


def progress(queue_id: int) -> Progress:
    return Progress("CID_RMQ_SYS_SCHEDULE", "SCHEDULE_TOPIC_XXXX", queue_id, 0)


PROGRESSES = [progress(18), progress(19)]
PROGRESSES[1].reset_count = 3

# Few of each, so that many are alike but for one thing.
waits = st.sampled_from(
    [
        *(Wait(deliver_at_ms=at) for at in (1, 999_999_999_999, 1_700_000_000_123, 10**13)),
        Wait(deliver_at_ms=1_700_000_000_124),
        Wait(level=3),
        Wait(delay_ms=5),
        Wait(delay_ms=70),
    ]
)
plain = st.builds(
    lambda **fields: message(**{"keys": [], "message_group": None, **fields}),
    topic=st.sampled_from(["t", "longer", "none"]),
    queue_id=st.integers(0, 3),
    body=st.binary(min_size=1, max_size=3),
    message_id=st.sampled_from([f"{number:034X}" for number in range(3)] + ["short", "x" * 34]),
    tag=st.sampled_from([None, "a", "b"]),
    keys=st.sampled_from([[], [], ["k"], ["k", "l"]]),
    properties=st.sampled_from([{}, {"x": "1"}, {"x": "2"}, {"DELAY2": "TAGS"}]),
    born_host=st.sampled_from([("10.1.2.3", 1), ("10.1.2.3", 1), ("2001:db8::1", 7)]),
)


@given(st.lists(st.tuples(plain, waits, st.booleans(), st.integers(0, 1_200)), max_size=14))
def test_a_batch_becomes_what_each_of_its_messages_does_on_its_own(
    messages: list[tuple[StoreMessage, Wait, bool, int]],
) -> None:
    moves = due_moves()
    for _ in range(2):  # with what the first batch has left behind, too
        records, places = [], []
        for number, (one, wait, is_other, queue_offset) in enumerate(messages):
            record = stored(encode_record(scheduled(one, wait)), physical_offset=number)
            records.append(record)
            places.append((PROGRESSES[is_other], queue_offset, number))
        due = moves.batch(places, records)
        payload = b"".join(due.puts.parts)
        assert len(payload) == due.puts.size_bytes
        at = index = known = 0
        taken: dict[Progress, list[int]] = {}
        failed = []
        counts = dict(due.puts.keys.counts)
        for (one, _, _, _), record, (source, queue_offset, _) in zip(
            messages, records, places, strict=True
        ):
            if one.queue_id >= QUEUES.get(one.topic, 0):
                failed.append((source, queue_offset))
                continue
            entry = due.puts.entries[index]
            made = stored(payload[at : at + entry[1]])
            long = stored(due_record(record, settles=settles_for(source, queue_offset)))
            assert read_record(made) == read_record(long)
            stamp_at = 56 + (12 if ":" in one.born_host[0] else 0)
            parts = parts_of(made)
            properties = parts.tail[parts.properties_at :]
            tag_hash = unit_tag_of(parts.topic, properties)
            assert entry == (at, len(long), queue(one.topic, one.queue_id), stamp_at, tag_hash)
            assert due.puts.keys.topic_hashes[index] == topic_hash(one.topic.encode())
            keys = keys_of(parts.tail, parts.properties_at, len(parts.tail))
            assert counts.get(index, 1) == len(keys)
            assert due.puts.keys.keys[known : known + len(keys)] == keys
            taken.setdefault(source, []).append(queue_offset)
            at += entry[1]
            index += 1
            known += len(keys)
        assert (at, index, known) == (
            len(payload), len(due.puts.entries), len(due.puts.keys.keys)
        )  # fmt: skip
        assert {source: offsets for source, offsets in due.sources.items() if offsets} == taken
        assert [(source, queue_offset) for source, queue_offset, _ in due.failed] == failed
        assert all(isinstance(reason, TopicNotFound) for _, _, reason in due.failed)


def batch_of(moves: DueMoves, *records: bytes | None) -> tuple[list[int], list[int], list[type]]:
    """(queue offsets that are moved, queue offsets that fail, why)."""
    places = [(PROGRESSES[0], offset, 100 * offset) for offset in range(len(records))]
    due = moves.batch(places, records)
    reasons = [type(reason) for _, _, reason in due.failed]
    return due.sources[PROGRESSES[0]], [offset for _, offset, _ in due.failed], reasons


def waiting(number: int, **fields: Any) -> bytes:
    """Any: fields of a message. All are alike but for their ids."""
    one = message(topic="t", queue_id=0, keys=[], message_id=f"{number:034X}", **fields)
    record = encode_record(scheduled(one, Wait(deliver_at_ms=1_700_000_000_000 + number)))
    return stored(record, physical_offset=100 * number)


def test_a_damaged_record_costs_itself() -> None:
    assert batch_of(due_moves(), waiting(0), None, waiting(2)) == ([0, 2], [1], [StoreCorrupt])


def test_messages_for_a_topic_that_was_deleted_do_not_go_to_the_one_that_came_after_it() -> None:
    """Although they are like others of the batch, which do."""
    records = [waiting(3), waiting(0), waiting(1), waiting(2)]
    places = [(PROGRESSES[0], number, 100 * number) for number in (3, 0, 1, 2)]
    due = due_moves(deleted_at=200).batch(places, records)
    assert due.sources[PROGRESSES[0]] == [3, 2]
    assert [offset for _, offset, _ in due.failed] == [0, 1]


def test_retries_and_forwarded_messages_stand_between_those_that_are_alike() -> None:
    retry = stored(
        retried(stored(encode_record(message(topic="t", queue_id=0))), group="t", delay_level=0)
    )
    forwarded = stored(forwarded_record(waiting(2), settles=settles_for(PROGRESSES[0], 9)))
    moves = due_moves()
    taken, failed, reasons = batch_of(moves, waiting(0), retry, forwarded, waiting(3))
    assert (taken, failed, reasons) == ([0, 2, 3], [1], [TopicNotFound])  # no such retry topic


def test_one_message_alone_becomes_the_same() -> None:
    record = msgspec.structs.replace(message(topic="t", queue_id=1), keys=[])
    waits = stored(encode_record(scheduled(record, Wait(delay_ms=5))))
    move = due_moves().move(PROGRESSES[1], 7, waits)
    long = due_record(waits, settles=settles_for(PROGRESSES[1], 7))
    assert read_record(stored(move.record)) == read_record(stored(long))


@pytest.mark.parametrize(
    ("change", "wait"),
    [
        ({}, Wait(deliver_at_ms=1_700_000_000_009)),
        ({"tag": "b"}, Wait(deliver_at_ms=1_700_000_000_009)),
        ({"properties": {"x": "2"}}, Wait(deliver_at_ms=1_700_000_000_009)),
        ({"message_id": "0" * 33 + "F"}, Wait(deliver_at_ms=1_700_000_000_009)),
        ({"topic": "longer"}, Wait(deliver_at_ms=1_700_000_000_009)),
        ({"queue_id": 2}, Wait(deliver_at_ms=1_700_000_000_009)),
        ({"body": b"longer than the others"}, Wait(deliver_at_ms=1_700_000_000_009)),
        ({"flag": 9}, Wait(deliver_at_ms=1_700_000_000_009)),
        ({"born_host": ("2001:db8::1", 7)}, Wait(deliver_at_ms=1_700_000_000_009)),
        # The due time is shorter, and the properties behind it longer by as much.
        ({"properties": {"abcdefg": "", "x": "1"}}, Wait(deliver_at_ms=1_700)),
    ],
    ids=lambda change: str(change) if isinstance(change, dict) else "",
)
def test_one_that_differs_in_one_thing_is_not_taken_for_those_before_it(
    change: dict[str, Any], wait: Wait
) -> None:
    fields = {"topic": "t", "queue_id": 0, "keys": [], "tag": "a", "properties": {"x": "1"}}
    common = Wait(deliver_at_ms=1_700_000_000_001)
    messages = [
        (message(**fields), common),
        (message(**fields), common),
        (message(**{**fields, **change}), wait),
        (message(**fields), common),
    ]
    records = [
        stored(encode_record(scheduled(one, wait)), physical_offset=number)
        for number, (one, wait) in enumerate(messages)
    ]
    places = [(PROGRESSES[0], number, number) for number in range(len(records))]
    puts = due_moves().batch(places, records).puts
    payload = b"".join(puts.parts)
    made = [payload[entry[0] : entry[0] + entry[1]] for entry in puts.entries]
    assert [read_record(stored(each)) for each in made] == [
        read_record(stored(due_record(record, settles=settles_for(PROGRESSES[0], number))))
        for number, record in enumerate(records)
    ]
    tags = [unit_tag_of(b"t", parts.tail[parts.properties_at :]) for parts in map(parts_of, made)]
    assert [entry[4] for entry in puts.entries] == tags
