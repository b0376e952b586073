"""A receive that ignores queues gives what has waited longest, in the order of the log."""

from __future__ import annotations

import random
from pathlib import Path

from storage_engine.wire.groups import Dispatch, GroupConfig
from tests.sizes import sized
from tests.storage_engine.delivery.grouped import opened, put, texts_of
from tests.storage_engine.delivery.test_delivery import filled, nack
from tests.storage_engine.doubles import Leased, OpenStore


async def test_receives_give_what_was_stored_first_however_queues_were_filled(
    tmp_path: Path,
) -> None:
    chance = random.Random(5)
    store = OpenStore(tmp_path / "s").open()
    store.topic(queues=4)
    store.group()
    waiting: list[bytes] = []
    for number in range(sized(150, torture=5_000)):
        body = b"%d" % number
        queue_id = min(int(chance.expovariate(1)), 3)  # the first has most
        await store.put_bodies(body, queue_id=queue_id)
        waiting.append(body)
        if chance.random() < 0.2:
            count = chance.randint(1, 16)
            leased = store.receive(count, ignores_queues=True)
            assert leased.bodies == waiting[:count]
            del waiting[:count]
            store.ack(leased)
    await store.close()


async def test_what_was_given_back_comes_before_newer_messages_of_other_queues(
    tmp_path: Path,
) -> None:
    store = await filled(tmp_path, 8, queues=4)
    leased = store.receive(4, ignores_queues=True)
    assert leased.bodies == [b"0", b"1", b"2", b"3"]
    store.store.consumption.settle(nack(leased, 0, is_release=True))
    assert store.receive(2, ignores_queues=True).bodies == [b"0", b"4"]
    assert store.receive(ignores_queues=True).bodies == [b"5", b"6", b"7"]
    await store.close()


async def test_message_groups_of_several_queues_come_as_they_were_stored(tmp_path: Path) -> None:
    store = await filled(tmp_path, 8, queues=4)
    store.store.catalog.group_put(
        GroupConfig(group="g", is_ordered=True, dispatch=Dispatch.SHARED, batch_per_group=10)
    )
    assert store.receive(ignores_queues=True).bodies == [b"%d" % number for number in range(8)]
    await store.close()


async def test_a_receive_takes_the_oldest_message_whose_group_is_free(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s", queues=4, batch_per_group=10)
    for text, queue_id in (("a1", 3), ("a2", 3), ("b1", 1), ("b2", 1), ("c1", 2), ("c2", 2)):
        await put(store, text, queue_id=queue_id)

    def receive() -> Leased:
        return store.receive(1, ignores_queues=True)

    first, second, third = receive(), receive(), receive()
    assert [texts_of(each) for each in (first, second, third)] == [["a1"], ["b1"], ["c1"]]
    assert receive().bodies == []
    store.ack(third)
    store.ack(first)
    assert texts_of(receive()) == ["a2"]
    assert texts_of(receive()) == ["c2"]
    await store.close()


async def test_what_another_queue_has_comes_before_a_newer_group_behind_a_busy_one(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path / "s", queues=2, batch_per_group=10)
    for text, queue_id in (("a1", 0), ("a2", 0), ("b1", 1), ("c1", 0)):
        await put(store, text, queue_id=queue_id)
    found = [texts_of(store.receive(1, ignores_queues=True)) for _ in range(3)]
    assert found == [["a1"], ["b1"], ["c1"]]
    await store.close()


async def test_a_receive_has_as_much_of_a_message_group_as_there_is(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s", queues=2, batch_per_group=10)
    for text, queue_id in (("a1", 0), ("b1", 1), ("c1", 0), ("a2", 0), ("b2", 1), ("a3", 0)):
        await put(store, text, queue_id=queue_id)
    leased = store.receive(4, ignores_queues=True)
    assert texts_of(leased) == ["a1", "a2", "a3", "b1"]
    assert texts_of(store.receive(ignores_queues=True)) == ["c1"]  # it was only passed over
    store.ack(leased)
    assert texts_of(store.receive(ignores_queues=True)) == ["b2"]
    await store.close()


async def test_a_message_group_ends_with_the_batch_of_the_group_or_one_that_is_delayed(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path / "s", queues=1, batch_per_group=2)
    for text in ("a1", "b1", "a2", "a3"):
        await put(store, text)
    leased = store.receive(ignores_queues=True)
    assert texts_of(leased) == ["a1", "a2", "b1"]
    store.store.consumption.settle(nack(leased, 2, delay_ms=60_000))
    store.ack(leased, 0, 1)  # a1 and b1; a2 is given back
    assert texts_of(store.receive(ignores_queues=True)) == []
    await store.close()


async def test_retries_come_while_there_are_many_older_messages(tmp_path: Path) -> None:
    store = await filled(tmp_path, 40, queues=2)
    leased = store.receive(1, ignores_queues=True)
    store.store.consumption.settle(nack(leased, 0))
    await store.pass_time(1)
    bodies = [store.receive(1, ignores_queues=True).bodies[0] for _ in range(4)]
    assert b"0" in bodies
    await store.close()
