"""Delays that producers ask for: when they are over, what may happen meanwhile, who says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from storage_engine.errors import (
    BadRequest,
    QueueNotFound,
    RecordRefused,
    SyncFailed,
    TopicNotFound,
)
from storage_engine.records.delay_levels import DELAY_LEVELS_MS, DELAY_MS_MAX
from storage_engine.records.record_run import decode_records
from storage_engine.records.schedule_topic import SCHEDULE_QUEUES, SCHEDULE_TOPIC
from storage_engine.records.scheduled_message import Wait
from storage_engine.schedule.schedule import SILENCE_MS_MAX
from storage_engine.wire.reads import PullRequest
from storage_engine.wire.scheduled import DELIVER_AHEAD_MS_MAX
from tests.storage_engine.doubles import ManualClock, OpenStore, copy_store, message
from tests.storage_engine.independent_reader import rocketmq_json
from tests.storage_engine.schedule.delaying import delayed, numbered, put_delayed, until_delivered

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize("level", [*range(1, 19), 19, 2**31 - 1])
async def test_each_level_waits_as_long_as_rocketmqs(tmp_path: Path, level: int) -> None:
    delay_ms = DELAY_LEVELS_MS[min(level, 18) - 1]
    async with OpenStore(tmp_path) as store:
        store.topic()
        put = await put_delayed(store, delayed(b"later", level=level))
        assert put.error is None
        queue = store.store.catalog.get_queues(SCHEDULE_TOPIC)[min(level, 18) - 1]
        assert queue.max_offset == 1
        assert queue.unit(0)[2] == store.clock.now_ms() + delay_ms
        await store.pass_time(delay_ms - 1)
        assert store.pull_bodies() == []
        await store.pass_time(1)
        assert store.pull_bodies() == [b"later"]
        await store.store.checkpoint()
    table = rocketmq_json(tmp_path / "config/delayOffset.json")["offsetTable"]
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
        store.store.consumption.schedule.deliver_due()
        await put_delayed(store, delayed(b"a", delay_ms=1_000))
        await put_delayed(store, delayed(b"b", delay_ms=2_000))
        await put_delayed(store, delayed(b"c", delay_ms=SILENCE_MS_MAX + 1_000))
        await store.pass_time(1_500)
        assert store.pull_bodies() == []  # nobody has asked yet
        store.store.consumption.schedule.deliver_due()
        assert await until_delivered(store) == [b"a"]
        assert store.store.stats(0).degraded == []
        await store.pass_time(SILENCE_MS_MAX)
        assert store.pull_bodies() == [b"a"]
        await store.pass_time(1)
        assert store.pull_bodies() == [b"a", b"b", b"c"]
        assert store.store.stats(0).degraded == ["beat"]
        store.store.consumption.schedule.deliver_due()
        assert store.store.stats(0).degraded == []


async def test_beat_may_ask_for_what_becomes_due_and_each_comes_at_its_time(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        schedule = store.store.consumption.schedule
        schedule.deliver_due(ahead_ms=2_000)
        await put_delayed(store, delayed(b"a", 1, delay_ms=500))
        await put_delayed(store, delayed(b"b", 2, deliver_at_ms=store.clock.now_ms() + 1_000))
        await put_delayed(store, delayed(b"c", 3, delay_ms=2_500))
        await store.pass_time(497)
        assert store.pull_bodies() == []
        await store.pass_time(1)
        assert store.pull_bodies() == [b"a"]
        await store.pass_time(499)
        assert store.pull_bodies() == [b"a"]
        await store.pass_time(1)
        assert store.pull_bodies() == [b"a", b"b"]
        schedule.deliver_due()  # asks for no more, and takes nothing back
        await store.pass_time(SILENCE_MS_MAX)
        assert store.pull_bodies() == [b"a", b"b"]  # due when nobody had asked so far ahead
        await store.pass_time(1)
        assert store.pull_bodies() == [b"a", b"b", b"c"]


async def test_no_tick_need_come_between_when_a_message_is_due_soon(tmp_path: Path) -> None:
    async with OpenStore(tmp_path, limits={"schedule_step_ms": 20}) as store:
        store.topic()
        schedule = store.store.consumption.schedule
        schedule.deliver_due()
        await put_delayed(store, delayed(b"a", 1, delay_ms=30), delayed(b"b", 2, delay_ms=90))
        store.store.tick()  # finds the schedule's queues
        schedule.deliver_due(ahead_ms=60)
        store.clock.advance(100)
        while not store.pull_bodies():
            await asyncio.sleep(0)
        assert store.pull_bodies() == [b"a"]  # nobody has asked for the other one


@pytest.mark.parametrize("ahead_ms", [-1, DELIVER_AHEAD_MS_MAX + 1, 2**63 - 1])
async def test_nobody_asks_further_ahead_than_is_sensible(tmp_path: Path, ahead_ms: int) -> None:
    async with OpenStore(tmp_path) as store:
        with pytest.raises(BadRequest, match="ahead_ms"):
            store.store.consumption.schedule.deliver_due(ahead_ms)
        assert not store.store.consumption.schedule._is_asked


async def test_an_engine_that_nobody_ever_asks_delivers_from_the_start(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await put_delayed(store, delayed(b"a", delay_ms=100))
        await store.pass_time(100)
        assert store.pull_bodies() == [b"a"]


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
        assert len(store.store.catalog.get_queues(SCHEDULE_TOPIC)) == SCHEDULE_QUEUES
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
