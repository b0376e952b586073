"""Scheduled messages that are to come at another time: sooner, later, never twice, never lost."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from storage_engine.errors import BadRequest, DiskFull, StoreBusy
from storage_engine.records.delay_levels import DELAY_MS_MAX
from storage_engine.records.record import StoreMessage
from storage_engine.records.record_run import decode_records
from storage_engine.wire.scheduled import (
    ScheduledCancelRequest,
    ScheduledMoveRequest,
    ScheduledOutcome,
    ScheduledReply,
)
from tests.storage_engine.doubles import Killed, OpenStore, copy_store
from tests.storage_engine.groups.test_group_delete import WAYS, Restart
from tests.storage_engine.retention.deleting import killed
from tests.storage_engine.schedule.delaying import delayed, numbered, put_delayed
from tests.storage_engine.schedule.test_scheduled_messages import listed, pages_of

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def begin_move(store: OpenStore, number: int = 1, **when: int) -> list[ScheduledReply]:
    """Ask; the list gets the answer."""
    replies: list[ScheduledReply] = []
    request = ScheduledMoveRequest(topic="t", message_id=numbered(number), **when)
    store.store.scheduled.move(request, replies.append)
    return replies


async def moved(store: OpenStore, number: int = 1, **when: int) -> ScheduledReply:
    replies = begin_move(store, number, **when)
    await store.settled()
    (reply,) = replies
    return reply


def waiting_message(when: dict[str, int]) -> StoreMessage:
    return delayed(
        b"m",
        1,
        level=when.get("level", 0),
        delay_ms=when.get("delay_ms", 0),
        deliver_at_ms=when.get("deliver_at_ms", 0),
    )


async def waiting(tmp_path: Path, **when: int) -> OpenStore:
    """A store with message 1 for topic ``t``, which is to come in a day unless it is said when."""
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    await put_delayed(store, waiting_message(when or {"delay_ms": DAY_MS}))
    return store


@WAYS
@pytest.mark.parametrize("first", [{"delay_ms": DAY_MS}, {"level": 18}, {"deliver_at_ms": 0}])
@pytest.mark.parametrize("is_delay", [True, False])
async def test_it_comes_once_at_the_new_time_whatever_the_old_one_was(
    tmp_path: Path, again: Restart, first: dict[str, int], is_delay: bool
) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    now_ms = store.clock.now_ms()
    first = {name: value or now_ms + DAY_MS for name, value in first.items()}
    await put_delayed(store, waiting_message(first))
    when = {"delay_ms": HOUR_MS} if is_delay else {"deliver_at_ms": now_ms + HOUR_MS + 1}
    reply = await moved(store, **when)
    assert reply.outcome is ScheduledOutcome.DONE
    assert now_ms + HOUR_MS <= reply.due_ms <= now_ms + HOUR_MS + 2
    assert listed(store) == [(b"m", reply.due_ms)]
    store = again(store)
    assert [body for body, _ in listed(store)] == [b"m"]
    await store.pass_time(HOUR_MS - 2)
    assert store.pull_bodies() == []
    await store.pass_time(4)
    await store.pass_time(1)
    assert store.pull_bodies() == [b"m"]
    await store.pass_time(DAY_MS)
    assert store.pull_bodies() == [b"m"]
    await store.close()


async def test_a_later_time_holds_it_back(tmp_path: Path) -> None:
    store = await waiting(tmp_path, delay_ms=HOUR_MS)
    await moved(store, delay_ms=DAY_MS)
    await store.pass_time(2 * HOUR_MS)
    assert store.pull_bodies() == []
    await store.pass_time(DAY_MS)
    assert store.pull_bodies() == [b"m"]
    await store.close()


async def test_it_is_moved_and_cancelled_again_by_its_first_place(tmp_path: Path) -> None:
    store = await waiting(tmp_path)
    place = {"queue_id": 18, "queue_offset": 0}
    for delay_ms in (HOUR_MS, 2 * HOUR_MS, HOUR_MS):
        reply = await moved(store, delay_ms=delay_ms, **place)
        assert reply.outcome is ScheduledOutcome.DONE
    assert (reply.queue_id, reply.queue_offset) == (18, 3)
    cancel = ScheduledCancelRequest(topic="t", message_id=numbered(1), **place)
    assert store.store.scheduled.cancel(cancel).outcome is ScheduledOutcome.DONE
    assert (await moved(store, delay_ms=1)).outcome is ScheduledOutcome.GONE
    await store.pass_time(2 * DAY_MS)
    assert store.pull_bodies() == []
    await store.close()


async def test_a_latecomer_is_told(tmp_path: Path) -> None:
    store = await waiting(tmp_path, delay_ms=HOUR_MS)
    await store.pass_time(HOUR_MS + 1)
    assert (await moved(store, delay_ms=1)).outcome is ScheduledOutcome.DELIVERED
    assert (await moved(store, 7, delay_ms=1)).outcome is ScheduledOutcome.GONE
    await store.pass_time(DAY_MS)
    assert store.pull_bodies() == [b"m"]
    await store.close()


async def test_a_time_that_is_over_means_at_once(tmp_path: Path) -> None:
    store = await waiting(tmp_path)
    assert (await moved(store, deliver_at_ms=1)).outcome is ScheduledOutcome.DONE
    await store.pass_time(1)
    assert store.pull_bodies() == [b"m"]
    await store.close()


@pytest.mark.parametrize(
    "when",
    [
        {},
        {"delay_ms": 1, "deliver_at_ms": 1},
        {"delay_ms": -1},
        {"deliver_at_ms": -1},
        {"delay_ms": DELAY_MS_MAX + 1},
        {"deliver_at_ms": (1 << 63) - 1},
    ],
)
async def test_no_such_time_changes_nothing(tmp_path: Path, when: dict[str, int]) -> None:
    store = await waiting(tmp_path)
    before = listed(store)
    with pytest.raises(BadRequest) as refusal:
        begin_move(store, **when)
    assert str(refusal.value) in {
        "give either delay_ms or deliver_at_ms",
        "the delivery time must be in the future and at most 365 days ahead",
    }
    assert listed(store) == before
    await store.close()


async def test_two_at_a_time_do_not_both_win(tmp_path: Path) -> None:
    store = await waiting(tmp_path)
    replies = begin_move(store, delay_ms=HOUR_MS)
    with pytest.raises(StoreBusy):
        begin_move(store, delay_ms=2 * HOUR_MS)
    await store.settled()
    assert [reply.outcome for reply in replies] == [ScheduledOutcome.DONE]
    assert len(listed(store)) == 1
    await store.close()


async def test_without_room_the_old_time_stands(tmp_path: Path) -> None:
    store = await waiting(tmp_path, delay_ms=HOUR_MS)
    store.files.full.update(("create", "allocate"))
    with contextlib.suppress(DiskFull, StoreBusy):  # or the index finds none first
        for number in range(200):  # until the segment is full
            begin_move(store, delay_ms=HOUR_MS + number)
            await store.settled()
        raise AssertionError("there was always room")
    store.files.full.clear()
    assert len(listed(store)) == 1
    await store.pass_time(HOUR_MS + 200)
    await store.pass_time(1)
    assert store.pull_bodies() == [b"m"]
    await store.close()


async def test_what_was_for_a_deleted_topic_does_not_become_younger(tmp_path: Path) -> None:
    store = await waiting(tmp_path)
    store.store.consumption.deletions.topic_delete("t")
    store.topic()
    assert (await moved(store, delay_ms=HOUR_MS)).outcome is ScheduledOutcome.GONE
    await store.pass_time(2 * DAY_MS)
    assert store.pull_bodies() == []
    await store.close()


@pytest.mark.parametrize("operation", range(6))
async def test_a_kill_on_the_way_leaves_one_of_the_two_times(
    tmp_path: Path, operation: int
) -> None:
    store = await waiting(tmp_path)
    store.files.kill_at = operation
    with contextlib.suppress(Killed):
        begin_move(store, delay_ms=HOUR_MS)
        store.store.tick()
    store.files.kill_at = None
    store = killed(store)
    assert len(listed(store)) == 1
    await store.pass_time(2 * DAY_MS)
    await store.pass_time(1)
    assert store.pull_bodies() == [b"m"]
    await store.close()


async def test_an_answer_outlasts_a_power_cut_that_comes_with_it(tmp_path: Path) -> None:
    store = await waiting(tmp_path)
    await moved(store, delay_ms=HOUR_MS)
    copied = copy_store(tmp_path / "s", tmp_path / "copy")
    clock = store.clock
    await store.close()
    async with OpenStore(copied, clock=clock) as store:
        await store.pass_time(HOUR_MS + 1)
        await store.pass_time(1)
        assert store.pull_bodies() == [b"m"]


async def test_all_that_the_message_carries_goes_along(tmp_path: Path) -> None:
    store = await waiting(tmp_path)
    await moved(store, delay_ms=HOUR_MS)
    assert pages_of(store, "t")[0] == [b"m"]
    await store.pass_time(HOUR_MS + 1)
    await store.pass_time(1)
    (queue,) = store.store.catalog.get_queues("t")
    (record,) = decode_records(store.store.read_records([queue.unit(0)[:2]]))
    assert record.message_id == numbered(1)
    assert set(record.properties).isdisjoint({"TIMER_DELIVER_MS", "TIMER_DELAY_MS", "REAL_TOPIC"})
    await store.close()
