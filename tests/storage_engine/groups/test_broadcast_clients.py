"""How many clients a broadcast group may have, how long they are remembered, where they are put."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import (
    BadRequest,
    ClientLimit,
    CommitRefused,
    DiskFull,
    FilterInvalid,
    LeaseExpired,
    SyncFailed,
)
from storage_engine.wire.deliveries import SettleRequest
from storage_engine.wire.groups import GroupClientsRequest, StartFrom
from storage_engine.wire.offsets import OffsetCommitRequest, OffsetResetRequest, ResetTo
from tests.storage_engine.doubles import ManualClock, OpenStore
from tests.storage_engine.groups.listeners import DAY_MS, Listener, broadcast, clients, filled
from tests.storage_engine.stopping import kill


def names(store: OpenStore) -> list[str]:
    return [each.client_id for each in clients(store)]


def reset(client_id: str = "", **fields: object) -> OffsetResetRequest:
    values = {"group": "g", "topic": "t", "to": ResetTo.EARLIEST, "client_id": client_id, **fields}
    return OffsetResetRequest(**values)  # type: ignore[arg-type]  # reason: fields of many types


# Limits ---------------------------------------------------------------------------------------


async def test_ten_thousand_ids_stop_at_the_limit(tmp_path: Path) -> None:
    async with OpenStore(tmp_path, limits={"broadcast_client_count_max": 50}) as store:
        await filled(store, 1)
        for number in range(50):
            Listener(store, f"c{number}").receive()
        for number in range(50, 10_000):
            with pytest.raises(
                ClientLimit, match="group g has 50 clients, which is the limit of 50"
            ):
                Listener(store, f"c{number}").receive()
        assert len(names(store)) == store.store.consumption.clients.count == 50
        assert len(list(store.store._consumer_offsets)) == 50
        assert Listener(store, "c7").offsets() == [0]
        broadcast(store, "other")
        assert Listener(store, "c10000", group="other").take() == [b"0"]


async def test_all_groups_together_have_a_limit_too(tmp_path: Path) -> None:
    async with OpenStore(tmp_path, limits={"broadcast_client_total_max": 3}) as store:
        await filled(store)
        broadcast(store, "h")
        for group in ("g", "h"):
            Listener(store, "a", group=group).receive()
        Listener(store, "b").receive()
        with pytest.raises(ClientLimit, match="all groups together have 3 clients"):
            Listener(store, "b", group="h").receive()
        store.store.consumption.group_delete("g")
        Listener(store, "b", group="h").receive()


async def test_receives_that_are_refused_make_no_client(tmp_path: Path) -> None:
    async with OpenStore(tmp_path, limits={"waiting_receive_count_max": 1}) as store:
        await filled(store, 0)
        with pytest.raises(BadRequest):
            Listener(store, "a").receive(0)
        with pytest.raises(FilterInvalid):
            Listener(store, "a").receive(tags="a ||")
        store.files.full.add("append")
        with pytest.raises(DiskFull):
            Listener(store, "a").receive()
        store.files.full.clear()
        assert (names(store), list(store.store._consumer_offsets)) == ([], [])


# Seven days -----------------------------------------------------------------------------------


async def test_a_client_is_kept_for_seven_days_after_it_was_last_seen(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        for name in ("gone", "receives", "settles"):
            Listener(store, name).receive(2)
        await store.pass_time(6 * DAY_MS)
        Listener(store, "receives").receive()
        settles = Listener(store, "settles")
        settles.settle(SettleRequest(group="g", client_id="settles"))
        await store.pass_time(DAY_MS - 1)
        assert names(store) == ["gone", "receives", "settles"]
        await store.pass_time(60_001)
        assert names(store) == ["receives", "settles"]
        store.clock.advance(6 * DAY_MS)
        assert Listener(store, "gone").take() == [b"0", b"1", b"2"]  # it begins anew


async def test_receipts_of_a_client_that_was_forgotten_settle_nothing(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        listener = Listener(store, "a")
        stale = listener.receive()
        await store.pass_time(8 * DAY_MS)
        assert names(store) == []
        fresh = listener.receive()
        assert fresh.bodies == [b"0", b"1", b"2"]
        assert {each.code for each in listener.ack(stale).failures} == {LeaseExpired.code}
        assert listener.ack(fresh).acked_count == 3


async def test_last_seen_survives_restarts_and_kills(tmp_path: Path) -> None:
    clock = ManualClock()
    store = OpenStore(tmp_path, clock=clock).open()
    await filled(store)
    Listener(store, "old").take()
    await store.store.checkpoint()
    clock.advance(4 * DAY_MS)
    Listener(store, "young").take()
    kill(store.store)
    # The checkpoint does not know of the young one: it counts as seen at the start.
    store = OpenStore(tmp_path, clock=clock).open()
    await store.store.checkpoint()
    await store.pass_time(2 * DAY_MS)
    assert names(store) == ["old", "young"]
    await store.pass_time(2 * DAY_MS)
    assert names(store) == ["young"]
    await store.close()
    async with OpenStore(tmp_path, clock=clock) as store:
        assert names(store) == ["young"]
        await store.pass_time(4 * DAY_MS)
        assert names(store) == []
        assert list(store.store._consumer_offsets) == []


async def test_an_engine_that_was_down_for_long_lets_clients_come_back(tmp_path: Path) -> None:
    clock = ManualClock()
    async with OpenStore(tmp_path, clock=clock) as store:
        await filled(store)
        for name in ("back", "away"):
            Listener(store, name).take(2)
    clock.advance(30 * DAY_MS)
    async with OpenStore(tmp_path, clock=clock) as store:
        await store.pass_time(300_000)
        assert Listener(store, "back").take() == [b"2"]
        await store.pass_time(300_000)
        assert names(store) == ["back"]


async def test_a_wall_clock_that_jumps_ahead_forgets_nobody(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        Listener(store, "a").take()
        store.clock.wall_ms += 30 * DAY_MS
        await store.pass_time(3_600_000)
        assert names(store) == ["a"]


async def test_what_cannot_be_written_is_forgotten_a_minute_later(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        Listener(store, "a").take(1)
        store.files.full.add("append")
        await store.pass_time(8 * DAY_MS)
        assert names(store) == ["a"]
        assert Listener(store, "a").receive(1).bodies == [b"1"]  # it is back, where it was
        store.files.full.clear()
        await store.pass_time(8 * DAY_MS)
        assert names(store) == []


async def test_a_client_forgotten_stays_so_after_a_kill(tmp_path: Path) -> None:
    store = OpenStore(tmp_path).open()
    await filled(store)
    Listener(store, "a").take()
    await store.store.checkpoint()
    await store.pass_time(8 * DAY_MS)
    kill(store.store)
    async with OpenStore(tmp_path) as store:
        assert names(store) == []
        assert Listener(store, "a").take() == [b"0", b"1", b"2"]


# Pages and numbers ----------------------------------------------------------------------------


async def test_clients_are_listed_page_by_page(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        for name in "dbace":
            Listener(store, name).receive(1)
        found, after, pages = [], "", 0
        while True:
            page = store.store.consumption.group_clients(
                GroupClientsRequest(group="g", after=after, count_max=2)
            )
            found += [each.client_id for each in page.clients]
            pages += 1
            assert page.count == 5
            if page.is_last:
                break
            after = page.clients[-1].client_id
        assert (found, pages) == (list("abcde"), 3)
        for count_max in (0, 1_001):
            with pytest.raises(BadRequest, match="1 to 1000"):
                store.store.consumption.group_clients(
                    GroupClientsRequest(group="g", count_max=count_max)
                )


async def test_the_groups_row_is_that_of_the_client_furthest_behind(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 6, queues=2)
        ahead, behind = Listener(store, "ahead"), Listener(store, "behind")
        ahead.take()
        behind.take(3)
        behind.receive(1)
        rows = store.store.consumption.group_stats("g").queues
        assert [row.consumer_offset for row in rows] == behind.offsets() == [3, 0]
        assert sum(row.inflight_count for row in rows) == 1
        assert (ahead.stats.lag, behind.stats.lag) == (0, 3)
        assert (behind.stats.ready_count, behind.stats.inflight_count) == (2, 1)
        assert [row.oldest_stored_ms is None for row in rows] == [True, False]


# Commits and resets ---------------------------------------------------------------------------


async def test_a_reset_of_the_group_moves_every_client(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        one, two = Listener(store, "one"), Listener(store, "two")
        one.take()
        two.take(1)
        leased = two.receive(1)
        dry = store.store.consumption.offset_reset(reset(is_dry_run=True))
        (row,) = dry.queues
        assert (dry.client_count, row.from_offset, row.to_offset) == (2, 1, 0)
        assert (row.replayed_count, row.skipped_count, row.inflight_count) == (4, 0, 1)
        assert one.offsets() == [3]
        assert store.store.consumption.offset_reset(reset()) == dry
        assert len(two.ack(leased).failures) == 1
        for listener in (one, two, Listener(store, "new")):
            assert listener.take() == [b"0", b"1", b"2"]


async def test_a_reset_of_one_client_leaves_the_others_alone(tmp_path: Path) -> None:
    store = OpenStore(tmp_path).open()
    await filled(store)
    one, two = Listener(store, "one"), Listener(store, "two")
    one.take()
    two.take(1)
    reply = store.store.consumption.offset_reset(reset("two", to=ResetTo.LATEST))
    (row,) = reply.queues
    assert (reply.client_count, row.from_offset, row.to_offset, row.skipped_count) == (1, 1, 3, 2)
    kill(store.store)
    async with OpenStore(tmp_path) as store:
        assert Listener(store, "one").offsets() == Listener(store, "two").offsets() == [3]
        assert Listener(store, "two").take() == []
        with pytest.raises(BadRequest, match=r"^the group has no client nobody"):
            store.store.consumption.offset_reset(reset("nobody"))


async def test_a_reset_wakes_clients_that_wait(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        waiting = []
        for name in ("a", "b"):
            Listener(store, name).take()
            waiting.append(Listener(store, name).park()[0])
        store.store.consumption.offset_reset(reset())
        assert [answers[0].bodies for answers in waiting] == [[b"0"], [b"0"]]


async def test_a_reset_that_cannot_be_written_moves_nobody(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        listeners = [Listener(store, name) for name in ("a", "b")]
        for listener in listeners:
            listener.take(2)
        store.files.full.add("append")
        with pytest.raises((DiskFull, SyncFailed)):
            store.store.consumption.offset_reset(reset())
        store.files.full.clear()
        assert [listener.take() for listener in listeners] == [[b"2"], [b"2"]]


async def test_a_reset_of_a_group_without_clients_does_nothing(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        broadcast(store, start_from=StartFrom.LATEST)
        await store.put_bodies(b"0")
        reply = store.store.consumption.offset_reset(reset())
        assert (reply.client_count, reply.queues[0].from_offset) == (0, None)
        assert names(store) == []
        assert Listener(store, "a").take() == []


async def test_a_client_that_pulls_commits_for_itself(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        commit = OffsetCommitRequest(group="g", topic="t", queue_id=0, offset=2, client_id="pulls")
        assert store.store.consumption.offset_commit(commit).from_offset == 2
        assert Listener(store, "pulls").take() == [b"2"]
        assert Listener(store, "other").take() == [b"0", b"1", b"2"]
        with pytest.raises(CommitRefused):
            store.store.consumption.offset_commit(commit)
        with pytest.raises(BadRequest, match="client_id must name the client that reads"):
            store.store.consumption.offset_commit(
                OffsetCommitRequest(group="g", topic="t", queue_id=0, offset=2)
            )
