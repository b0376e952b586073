"""Delays that producers ask for: when they are over, what may happen meanwhile, who says so."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from storage_engine.errors import (
    DiskFull,
    QueueNotFound,
    RecordRefused,
    SyncFailed,
    TopicNotFound,
)
from storage_engine.records.delay_levels import DELAY_LEVELS_MS, DELAY_MS_MAX
from storage_engine.records.record import decode_records
from storage_engine.records.schedule_topic import SCHEDULE_QUEUES, SCHEDULE_TOPIC
from storage_engine.records.scheduled_message import Wait
from storage_engine.schedule.schedule import SILENCE_MS_MAX
from storage_engine.wire.reads import PullRequest
from storage_engine.wire.scheduled import (
    ScheduledCancelRequest,
    ScheduledListRequest,
    ScheduledOutcome,
    ScheduledReply,
    ScheduledSendRequest,
)
from storage_engine.wire.topics import TopicRef
from tests.storage_engine.delaying import delayed, numbered, put_delayed, until_delivered
from tests.storage_engine.doubles import ManualClock, OpenStore, copy_store, message

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


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


def listed(store: OpenStore, *, messages_max: int = 100) -> list[tuple[bytes, int]]:
    """(body, due time) of all pages."""
    found: list[tuple[bytes, int]] = []
    queue_id = queue_offset = 0
    while True:
        head, content = store.store.scheduled.page(
            ScheduledListRequest(
                topic="t", queue_id=queue_id, queue_offset=queue_offset,
                messages_max=messages_max, bytes_max=1 << 20,
            )
        )  # fmt: skip
        bodies = [record.body for record in decode_records(content)]
        assert len(bodies) <= messages_max
        found += zip(bodies, head.due_ms, strict=True)
        if head.is_end:
            return found
        queue_id, queue_offset = head.queue_id, head.queue_offset


@pytest.mark.parametrize("level", [*range(1, 19), 19, 2**31 - 1])
async def test_each_level_waits_as_long_as_rocketmqs(tmp_path: Path, level: int) -> None:
    delay_ms = DELAY_LEVELS_MS[min(level, 18) - 1]
    async with OpenStore(tmp_path) as store:
        store.topic()
        put = await put_delayed(store, delayed(b"later", level=level))
        assert put.error is None
        queue = store.store.queries.queues_of(SCHEDULE_TOPIC)[min(level, 18) - 1]
        assert queue.max_offset == 1
        assert queue.unit(0)[2] == store.clock.now_ms() + delay_ms
        await store.pass_time(delay_ms - 1)
        assert store.pull_bodies() == []
        await store.pass_time(1)
        assert store.pull_bodies() == [b"later"]
        await store.store.checkpoint()
    table = json.loads((tmp_path / "config/delayOffset.json").read_text())["offsetTable"]
    assert table.pop(str(min(level, 18))) == 1
    assert set(table.values()) == {0}


@pytest.mark.parametrize("is_moment", [False, True])
async def test_any_time_comes_in_order_each_once_under_its_id(
    tmp_path: Path, is_moment: bool
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        now_ms = store.clock.now_ms() + 1
        messages = []
        for number, delay_ms in enumerate([5_000, 1, 70_000, 365 * DAY_MS, 400_000, 5_000]):
            wait = Wait(deliver_at_ms=now_ms + delay_ms) if is_moment else Wait(delay_ms=delay_ms)
            messages.append(delayed(b"%d" % number, number, **wait._asdict()))
        await put_delayed(store, *messages)
        expected = {0: [], 1: [1], 4_999: [1], 5_000: [1, 0, 5], 69_999: [1, 0, 5],
                    70_000: [1, 0, 5, 2], 400_000: [1, 0, 5, 2, 4],
                    365 * DAY_MS: [1, 0, 5, 2, 4, 3]}  # fmt: skip
        passed_ms = 0
        for at_ms, numbers in expected.items():
            await store.pass_time(at_ms - passed_ms)
            passed_ms = at_ms
            assert store.pull_bodies() == [b"%d" % number for number in numbers]
        _, records = store.store.pull(
            PullRequest(topic="t", queue_id=0, queue_offset=3, messages_max=1, bytes_max=9_999)
        )
        (record,) = decode_records(store.store.read_records(records))
        assert record.message_id == numbered(2)
        assert not {"REAL_TOPIC", "REAL_QID", "TIMER_DELIVER_MS", "TIMER_DELAY_MS"} & set(
            record.properties
        )


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"REAL_TOPIC": "none"}, TopicNotFound.code),
        ({"REAL_TOPIC": SCHEDULE_TOPIC}, TopicNotFound.code),
        ({"REAL_QID": "1"}, QueueNotFound.code),
        ({"REAL_QID": "-1"}, QueueNotFound.code),
        ({"REAL_QID": ""}, QueueNotFound.code),
        ({"REAL_QID": "9" * 30}, QueueNotFound.code),
        ({"TIMER_DELAY_MS": "0"}, RecordRefused.code),
        ({"TIMER_DELAY_MS": "-1"}, RecordRefused.code),
        ({"TIMER_DELAY_MS": "NaN"}, RecordRefused.code),
        ({"TIMER_DELAY_MS": ""}, RecordRefused.code),
        ({"TIMER_DELAY_MS": str(DELAY_MS_MAX + 1)}, RecordRefused.code),
        ({"TIMER_DELAY_MS": str(2**63)}, RecordRefused.code),
        ({"TIMER_DELIVER_MS": ""}, RecordRefused.code),
        ({"TIMER_DELIVER_MS": "soon"}, RecordRefused.code),
        ({"TIMER_DELIVER_MS": str(2**63)}, RecordRefused.code),
        ({"TIMER_DELIVER_MS": "999999999999999"}, RecordRefused.code),
        ({"DELAY": "0"}, RecordRefused.code),
        ({"DELAY": "-1"}, RecordRefused.code),
    ],
)
async def test_a_record_that_cannot_be_scheduled_is_refused_and_never_immediate(
    tmp_path: Path, changes: dict[str, str], code: int
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        good = delayed(b"good", 1, delay_ms=1_000)
        bad = msgspec.structs.replace(good, properties={**good.properties, **changes})
        put = await put_delayed(store, good, bad, message(b"plain"), good)
        assert [offset for offset, _ in put.offsets] == [0, -code, 0, 1]
        assert store.pull_bodies() == [b"plain"]
        await store.pass_time(366 * DAY_MS)
        assert store.pull_bodies() == [b"plain", b"good", b"good"]


async def test_the_property_of_another_name_that_ends_like_the_due_time_stays_as_it_is(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        one = delayed(b"a", delay_ms=1_000)
        own = {"MY_TIMER_DELIVER_MS": "0" * 13, **one.properties}
        await put_delayed(store, msgspec.structs.replace(one, properties=own))
        await store.pass_time(999)
        assert store.pull_bodies() == []
        await store.pass_time(1)
        assert store.pull_bodies() == [b"a"]


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, DAY_MS])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_clock_jump_makes_nothing_early_nor_late(
    tmp_path: Path, jump_ms: int, restarts: bool
) -> None:
    store = OpenStore(tmp_path).open()
    store.topic()
    await put_delayed(
        store,
        delayed(b"delay", 1, delay_ms=5_000),
        delayed(b"level", 2, level=2),
        delayed(b"moment", 3, deliver_at_ms=store.clock.now_ms() + 5_001),
    )
    await store.settled()
    store.clock.wall_ms += jump_ms
    await store.pass_time(1_000)
    if restarts:
        await store.close()
        store = OpenStore(tmp_path, clock=store.clock).open()
    await put_delayed(store, delayed(b"after", 4, delay_ms=5_000))
    early = [b"moment"] if restarts and jump_ms > 0 else []  # a start believes the wall clock
    await store.pass_time(3_998)
    assert store.pull_bodies() == early
    await store.pass_time(1)
    on_time = {b"delay", b"level"} | (set() if restarts and jump_ms < 0 else {b"moment"})
    assert set(store.pull_bodies()) == on_time
    await store.pass_time(1_000)
    assert len(store.pull_bodies()) == len(on_time)
    await store.pass_time(1)
    assert set(store.pull_bodies()) == on_time | {b"after"}
    await store.close()


# Who says when --------------------------------------------------------------------------------


async def test_beat_delivers_and_after_three_silent_seconds_the_engine_does(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        assert store.store.stats(0).degraded == []
        store.store.deliver_due()
        await put_delayed(store, delayed(b"a", delay_ms=1_000))
        await put_delayed(store, delayed(b"b", delay_ms=2_000))
        await put_delayed(store, delayed(b"c", delay_ms=SILENCE_MS_MAX + 1_000))
        await store.pass_time(1_500)
        assert store.pull_bodies() == []  # nobody has asked yet
        store.store.deliver_due()
        assert await until_delivered(store) == [b"a"]
        assert store.store.stats(0).degraded == []
        await store.pass_time(SILENCE_MS_MAX)
        assert store.pull_bodies() == [b"a"]
        await store.pass_time(1)
        assert store.pull_bodies() == [b"a", b"b", b"c"]
        assert store.store.stats(0).degraded == ["beat"]
        store.store.deliver_due()
        assert store.store.stats(0).degraded == []


async def test_an_engine_that_nobody_ever_asks_delivers_from_the_start(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_delayed(store, delayed(b"a", delay_ms=100))
        await store.pass_time(100)
        assert store.pull_bodies() == [b"a"]


# One by one -----------------------------------------------------------------------------------


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
    async with OpenStore(tmp_path / "a") as store:
        store.topic()
        await put_delayed(store, delayed(b"a", 1, delay_ms=1_000), delayed(b"b", 2, delay_ms=1_000))
        won = cancelled(store, 1) if is_cancelled else await sent(store, 1)
        assert won is ScheduledOutcome.DONE
        copied = copy_store(tmp_path / "a", tmp_path / "b")
        clock = store.clock
    async with OpenStore(copied, clock=clock) as store:
        await store.pass_time(1_000)
        expected = [b"b"] if is_cancelled else [b"a", b"b"]
        assert store.pull_bodies() == expected


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
        assert store.store.queries.queues_of(SCHEDULE_TOPIC)[18].min_offset == 2
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


# Interruptions --------------------------------------------------------------------------------


async def test_a_kill_at_any_time_delivers_each_once(tmp_path: Path) -> None:
    clock = ManualClock()
    async with OpenStore(tmp_path / "0", clock=clock) as store:
        store.topic()
        await put_delayed(store, *[delayed(b"%d" % n, n, delay_ms=1_000 + n % 3) for n in range(9)])
    for run in range(6):  # each start meets what a kill left in the middle of a delivery
        store = OpenStore(copy_store(tmp_path / f"{run}", tmp_path / f"{run}x"), clock=clock).open()
        clock.advance(500)
        store.store.tick()
        copy_store(tmp_path / f"{run}x", tmp_path / f"{run + 1}")
        await store.settled()
        await store.close()
    async with OpenStore(tmp_path / "6", clock=clock) as store:
        await store.settled()
        assert sorted(store.pull_bodies()) == [b"%d" % n for n in range(9)]
        assert store.store.consumption.schedule.pending_count == 0


async def test_a_full_disk_holds_them_back_and_they_come_when_there_is_room(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_delayed(store, *[delayed(bytes(1_500), n, delay_ms=1_000) for n in range(4)])
        store.files.full |= {"create", "allocate"}
        await store.pass_time(1_000)
        assert len(store.pull_bodies()) < 4
        store.files.full.clear()
        await store.settled()
        assert len(store.pull_bodies()) == 4


async def test_a_sync_that_fails_while_they_are_delivered_loses_and_doubles_none(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_delayed(store, *[delayed(b"%d" % n, n, delay_ms=1_000) for n in range(5)])
        store.files.sync_failures = 1
        store.clock.advance(1_000)
        store.store.tick()
        with pytest.raises(SyncFailed):
            await store.store.durability.durable_to(store.store.stats(0).append_offset)
        while store.store._commit_log._failed_sync or store.store.durability.refusal:
            await asyncio.sleep(0)
        await store.settled()
        assert store.pull_bodies() == [b"%d" % n for n in range(5)]


async def test_an_older_stores_schedule_gets_the_queues_it_lacks(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        store.topic(SCHEDULE_TOPIC, queues=19)
        await store.settled()
        await put_delayed(store, delayed(b"a", deliver_at_ms=store.clock.now_ms() + 10))
        assert len(store.store.queries.queues_of(SCHEDULE_TOPIC)) == SCHEDULE_QUEUES
        await store.pass_time(10)
        assert store.pull_bodies() == [b"a"]


async def test_levels_that_rocketmq_has_delivered_are_not_delivered_again(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_delayed(store, *[delayed(b"%d" % n, n, level=1) for n in range(3)])
        clock = store.clock
    for name in ("consumerOffset.json", "delayOffset.json"):
        (tmp_path / "config" / name).unlink(missing_ok=True)
    (tmp_path / "offsets.journal").unlink()
    (tmp_path / "config/delayOffset.json").write_text('{"offsetTable":{"1":2,"2":77}}')
    async with OpenStore(tmp_path, clock=clock) as store:
        await store.pass_time(1_000)
        assert store.pull_bodies() == [b"2"]
