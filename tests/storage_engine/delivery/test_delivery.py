"""Leases, parked receives and settles of one group, on a clock that is moved by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import LeaseExpired
from storage_engine.wire.deliveries import Extend, LeaseRef, Nack, ReceiveRequest, SettleRequest
from storage_engine.wire.groups import GroupConfig, StartFrom
from storage_engine.wire.topics import TopicConfig
from tests.storage_engine.doubles import Leased, OpenStore


async def filled(store_dir: Path, count: int = 4, queues: int = 1, **limits: int) -> OpenStore:
    """A running store with group ``g`` and ``count`` messages, dealt out over the queues."""
    store = OpenStore(store_dir, limits=limits).open()
    store.topic(queues=queues)
    store.group()
    for index in range(count):
        await store.put_bodies(b"%d" % index, queue_id=index % queues)
    return store


def consumer_offset(store: OpenStore, queue_id: int = 0) -> int:
    return store.store.consumption.group_stats("g").queues[queue_id].consumer_offset


def nack(
    leased: Leased, queue_offset: int, delay_ms: int = 0, *, is_release: bool = False
) -> SettleRequest:
    return SettleRequest(
        group="g",
        nacks=[
            Nack(
                topic="t",
                queue_id=0,
                lease_generation=leased.generation,
                queue_offset=queue_offset,
                delay_ms=delay_ms,
                is_release=is_release,
            )
        ],
    )


def extend(
    leased: Leased, queue_offset: int, lease_ms: int, *, may_be_over: bool = False
) -> SettleRequest:
    return SettleRequest(
        group="g",
        extends=[
            Extend(
                topic="t",
                queue_id=0,
                lease_generation=leased.generation,
                queue_offset=queue_offset,
                lease_ms=lease_ms,
                may_be_over=may_be_over,
            )
        ],
    )


async def test_a_leased_message_is_given_to_nobody_else_until_its_lease_ends(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, 2)
    first = store.receive(lease_ms=1_000)
    assert store.receive().bodies == []
    await store.pass_time(999)
    assert store.receive().bodies == []
    await store.pass_time(1)
    again = store.receive()
    assert again.bodies == first.bodies
    assert again.attempts == [2, 2]
    assert again.generation > first.generation
    await store.close()


async def test_a_wall_clock_that_jumps_ends_no_lease(tmp_path: Path) -> None:
    store = await filled(tmp_path, 1)
    store.receive()
    for jump_ms in (-3_600_000, 86_400_000):
        store.clock.wall_ms += jump_ms
        store.store.tick()
        assert store.receive().bodies == []
    await store.close()


async def test_a_late_ack_counts_while_nobody_has_the_message(tmp_path: Path) -> None:
    store = await filled(tmp_path, 1)
    leased = store.receive()
    await store.pass_time(1_000)
    assert store.ack(leased).acked_count == 1
    assert store.receive().bodies == []
    assert consumer_offset(store) == 1
    await store.close()


async def test_a_stale_receipt_settles_nothing_once_someone_else_has_the_message(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, 1)
    stale = store.receive()
    await store.pass_time(1_000)
    fresh = store.receive()
    for reply in (
        store.ack(stale),
        store.store.consumption.settle(nack(stale, 0)),
        store.store.consumption.settle(extend(stale, 0, 5_000)),
    ):
        assert [failure.code for failure in reply.failures] == [LeaseExpired.code]
        assert (reply.acked_count, reply.nacked_count) == (0, 0)
    assert store.ack(fresh).acked_count == 1
    await store.close()


async def test_a_superseded_receipt_stays_dead_after_the_later_lease_has_ended_too(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, 1)
    stale = store.receive()
    await store.pass_time(1_000)
    store.receive()
    await store.pass_time(1_000)
    assert [failure.code for failure in store.ack(stale).failures] == [LeaseExpired.code]
    assert store.receive().attempts == [3]
    await store.close()


async def test_a_lease_that_has_ended_can_begin_again_while_nobody_has_the_message(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, 3)
    leased = store.receive()
    await store.pass_time(1_000)
    settle = store.store.consumption.settle
    assert settle(extend(leased, 1, 5_000)).extended_until_ms == [0]
    reply = settle(extend(leased, 1, 5_000, may_be_over=True))
    assert reply.extended_until_ms == [store.clock.wall_ms + 5_000]
    others = store.receive(10)
    assert others.bodies == [leased.bodies[0], leased.bodies[2]]
    assert settle(extend(leased, 1, 9_000)).failures == []
    await store.pass_time(8_999)
    assert leased.bodies[1] not in store.receive(10).bodies
    await store.pass_time(1)
    again = store.receive(10)
    assert (again.bodies, again.attempts) == ([leased.bodies[1]], [2])
    assert len(settle(extend(leased, 1, 5_000, may_be_over=True)).failures) == 1
    await store.close()


@pytest.mark.parametrize("is_given_back", [False, True])
async def test_a_lease_that_began_again_can_be_acked_and_given_back(
    tmp_path: Path, is_given_back: bool
) -> None:
    store = await filled(tmp_path, 2)
    leased = store.receive()
    await store.pass_time(1_000)
    settle = store.store.consumption.settle
    assert settle(extend(leased, 1, 5_000, may_be_over=True)).failures == []
    if is_given_back:
        assert settle(nack(leased, 1)).nacked_count == 1
        assert settle(extend(leased, 1, 5_000, may_be_over=True)).failures == []
        assert store.receive(10).bodies == leased.bodies[:1]
        assert settle(nack(leased, 1)).nacked_count == 1
        again = store.receive(10)
        assert (again.bodies, again.attempts) == (leased.bodies[1:], [2])
        assert store.ack(again).acked_count == 1
    else:
        assert store.ack(leased).acked_count == 2
    assert store.receive(10).bodies == []
    await store.close()


async def test_what_was_never_delivered_cannot_be_acked(tmp_path: Path) -> None:
    store = await filled(tmp_path, 3)
    leased = store.receive(1)
    reply = store.store.consumption.settle(
        SettleRequest(
            group="g",
            acks=[
                LeaseRef(
                    topic="t",
                    queue_id=0,
                    lease_generation=leased.generation,
                    queue_offsets=[2, 3, 1_000],
                )
            ],
        )
    )
    assert [failure.queue_offset for failure in reply.failures] == [2, 3, 1_000]
    assert store.receive().bodies == [b"1", b"2"]
    await store.close()


async def test_acking_twice_is_no_failure_and_changes_nothing(tmp_path: Path) -> None:
    store = await filled(tmp_path, 2)
    leased = store.receive()
    assert store.ack(leased, 1).acked_count == 1
    reply = store.ack(leased, 1)
    assert reply.failures == []
    assert consumer_offset(store) == 0
    store.ack(leased)
    assert consumer_offset(store) == 2
    await store.close()


async def test_the_consumer_offset_moves_only_over_the_settled_prefix(tmp_path: Path) -> None:
    store = await filled(tmp_path, 4)
    leased = store.receive()
    for queue_offset, expected in ((2, 0), (1, 0), (0, 3), (3, 4)):
        store.ack(leased, queue_offset)
        assert consumer_offset(store) == expected
    await store.close()


async def test_settling_in_an_unknown_queue_or_group_topic_fails_by_message(tmp_path: Path) -> None:
    store = await filled(tmp_path, 1)
    store.receive()
    for topic, queue_id in (("t", 1), ("t", -1), ("u", 0)):
        ref = LeaseRef(topic=topic, queue_id=queue_id, lease_generation=1, queue_offsets=[0, 5])
        reply = store.store.consumption.settle(SettleRequest(group="g", acks=[ref]))
        assert [failure.code for failure in reply.failures] == [LeaseExpired.code] * 2
    await store.close()


async def test_a_nacked_message_comes_again_after_its_delay_and_not_before(tmp_path: Path) -> None:
    store = await filled(tmp_path, 2)
    leased = store.receive(1)
    assert store.store.consumption.settle(nack(leased, 0, delay_ms=500)).nacked_count == 1
    assert store.receive(1).bodies == [b"1"]
    await store.pass_time(499)
    assert store.receive().bodies == []
    await store.pass_time(1)
    again = store.receive()
    assert (again.bodies, again.attempts) == ([b"0"], [2])
    await store.close()


async def test_messages_released_unread_stand_in_order_in_their_next_batch(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, 4)
    first = store.receive(3)
    for offset in (1, 2, 0):
        store.store.consumption.settle(nack(first, offset, is_release=True))
        await store.pass_time(1)
    again = store.receive()
    assert (again.bodies, again.attempts) == ([b"0", b"1", b"2", b"3"], [1] * 4)
    await store.close()


async def test_a_nacked_message_wakes_who_waits_when_its_delay_is_over(tmp_path: Path) -> None:
    store = await filled(tmp_path, 1)
    leased = store.receive()
    answers, _ = store.park()
    store.store.consumption.settle(nack(leased, 0, delay_ms=500))
    await store.pass_time(499)
    assert answers == []
    await store.pass_time(1)
    assert [answer.bodies for answer in answers] == [[b"0"]]
    await store.close()


async def test_extending_keeps_the_receipt_and_moves_only_its_own_message(tmp_path: Path) -> None:
    store = await filled(tmp_path, 2)
    leased = store.receive(lease_ms=1_000)
    await store.pass_time(600)
    reply = store.store.consumption.settle(extend(leased, 0, 2_000))
    assert reply.extended_until_ms == [store.clock.now_ms() + 2_000]
    await store.pass_time(400)
    assert store.receive(lease_ms=60_000).bodies == [b"1"]
    await store.pass_time(1_599)
    assert store.receive().bodies == []
    assert store.ack(leased, 0).acked_count == 1
    await store.pass_time(1)
    assert store.receive().bodies == []
    await store.close()


async def test_messages_come_from_all_queues_in_turn(tmp_path: Path) -> None:
    store = await filled(tmp_path, 6, queues=3)
    assert sorted(store.receive(6).bodies) == [b"%d" % i for i in range(6)]
    await store.close()


async def test_no_queue_starves_while_another_is_long(tmp_path: Path) -> None:
    store = await filled(tmp_path, 0, queues=2, inflight_count_max=1_000)
    await store.put_bodies(*[b"long"] * 20, queue_id=0)
    await store.put_bodies(b"short", queue_id=1)
    assert b"short" in store.receive(2).bodies + store.receive(2).bodies
    await store.close()


async def test_bytes_max_counts_whole_records_but_never_holds_the_first_back(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, 0)
    await store.put_bodies(bytes(1_000), b"small", b"small")
    answers: list[list[int]] = []
    for bytes_max in (1, 1, 1_000):
        request = ReceiveRequest(
            group="g", topic="t", member_id="m", messages_max=9, bytes_max=bytes_max, wait_ms=0,
            lease_ms=1_000,
        )  # fmt: skip
        store.store.consumption.receive(
            request, lambda got: answers.append([size for _, size in got.records])
        )
    assert [len(sizes) for sizes in answers] == [1, 1, 1]
    await store.close()


async def test_latest_begins_behind_what_is_there_and_earliest_before_it(tmp_path: Path) -> None:
    store = await filled(tmp_path, 2, queues=2)
    store.group("late", start_from=StartFrom.LATEST)
    assert store.receive(group="late").bodies == []
    await store.put_bodies(b"new", queue_id=1)
    assert store.receive(group="late").bodies == [b"new"]
    assert len(store.receive().records) == 3
    await store.close()


async def test_the_first_position_of_latest_survives_a_restart(tmp_path: Path) -> None:
    store = await filled(tmp_path, 2)
    store.group("late", start_from=StartFrom.LATEST)
    assert store.receive(group="late").bodies == []
    await store.put_bodies(b"while away")
    await store.close()
    async with OpenStore(tmp_path) as again:
        assert again.receive(group="late").bodies == [b"while away"]


async def test_queues_added_later_are_read_from_their_start(tmp_path: Path) -> None:
    store = await filled(tmp_path, 1)
    store.group("late", start_from=StartFrom.LATEST)
    store.receive(group="late")
    store.store.catalog.topic_put(TopicConfig(topic="t", queue_count=2))
    await store.put_bodies(b"in the new one", queue_id=1)
    assert store.receive(group="late").bodies == [b"in the new one"]
    await store.close()


async def test_groups_do_not_share_anything(tmp_path: Path) -> None:
    store = await filled(tmp_path, 2)
    store.store.catalog.group_put(GroupConfig(group="other"))
    leased = store.receive()
    assert store.receive(group="other").bodies == leased.bodies
    store.ack(leased)
    assert store.store.consumption.group_stats("other").queues[0].consumer_offset == 0
    await store.close()


async def test_a_restart_forgets_leases_but_no_generation_comes_twice(tmp_path: Path) -> None:
    store = await filled(tmp_path, 2)
    before = store.receive()
    await store.close()
    async with OpenStore(tmp_path) as again:
        fresh = again.receive(1)
        assert fresh.generation > before.generation
        assert [failure.code for failure in again.ack(before, 0).failures] == [LeaseExpired.code]
        assert again.ack(before, 1).acked_count == 1
        assert again.ack(fresh).acked_count == 1
        assert again.receive().bodies == []


async def test_acks_nacks_and_extends_of_one_request_are_distinguished(tmp_path: Path) -> None:
    store = await filled(tmp_path, 4)
    leased = store.receive()
    request = SettleRequest(
        group="g",
        acks=[
            LeaseRef(
                topic="t", queue_id=0, lease_generation=leased.generation, queue_offsets=[0, 0]
            )
        ],
        nacks=nack(leased, 1).nacks + nack(leased, 0).nacks,
        extends=extend(leased, 2, 5_000).extends + extend(leased, 1, 5_000).extends,
    )
    reply = store.store.consumption.settle(request)
    assert (reply.acked_count, reply.nacked_count) == (1, 1)
    assert reply.extended_until_ms[0] > 0
    assert reply.extended_until_ms[1] == 0
    assert [failure.queue_offset for failure in reply.failures] == [0, 1]
    await store.close()
