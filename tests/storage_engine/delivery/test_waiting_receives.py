"""Receives that wait: woken by arrivals, nacks and acks, ended by time or by their caller."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import BadRequest, StoreBusy
from storage_engine.wire.deliveries import Nack, ReceiveRequest, SettleRequest
from tests.storage_engine.doubles import OpenStore, message


async def filled(store_dir: Path, count: int = 4, queues: int = 1, **limits: int) -> OpenStore:
    """A running store with group ``g`` and ``count`` messages, dealt out over the queues."""
    store = OpenStore(store_dir, limits=limits).open()
    store.topic(queues=queues)
    store.group()
    for index in range(count):
        await store.put_bodies(b"%d" % index, queue_id=index % queues)
    return store


async def test_a_waiting_receive_gets_what_arrives(tmp_path: Path) -> None:
    store = await filled(tmp_path, 0, queues=2)
    answers, parked = store.park()
    assert parked is not None
    assert answers == []
    await store.put_bodies(b"new", queue_id=1)
    assert [answer.bodies for answer in answers] == [[b"new"]]
    assert store.store.stats(0).parked_count == 0
    await store.close()


async def test_waiting_receives_are_served_first_come_first_served(tmp_path: Path) -> None:
    store = await filled(tmp_path, 0)
    waiting = [store.park()[0] for _ in range(3)]
    assert store.receive().bodies == []  # one that does not wait takes nobody's place
    await store.put(message(b"a"), message(b"b"))
    assert [[answer.bodies for answer in answers] for answers in waiting] == [
        [[b"a"]],
        [[b"b"]],
        [],
    ]
    await store.close()


async def test_a_waiting_receive_ends_empty_when_its_wait_is_over(tmp_path: Path) -> None:
    store = await filled(tmp_path, 0)
    answers, _ = store.park(wait_ms=500)
    await store.pass_time(499)
    assert answers == []
    await store.pass_time(1)
    assert [answer.bodies for answer in answers] == [[]]
    await store.put_bodies(b"late")
    assert len(answers) == 1
    assert store.receive().bodies == [b"late"]
    await store.close()


async def test_a_cancelled_receive_is_answered_empty_or_not_at_all_and_takes_nothing(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, 0)
    told, first = store.park()
    silent, second = store.park()
    assert first is not None
    assert second is not None
    store.store.consumption.cancel(first, answer=True)
    store.store.consumption.cancel(second, answer=False)
    store.store.consumption.cancel(second, answer=True)
    await store.put_bodies(b"a")
    assert ([answer.bodies for answer in told], silent) == ([[]], [])
    assert store.receive().bodies == [b"a"]
    await store.close()


async def test_only_so_many_receives_may_wait(tmp_path: Path) -> None:
    store = await filled(tmp_path, 0, waiting_receive_count_max=2)
    first, parked = store.park()
    store.park()
    with pytest.raises(StoreBusy):
        store.park()
    assert parked is not None
    store.store.consumption.cancel(parked, answer=True)
    store.park()
    assert len(first) == 1
    await store.close()


async def test_only_so_many_messages_are_in_flight_and_acks_make_room_for_those_who_wait(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, 6, inflight_count_max=4)
    leased = store.receive(10)
    assert len(leased.records) == 4
    answers, parked = store.park(10)
    assert parked is not None
    store.ack(leased, 0)
    assert [answer.bodies for answer in answers] == [[b"4"]]
    await store.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messages_max", 0), ("messages_max", 1_025), ("messages_max", -1), ("lease_ms", 999),
        ("lease_ms", 43_200_001), ("wait_ms", -1), ("wait_ms", 300_001),
    ],
)  # fmt: skip
async def test_limits_of_a_receive_are_checked(tmp_path: Path, field: str, value: int) -> None:
    store = await filled(tmp_path, 1)
    values = {"messages_max": 1, "lease_ms": 1_000, "wait_ms": 0, field: value}
    request = ReceiveRequest(
        group="g", topic="t", member_id="m", bytes_max=1, messages_max=values["messages_max"],
        lease_ms=values["lease_ms"], wait_ms=values["wait_ms"],
    )  # fmt: skip
    with pytest.raises(BadRequest, match=f"{field} is {value}"):
        store.store.consumption.receive(request, lambda got: pytest.fail("answered"))
    assert len(store.receive().records) == 1
    await store.close()


async def test_what_a_member_gives_back_unread_wakes_who_waits(tmp_path: Path) -> None:
    store = await filled(tmp_path, 1)
    leased = store.receive(member_id="gone")
    answers, _ = store.park(member_id="waits")
    release = Nack(
        topic="t", queue_id=0, lease_generation=leased.generation, queue_offset=0, is_release=True
    )
    store.store.consumption.settle(SettleRequest(group="g", nacks=[release]))
    assert [(answer.bodies, answer.attempts) for answer in answers] == [([b"0"], [1])]
    await store.close()


async def test_a_message_that_became_a_dead_letter_makes_room_for_who_waits(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, 3, inflight_count_max=2)
    leased = store.receive(member_id="fails", lease_ms=60_000)
    assert len(leased.records) == 2
    answers, _ = store.park(member_id="waits")
    dead = Nack(
        topic="t", queue_id=0, lease_generation=leased.generation, queue_offset=0, is_dead=True
    )
    store.store.consumption.settle(SettleRequest(group="g", nacks=[dead]))
    assert answers == []
    await store.settled()
    assert [answer.bodies for answer in answers] == [[b"2"]]
    await store.close()


async def test_only_so_many_moved_messages_are_remembered_for_late_acks(tmp_path: Path) -> None:
    store = await filled(tmp_path, 4, inflight_span_max=2)
    for _ in range(2):
        leased = store.receive(2)
        nacks = [
            Nack(
                topic="t", queue_id=0, lease_generation=leased.generation,
                queue_offset=record.queue_offset, is_dead=True,
            )
            for record in leased.records
        ]  # fmt: skip
        store.store.consumption.settle(SettleRequest(group="g", nacks=nacks))
        await store.settled()
    subscription = store.store.consumption.delivery.subscriptions.find("g", "t")
    assert subscription is not None
    assert list(subscription.queues[0]._moved) == [2, 3]
    await store.close()
