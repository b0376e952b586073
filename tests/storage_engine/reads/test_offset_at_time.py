"""Offset by time: the LOWER rule, against a plain model."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage_engine.errors import QueueNotFound, TopicNotFound
from storage_engine.wire.reads import OffsetAtTimeReply, OffsetAtTimeRequest
from tests.storage_engine.doubles import OpenStore, message
from tests.storage_engine.recovering import poke


def ask(store: OpenStore, timestamp_ms: int, topic: str = "t", queue_id: int = 0) -> int:
    return reply(store, timestamp_ms, topic, queue_id).queue_offset


def reply(store: OpenStore, timestamp_ms: int, topic: str, queue_id: int) -> OffsetAtTimeReply:
    return store.store.queries.offset_at_time(
        OffsetAtTimeRequest(topic=topic, queue_id=queue_id, timestamp_ms=timestamp_ms)
    )


async def stored_at(store: OpenStore, begin_ms: int, *stamps: int) -> None:
    for stamp in stamps:
        store.clock.wall_ms = begin_ms + stamp
        await store.put_bodies(b"%d" % stamp)


@pytest.mark.parametrize(
    ("timestamp_ms", "expected"),
    [(-(10**15), 0), (9, 0), (10, 0), (11, 1), (20, 1), (21, 4), (30, 4), (31, 5), (10**15, 5)],
)
async def test_offset_is_of_the_first_message_at_or_after_the_time(
    tmp_path: Path, timestamp_ms: int, expected: int
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        begin_ms = store.clock.now_ms()
        await stored_at(store, begin_ms, 10, 20, 20, 20, 30)

        assert ask(store, begin_ms + timestamp_ms) == expected


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    gaps=st.lists(st.sampled_from([0, 0, 1, 5]), max_size=25),
    asked=st.lists(st.integers(-2, 60), min_size=1, max_size=10),
)
def test_offset_is_what_a_plain_model_says(gaps: list[int], asked: list[int]) -> None:
    async def compare() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async with OpenStore(Path(directory)) as store:
                store.topic()
                begin_ms = store.clock.now_ms()
                stamps = [sum(gaps[: index + 1]) for index in range(len(gaps))]
                await stored_at(store, begin_ms, *stamps)
                for at in asked:
                    expected = len([stamp for stamp in stamps if stamp < at])
                    assert ask(store, begin_ms + at) == expected

    asyncio.run(compare())


async def test_empty_queue_answers_its_only_offset(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic(queues=2)
        await store.put_bodies(b"x", queue_id=1)

        assert reply(store, 5, "t", 0) == OffsetAtTimeReply(
            queue_offset=0, min_offset=0, max_offset=0
        )
        assert reply(store, 1 << 60, "t", 1).queue_offset == 1


async def test_search_passes_a_damaged_record(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        begin_ms = store.clock.now_ms()
        await stored_at(store, begin_ms, 10, 20, 30, 40)
        put = await store.put(message(b"50"))
        # The third of five is where the search begins: its time says nothing any more.
        third = put.offsets[0][1] // 4 * 2
        poke(tmp_path, third + 56, b"\x7f" * 8)

        assert ask(store, begin_ms + 40) == 3
        assert ask(store, begin_ms + 20) == 1


async def test_unknown_queue_and_topic_are_refused(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        for queue_id in (-1, 1):
            with pytest.raises(QueueNotFound):
                ask(store, 0, queue_id=queue_id)
        with pytest.raises(TopicNotFound):
            ask(store, 0, topic="none")
