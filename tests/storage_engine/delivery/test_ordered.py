"""Ordered groups: one batch of a queue at a time, retried in place until the group gives up."""

from __future__ import annotations

from pathlib import Path

from storage_engine.moves.retries import SUSPEND_MS, SUSPEND_MS_MAX
from storage_engine.records.record_run import decode_records
from storage_engine.records.retry_record import find_dead_letter
from storage_engine.wire.deliveries import LeaseRef, Nack, SettleRequest
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.delivery.exclusive_member import Member
from tests.storage_engine.doubles import Leased, OpenStore

DLQ = "%DLQ%g"


async def ordered(store_dir: Path, count: int, *, max_reconsume_times: int = 16) -> OpenStore:
    store = OpenStore(store_dir).open()
    store.topic(queues=2)
    config = GroupConfig(
        group="g",
        dispatch=Dispatch.EXCLUSIVE,
        is_ordered=True,
        max_reconsume_times=max_reconsume_times,
    )
    store.store.catalog.group_put(config)
    for index in range(count):
        await store.put_bodies(b"%d" % index)
    return store


def nack(
    store: OpenStore, leased: Leased, *queue_offsets: int, delay_ms: int | None = None
) -> None:
    nacks = [
        Nack(
            topic="t", queue_id=0, lease_generation=leased.generation, queue_offset=queue_offset,
            delay_ms=delay_ms, reason="not now",
        )
        for queue_offset in queue_offsets
    ]  # fmt: skip
    reply = store.store.consumption.settle(SettleRequest(group="g", nacks=nacks))
    assert reply.failures == []


async def test_the_next_batch_comes_when_the_last_one_is_settled(tmp_path: Path) -> None:
    store = await ordered(tmp_path, 5)
    first = store.receive(2)
    assert first.bodies == [b"0", b"1"]
    assert store.receive(2).bodies == []
    store.ack(first, 0)
    assert store.receive(2).bodies == []
    store.ack(first, 1)
    assert store.receive(2).bodies == [b"2", b"3"]
    await store.close()


async def test_another_queue_continues_meanwhile(tmp_path: Path) -> None:
    store = await ordered(tmp_path, 2)
    store.receive(1)
    await store.put_bodies(b"elsewhere", queue_id=1)
    assert store.receive().bodies == [b"elsewhere"]
    await store.close()


async def test_a_failure_suspends_the_queue_and_is_tried_again_in_its_place(
    tmp_path: Path,
) -> None:
    store = await ordered(tmp_path, 4)
    leased = store.receive(3)
    store.ack(leased, 0)
    nack(store, leased, 1, 2)
    await store.pass_time(SUSPEND_MS - 1)
    assert store.receive().bodies == []
    await store.pass_time(1)
    again = store.receive()
    assert (again.bodies, again.attempts) == ([b"1", b"2", b"3"], [2, 2, 1])
    await store.close()


async def test_a_delay_of_a_nack_stays_within_bounds(tmp_path: Path) -> None:
    store = await ordered(tmp_path, 1)
    nack(store, store.receive(), 0, delay_ms=0)
    await store.pass_time(9)
    assert store.receive().bodies == []
    await store.pass_time(1)
    leased = store.receive(lease_ms=100_000)
    nack(store, leased, 0, delay_ms=3_600_000)
    await store.pass_time(SUSPEND_MS_MAX)
    assert store.receive().attempts == [3]
    await store.close()


async def test_a_later_message_never_overtakes_one_that_was_released(tmp_path: Path) -> None:
    store = await ordered(tmp_path, 3)
    leased = store.receive(3, lease_ms=60_000)
    nack(store, leased, 2, delay_ms=10)
    nack(store, leased, 0, delay_ms=5_000)
    store.ack(leased, 1)
    await store.pass_time(4_999)
    assert store.receive().bodies == []
    await store.pass_time(1)
    assert store.receive().bodies == [b"0", b"2"]
    await store.close()


async def test_a_lease_that_ends_is_a_failure_in_place(tmp_path: Path) -> None:
    store = await ordered(tmp_path, 3)
    store.receive(2, lease_ms=1_000)
    answers, _ = store.park(3)
    await store.pass_time(1_000)
    assert answers == []
    await store.pass_time(10)
    assert [(one.bodies, one.attempts) for one in answers] == [([b"0", b"1", b"2"], [2, 2, 1])]
    await store.close()


async def test_after_its_last_attempt_a_message_is_a_dead_letter_and_the_queue_continues(
    tmp_path: Path,
) -> None:
    store = await ordered(tmp_path, 3, max_reconsume_times=2)
    for attempt in (1, 2, 3):
        leased = store.receive(1)
        assert (leased.bodies, leased.attempts) == ([b"0"], [attempt])
        nack(store, leased, 0, delay_ms=10)
        await store.pass_time(10)
    assert store.receive(1).bodies == [b"1"]
    request = PullRequest(topic=DLQ, queue_id=0, queue_offset=0, messages_max=9, bytes_max=1 << 20)
    (dead,) = decode_records(store.store.read_records(store.store.pull(request)[1]))
    assert (told := find_dead_letter(dead)) is not None
    assert told.attempts == 3
    await store.close()


async def test_a_queue_that_changes_its_member_waits_for_the_batch_of_the_last_one(
    tmp_path: Path,
) -> None:
    store = await ordered(tmp_path, 4)
    first, second = Member(store, "a"), Member(store, "b")
    first.poll(2, lease_ms=60_000)
    (held,) = first.got
    assert first.bodies() == [b"0", b"1"]
    first.leave()
    second.poll(2, wait_ms=10_000)
    assert second.bodies() == []  # else it would overtake what the first still works on
    ref = LeaseRef(
        topic="t", queue_id=0, lease_generation=held.lease_generation, queue_offsets=[0, 1]
    )
    assert store.store.consumption.settle(SettleRequest(group="g", acks=[ref])).acked_count == 2
    assert second.bodies() == [b"2", b"3"]
    await store.close()


async def test_what_was_not_even_sent_comes_again_at_once_and_in_its_order(tmp_path: Path) -> None:
    store = await ordered(tmp_path, 4)
    leased = store.receive(3)
    store.ack(leased, 0)
    nacks = [
        Nack(
            topic="t", queue_id=0, lease_generation=leased.generation, queue_offset=queue_offset,
            is_release=True,
        )
        for queue_offset in (2, 1)
    ]  # fmt: skip
    store.store.consumption.settle(SettleRequest(group="g", nacks=nacks))
    again = store.receive()
    assert (again.bodies, again.attempts) == ([b"1", b"2", b"3"], [1, 1, 1])
    await store.close()


async def test_a_group_that_never_gives_up_retries_for_ever(tmp_path: Path) -> None:
    store = await ordered(tmp_path, 2, max_reconsume_times=-1)
    for attempt in range(1, 40):
        leased = store.receive(1)
        assert (leased.bodies, leased.attempts) == ([b"0"], [attempt])
        nack(store, leased, 0, delay_ms=10)
        await store.pass_time(10)
    subscription = store.store.consumption.delivery.subscriptions.find("g", "t")
    assert subscription is not None
    assert len(subscription.queues[0].ready_heap) <= 1  # nothing is left of those before
    await store.close()
