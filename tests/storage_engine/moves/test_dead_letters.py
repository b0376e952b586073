"""Dead letters sent on their way again or dropped: each once, whatever is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from storage_engine.errors import BadRequest, DiskFull, TopicNotFound
from storage_engine.records.record_run import decode_records
from storage_engine.records.topic_names import LETTERS_GROUP
from storage_engine.wire.dead_letters import (
    DeadLettersRequest,
    PurgeRequest,
    RedriveOutcome,
    RedriveReply,
    RedriveRequest,
)
from storage_engine.wire.deliveries import LeaseRef, Nack, SettleRequest
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.doubles import WAIT_S, OpenStore, copy_store, message
from tests.storage_engine.index.keyed import pages
from tests.storage_engine.power_cuts import SyncedFiles
from tests.storage_engine.recovering import poke
from tests.storage_engine.stopping import kill

DLQ = "%DLQ%g"
MOVED, GONE = RedriveOutcome.MOVED, RedriveOutcome.GONE


async def with_dead_letters(store: OpenStore, count: int, *, queues: int = 1) -> None:
    """Group ``g`` has given up as many messages of topic ``t``."""
    store.topic(queues=queues)
    store.group()
    for index in range(count):
        await store.put(message(b"%d" % index, queue_id=index % queues))
    while (leased := store.receive()).records:
        nacks = [
            Nack(
                topic=record.topic,
                queue_id=record.queue_id,
                queue_offset=record.queue_offset,
                lease_generation=leased.generation,
                is_dead=True,
            )
            for record in leased.records
        ]
        store.store.consumption.settle(SettleRequest(group="g", nacks=nacks))
        await store.settled()


async def redrive(store: OpenStore, *queue_offsets: int, topic: str = "") -> list[RedriveOutcome]:
    replies: asyncio.Queue[RedriveReply] = asyncio.Queue()
    request = RedriveRequest(group="g", queue_offsets=list(queue_offsets), topic=topic)
    store.store.consumption.dead_letters.redrive(request, replies.put_nowait)
    return (await asyncio.wait_for(replies.get(), WAIT_S)).outcomes


def dead(store: OpenStore, *, shows_gone: bool = False) -> list[bytes]:
    request = PullRequest(
        topic=DLQ,
        queue_id=0,
        queue_offset=0,
        messages_max=1_000,
        bytes_max=1 << 20,
        shows_gone=shows_gone,
    )
    _, found = store.store.pull(request)
    return [record.body for record in decode_records(store.store.read_records(found))]


async def test_a_dead_letter_is_redriven_once_and_is_gone_then(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await with_dead_letters(store, 3)
        assert dead(store) == [b"0", b"1", b"2"]
        assert await redrive(store, 1) == [MOVED]
        assert await redrive(store, 1, 0, 7, -1) == [GONE, MOVED, GONE, GONE]
        assert dead(store) == [b"2"]
        assert [record.body for record in pages(store, "01" * 17, topic=DLQ)] == [b"2"]
        again = store.receive()
        assert (again.bodies, again.attempts) == ([b"1", b"0"], [1, 1])
        assert store.ack(again).acked_count == 2
        assert store.receive().bodies == []


async def test_two_redrives_at_once_move_a_message_once(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await with_dead_letters(store, 2)
        outcomes = await asyncio.gather(redrive(store, 0, 1), redrive(store, 1, 0))
        assert list(outcomes) == [[MOVED, MOVED], [GONE, GONE]]
        assert sorted(store.receive().bodies) == [b"0", b"1"]


async def test_a_redrive_goes_to_another_topic_when_asked(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await with_dead_letters(store, 4)
        store.topic("other", queues=3)
        assert await redrive(store, 0, 1, 2, 3, topic="other") == [MOVED] * 4
        counts = [queue.max_offset for queue in store.store.topic_stats("other").queues]
        assert sorted(counts) == [1, 1, 2]
        assert store.receive().bodies == []


async def test_messages_of_a_message_group_go_to_one_queue_in_their_order(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await with_dead_letters(store, 0, queues=4)
        for index in range(6):
            one = msgspec.structs.replace(message(b"%d" % index), message_group="customer-7")
            await store.put(one)
        await with_dead_letters(store, 0, queues=4)
        assert await redrive(store, *range(6)) == [MOVED] * 6
        grown = [queue.queue_id for queue in store.store.topic_stats("t").queues[1:]
                 if queue.max_offset]  # fmt: skip
        assert len(grown) <= 1
        queue_id = grown[0] if grown else 0
        start = 0 if grown else 6
        assert store.pull_bodies(queue_id, start) == [b"%d" % index for index in range(6)]


async def test_more_than_one_append_takes_is_done_later(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        store.group()
        for _ in range(4):
            await store.put_bodies(bytes(1_800))
        await with_dead_letters(store, 0)
        left, rounds = [0, 1, 2, 3], 0
        while left:
            outcomes = await redrive(store, *left)
            assert outcomes[0] is MOVED
            left = [at for at, outcome in zip(left, outcomes, strict=True) if outcome != MOVED]
            rounds += 1
        assert rounds > 1
        assert len(store.receive().bodies) == 4


async def test_a_kill_in_the_middle_neither_doubles_nor_loses(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    await with_dead_letters(store, 5)
    await redrive(store, 0, 1)
    request = RedriveRequest(group="g", queue_offsets=[2, 3])
    store.store.consumption.dead_letters.redrive(request, lambda reply: None)
    copy = copy_store(tmp_path / "s", tmp_path / "copy")  # appended, and not yet published
    kill(store.store)
    async with OpenStore(copy) as store:
        assert dead(store) == [b"4"]
        assert await redrive(store, 0, 1, 2, 3, 4) == [GONE, GONE, GONE, GONE, MOVED]
        assert sorted(store.receive().bodies) == [b"%d" % index for index in range(5)]


async def test_what_was_dropped_stays_gone(tmp_path: Path) -> None:
    files = SyncedFiles()
    async with OpenStore(tmp_path / "s", files=files) as store:
        await with_dead_letters(store, 3)
        purge = store.store.consumption.dead_letters.purge
        assert purge(PurgeRequest(group="g", queue_offsets=[0, 2, 2, 9])).purged_count == 2
        cut = files.cut_power(tmp_path / "s", tmp_path / "cut")
        assert purge(PurgeRequest(group="g", queue_offsets=[0])).purged_count == 0
        assert await redrive(store, 0, 1, 2) == [GONE, MOVED, GONE]
        copy = copy_store(tmp_path / "s", tmp_path / "copy")
    async with OpenStore(copy) as store:
        assert dead(store) == []
        assert store.receive().bodies == [b"1"]
    async with OpenStore(cut) as store:
        assert dead(store) == [b"1"]


async def test_a_pull_that_asks_for_it_shows_what_is_gone(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await with_dead_letters(store, 3)
        await redrive(store, 1)
        store.store.consumption.dead_letters.purge(PurgeRequest(group="g", queue_offsets=[0]))
        assert dead(store) == [b"2"]
        assert dead(store, shows_gone=True) == [b"0", b"1", b"2"]


async def test_count_leaves_out_what_is_gone(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await with_dead_letters(store, 2)
        store.clock.advance(1_000)
        late_ms = store.clock.now_ms()
        await with_dead_letters(store, 4)
        dead_letters = store.store.consumption.dead_letters

        def counted() -> tuple[int, list[int]]:
            request = DeadLettersRequest(groups=["g", "absent"], before_ms=[0, late_ms, 1 << 60])
            found, none = dead_letters.counts(request).counts
            assert none.count == none.max_offset == 0
            assert (found.oldest_ms != 0) == (found.count != 0)
            return found.count, found.before_counts

        assert counted() == (6, [0, 2, 6])
        await redrive(store, 1, 3)
        assert counted() == (4, [0, 1, 4])
        dead_letters.purge(PurgeRequest(group="g", queue_offsets=[0]))
        assert counted() == (3, [0, 0, 3])
        request = DeadLettersRequest(groups=["g"], before_ms=[late_ms])
        assert dead_letters.counts(request).counts[0].oldest_ms >= late_ms
        copy = copy_store(tmp_path / "s", tmp_path / "copy")
        dead_letters.purge(PurgeRequest(group="g", queue_offsets=[2, 4, 5]))
        assert counted() == (0, [0, 0, 0])
    async with OpenStore(copy) as store:
        again = DeadLettersRequest(groups=["g"])
        [found] = store.store.consumption.dead_letters.counts(again).counts
        assert (found.count, found.max_offset) == (3, 6)


async def test_count_of_too_much_is_refused(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        for groups, times in ((1_001, 0), (129, 2)):
            with pytest.raises(BadRequest, match="at most 1000 groups and 256 times"):
                store.store.consumption.dead_letters.counts(
                    DeadLettersRequest(groups=["g"] * groups, before_ms=[1] * times)
                )


async def test_what_cannot_be_redriven_stays(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await with_dead_letters(store, 2)
        at = store.store.catalog.get_queues(DLQ)[0].unit(0)[0]
        poke(tmp_path / "s", at + 90, b"\xff\xff\xff")
        with pytest.raises(TopicNotFound, match="topic absent does not exist"):
            await redrive(store, 1, topic="absent")
        store.files.full |= {"allocate", "create"}
        with pytest.raises(DiskFull):
            for _ in range(1_000):
                await store.put(message(bytes(500)))
        with pytest.raises(DiskFull):
            await redrive(store, 1)
        store.files.full.clear()
        assert await redrive(store, 1) == [MOVED]
        assert await redrive(store, 0) == [RedriveOutcome.DAMAGED]


async def test_bad_requests_are_refused(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.group()
        with pytest.raises(TopicNotFound, match="no dead letters"):
            await redrive(store, 0)
        await with_dead_letters(store, 1)
        with pytest.raises(BadRequest, match="0 offsets"):
            await redrive(store)
        with pytest.raises(BadRequest, match="1001 offsets"):
            await redrive(store, *range(1_001))


async def test_dead_letters_that_expired_are_passed_over(tmp_path: Path) -> None:
    """Else all that is redriven behind them would be kept one by one, for ever."""
    async with OpenStore(tmp_path) as store:
        await with_dead_letters(store, 4)
        await redrive(store, 2)
        store.store.catalog.get_queues(DLQ)[0].raise_min(2)
        assert await redrive(store, 3) == [MOVED]
        progress = store.store._consumer_offsets.find("CID_RMQ_SYS_REDRIVE", DLQ, 0)
        assert progress is not None
        assert (progress.consumer_offset, len(progress.settled)) == (4, 0)


async def test_letters_are_received_as_the_group_of_redrives_and_gone_once_acked(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        await with_dead_letters(store, 3)
        leased = store.receive(2, group=LETTERS_GROUP, topic=DLQ)
        first, second = leased.records
        assert (first.body, second.body) == (b"0", b"1")
        assert dead(store) == [b"0", b"1", b"2"]
        settle = SettleRequest(
            group=LETTERS_GROUP,
            acks=[
                LeaseRef(
                    topic=DLQ,
                    queue_id=0,
                    lease_generation=leased.generation,
                    queue_offsets=[first.queue_offset],
                )
            ],
            nacks=[
                Nack(
                    topic=DLQ,
                    queue_id=0,
                    queue_offset=second.queue_offset,
                    lease_generation=leased.generation,
                    delay_ms=0,
                )
            ],
        )
        assert not store.store.consumption.settle(settle).failures
        assert dead(store) == [b"1", b"2"]
        assert await redrive(store, 0, 2) == [GONE, MOVED]
        again = store.receive(group=LETTERS_GROUP, topic=DLQ)
        assert [record.body for record in again.records] == [b"1"]
        assert again.attempts == [2]
