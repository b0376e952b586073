"""Order by message group in shared dispatch: who waits for whom, and who never does."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import BadRequest
from storage_engine.moves.retries import SUSPEND_MS
from storage_engine.wire.deliveries import Extend, SettleRequest
from tests.storage_engine.delivery.grouped import (
    ack,
    dead_count,
    grouped,
    nack,
    opened,
    ordered_group,
    put,
    received,
    texts_of,
)
from tests.storage_engine.doubles import OpenStore


async def test_a_message_group_waits_for_the_one_in_flight_and_others_continue(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path, "a1", "a2", "b1", "-1", "-2", "a3", "b2")
    first = store.receive(lease_ms=60_000)
    assert texts_of(first) == ["a1", "b1", "-1", "-2"]
    assert received(store) == []
    ack(store, first, "b1")
    assert received(store) == ["b2"]
    ack(store, first, "a1")
    second = store.receive(lease_ms=60_000)
    assert texts_of(second) == ["a2"]
    ack(store, second)
    assert received(store) == ["a3"]
    await store.close()


async def test_any_member_may_have_any_queue_and_the_next_of_a_group(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "b1", "a2", queues=2)
    await put(store, "c1", queue_id=1)
    first = store.receive(1, lease_ms=60_000, member_id="one")
    others = store.receive(lease_ms=60_000, member_id="two")
    assert sorted(texts_of(first) + texts_of(others)) == ["a1", "b1", "c1"]
    held = first if b"a1" in first.bodies else others
    ack(store, held, "a1")
    assert texts_of(store.receive(member_id="three")) == ["a2"]
    await store.close()


async def test_a_batch_has_as_many_of_a_message_group_as_the_group_says(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", "b1", "a3", "a4", batch_per_group=3)
    first = store.receive(lease_ms=60_000)
    assert texts_of(first) == ["a1", "a2", "b1", "a3"]
    ack(store, first, "a1", "a3")
    assert received(store) == []  # not before all of the batch are settled
    ack(store, first, "a2")
    assert received(store) == ["a4"]
    await store.close()


async def test_a_batch_may_come_from_what_waits_and_from_what_is_new(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", batch_per_group=4)
    first = store.receive(1, lease_ms=60_000)
    assert received(store) == []
    await put(store, "a3", "b1", "a4", "a5", "a6")
    ack(store, first, "a1")
    assert received(store) == ["a2", "a3", "b1", "a4", "a5"]
    await store.close()


async def test_an_extended_message_keeps_those_behind_it_hidden(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", "a3", batch_per_group=2)
    first = store.receive(lease_ms=1_000)
    extend = Extend(
        topic="t", queue_id=0, lease_generation=first.generation, queue_offset=1, lease_ms=30_000
    )
    assert store.store.consumption.settle(SettleRequest(group="g", extends=[extend])).failures == []
    await store.pass_time(1_000)
    await store.pass_time(9_000)  # the other lease ended, and its delay too
    assert received(store) == []
    ack(store, first, "a2")
    again = store.receive(lease_ms=1_000)
    assert (texts_of(again), again.attempts) == (["a1", "a3"], [2, 1])
    await store.close()


async def test_what_fails_is_tried_again_in_its_place_before_anything_behind_it(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path, "a1", "a2", "b1", "b2")
    first = store.receive(lease_ms=60_000)
    nack(store, first, "a1")
    ack(store, first, "b1")
    assert received(store) == ["b2"]
    await store.pass_time(SUSPEND_MS - 1)
    assert received(store) == []
    await store.pass_time(1)
    again = store.receive(lease_ms=60_000)
    assert (texts_of(again), again.attempts) == (["a1"], [2])
    ack(store, again)
    assert received(store) == ["a2"]
    await store.close()


async def test_one_that_is_delayed_never_holds_back_those_before_it(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", "a3", batch_per_group=3)
    first = store.receive(lease_ms=60_000)
    nack(store, first, "a2", delay_ms=30_000)
    nack(store, first, "a1", delay_ms=10)
    ack(store, first, "a3")
    await store.pass_time(10)
    again = store.receive(lease_ms=60_000)
    assert texts_of(again) == ["a1"]
    ack(store, again)
    await store.pass_time(29_000)
    assert received(store) == []
    await store.pass_time(1_000)
    assert received(store) == ["a2"]
    await store.close()


async def test_a_new_one_never_overtakes_one_that_is_delayed_in_the_same_batch(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path, "a1", "a2", batch_per_group=3)
    first = store.receive(lease_ms=60_000)
    nack(store, first, "a2", delay_ms=30_000)
    nack(store, first, "a1", delay_ms=10)
    await put(store, "a3")
    await store.pass_time(10)
    assert received(store) == ["a1"]
    await store.close()


async def test_a_lease_that_ends_is_a_failure_in_place_and_served_to_who_waits(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path, "a1", "a2")
    store.receive(lease_ms=1_000)
    answers, _ = store.park()
    await store.pass_time(1_000)
    assert answers == []
    await store.pass_time(10)
    assert [(texts_of(one), one.attempts) for one in answers] == [(["a1"], [2])]
    await store.close()


async def test_an_ack_serves_the_next_of_the_group_to_who_waits(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2")
    first = store.receive(lease_ms=60_000)
    answers, _ = store.park()
    assert answers == []
    ack(store, first)
    assert [texts_of(one) for one in answers] == [["a2"]]
    await store.close()


async def test_after_its_last_attempt_a_message_is_dead_and_its_group_continues(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path, "a1", "a2", "b1", max_reconsume_times=2)
    ack(store, (first := store.receive(lease_ms=60_000)), "b1")
    for attempt in (1, 2, 3):
        assert first.attempts[0] == attempt
        assert dead_count(store) == 0
        nack(store, first, "a1", delay_ms=10)
        await store.pass_time(10)
        first = store.receive(lease_ms=60_000)
    assert texts_of(first) == ["a2"]
    assert dead_count(store) == 1
    await store.close()


async def test_a_message_given_up_at_once_lets_its_group_continue_when_it_is_a_dead_letter(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path, "a1", "a2")
    nack(store, store.receive(lease_ms=60_000), "a1", is_dead=True)
    assert received(store) == []  # it is on its way
    await store.settled()
    assert (received(store), dead_count(store)) == (["a2"], 1)
    await store.close()


async def test_a_group_that_never_gives_up_tries_for_ever(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", "b1", "b2", max_reconsume_times=-1)
    ack(store, (first := store.receive(lease_ms=60_000)), "b1")
    for attempt in range(1, 30):
        assert (first.attempts[0], first.bodies[0]) == (attempt, b"a1")
        nack(store, first, "a1", delay_ms=10)
        await store.pass_time(10)
        first = store.receive(1, lease_ms=60_000)
    assert received(store) == ["b2"]
    await store.close()


async def test_a_message_without_a_group_goes_to_the_retry_topic(tmp_path: Path) -> None:
    store = await opened(tmp_path, "-1", "-2", retry={"kind": "list", "delays_ms": [5_000]})
    nack(store, store.receive(1, lease_ms=60_000), "-1")
    assert received(store) == ["-2"]
    await store.pass_time(5_000)
    again = store.receive()
    assert (texts_of(again), again.attempts) == (["-1"], [2])
    assert again.records[0].topic == "%RETRY%g"
    await store.close()


async def test_what_was_not_even_sent_comes_again_at_once_and_in_its_order(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2", "a3", "-1", batch_per_group=3)
    first = store.receive(lease_ms=60_000)
    ack(store, first, "a1")
    for text in ("-1", "a3", "a2"):
        nack(store, first, text, is_release=True)
        await store.pass_time(1)
    again = store.receive()
    assert texts_of(again) == ["a2", "a3", "-1"]
    assert again.attempts == [1, 1, 1]
    await store.close()


async def test_a_late_ack_counts_while_nobody_else_has_had_the_message(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "a2")
    first = store.receive(lease_ms=1_000)
    await store.pass_time(1_000)
    assert ack(store, first, "a1").acked_count == 1
    assert received(store) == ["a2"]
    assert store.consumer_offset() == 1
    await store.close()


async def test_only_so_many_are_passed_over(tmp_path: Path) -> None:
    store = await opened(
        tmp_path, "a1", "a2", "a3", "a4", "b1", limits={"message_group_waiting_max": 2}
    )
    first = store.receive(lease_ms=60_000)
    assert texts_of(first) == ["a1"]
    assert received(store) == []  # b1 is behind more than may be passed over
    ack(store, first)
    second = store.receive(lease_ms=60_000)
    assert texts_of(second) == ["a2"]
    ack(store, second)
    assert received(store) == ["a3", "b1"]
    await store.close()


async def test_nothing_is_passed_over_beyond_the_span(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", "b1", "a2", "c1", limits={"inflight_span_max": 3})
    first = store.receive(lease_ms=60_000)
    assert texts_of(first) == ["a1", "b1"]
    ack(store, first, "b1")
    assert received(store) == []
    ack(store, first, "a1")
    assert received(store) == ["a2", "c1"]
    await store.close()


async def test_a_large_message_waits_for_room_and_keeps_its_place(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1", limits={"receive_bytes_max": 700})
    large = grouped("a2" + "." * 600)
    await store.put(large)
    await put(store, "b1", "b2")
    first = store.receive(lease_ms=60_000)
    assert texts_of(first) == ["a1", "b1"]
    ack(store, first)
    assert received(store) == [large.body.decode()]
    assert received(store) == ["b2"]
    await store.close()


async def test_a_damaged_record_is_reported_in_its_turn_and_its_group_continues(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path, "a1")
    place = (await store.put(grouped("a2"))).offsets[0]
    await put(store, "a3", "b1")
    (segment,) = store.store._commit_log.segments()
    segment.view[place[1] + 88] ^= 1  # the first byte of its body
    first = store.receive(lease_ms=60_000)
    assert texts_of(first) == ["a1", "b1"]
    ack(store, first, "a1")
    assert received(store) == ["a3"]
    assert store.store.consumption.delivery.leaser.damaged_count == 1
    await store.close()


async def test_a_record_that_cannot_be_read_holds_nobody_up(tmp_path: Path) -> None:
    store = await opened(tmp_path, "a1")
    place = (await store.put(grouped("a2"))).offsets[0]
    await put(store, "a3")
    (segment,) = store.store._commit_log.segments()
    segment.view[place[1] : place[1] + 88] = bytes([0xFF]) * 88
    ack(store, (first := store.receive(lease_ms=60_000)))
    assert texts_of(first) == ["a1"]
    assert received(store) == ["a3"]
    assert store.store.consumption.delivery.leaser.damaged_count == 1
    await store.close()


@pytest.mark.parametrize("count", [0, 33])
async def test_a_batch_out_of_range_is_refused(tmp_path: Path, count: int) -> None:
    async with OpenStore(tmp_path) as store:
        with pytest.raises(BadRequest, match=f"batch_per_group is {count}, it must be 1 to 32"):
            store.store.catalog.group_put(ordered_group(batch_per_group=count))


async def test_the_engine_remembers_how_large_a_batch_is(tmp_path: Path) -> None:
    store = await opened(tmp_path, batch_per_group=7)
    await store.close()
    async with OpenStore(tmp_path) as again:
        assert again.store.catalog.groups["g"].batch_per_group == 7
