"""What a group has still to do: all of it, and only what its filter wants."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from storage_engine.lag import unread
from storage_engine.wire.deliveries import SettleRequest
from storage_engine.wire.groups import LagIs, TopicLag
from storage_engine.wire.offsets import ResetTo
from tests.storage_engine.doubles import OpenStore, message
from tests.storage_engine.groups.resetting import filled, nack_of, reset
from tests.storage_engine.retention.deleting import delete_group
from tests.storage_engine.stopping import kill


def lag_of(store: OpenStore, group: str = "g") -> TopicLag:
    (found,) = store.store.consumption.group_stats(group).topics
    return found


async def put_tags(store: OpenStore, *tags: str | None, queue_id: int = 0) -> None:
    for tag in tags:
        await store.put(message(b"x", tag=tag, queue_id=queue_id))


async def test_messages_that_wait_for_their_retry_are_lag_and_have_an_age(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 4)
        stored_ms = store.clock.now_ms()
        leased = store.receive(4)
        for record in leased.records:
            store.store.consumption.settle(nack_of(leased, record, 60_000))
        await store.pass_time(5_000)

        lag = lag_of(store)

        assert (lag.lag, lag.offset_lag, lag.oldest_stored_ms) == (4, 0, stored_ms)
        assert (lag.ready_count, lag.inflight_count) == (0, 0)
        assert (lag.retry_waiting_count, lag.retry_scheduled_count) == (0, 4)
        await store.pass_time(60_000)
        assert lag_of(store).retry_waiting_count == 4
        store.ack(store.receive(4))
        assert (lag_of(store).lag, lag_of(store).oldest_stored_ms) == (0, None)


async def test_lag_has_what_was_not_delivered_what_is_in_flight_and_what_failed(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 6)
        leased = store.receive(3)
        store.store.consumption.settle(nack_of(leased, leased.records[0], 60_000))
        dead = replace(nack_of(leased, leased.records[1]).nacks[0], is_dead=True)
        store.store.consumption.settle(SettleRequest(group="g", nacks=[dead]))
        await store.settled()

        lag = lag_of(store)

        assert (lag.lag, lag.ready_count, lag.inflight_count) == (5, 3, 1)
        assert lag.retry_scheduled_count == 1


async def test_lag_through_a_filter_counts_only_what_it_wants(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic(queues=2)
        store.group()
        assert store.receive(1, tags="a || c").bodies == []
        for _ in range(4):
            await put_tags(store, "a", "b", None, "b")
            await put_tags(store, "c", "b", "d", queue_id=1)

        lag = lag_of(store)

        assert (lag.lag, lag.lag_is, lag.offset_lag) == (8, LagIs.EXACT, 28)
        first = store.receive(3, tags="a || c")
        assert (lag_of(store).lag, lag_of(store).inflight_count) == (8, 3)
        store.ack(first)
        assert lag_of(store).lag == 5
        reset(store, ResetTo.EARLIEST)
        assert lag_of(store).lag == 8


async def test_the_filter_is_known_after_a_kill_before_anybody_reads(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    store.group()
    store.receive(1, tags="a")
    await put_tags(store, "a", "b", "b", "a")
    await store.store.checkpoint()
    kill(store.store)

    async with OpenStore(tmp_path / "s") as again:
        assert lag_of(again).lag == 2
        assert again.receive(4, tags="b").bodies == [b"x", b"x"]  # another may be said
        assert lag_of(again).lag == 2


async def test_a_filter_said_after_the_last_checkpoint_is_known_after_a_kill(
    tmp_path: Path,
) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    store.group()
    store.receive(1, tags="b")
    await store.store.checkpoint()
    store.receive(1, sql="TAGS = 'a'")
    store.receive(1, tags="a")
    await put_tags(store, "a", "b", "b", "a", "b")
    store.store.tick()
    kill(store.store)

    async with OpenStore(tmp_path / "s") as again:
        assert lag_of(again).lag == 2


async def test_a_filter_of_a_deleted_group_is_not_that_of_a_new_one(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    store.group()
    store.receive(1, tags="a")
    await store.store.checkpoint()
    delete_group(store)
    store.group()
    store.receive(1)
    await put_tags(store, "a", "b", "b", "a", "b")
    store.store.tick()
    kill(store.store)

    async with OpenStore(tmp_path / "s") as again:
        assert lag_of(again).lag == 5


async def test_the_age_is_that_of_the_first_message_that_is_wanted(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        store.receive(1, tags="a")
        stored_ms = []
        for tag in ("b", "a", "b", "a"):
            stored_ms.append(store.clock.now_ms())
            await put_tags(store, tag)
            store.clock.advance(1_000)
        assert lag_of(store).oldest_stored_ms == stored_ms[1]
        store.ack(store.receive(1, tags="a"))
        assert lag_of(store).oldest_stored_ms == stored_ms[3]


async def test_a_condition_is_asked_of_all_records_where_they_are_few_and_of_some_beyond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        store.receive(1, sql="n > 1")
        for number in range(40):
            await store.put(message(b"x", properties={"n": str(number % 4)}))
        assert (lag_of(store).lag, lag_of(store).lag_is) == (20, LagIs.EXACT)
        monkeypatch.setattr("storage_engine.lag.group_progress.SAMPLE_RECORDS_MAX", 12)
        lag = lag_of(store)
        assert lag.lag_is is LagIs.ESTIMATED
        assert lag.lag is not None
        assert 10 <= lag.lag <= 30
        assert lag.oldest_stored_ms is not None


async def test_tags_are_counted_by_a_sample_beyond_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_engine.lag.group_progress.EXACT_UNITS_MAX", 99)
    for name, value in (("_SAMPLE_PARTS", 8), ("_SAMPLE_PART_UNITS", 6), ("_SAMPLE_UNITS", 48)):
        monkeypatch.setattr(unread, name, value)
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        store.receive(1, tags="a")
        await put_tags(store, *["a", "b", "b"] * 33)
        assert (lag_of(store).lag, lag_of(store).lag_is) == (33, LagIs.EXACT)
        await put_tags(store, *["a", "b", "b"] * 3)
        lag = lag_of(store)
        assert (lag.lag_is, lag.offset_lag) == (LagIs.ESTIMATED, 108)
        assert lag.lag is not None
        assert 30 <= lag.lag <= 42
        store.ack(store.receive(16, tags="a"))
        assert lag_of(store).lag_is is LagIs.EXACT  # below the bound again
        assert lag_of(store).lag == 20


async def test_a_look_reads_only_the_units_that_are_new(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        store.receive(1, tags="a")
        await put_tags(store, *["a", "b"] * 20)
        assert lag_of(store).lag == 20
        queue = store.store.catalog.queues_of("t")[0]
        read: list[int] = []
        fields = type(queue).tag_fields

        def counting(self: object, start: int, stop: int) -> object:
            read.extend(range(start, stop))
            return fields(queue, start, stop)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(queue), "tag_fields", counting)
            assert lag_of(store).lag == 20
            assert read == []
            await put_tags(store, "a")
            assert lag_of(store).lag == 21
        assert read == [40]
