"""How many retries of a group wait is told exactly, whatever else waits in the schedule."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.schedule import scheduled_retries
from storage_engine.wire.deliveries import SettleRequest
from storage_engine.wire.groups import TopicLag
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.groups.resetting import ack_of, filled, nack_of, stats
from tests.storage_engine.schedule.delaying import delayed, put_delayed
from tests.storage_engine.stopping import kill

OTHERS = 1_500
DELAY_MS = 60_000


async def nacked(store: OpenStore, count: int, group: str = "g") -> None:
    """The group gives back so many messages, for later."""
    leased = store.receive(count, group=group)
    assert len(leased.records) == count
    for record in leased.records:
        nack = nack_of(leased, record, DELAY_MS)
        store.store.consumption.settle(SettleRequest(group=group, nacks=[nack.nacks[0]]))
    await store.settled()


def waiting(store: OpenStore, group: str = "g") -> int | None:
    """As progress and a reset tell it."""
    (retry,) = [each for each in stats(store, group) if each.retry_of]
    return retry.scheduled_count


def lags(store: OpenStore, group: str = "g") -> tuple[TopicLag, ...]:
    return store.store.consumption.group_stats(group).topics


def lag_of(store: OpenStore, group: str = "g") -> TopicLag:
    """Of the one topic that the group reads."""
    (found,) = lags(store, group)
    return found


def parts(lag: TopicLag) -> tuple[int | None, int, int, int, int | None]:
    """All, and of these: ready, in flight, waiting in the retry queue, scheduled."""
    return (
        lag.lag,
        lag.ready_count,
        lag.inflight_count,
        lag.retry_waiting_count,
        lag.retry_scheduled_count,
    )


async def test_other_peoples_messages_do_not_make_a_count_unknown(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3)
        others = [delayed(b"x", n, delay_ms=2 * DELAY_MS) for n in range(OTHERS)]
        for at in range(0, OTHERS, 100):
            await put_delayed(store, *others[at : at + 100])
        await nacked(store, 3)
        assert waiting(store) == 3
        await store.pass_time(DELAY_MS)
        assert waiting(store) == 0


async def test_a_count_is_known_again_soon_after_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled_retries, "_SLICE", 4)
    store = await filled(OpenStore(tmp_path / "s").open(), 3)
    await put_delayed(store, *(delayed(b"x", n, delay_ms=2 * DELAY_MS) for n in range(20)))
    await nacked(store, 3)
    kill(store.store)
    async with OpenStore(tmp_path / "s") as again:
        assert again.receive(1).bodies == []
        assert waiting(again) is None
        while waiting(again) is None:
            await asyncio.sleep(0)
        assert waiting(again) == 3


async def test_one_group_with_too_many_retries_leaves_others_alone_and_is_counted_again_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled_retries, "_PLACES_MAX", 3)
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 8)
        store.group("h")
        await nacked(store, 3)
        assert waiting(store) == 3
        await nacked(store, 1, "h")
        assert (waiting(store), waiting(store, "h")) == (None, 1)
        assert lag_of(store).lag is None
        await nacked(store, 1)  # counted neither
        assert (waiting(store), waiting(store, "h")) == (None, 1)
        await store.pass_time(DELAY_MS)
        await nacked(store, 1)
        assert (waiting(store), waiting(store, "h")) == (1, 0)


async def test_a_count_is_exact_however_many_retries_and_others_there_are(tmp_path: Path) -> None:
    """Many in one block, read by columns, and settled in another order than they stand."""
    async with OpenStore(tmp_path / "s", limits={"inflight_count_max": 1_000}) as store:
        await filled(store, 300)
        for at in range(0, 300, 100):
            await nacked(store, 100)
            await put_delayed(store, delayed(b"x", at, delay_ms=DELAY_MS // 2))
            store.clock.advance(1_000)
        assert waiting(store) == 300
        assert lag_of(store).lag == 300
        await store.pass_time(DELAY_MS - 3_000)
        assert parts(lag_of(store)) == (303, 3, 0, 100, 200)


async def test_retries_that_overtake_others_in_the_schedule_are_counted_no_more(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3)
        leased = store.receive(3)
        for record, delay_ms in zip(leased.records, (90_000, 20_003, 7_001), strict=True):
            store.store.consumption.settle(nack_of(leased, record, delay_ms))
        await store.settled()
        assert parts(lag_of(store)) == (3, 0, 0, 0, 3)
        await store.pass_time(8_000)
        assert parts(lag_of(store)) == (3, 0, 0, 1, 2)
        await store.pass_time(13_000)
        assert parts(lag_of(store)) == (3, 0, 0, 2, 1)


async def test_the_age_is_that_of_the_oldest_message_wherever_it_waits(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        stored_ms = []
        for body in (b"0", b"1", b"2"):
            await store.put_bodies(body)
            stored_ms.append(store.store._commit_log.store_timestamp_ms)
            store.clock.advance(1_000)
        leased = store.receive(3)
        # The oldest waits longest, and comes behind others in its retry queue then.
        for record, delay_ms in zip(leased.records, (50_000, 10_000, 10_000), strict=True):
            store.store.consumption.settle(nack_of(leased, record, delay_ms))
        await store.settled()
        assert lag_of(store).oldest_stored_ms == stored_ms[0]
        await store.pass_time(60_000)
        assert [each.retry_scheduled_count for each in lags(store)] == [0]
        assert lag_of(store).oldest_stored_ms == stored_ms[0]
        again = store.receive(3)
        assert [record.body for record in again.records] == [b"1", b"2", b"0"]
        oldest = again.records[2]
        store.store.consumption.settle(ack_of(again, oldest))
        assert lag_of(store).oldest_stored_ms == stored_ms[1]
        # A retry of a retry keeps the time at which its topic got the message.
        store.store.consumption.settle(nack_of(again, again.records[0], 5_000))
        await store.settled()
        assert lag_of(store).oldest_stored_ms == stored_ms[1]


async def test_the_oldest_of_very_many_is_found_bit_by_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled_retries, "_AT_ONCE_MAX", 1)
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        stored_ms = []
        for body in (b"0", b"1", b"2"):
            await store.put_bodies(body)
            stored_ms.append(store.store._commit_log.store_timestamp_ms)
            store.clock.advance(1_000)
        leased = store.receive(3)
        for record, delay_ms in zip(leased.records, (1_000, 50_000, 50_000), strict=True):
            store.store.consumption.settle(nack_of(leased, record, delay_ms))
        await store.settled()
        assert lag_of(store).oldest_stored_ms == stored_ms[0]
        await store.pass_time(2_000)
        assert store.ack(store.receive(1)).acked_count == 1
        assert lag_of(store).lag == 2
        store.store.tick()
        assert lag_of(store).oldest_stored_ms == stored_ms[1]


async def test_retries_of_a_topic_that_was_deleted_are_not_counted(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3)
        await nacked(store, 2)
        assert waiting(store) == 2
        store.store.consumption.deletions.topic_delete("t")
        store.topic()
        assert store.receive(1).bodies == []
        assert [each.scheduled_count for each in stats(store) if each.retry_of] in ([], [0])
