"""Broadcast groups: each client gets every message once, keeps its place, and nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import DiskFull, GroupNotFound, LeaseExpired
from storage_engine.wire.deliveries import LeaveRequest, ReceiveRequest, SubscribeRequest
from storage_engine.wire.groups import Dispatch, GroupConfig, StartFrom
from storage_engine.wire.topics import TopicConfig
from tests.storage_engine.doubles import OpenStore, copy_store, message
from tests.storage_engine.groups.listeners import Listener, broadcast, clients, filled
from tests.storage_engine.independent_reader import rocketmq_json
from tests.storage_engine.stopping import kill


async def test_each_client_gets_every_message(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 6, queues=2)
        listeners = [Listener(store, name) for name in ("a", "b", "c")]
        for listener in listeners:
            assert sorted(listener.take()) == [b"0", b"1", b"2", b"3", b"4", b"5"]
            assert listener.take() == []
        await store.put_bodies(b"6")
        assert [listener.take() for listener in listeners] == [[b"6"]] * 3


async def test_a_client_continues_where_it_was_and_a_new_one_at_the_groups_start(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        broadcast(store, start_from=StartFrom.LATEST)
        await store.put_bodies(b"before")
        old = Listener(store, "old")
        assert old.take() == []
        await store.put_bodies(b"1", b"2")
        assert old.take(1) == [b"1"]
        assert Listener(store, "new").take() == []
        assert old.take() == [b"2"]


async def test_all_who_wait_are_woken(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 0)
        waiting = [Listener(store, name).park()[0] for name in ("a", "b")]
        await store.put_bodies(b"x")
        assert [answers[0].bodies for answers in waiting] == [[b"x"], [b"x"]]


async def test_queues_added_later_reach_clients_that_wait_and_those_that_come(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        waiting, later = Listener(store, "waiting"), Listener(store, "later")
        for listener in (waiting, later):
            assert listener.take() == [b"0"]
        answers, _ = waiting.park()
        store.topic(queues=3)
        await store.put_bodies(b"new", queue_id=2)
        assert answers[0].bodies == [b"new"]
        assert later.take() == [b"new"]


@pytest.mark.parametrize("is_killed", [False, True])
async def test_progress_survives_a_restart(tmp_path: Path, *, is_killed: bool) -> None:
    # Given a client that has acked around a gap, and one that has acked all
    store = OpenStore(tmp_path).open()
    await filled(store, 4)
    gap, done = Listener(store, "10.0.0.7@4711#1"), Listener(store, "done")
    gap.ack(gap.receive(), b"0", b"2", b"3")
    done.take()
    # When the engine is killed, or stopped
    if is_killed:
        kill(store.store)
    else:
        await store.close()
    # Then both go on where they were
    async with OpenStore(tmp_path) as store:
        assert [each.client_id for each in clients(store)] == ["10.0.0.7@4711#1", "done"]
        assert Listener(store, "10.0.0.7@4711#1").take() == [b"1"]
        assert Listener(store, "done").take() == []
        assert Listener(store, "new").take() == [b"0", b"1", b"2", b"3"]


async def test_receipts_from_before_a_restart_settle_after_it(tmp_path: Path) -> None:
    store = OpenStore(tmp_path).open()
    await filled(store)
    leased = Listener(store, "a").receive()
    Listener(store, "b").receive()
    kill(store.store)
    async with OpenStore(tmp_path) as store:
        assert Listener(store, "a").ack(leased).acked_count == 3
        assert Listener(store, "a").take() == []
        assert Listener(store, "b").take() == [b"0", b"1", b"2"]


async def test_offsets_stand_in_the_file_under_group_and_client(tmp_path: Path) -> None:
    store = OpenStore(tmp_path).open()
    await filled(store)
    Listener(store, "10.0.0.7@4711").take(2)
    await store.store.checkpoint()
    content = rocketmq_json(tmp_path / "config" / "consumerOffset.json")
    assert content["offsetTable"] == {"t@g@10.0.0.7@4711": {"0": 2}}
    assert content["clientSeenTable"] == {"g@10.0.0.7@4711": store.clock.now_ms()}
    await store.close()


async def test_receipts_of_one_client_settle_nothing_for_another(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        mine, other = Listener(store, "mine"), Listener(store, "other")
        leased = mine.receive()
        other.receive()
        codes = {failure.code for failure in other.ack(leased).failures}
        assert codes == {LeaseExpired.code}
        assert {failure.code for failure in other.nack(leased).failures} == {LeaseExpired.code}
        stranger = Listener(store, "stranger")
        assert {each.code for each in stranger.ack(leased).failures} == {LeaseExpired.code}
        assert [each.client_id for each in clients(store)] == ["mine", "other"]
        assert other.offsets() == [0]
        assert mine.ack(leased).acked_count == 3


@pytest.mark.parametrize("is_dead", [False, True])
async def test_what_a_client_gives_back_is_dropped_and_counted(
    tmp_path: Path, *, is_dead: bool
) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        mine, other = Listener(store, "mine"), Listener(store, "other")
        reply = mine.nack(mine.receive(), is_dead=is_dead)
        assert (reply.nacked_count, reply.dead_lettered_count) == (3 - 3 * is_dead, 3 * is_dead)
        await store.settled()
        assert mine.take() == []
        assert mine.offsets() == [3]
        assert other.take() == [b"0", b"1", b"2"]
        assert (mine.stats.dropped_count, other.stats.dropped_count) == (3, 0)
        assert store.store.consumption.group_stats("g").dropped_count == 3
        assert store.store.consumption.clients.dropped_count == 3
        assert set(store.store.catalog.topics) == {"t"}  # no %RETRY%, no %DLQ%, no schedule


async def test_a_lease_that_ends_is_a_failure_too(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        listener = Listener(store, "a")
        leased = listener.receive(2)
        listener.ack(leased, b"1")
        await store.pass_time(1_000)
        assert listener.stats.dropped_count == 1
        assert listener.take() == [b"2"]
        assert set(store.store.catalog.topics) == {"t"}


async def test_what_was_dropped_stays_so_after_a_kill(tmp_path: Path) -> None:
    store = OpenStore(tmp_path).open()
    await filled(store)
    listener = Listener(store, "a")
    listener.nack(listener.receive(2))
    kill(store.store)
    async with OpenStore(tmp_path) as store:
        assert Listener(store, "a").take() == [b"2"]


async def test_what_was_never_had_is_released_and_not_dropped(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        listener = Listener(store, "a")
        listener.nack(listener.receive(), is_release=True)
        again = listener.receive()
        assert (again.bodies, again.attempts) == ([b"0"], [1])
        assert listener.stats.dropped_count == 0


async def test_drops_on_a_full_disk_come_once_more_after_a_crash(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    await filled(store)
    listener = Listener(store, "a")
    leased = listener.receive(1)
    store.files.full.add("append")
    assert listener.nack(leased).nacked_count == 1
    with pytest.raises(DiskFull):
        listener.ack(listener.receive(1))
    crashed = copy_store(tmp_path / "s", tmp_path / "crashed")
    store.files.full.clear()
    assert listener.take() == [b"2"]
    await store.close()
    async with OpenStore(crashed) as store:
        assert Listener(store, "a").take() == [b"0", b"1", b"2"]


async def test_room_in_flight_that_drops_make_is_given_to_who_waits(tmp_path: Path) -> None:
    async with OpenStore(tmp_path, limits={"inflight_count_max": 2}) as store:
        await filled(store, 4)
        listener = Listener(store, "a")
        leased = listener.receive()
        assert leased.bodies == [b"0", b"1"]
        answers, _ = listener.park()
        listener.nack(leased)
        await store.settled()
        assert [each.bodies for each in answers] == [[b"2", b"3"]]


async def test_members_of_one_client_share_its_messages(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 4)
        one = Listener(store, "a")
        first = one.park(2, wait_ms=0, member_id="socket 1")[0][0]
        second = one.park(2, wait_ms=0, member_id="socket 2")[0][0]
        assert first.bodies + second.bodies == [b"0", b"1", b"2", b"3"]
        assert [each.client_id for each in clients(store)] == ["a"]


async def test_each_client_has_a_filter_of_its_own(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        broadcast(store)
        for index, tag in enumerate(("red", "blue", "red")):
            await store.put(message(b"%d" % index, tag=tag))
        red, blue = Listener(store, "red"), Listener(store, "blue")
        leased = red.receive(tags="red")
        assert leased.bodies == [b"0", b"2"]
        assert blue.receive(tags="blue").bodies == [b"1"]
        red.ack(leased)
        assert (red.offsets(), blue.offsets()) == ([3], [1])


async def test_paused_groups_give_nothing_to_any_client(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        answers, _ = Listener(store, "waits").park()
        assert [each.bodies for each in answers] == [[b"0"]]
        config = store.store.catalog.groups["g"]
        store.store.catalog.group_put(
            GroupConfig(group="g", dispatch=Dispatch.BROADCAST, is_paused=True)
        )
        answers, _ = Listener(store, "late").park()
        assert answers == []
        store.store.catalog.group_put(config)
        assert [each.bodies for each in answers] == [[b"0"]]


async def test_groups_deleted_take_all_clients_along(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        leased = Listener(store, "a").receive()
        Listener(store, "b").take()
        answers, _ = Listener(store, "b").park()
        with pytest.raises(GroupNotFound):
            store.store.consumption.group_stats("other")
        store.store.consumption.group_delete("g")
        assert [each.bodies for each in answers] == [[]]
        broadcast(store)
        assert clients(store) == []
        assert store.store.consumption.clients.count == 0
        fresh = Listener(store, "a")
        assert {each.code for each in fresh.ack(leased).failures} == {LeaseExpired.code}
        assert fresh.receive().bodies == [b"0", b"1", b"2"]
        assert {each.code for each in fresh.ack(leased).failures} == {LeaseExpired.code}
        assert Listener(store, "b").take() == [b"0", b"1", b"2"]
    async with OpenStore(tmp_path) as store:
        assert [each.client_id for each in clients(store)] == ["a", "b"]


async def test_a_topic_deleted_takes_the_progress_of_all_clients_along(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        listener = Listener(store, "a")
        listener.take()
        store.store.consumption.deletions.topic_delete("t")
        store.topic()
        await store.put_bodies(b"new")
        assert listener.take() == [b"new"]


async def test_one_group_of_another_name_is_left_alone(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        broadcast(store, "g2")
        Listener(store, "a", group="g2").take()
        Listener(store, "a").take()
        store.store.consumption.group_delete("g")
        assert Listener(store, "a", group="g2").take() == []
        assert [each.client_id for each in clients(store, "g2")] == ["a"]


async def test_who_leaves_lets_others_of_the_client_bring_another_filter(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        store.store.consumption.subscribe(
            SubscribeRequest(group="g", topic="t", member_id="m", filter="red", client_id="a")
        )
        leave = LeaveRequest(group="g", topic="t", member_id="m", client_id="a")
        assert store.store.consumption.leave(leave) == ("g@a", "t", "m")
        request = ReceiveRequest(
            group="g", topic="t", member_id="other", messages_max=9, bytes_max=1 << 20, wait_ms=0,
            lease_ms=1_000, client_id="a",
        )  # fmt: skip
        store.store.consumption.receive(request, lambda delivered: None)


async def test_expired_messages_are_counted_for_each_client_that_had_not_settled_them(
    tmp_path: Path,
) -> None:
    limits = {"retention_bytes": 4_096, "broadcast_client_count_max": 9}
    async with OpenStore(tmp_path, limits=limits) as store:
        store.topic()
        broadcast(store)
        await store.put_bodies(b"x" * 1_500, b"y" * 1_500)
        done, behind = Listener(store, "done"), Listener(store, "behind")
        done.take()
        behind.take(1)
        for _ in range(8):
            await store.put_bodies(b"z" * 1_500)
            done.take()
        while await store.store.retention.run():
            pass
        first = store.store.topic_stats("t").queues[0].min_offset
        assert store.store.retention.lost_message_count == first - 1
        assert len(behind.take()) == 10 - first
        assert done.take() == []


async def test_topics_and_clients_do_not_mix(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        store.store.catalog.topic_put(TopicConfig(topic="u", queue_count=1))
        await store.put(message(b"u", topic="u"))
        assert Listener(store, "a").take() == [b"0"]
        assert Listener(store, "a", topic="u").take() == [b"u"]
        stats = store.store.consumption.group_stats("g", "a").queues
        assert [(row.topic, row.consumer_offset) for row in stats] == [("t", 1), ("u", 1)]
