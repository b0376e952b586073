"""Scheduled messages one by one: listed, cancelled, sent at once; who wins, and for how long."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from storage_engine.errors import (
    DiskFull,
    TopicNotFound,
)
from storage_engine.groups.message_trace import MessageTracer
from storage_engine.log.commit_log import CommitLog
from storage_engine.puts.put_path import Appended
from storage_engine.records.record import encode_record
from storage_engine.records.record_run import decode_records
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.schedule import scheduled_messages
from storage_engine.schedule.scheduled_messages import TopicBlocks
from storage_engine.schedule.source import real_topics
from storage_engine.wire.scheduled import (
    ScheduledCancelRequest,
    ScheduledListRequest,
    ScheduledOutcome,
    ScheduledReply,
    ScheduledSendRequest,
)
from storage_engine.wire.topics import TopicRef
from storage_engine.wire.traces import TraceRequest
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.power_cuts import SyncedFiles
from tests.storage_engine.schedule.delaying import delayed, numbered, put_delayed

DAY_MS = 86_400_000


def cancelled(store: OpenStore, number: int, **place: int) -> ScheduledOutcome:
    request = ScheduledCancelRequest(topic="t", message_id=numbered(number), **place)
    return store.store.scheduled.cancel(request).outcome


async def sent(store: OpenStore, number: int) -> ScheduledOutcome:
    replies: list[ScheduledReply] = []
    request = ScheduledSendRequest(topic="t", message_id=numbered(number))
    store.store.scheduled.send(request, replies.append)
    await store.store.durability.durable_to(store.store.stats(0).append_offset)
    await store.settled()
    (reply,) = replies
    return reply.outcome


def listed(
    store: OpenStore, *, messages_max: int = 100, topic: str = "t"
) -> list[tuple[bytes, int]]:
    """(body, due time) of all pages."""
    found: list[tuple[bytes, int]] = []
    queue_id = queue_offset = 0
    while True:
        head, content = store.store.scheduled.page(
            ScheduledListRequest(
                topic=topic, queue_id=queue_id, queue_offset=queue_offset,
                messages_max=messages_max, bytes_max=1 << 20,
            )
        )  # fmt: skip
        bodies = [record.body for record in decode_records(content)]
        assert len(bodies) <= messages_max
        found += zip(bodies, head.due_ms, strict=True)
        if head.is_end:
            return found
        queue_id, queue_offset = head.queue_id, head.queue_offset


async def test_every_answer_tells_the_same_due_time(tmp_path: Path) -> None:
    """The wall clock and the one for delays are read one after the other: 1 ms more or less."""
    async with OpenStore(tmp_path) as store:
        store.topic("n%t")
        store.clock.wall_ms += 1  # the millisecond began between two readings
        answers: list[Appended] = []
        records = [
            delayed(b"a", 1, delay_ms=5_000, topic="n%t"),
            delayed(b"b", 2, level=3, topic="n%t"),
        ]
        refused = delayed(b"c", 3, delay_ms=1, topic="absent")
        frame = b"".join(map(encode_record, [records[0], refused, records[1]]))
        store.store.put(frame, lambda appended, _, __: answers.append(appended))
        await store.settled()
        (appended,) = answers
        due = {b"a": appended.due_ms[0], b"b": appended.due_ms[2]}
        tracing = MessageTracer(
            store.store.consumption.clock, store.store.queries, store.store.consumption
        )
        for _ in range(3):
            assert dict(listed(store, topic="n%t")) == due
            for number, body in ((1, b"a"), (2, b"b")):
                hops = tracing.trace(TraceRequest(namespace="n", message_id=numbered(number))).hops
                assert [hop.due_ms for hop in hops] == [due[body]]
            store.clock.wall_ms += 1
        store.clock.wall_ms += 5_000  # a jump is shown
        jumped = dict(listed(store, topic="n%t"))
        assert {body: at - due[body] for body, at in jumped.items()} == {b"a": 5_004, b"b": 5_004}


async def test_what_is_to_come_is_listed_page_by_page_for_its_topic_alone(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        store.topic("other")
        now_ms = store.clock.now_ms()
        expected = []
        for number in range(7):
            await store.put(delayed(b"%d" % number, number, delay_ms=999 + number))
            await store.put(delayed(b"x", 50 + number, delay_ms=1_000, topic="other"))
            expected.append((b"%d" % number, now_ms + 1_000 + number))
        await store.put(delayed(b"level", 8, level=3), delayed(b"t", 9, deliver_at_ms=now_ms + 9))
        expected = [(b"level", now_ms + 10_001), *expected, (b"t", now_ms + 9)]
        for messages_max in (1, 2, 100):
            assert listed(store, messages_max=messages_max) == expected
        cancelled(store, 3)
        await store.pass_time(9)
        expected = [each for each in expected if each[0] not in (b"3", b"t")]
        assert listed(store) == expected
        store.clock.wall_ms += DAY_MS  # shown as the wall clock will have it, if it goes on so
        assert listed(store) == [(body, due_ms + DAY_MS) for body, due_ms in expected]
        with pytest.raises(TopicNotFound):
            store.store.scheduled.page(
                ScheduledListRequest(topic="none", messages_max=1, bytes_max=1)
            )


async def test_a_cancel_wins_or_says_that_it_did_not(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_delayed(store, *[delayed(b"%d" % n, n, delay_ms=1_000) for n in range(4)])
        assert cancelled(store, 1, queue_id=18, queue_offset=1) is ScheduledOutcome.DONE
        assert cancelled(store, 1, queue_id=18, queue_offset=1) is ScheduledOutcome.GONE
        assert cancelled(store, 2, queue_id=18, queue_offset=0) is ScheduledOutcome.DONE
        assert cancelled(store, 3, queue_id=99, queue_offset=-5) is ScheduledOutcome.DONE
        assert cancelled(store, 77) is ScheduledOutcome.GONE
        await store.pass_time(1_000)
        assert store.pull_bodies() == [b"0"]
        assert cancelled(store, 0, queue_id=18, queue_offset=0) is ScheduledOutcome.DELIVERED
        await store.pass_time(DAY_MS)
        assert store.pull_bodies() == [b"0"]


async def test_another_topics_message_is_not_found(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        store.topic("other")
        await put_delayed(store, delayed(b"x", 1, delay_ms=1_000, topic="other"))
        assert cancelled(store, 1, queue_id=18, queue_offset=0) is ScheduledOutcome.GONE
        assert await sent(store, 1) is ScheduledOutcome.GONE


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_what_won_stays_so_over_a_power_cut_that_comes_with_the_answer(
    tmp_path: Path, is_cancelled: bool
) -> None:
    files = SyncedFiles()
    async with OpenStore(tmp_path / "a", files=files) as store:
        store.topic()
        await put_delayed(store, delayed(b"a", 1, delay_ms=1_000), delayed(b"b", 2, delay_ms=1_000))
        won = cancelled(store, 1) if is_cancelled else await sent(store, 1)
        assert won is ScheduledOutcome.DONE
        copied = files.cut_power(tmp_path / "a", tmp_path / "b")
        clock = store.clock
    async with OpenStore(copied, clock=clock) as store:
        await store.pass_time(1_000)
        expected = [b"b"] if is_cancelled else [b"a", b"b"]
        assert store.pull_bodies() == expected


@pytest.mark.parametrize("block_units", [8, 4_096])
async def test_those_of_all_topics_of_a_namespace_are_listed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_units: int
) -> None:
    monkeypatch.setattr(scheduled_messages, "BLOCK_UNITS", block_units)
    names = ("acme%a", "acme%b", "acme2%a", "ac%me", "%RETRY%acme%g")
    async with OpenStore(tmp_path) as store:
        for topic in names:
            store.topic(topic)
        for number in range(60):
            topic = names[number % len(names)]
            body = topic.encode() + b" %d" % number
            await put_delayed(store, delayed(body, number, delay_ms=1_000, topic=topic))
        for _ in range(2):  # the second time what full blocks hold is known
            found, _count = pages_of(store, "acme", is_namespace=True)
            assert len(found) == 24
            assert all(body.startswith((b"acme%a", b"acme%b")) for body in found)
            assert len(pages_of(store, "ac", is_namespace=True)[0]) == 12
            assert pages_of(store, "acm", is_namespace=True)[0] == []
            assert len(pages_of(store, "acme%a")[0]) == 12


async def test_a_message_is_sent_at_once_and_only_once(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_delayed(store, delayed(b"a", 1, delay_ms=DAY_MS))
        assert await sent(store, 1) is ScheduledOutcome.DONE
        assert await sent(store, 1) is ScheduledOutcome.DELIVERED
        assert cancelled(store, 1) is ScheduledOutcome.DELIVERED
        await store.pass_time(DAY_MS)
        assert store.pull_bodies() == [b"a"]


async def test_a_cancel_that_finds_no_room_has_cancelled_nothing(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_delayed(store, delayed(b"a", 1, delay_ms=1_000))
        await store.settled()
        store.files.full.add("append")
        with pytest.raises(DiskFull):
            cancelled(store, 1)
        store.files.full.clear()
        await store.pass_time(1_000)
        assert store.pull_bodies() == [b"a"]


async def test_a_message_that_retention_moved_is_still_cancelled_by_its_first_place(
    tmp_path: Path,
) -> None:
    limits = {"retention_bytes": 2 * 4_096}
    async with OpenStore(tmp_path, limits=limits) as store:
        store.topic()
        await put_delayed(
            store, delayed(b"a", 1, delay_ms=DAY_MS), delayed(b"b", 2, delay_ms=DAY_MS)
        )
        await store.put_bodies(*[bytes(1_000)] * 14)
        await store.store.retention.run()
        assert store.store.catalog.get_queues(SCHEDULE_TOPIC)[18].min_offset == 2
        assert cancelled(store, 1, queue_id=18, queue_offset=0) is ScheduledOutcome.DONE
        await store.pass_time(DAY_MS)
        assert store.pull_bodies(queue_offset=14) == [b"b"]


async def test_a_deleted_topics_messages_are_not_delivered_to_its_successor(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_delayed(store, delayed(b"old", 1, delay_ms=1_000))
        store.store.consumption.deletions.topic_delete(TopicRef(topic="t").topic)
        store.topic()
        await put_delayed(store, delayed(b"new", 2, delay_ms=1_000))
        await store.pass_time(1_000)
        assert store.pull_bodies() == [b"new"]
        assert store.store.consumption.schedule.pending_count == 0


def pages_of(
    store: OpenStore, topic: str, *, is_namespace: bool = False
) -> tuple[list[bytes], int]:
    """(bodies of all pages, how many pages it took)."""
    found: list[bytes] = []
    place = (0, 0)
    for count in range(1, 100):
        request = ScheduledListRequest(
            topic=topic, queue_id=place[0], queue_offset=place[1], messages_max=100,
            bytes_max=1 << 20, is_namespace=is_namespace,
        )  # fmt: skip
        head, content = store.store.scheduled.page(request)
        found += [record.body for record in decode_records(content)]
        if head.is_end:
            return found, count
        assert (head.queue_id, head.queue_offset) > place
        place = head.queue_id, head.queue_offset
    raise AssertionError("the listing does not end")


@pytest.mark.parametrize("alone_max", [0, 100])
async def test_a_topic_of_few_messages_is_listed_without_reading_those_of_others_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone_max: int
) -> None:
    monkeypatch.setattr(scheduled_messages, "_ALONE_MAX", alone_max)
    monkeypatch.setattr(scheduled_messages, "BLOCK_UNITS", 8)
    monkeypatch.setattr(scheduled_messages, "_LOOKED_AT_MAX", 8)
    monkeypatch.setattr(scheduled_messages, "_KNOWN_COST", 1)
    monkeypatch.setattr(scheduled_messages, "_READ_COST", 0)
    async with OpenStore(tmp_path) as store:
        for topic in ("t", "small", "none"):
            store.topic(topic)
        for number in range(100):
            topic = "small" if number in (0, 43, 97) else "t"
            body = b"%d" % number
            await put_delayed(store, delayed(body, number, delay_ms=1_000 + number, topic=topic))
        looked_at: list[int] = []

        log = store.store.scheduled._commit_log
        properties = log.properties

        def counted(physical_offset: int, record_bytes: int) -> bytes | None:
            looked_at.append(physical_offset)
            return properties(physical_offset, record_bytes)

        def counted_together(
            commit_log: CommitLog, physical_offsets: NDArray[np.int64]
        ) -> list[bytes | None]:
            looked_at.extend(physical_offsets.tolist())
            return real_topics(commit_log, physical_offsets)

        monkeypatch.setattr(scheduled_messages, "real_topics", counted_together)
        if alone_max:
            monkeypatch.setattr(log, "properties", counted)
        expected = [b"0", b"43", b"97"]
        assert pages_of(store, "small") == (expected, 13)
        assert len(looked_at) == 100
        looked_at.clear()
        assert pages_of(store, "small")[0] == expected
        assert len(looked_at) == 8 + 8 + 4  # the blocks that hold them; the last is not full
        looked_at.clear()
        assert pages_of(store, "none") == ([], 2)
        assert len(looked_at) == 4
        # What came since is found, be it in a block that was not full.
        await put_delayed(store, *[delayed(b"new", 200, delay_ms=9_000, topic="none")] * 5)
        assert pages_of(store, "none")[0] == [b"new"] * 5
        # What is delivered, in the middle of a block and of blocks that are known, is not.
        await store.pass_time(1_000)
        left = [int(body) for body in pages_of(store, "t")[0]]
        assert 43 < left[0] < 97
        assert left == [number for number in range(left[0], 100) if number != 97]
        assert pages_of(store, "small")[0] == [b"97"]


@given(st.lists(st.binary(max_size=9)), st.binary(max_size=9))
def test_a_block_that_holds_messages_for_a_topic_is_never_passed_over(
    topics: list[bytes], other: bytes
) -> None:
    blocks = TopicBlocks()
    assert blocks.may_hold(1, 2, other)  # nobody has looked
    blocks.note(1, 2, topics)
    assert all(blocks.may_hold(1, 2, topic) for topic in topics)
    assert blocks.may_hold(1, 3, other)
    assert blocks.may_hold(2, 2, other)
    if not topics:
        assert not blocks.may_hold(1, 2, other)


async def test_topics_of_many_messages_are_seen_at_once_and_never_wrongly(tmp_path: Path) -> None:
    chance = Random(5)
    topics = ["t", "u", "demo%orders", "x" * 127, "y" * 128, "demo%" + "z" * 200]
    async with OpenStore(tmp_path) as store:
        for topic in topics:
            store.topic(topic)
        expected: list[bytes] = []
        at_ms = store.clock.now_ms() + DAY_MS
        for number in range(300):
            topic = chance.choice(topics)
            wait = chance.choice(({"delay_ms": 10_000}, {"level": 5}, {"deliver_at_ms": at_ms}))
            body = b"b" * chance.randrange(900)
            await put_delayed(store, delayed(body, number, topic=topic, **wait))
            expected.append(topic.encode())
        log = store.store.scheduled._commit_log
        units = [
            unit
            for queue in store.store.catalog.get_queues(SCHEDULE_TOPIC)
            for unit in queue.units(0, 300)
        ]
        units.sort()
        places = np.array([unit[0] for unit in units])
        found = real_topics(log, places)
        assert [each or wanted for each, wanted in zip(found, expected, strict=True)] == expected
        assert sum(each is not None for each in found) > 150
        # A place that is none, of segments that are gone or not yet there, spoils nothing.
        odd = np.array([-1, int(places[7]) + 3, 1 << 50, int(places[8]), int(places[-1]) + 4_000])
        assert real_topics(log, odd)[:3] == [None, None, None]
        assert real_topics(log, odd)[3] in (None, expected[8])
