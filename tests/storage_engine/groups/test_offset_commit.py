"""Commits of those who pull go forward only; what a group lags is told exactly or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import (
    BadRequest,
    CommitRefused,
    DiskFull,
    GroupNotFound,
    OffsetOutOfRange,
    QueueNotFound,
)
from storage_engine.wire.deliveries import Nack, SettleRequest
from storage_engine.wire.groups import Dispatch, GroupConfig, StartFrom
from tests.storage_engine.doubles import FaultyFiles, OpenStore
from tests.storage_engine.groups.resetting import commit, consumer_offsets, filled, nack_of, stats
from tests.storage_engine.stopping import kill


async def test_a_commit_survives_a_kill(tmp_path: Path) -> None:
    store = await filled(OpenStore(tmp_path / "s").open(), 5, queues=2)
    reply = commit(store, 2)
    assert (reply.from_offset, reply.min_offset, reply.max_offset) == (2, 0, 5)
    assert commit(store, 4).from_offset == 2
    kill(store.store)
    async with OpenStore(tmp_path / "s") as again:
        assert consumer_offsets(again) == [4, 0]
        assert again.receive(1).bodies == [b"4"]


async def test_a_group_that_begins_with_a_commit_has_its_start_position_elsewhere(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3, queues=2)
        store.group("l", start_from=StartFrom.LATEST)
        commit(store, 1, group="l")
        assert consumer_offsets(store, "l") == [1, 3]


@pytest.mark.parametrize(
    ("offset", "queue_id", "group", "error"),
    [
        (6, 0, "g", OffsetOutOfRange),
        (-1, 0, "g", OffsetOutOfRange),
        (1, 0, "g", CommitRefused),
        (3, 1, "g", QueueNotFound),
        (3, 0, "nobody", GroupNotFound),
    ],
)
async def test_a_commit_out_of_range_or_backwards_is_refused(
    tmp_path: Path, offset: int, queue_id: int, group: str, error: type[Exception]
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 5)
        commit(store, 2)
        with pytest.raises(error):
            commit(store, offset, queue_id, group=group)
        assert consumer_offsets(store) == [2]
        assert commit(store, 2).from_offset == 2


async def test_a_queue_with_leases_takes_no_commit(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3)
        leased = store.receive(1)
        with pytest.raises(CommitRefused, match=r"^1 messages of queue 0 are in flight"):
            commit(store, 3)
        store.ack(leased)
        commit(store, 3)
        assert store.receive().bodies == []


async def test_a_full_disk_takes_no_commit(tmp_path: Path) -> None:
    files = FaultyFiles()
    async with OpenStore(tmp_path / "s", files=files) as store:
        await filled(store, 3)
        commit(store, 1)
        files.full.add("append")
        with pytest.raises(DiskFull):
            commit(store, 3)
        files.full.clear()
        assert store.receive().bodies == [b"1", b"2"]


async def test_a_commit_passes_over_what_is_settled_above_it(tmp_path: Path) -> None:
    store = await filled(OpenStore(tmp_path / "s").open(), 8)
    store.ack(store.receive(), 1, 3, 6)
    kill(store.store)  # and nothing is in flight any more
    async with OpenStore(tmp_path / "s") as again:
        commit(again, 3)
        assert consumer_offsets(again) == [4]
        assert again.receive().bodies == [b"4", b"5", b"7"]


async def test_progress_tells_ready_and_in_flight_apart_and_how_old_the_oldest_is(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        for body in (b"a", b"b", b"c", b"d"):
            await store.put_bodies(body)
            store.clock.advance(1_000)
        began_ms = store.clock.now_ms() - 4_000
        leased = store.receive(3)
        store.ack(leased, 0, 2)
        (queue,) = stats(store)
        assert (queue.consumer_offset, queue.inflight_count, queue.ready_count) == (1, 1, 1)
        assert queue.oldest_stored_ms == began_ms + 1_000
        store.ack(leased)
        store.ack(store.receive())
        (queue,) = stats(store)
        assert (queue.ready_count, queue.oldest_stored_ms) == (0, None)


async def test_progress_tells_what_waits_for_a_retry_and_where(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3)
        leased = store.receive()
        for record, delay_ms in zip(leased.records, (0, 60_000, 90_000), strict=True):
            store.store.consumption.settle(nack_of(leased, record, delay_ms))
        await store.settled()
        queue, retry = stats(store)
        assert (queue.retry_of, queue.scheduled_count, queue.ready_count) == ("", None, 0)
        assert (retry.topic, retry.retry_of) == ("%RETRY%g", "t")
        assert (retry.ready_count, retry.scheduled_count) == (1, 2)
        await store.pass_time(90_000)
        assert (stats(store)[1].ready_count, stats(store)[1].scheduled_count) == (3, 0)


async def test_the_age_of_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 1)
        commit(store, 0)
        segment = store.store._commit_log.segments()[0]
        segment.view[4:8] = bytes(4)  # the magic code
        assert stats(store)[0].oldest_stored_ms is None
        assert stats(store)[0].ready_count == 1
        with pytest.raises(BadRequest):
            store.receive(0)


async def test_what_was_released_is_settled_by_a_commit_too(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 4)
        leased = store.receive(2)
        releases = [
            Nack(
                topic="t", queue_id=0, lease_generation=leased.generation, queue_offset=offset,
                is_release=True,
            )
            for offset in (0, 1)
        ]  # fmt: skip
        store.store.consumption.settle(SettleRequest(group="g", nacks=releases))
        commit(store, 3)
        again = store.receive()
        assert (again.bodies, again.attempts) == ([b"3"], [1])
        store.ack(again)
        assert consumer_offsets(store) == [4]


async def test_who_waits_behind_what_a_commit_settles_is_served(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 2)
        ordered = GroupConfig(group="g", dispatch=Dispatch.EXCLUSIVE, is_ordered=True)
        store.store.catalog.group_put(ordered)
        leased = store.receive(1)
        store.store.consumption.settle(nack_of(leased, leased.records[0], delay_ms=5_000))
        answers, _ = store.park(1)
        assert answers == []
        commit(store, 1)
        assert [answer.bodies for answer in answers] == [[b"1"]]
