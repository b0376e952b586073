"""What expires when, what is deleted then, and what nobody may lose by it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from storage_engine.errors import StoreReadOnly, SyncFailed
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.record import StoreMessage
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC, due_ms_of
from storage_engine.wire.reads import PullRequest, PullStatus
from storage_engine.wire.topics import TopicConfig
from tests.storage_engine.doubles import (
    BORN_MS,
    ManualClock,
    OpenStore,
    copy_store,
    fingerprint,
    message,
)

HOUR_MS = 3_600_000
LIMITS = {"retention_ms": HOUR_MS, "retention_files_max": 100}
BODY = bytes(800)  # four records a segment


async def advance_in_steps(store: OpenStore, hours: float) -> None:
    """Retention runs all the while; a pass deletes a tenth of the log at most."""
    for _ in range(40):
        store.clock.advance(int(hours * HOUR_MS / 40))
        await store.store.retention.run()


def segments(store: OpenStore) -> list[int]:
    return sorted(int(path.name) for path in (store.store_dir / "commitlog").iterdir())


async def pulled(store: OpenStore, offset: int, *, topic: str = "t") -> tuple[PullStatus, int]:
    request = PullRequest(
        topic=topic, queue_id=0, queue_offset=offset, messages_max=1, bytes_max=1 << 20
    )
    head, _ = store.store.pull(request)
    return head.status, head.next_offset


def limits(**more: int) -> dict[str, int]:
    return {**LIMITS, **more}


async def test_a_message_is_readable_for_its_retention_and_its_segment_goes_after(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 12)
        store.clock.advance(HOUR_MS - 1)
        await store.store.retention.run()
        assert await pulled(store, 0) == (PullStatus.FOUND, 1)
        await store.put_bodies(b"young")
        await advance_in_steps(store, 0.5)
        assert await pulled(store, 0) == (PullStatus.OFFSET_ILLEGAL, 12)
        assert store.pull_bodies(queue_offset=12) == [b"young"]
        assert segments(store) == [2 * 4_096]  # the young one stands in it
        await store.store.checkpoint()
        await store.store.retention.run()
        # Of the consume queue too only the file with something readable is left.
        assert [path.name for path in (tmp_path / "s/consumequeue/t/0").iterdir()] == [
            f"{240:020d}"
        ]


async def test_offsets_continue_after_everything_expired_and_the_consume_queues_were_deleted(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        store.topic("other")
        await store.put_bodies(*[BODY] * 12)
        for _ in range(8):
            await store.put(message(BODY, topic="other"))
        await advance_in_steps(store, 2)
        clock = store.clock
    for path in (tmp_path / "s/consumequeue").rglob("0*"):
        if path.is_file():
            path.unlink()
    for _ in range(2):
        async with OpenStore(tmp_path / "s", clock=clock, limits=LIMITS) as store:
            put = await store.put(message(b"next"))
            assert put.offsets[0][0] in (12, 13)
            assert await pulled(store, 0) == (PullStatus.OFFSET_ILLEGAL, 12)


async def test_what_expired_stays_so_though_the_log_still_has_it_when_queues_are_rebuilt(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.store.catalog.topic_put(TopicConfig(topic="t", queue_count=1, retention_ms=1_000))
        store.topic("other")
        await store.put(message(BODY, topic="other"))
        await store.put_bodies(*[BODY] * 9)
        await store.store.checkpoint()
        clock = store.clock
        clock.advance(1_001)
        await store.store.retention.run()
        kept = fingerprint(tmp_path / "s/consumequeue")
        assert len(kept) == 2  # a queue's last file always stays
    shutil.rmtree(tmp_path / "s/consumequeue")
    async with OpenStore(tmp_path / "s", clock=clock, limits=LIMITS) as store:
        assert segments(store)[0] == 0
        assert await pulled(store, 0) == (PullStatus.OFFSET_ILLEGAL, 9)
        assert await pulled(store, 0, topic="other") == (PullStatus.FOUND, 1)
        await store.store.checkpoint()
        await store.store.retention.run()
        assert fingerprint(tmp_path / "s/consumequeue") == kept


async def test_a_topic_with_a_shorter_retention_loses_its_messages_earlier(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        short = TopicConfig(topic="short", queue_count=1, retention_ms=1_000)
        store.store.catalog.topic_put(short)
        await store.put_bodies(BODY)
        await store.put(*[message(BODY, topic="short")] * 3)
        await store.put_bodies(BODY)
        store.clock.advance(1_001)
        await store.store.retention.run()
        assert await pulled(store, 0, topic="short") == (PullStatus.OFFSET_ILLEGAL, 3)
        assert await pulled(store, 0) == (PullStatus.FOUND, 1)
        assert segments(store)[0] == 0


async def test_a_wall_clock_that_jumps_ahead_expires_nothing_at_once(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 12)
        before = fingerprint(tmp_path / "s/commitlog")
        store.clock.wall_ms += 24 * HOUR_MS
        await store.store.retention.run()
        assert fingerprint(tmp_path / "s/commitlog") == before
        assert await pulled(store, 0) == (PullStatus.FOUND, 1)


async def test_after_a_start_with_a_wrong_clock_the_log_goes_slowly(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 80)
    clock = ManualClock(now_ms=store.clock.wall_ms + 24 * HOUR_MS)
    async with OpenStore(tmp_path / "s", clock=clock, limits=LIMITS) as store:
        assert len(segments(store)) == 20
        clock.advance(HOUR_MS)  # time to believe the clock
        for _ in range(5):
            await store.store.retention.run()
        assert len(segments(store)) == 18


async def test_settled_or_not_expired_messages_are_passed_over_and_counted(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        store.group()
        await store.put_bodies(*[BODY] * 8)
        leased = store.receive(3)
        store.ack(leased, 1)
        await store.pass_time(2_000)  # the leases end; two of the three go to the retry topic
        await advance_in_steps(store, 2)
        await store.put_bodies(b"young")
        assert store.receive().bodies == [b"young"]
        queue, retry = store.store.consumption.group_stats("g").queues
        assert (queue.consumer_offset, retry.consumer_offset) == (8, 2)
        assert store.store.retention.lost_message_count == 7
        copy = copy_store(tmp_path / "s", tmp_path / "copy")
    async with OpenStore(copy, clock=store.clock, limits=LIMITS) as store:
        assert store.receive().bodies == [b"young"]


async def test_a_leased_message_stays_until_it_is_settled(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        store.group()
        await store.put_bodies(*[BODY] * 12)
        leased = store.receive(1, lease_ms=12 * HOUR_MS)
        await advance_in_steps(store, 2)
        assert segments(store)[0] == 0
        assert await pulled(store, 0) == (PullStatus.FOUND, 1)
        assert store.ack(leased).acked_count == 1
        await advance_in_steps(store, 1)
        assert segments(store)[0] == 2 * 4_096


async def test_above_the_size_limit_the_oldest_segments_go(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=limits(retention_bytes=3 * 4_096)) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 24)
        await store.store.retention.run()
        assert segments(store) == [3 * 4_096, 4 * 4_096, 5 * 4_096]
        assert await pulled(store, 0) == (PullStatus.OFFSET_ILLEGAL, 12)


@pytest.mark.parametrize(("free", "is_deleted"), [(26, False), (16, False), (14, True)])
async def test_above_85_percent_the_oldest_segments_go_though_not_expired(
    tmp_path: Path, free: int, is_deleted: bool
) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 12)
        store.files.disk = (100, free)
        await store.store.retention.run()
        assert (segments(store)[0] > 0) == is_deleted


async def test_scheduled_messages_are_appended_again_before_their_segment_goes(
    tmp_path: Path,
) -> None:
    due_ms = BORN_MS + 30 * 24 * HOUR_MS
    size = limits(retention_bytes=2 * 4_096)
    async with OpenStore(tmp_path / "s", limits=size) as store:
        store.topic()
        store.topic(SCHEDULE_TOPIC)
        await store.put(*scheduled([b"one", b"two"], due_ms))
        await store.put_bodies(*[BODY] * 16)
        await store.store.retention.run()
        assert segments(store)[0] > 0
        queue = queue_of(store, SCHEDULE_TOPIC)
        assert (queue.min_offset, queue.max_offset) == (2, 4)
        assert [unit[2] for unit in queue.units(2, 2)] == [due_ms, due_ms]
    for path in (tmp_path / "s/consumequeue" / SCHEDULE_TOPIC / "0").iterdir():
        path.unlink()
    async with OpenStore(tmp_path / "s", limits=size) as store:
        queue = queue_of(store, SCHEDULE_TOPIC)
        assert (queue.min_offset, queue.max_offset) == (2, 4)
        assert [unit[2] for unit in queue.units(2, 2)] == [due_ms, due_ms]


async def test_a_message_that_is_long_to_come_does_not_keep_what_has_expired(
    tmp_path: Path,
) -> None:
    due_ms = BORN_MS + 300 * 24 * HOUR_MS
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        store.topic(SCHEDULE_TOPIC)
        await store.put(*scheduled([b"to come"], due_ms))
        await store.put_bodies(*[BODY] * 40)
        await advance_in_steps(store, 2)
        await store.put_bodies(b"new")
        for _ in range(20):
            store.clock.advance(60_000)
            await store.store.retention.run()
        first, last = segments(store)[0], segments(store)[-1]
        assert last - first <= 2 * 4_096
        queue = queue_of(store, SCHEDULE_TOPIC)
        assert queue.max_offset - queue.min_offset == 1
        assert queue.unit(queue.min_offset)[2] == due_ms


async def test_nothing_is_appended_again_while_segments_are_rewritten(tmp_path: Path) -> None:
    size = limits(retention_bytes=2 * 4_096, repair_interval_ms=60_000)
    async with OpenStore(tmp_path / "s", limits=size) as store:
        store.topic()
        store.topic(SCHEDULE_TOPIC)
        await store.put(*scheduled([b"one"], BORN_MS + 30 * 24 * HOUR_MS))
        await store.put_bodies(*[BODY] * 14)
        store.files.sync_failures = 1
        store.files.full.add("create")  # so that the repair waits for its next try
        answer = await store.put(message(b"x"))
        assert isinstance(answer.error, SyncFailed)
        end_offset = store.store._commit_log.append_offset
        with pytest.raises(StoreReadOnly):
            await store.store.retention.run()
        assert store.store._commit_log.append_offset == end_offset
        assert segments(store)[0] == 0


async def test_scheduled_messages_of_more_than_a_segment_are_appended_again(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=limits(retention_bytes=2 * 4_096)) as store:
        store.topic()
        store.topic(SCHEDULE_TOPIC)
        for body in (b"one", b"two", b"three"):
            await store.put(*scheduled([body + bytes(1_500)], BORN_MS + 30 * 24 * HOUR_MS))
        await store.put_bodies(*[BODY] * 16)
        await store.store.retention.run()
        queue = queue_of(store, SCHEDULE_TOPIC)
        assert (queue.min_offset, queue.max_offset) == (3, 6)


async def test_what_was_appended_again_stays_until_the_next_pass(tmp_path: Path) -> None:
    """It fills segments in which nothing else can be read: those may not go at once."""
    async with OpenStore(tmp_path / "s", limits=limits(retention_bytes=2 * 4_096)) as store:
        store.topic()
        store.topic(SCHEDULE_TOPIC)
        for _ in range(8):
            await store.put(*scheduled([bytes(1_500)], BORN_MS + 30 * 24 * HOUR_MS))
        store.files.disk = (100, 14)  # so full that all goes that may
        await store.store.retention.run()
        queue = queue_of(store, SCHEDULE_TOPIC)
        assert (queue.min_offset, queue.max_offset) == (6, 14)  # all six copies are there


async def test_durable_messages_that_are_not_visible_yet_are_kept(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        for _ in range(5):
            last = store.start_put([message(BODY)] * 4)
        log = store.store._commit_log
        while log.flushed_offset < log.append_offset:
            pass  # the loop must not learn of the sync yet
        await store.store.retention.run()
        await last
        assert len(store.pull_bodies()) == 20


def queue_of(store: OpenStore, topic: str) -> ConsumeQueue:
    return store.store.catalog.get_queues(topic)[0]


def scheduled(bodies: Iterable[bytes], due_ms: int) -> list[StoreMessage]:
    return [
        msgspec.structs.replace(
            message(body, topic=SCHEDULE_TOPIC),
            properties={"REAL_TOPIC": "t", "REAL_QID": "0", "TIMER_DELIVER_MS": str(due_ms)},
        )
        for body in bodies
    ]


@pytest.mark.parametrize(
    ("properties", "due_ms"),
    [
        (b"TIMER_DELIVER_MS\x0117\x02", 17),
        (b"a\x01b\x02TIMER_DELIVER_MS\x0117\x02c\x01d\x02", 17),
        (b"XTIMER_DELIVER_MS\x0117\x02", 0),
        (b"TIMER_DELIVER_MS\x01-17\x02", 0),
        (b"TIMER_DELIVER_MS\x01" + b"9" * 40 + b"\x02", 0),
        (b"", 0),
    ],
)
def test_the_due_time_is_read_from_the_properties(properties: bytes, due_ms: int) -> None:
    assert due_ms_of(properties) == due_ms


async def test_deleting_is_interrupted_anywhere_and_nothing_is_lost_or_comes_back(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s", limits=limits(retention_bytes=2 * 4_096)) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 24)
        copies: list[Path] = []
        unlink = store.files.unlink

        def copied_before(path: Path) -> None:
            copies.append(copy_store(tmp_path / "s", tmp_path / f"copy{len(copies)}"))
            unlink(path)

        store.files.unlink = copied_before  # type: ignore[method-assign]
        await store.store.retention.run()
        await asyncio.sleep(0)
        clock = store.clock
    assert len(copies) >= 5
    for copy in copies:
        async with OpenStore(copy, clock=clock) as store:
            assert await pulled(store, 0) == (PullStatus.OFFSET_ILLEGAL, 16)
            assert len(store.pull_bodies(queue_offset=16)) == 8
            assert (await store.put(message(b"next"))).offsets[0][0] == 24


async def test_nothing_is_remembered_of_a_topic_that_is_gone(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        for name in ("a", "b", "c"):
            store.topic(name)
            await store.put(message(BODY, topic=name))
            await store.store.retention.run()
            store.store.consumption.deletions.topic_delete(name)
        await store.store.retention.run()
        assert store.store.retention._first == {}
