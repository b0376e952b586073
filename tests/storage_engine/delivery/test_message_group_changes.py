"""Order by message group while all around it changes: filters, resets, stops, settings, queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import DiskFull, GroupNotFound
from storage_engine.moves.retries import SUSPEND_MS
from storage_engine.wire.groups import Dispatch
from storage_engine.wire.offsets import ResetTo
from tests.storage_engine.delivery.grouped import (
    ack,
    dead_count,
    grouped,
    nack,
    opened,
    ordered_group,
    put,
    received,
    set_group,
    texts_of,
)
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.groups.resetting import assert_void, commit, reset
from tests.storage_engine.retention.deleting import delete_group, killed, park

# Filters ------------------------------------------------------------------------------------------


async def put_tagged(store: OpenStore, *texts: str) -> None:
    """``a1/x`` is the message ``a1/x`` with tag ``x``."""
    for text in texts:
        await store.put(grouped(text, tag=text.partition("/")[2]))


def wanted(store: OpenStore, tags: str) -> list[str]:
    return texts_of(store.receive(lease_ms=60_000, tags=tags))


async def test_what_a_filter_passes_over_is_settled_and_holds_nobody_up(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await put_tagged(store, "a1/y", "a2/x", "b1/y", "a3/y", "a4/x", "b2/x")
    first = store.receive(lease_ms=60_000, tags="x")
    assert texts_of(first) == ["a2/x", "b2/x"]
    ack(store, first)
    assert store.consumer_offset() == 4
    assert wanted(store, "x") == ["a4/x"]
    await store.close()


async def test_another_filter_judges_what_was_passed_over_again(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await put_tagged(store, "a1/x", "a2/x", "b1/x", "a3/y", "a4/x")
    first = store.receive(lease_ms=60_000, tags="x || y")
    assert texts_of(first) == ["a1/x", "b1/x"]
    ack(store, first, "b1/x")
    assert wanted(store, "y") == []  # a1 is in flight
    nack(store, first, "a1/x", delay_ms=10)
    await store.pass_time(10)
    again = store.receive(lease_ms=60_000, tags="y")
    assert texts_of(again) == ["a1/x"]  # it was wanted before
    ack(store, again)
    last = store.receive(lease_ms=60_000, tags="y")
    assert texts_of(last) == ["a3/y"]
    ack(store, last)
    assert store.consumer_offset() == 5
    await store.close()


# Resets, commits and retention --------------------------------------------------------------------


async def test_a_reset_begins_again_in_order_and_voids_receipts(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", "b1", "a3")
    first = store.receive(lease_ms=60_000)
    nack(store, first, "b1")
    reset(store, ResetTo.EARLIEST)
    assert_void(store, first)
    again = store.receive(lease_ms=60_000)
    assert (texts_of(again), again.attempts) == (["a1", "b1"], [1, 1])
    ack(store, again)
    assert received(store) == ["a2"]
    await store.close()


async def test_a_reset_over_what_waits_forgets_it(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", "a3")
    assert received(store) == ["a1"]
    reset(store, ResetTo.OFFSET, 2)
    assert received(store) == ["a3"]
    reset(store, ResetTo.LATEST)
    await put(store, "a4")
    assert received(store) == ["a4"]
    await store.close()


async def test_a_commit_settles_what_waits_below_it(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", "a3", "a4")
    nack(store, store.receive(lease_ms=60_000), "a1", delay_ms=10)
    commit(store, 2)
    assert received(store) == ["a3"]
    await store.close()


async def test_what_retention_takes_is_waited_for_no_more(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "b1", "a2", "b2", "a3", "b3", "b4", "b5")
    assert received(store) == ["a1", "b1"]
    store.store._queues.by_topic[b"t"][0].raise_min(4)
    assert received(store) == ["a3", "b3"]
    assert received(store) == []
    await store.close()


# Stops --------------------------------------------------------------------------------------------


async def test_after_a_restart_what_was_in_flight_comes_again_in_order(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "b1", "a2", "b2", "a3")
    first = store.receive(lease_ms=60_000)
    ack(store, first, "b1")
    assert received(store) == ["b2"]
    store = killed(store)
    again = store.receive(lease_ms=60_000)
    assert texts_of(again) == ["a1", "b2"]
    ack(store, again, "a1")
    assert received(store) == ["a2"]
    await store.close()


async def test_after_a_restart_a_receipt_from_before_settles_what_waits(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", "a3", batch_per_group=2)
    first = store.receive(lease_ms=60_000)
    store = killed(store)
    store.store.catalog.group_put(ordered_group(batch_per_group=1))
    again = store.receive(lease_ms=60_000)
    assert texts_of(again) == ["a1"]
    assert ack(store, first, "a2").acked_count == 1
    ack(store, again)
    assert received(store) == ["a3"]
    await store.close()


@pytest.mark.parametrize("dispatch", [Dispatch.SHARED, Dispatch.EXCLUSIVE])
async def test_a_message_that_always_fails_is_dead_though_the_engine_restarts_each_time(
    tmp_path: Path, dispatch: Dispatch
) -> None:
    store = await opened(tmp_path, "a1", "a2", max_reconsume_times=3, dispatch=dispatch)
    for attempt in (1, 2, 3, 4):
        leased = store.receive(1, lease_ms=60_000)
        assert (texts_of(leased), leased.attempts) == (["a1"], [attempt])
        nack(store, leased, "a1")
        store.store.tick()
        if attempt == 2:
            await store.store.checkpoint()
        if attempt < 4:
            store = killed(store)
    await store.settled()
    assert dead_count(store) == 1
    assert received(store, 1) == ["a2"]
    await store.close()


async def test_failures_are_counted_from_zero_after_a_reset_and_gone_after_a_settle(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path, "a1", "b1")
    nack(store, store.receive(lease_ms=60_000), "a1", "b1", delay_ms=10)
    await store.pass_time(10)
    ack(store, store.receive(lease_ms=60_000), "b1")
    await store.store.checkpoint()
    progress = store.store._consumer_offsets.find("g", "t", 0)
    assert progress is not None
    assert progress.failures == {0: 1}
    reset(store, ResetTo.EARLIEST)
    store = killed(store)
    again = store.receive(lease_ms=60_000)
    assert (texts_of(again), again.attempts) == (["a1", "b1"], [1, 1])
    await store.close()


async def test_a_reset_that_the_disk_refuses_leaves_the_count(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1")
    nack(store, store.receive(lease_ms=60_000), "a1", delay_ms=10)
    store.store.tick()
    store.files.full.add("append")
    with pytest.raises(DiskFull):
        reset(store, ResetTo.EARLIEST)
    store.files.full.clear()
    await store.pass_time(10)
    assert store.receive(lease_ms=60_000).attempts == [2]
    await store.close()


async def test_a_full_disk_puts_the_count_off_and_loses_none(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1")
    leased = store.receive(lease_ms=60_000)
    store.files.full.add("append")
    nack(store, leased, "a1", delay_ms=10)
    store.store.tick()
    store.files.full.clear()
    store.store.tick()
    store = killed(store)
    assert store.receive(lease_ms=60_000).attempts == [2]
    await store.close()


# Groups, queues and settings ----------------------------------------------------------------------


async def test_a_deleted_group_leaves_nothing_that_waits_or_was_counted(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", "b1")
    nack(store, store.receive(lease_ms=60_000), "b1")
    answers = park(store)
    delete_group(store)
    assert [type(answer) for answer in answers] == [GroupNotFound]
    store.store.tick()
    store = killed(store)
    store.store.catalog.group_put(ordered_group())
    again = store.receive(lease_ms=60_000)
    assert (texts_of(again), again.attempts) == (["a1", "b1"], [1, 1])
    await store.close()


async def test_a_queue_that_is_added_has_an_order_of_its_own(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2")
    assert received(store) == ["a1"]
    store.topic(queues=2)
    await put(store, "a3", "a4", queue_id=1)
    assert received(store) == ["a3"]
    await store.close()


@pytest.mark.parametrize("dispatch", [Dispatch.SHARED, Dispatch.EXCLUSIVE])
async def test_a_group_that_becomes_unordered_or_exclusive_misses_none(
    tmp_path: Path, dispatch: Dispatch
) -> None:
    store = await opened(tmp_path, "a1", "a2", "b1", "-1", "a3", "b2", "c1")
    first = store.receive(3, lease_ms=60_000)
    assert texts_of(first) == ["a1", "b1", "-1"]
    ack(store, first, "b1")
    nack(store, first, "a1", delay_ms=10)
    await store.pass_time(10)
    set_group(store, dispatch, is_ordered=dispatch is Dispatch.EXCLUSIVE)
    if dispatch is Dispatch.EXCLUSIVE:
        assert received(store) == []  # not before all of the queue is settled
        ack(store, first, "-1")
    again = store.receive(lease_ms=60_000)
    got = list(zip(texts_of(again), again.attempts, strict=True))
    if dispatch is Dispatch.SHARED:
        got.sort()
    assert got == [("a1", 2), ("a2", 1), ("a3", 1), ("b2", 1), ("c1", 1)]
    assert received(store) == []
    await store.close()


async def test_a_group_that_becomes_ordered_waits_for_what_is_in_flight(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "b1", "a2", "b2", "c1", is_ordered=False)
    first = store.receive(2, lease_ms=60_000)
    set_group(store, Dispatch.SHARED, is_ordered=True)
    assert received(store) == ["c1"]
    ack(store, first, "a1")
    nack(store, first, "b1")
    assert received(store) == ["a2"]
    await store.pass_time(SUSPEND_MS)
    assert received(store) == ["b1"]
    await store.close()


async def test_an_exclusive_group_that_becomes_shared_keeps_its_order(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", "b1", "a3", dispatch=Dispatch.EXCLUSIVE)
    first = store.receive(3, lease_ms=60_000)
    nack(store, first, "a2", delay_ms=20)
    nack(store, first, "a1", delay_ms=10)
    set_group(store, Dispatch.SHARED, is_ordered=True)
    assert received(store) == []
    await store.pass_time(20)
    for text in ("a1", "a2", "a3"):
        leased = store.receive(lease_ms=60_000)
        assert texts_of(leased) == [text]
        ack(store, leased)
    await store.close()
