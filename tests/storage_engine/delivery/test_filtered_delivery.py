"""Receives through a filter: what comes, what is skipped, and that skipped means settled."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.errors import FilterInvalid
from storage_engine.records.tag_hash import java_hash
from storage_engine.wire.deliveries import Nack, SettleRequest
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import Leased, OpenStore, copy_store, message


async def opened(store_dir: Path, queues: int = 1, **limits: int) -> OpenStore:
    store = OpenStore(store_dir, limits=limits).open()
    store.topic(queues=queues, durability=Durability.ASYNC)
    store.group()
    return store


async def put_tags(store: OpenStore, *tags: str | None, queue_id: int = 0) -> None:
    """One message for each tag; its body is its number among them."""
    for index, tag in enumerate(tags):
        await store.put(message(b"%d" % index, tag=tag, queue_id=queue_id))


async def turns(answers: list[Leased], turns_max: int = 10_000) -> int:
    """How many turns of the loop go by until there is an answer."""
    for count in range(turns_max):
        if answers:
            return count
        await asyncio.sleep(0)
    raise AssertionError("no answer")


async def test_only_wanted_tags_come_and_the_rest_counts_as_settled(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await put_tags(store, "a", "b", None, "a", "c", "b")

    leased = store.receive(tags="a || c")

    assert leased.bodies == [b"0", b"3", b"4"]
    assert store.consumer_offset() == 0
    store.ack(leased)
    assert store.consumer_offset() == 6
    assert store.store.consumption.delivery.filter_scans.skipped_count == 3
    await store.close()


async def test_tags_of_one_hash_are_distinguished_by_their_text(tmp_path: Path) -> None:
    assert java_hash("Aa") == java_hash("BB")
    store = await opened(tmp_path)
    await put_tags(store, "Aa", "BB", "Aa", "BB")

    assert store.receive(tags="BB").bodies == [b"1", b"3"]
    assert store.consumer_offset() == 1
    await store.close()


async def test_an_unknown_condition_matches_nothing_and_neither_does_its_opposite(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path)
    for group in ("g", "h", "i"):
        store.group(group)
    for body, value in ((b"low", "1"), (b"none", None), (b"word", "many"), (b"high", "9.5")):
        properties = {} if value is None else {"amount": value}
        await store.put(message(body, tag="paid", properties=properties))

    assert store.receive(sql="amount > 5").bodies == [b"high"]
    assert store.receive(sql="NOT (amount > 5)", group="h").bodies == [b"low"]
    unknown = store.receive(sql="amount IS NULL OR TAGS <> 'paid'", group="i")
    assert unknown.bodies == [b"none"]
    assert store.consumer_offset(group="g") == 3
    await store.close()


async def test_a_filter_that_is_none_is_refused_with_its_place_and_changes_nothing(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path)
    await put_tags(store, "a")
    with pytest.raises(FilterInvalid, match="at character 7"):
        store.receive(sql="a > 5 >")
    assert store.receive(tags="a").bodies == [b"0"]
    await store.close()


async def test_what_was_skipped_stays_so_after_a_stop_and_a_kill(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s")
    await put_tags(store, "a", "b", "b", "a", "b")
    first = store.receive(tags="a")
    store.ack(first, 3)  # the skips before it go along in its journal entry
    killed = copy_store(tmp_path / "s", tmp_path / "killed")
    await store.close()

    for store_dir in (killed, tmp_path / "s"):
        again = OpenStore(store_dir).open()
        assert again.receive().bodies == [b"0"]  # everything is wanted, and yet
        again.ack(again.receive(member_id="other"))
        assert again.consumer_offset() == 0
        await again.close()


async def test_a_kill_before_the_tick_lets_the_filter_look_again_and_loses_nothing(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path / "s")
    await put_tags(store, "b", "b", "a")
    assert store.receive(tags="a").bodies == [b"2"]
    before_tick = copy_store(tmp_path / "s", tmp_path / "before")
    store.store.tick()
    after_tick = copy_store(tmp_path / "s", tmp_path / "after")
    await store.close()

    for store_dir, expected in ((before_tick, [b"0", b"1", b"2"]), (after_tick, [b"2"])):
        again = OpenStore(store_dir).open()
        assert again.receive().bodies == expected
        await again.close()


async def test_a_full_disk_keeps_skips_for_a_later_journal(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s")
    await put_tags(store, "b", "b", "a")
    store.receive(tags="a")
    store.files.full.add("append")
    store.store.tick()
    store.files.full.clear()
    store.store.tick()
    again = OpenStore(copy_store(tmp_path / "s", tmp_path / "killed")).open()
    assert again.consumer_offset() == 2
    await again.close()
    await store.close()


async def test_a_message_that_failed_comes_again_without_being_filtered(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await put_tags(store, "a")
    leased = store.receive(tags="a")
    for record in leased.records:
        store.store.consumption.settle(
            SettleRequest(
                group="g",
                nacks=[
                    Nack(
                        topic="t", queue_id=0, lease_generation=leased.generation,
                        queue_offset=record.queue_offset, delay_ms=0,
                    )
                ],
            )
        )  # fmt: skip
    await store.settled()
    await put_tags(store, "b", "a")

    again = store.receive(tags="b")  # the only member may want something else by now

    assert (again.bodies, again.attempts) == ([b"0", b"0"], [1, 2])
    await store.close()


async def test_skipped_messages_are_no_part_of_the_span(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s", inflight_span_max=4)
    await put_tags(store, "a", *["b"] * 20, "a", "a", "a", "a")

    held = store.receive(10, tags="a", lease_ms=60_000)

    assert held.bodies == [b"0", b"21", b"22", b"23"]
    assert store.receive(10, tags="a").bodies == []
    store.ack(held, 21, 22, 23)
    assert store.consumer_offset() == 0
    assert store.receive(10, tags="a").bodies == []
    store.ack(held, 0)
    assert store.consumer_offset() == 24
    assert store.receive(10, tags="a").bodies == [b"24"]
    await store.close()


async def test_runs_above_a_held_message_survive_checkpoint_and_restart(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s", inflight_span_max=4)
    await put_tags(store, "a", *["b"] * 9, "a", *["b"] * 9, "a")
    store.ack(store.receive(10, tags="a"), 10)
    await store.store.checkpoint()
    await store.close()

    again = OpenStore(tmp_path / "s", limits={"inflight_span_max": 4}).open()
    leased = again.receive(10)
    assert leased.bodies == [b"0", b"20"]
    again.ack(leased, 0)
    assert again.consumer_offset() == 20
    await again.close()


async def test_skips_above_the_end_of_a_queue_are_taken_back(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s")
    await put_tags(store, "a", "b", "b")
    store.receive(tags="a")
    progress = store.store._consumer_offsets.find("g", "t", 0)
    assert progress is not None
    assert progress.clamp(2)
    assert list(progress.skipped) == [(1, 1)]
    await store.close()


async def test_a_reset_forgets_what_filters_passed_over(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s")
    await put_tags(store, "b", "a", "b", "b")
    store.receive(tags="a")
    offsets = store.store._consumer_offsets
    progress = offsets.find("g", "t", 0)
    assert progress is not None
    assert (progress.consumer_offset, list(progress.skipped)) == (1, [(2, 2)])
    offsets.reset([(progress, 0)], lease_floor=1)
    store.store.tick()
    again = OpenStore(copy_store(tmp_path / "s", tmp_path / "killed")).open()
    assert again.receive().bodies == [b"0", b"1", b"2", b"3"]
    await again.close()
    await store.close()


async def test_a_waiting_receive_passes_over_what_comes_until_something_matches(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path, queues=2)
    answers, _ = store.park(tags="a")
    await put_tags(store, "b", "b", queue_id=1)
    assert (answers, store.consumer_offset(1)) == ([], 2)
    await put_tags(store, "a", queue_id=0)
    assert [answer.bodies for answer in answers] == [[b"0"]]
    await store.close()


async def test_acks_by_old_receipts_above_the_position_are_not_delivered(tmp_path: Path) -> None:
    store = await opened(tmp_path / "s")
    await put_tags(store, "a", "b", "a", "a")
    before = store.receive(tags="a")
    await store.close()

    again = OpenStore(tmp_path / "s").open()
    again.store.consumption.delivery.settle(SettleRequest(group="g"))
    again.ack(before, 2)
    assert again.receive(tags="a").bodies == [b"0", b"3"]
    await again.close()


async def test_what_was_acked_before_a_restart_comes_no_more_behind_what_is_skipped(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path)
    await put_tags(store, "b", "a", "b", "b", "a")
    store.ack(store.receive(tags="a || b"), 1, 2)
    await store.close()
    async with OpenStore(tmp_path) as again:
        # Skipping the first moves the consumer offset over the two that are settled.
        assert again.receive(tags="a").bodies == [b"4"]
        assert again.consumer_offset() == 4


async def test_a_large_message_that_is_wanted_waits_for_its_turn(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    for size, tag in ((10, "a"), (10, "b"), (1_500, "a")):
        await store.put(message(b"x" * size, tag=tag))
    answers, _ = store.park(10, wait_ms=0, tags="a")
    assert [len(body) for body in answers[0].bodies] == [10, 1_500]
    await store.close()


async def test_damaged_messages_are_reported_and_not_judged_by_what_they_say(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path)
    places = [
        (await store.put(message(b"%d" % index, tag="b", properties={"n": str(index)}))).offsets[0]
        for index in range(3)
    ]
    (segment,) = store.store._commit_log.segments()
    # n=1 says n=0 now, and its length stays: only its CRC knows.
    at = segment.view[places[1][1] :].tobytes().index(b"n\x011") + 2
    segment.view[places[1][1] + at] = ord("0")

    leased = store.receive(sql="n = 2")

    assert leased.bodies == [b"2"]
    assert store.store._quarantine.count == 1
    assert store.store.consumption.delivery.leaser.damaged_count == 1
    assert store.store.consumption.delivery.filter_scans.skipped_count == 1
    assert store.consumer_offset() == 2
    await store.close()


async def test_a_record_without_readable_lengths_is_for_the_quarantine(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    places = [(await store.put(message(b"%d" % n, tag="b"))).offsets[0] for n in range(2)]
    (segment,) = store.store._commit_log.segments()
    segment.view[places[0][1] : places[0][1] + 88] = bytes([0xFF]) * 88

    assert store.receive(sql="TAGS = 'b'").bodies == [b"1"]
    assert store.store.consumption.delivery.leaser.damaged_count == 1
    assert store.consumer_offset() == 1
    await store.close()


async def test_skips_that_wait_for_the_journal_do_not_bring_a_deleted_group_back(
    tmp_path: Path,
) -> None:
    store = await opened(tmp_path / "s")
    await put_tags(store, "b", "b", "a")
    store.receive(tags="a")
    offsets = store.store._consumer_offsets
    offsets.drop(lambda group, topic: group == "g", lease_floor=1)
    offsets.write_skipped()
    assert offsets.find("g", "t", 0) is None
    again = OpenStore(copy_store(tmp_path / "s", tmp_path / "killed")).open()
    assert again.store._consumer_offsets.find("g", "t", 0) is None
    await again.close()
    await store.close()
