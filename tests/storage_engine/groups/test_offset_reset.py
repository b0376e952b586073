"""A reset wins over all that began before it, and is undone by nothing that comes after."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from storage_engine.errors import (
    BadRequest,
    GroupNotFound,
    LeaseExpired,
    OffsetOutOfRange,
    QueueNotFound,
    StoreError,
    TopicNotFound,
)
from storage_engine.wire.groups import Dispatch, GroupConfig, StartFrom
from storage_engine.wire.offsets import ResetTo
from tests.storage_engine.doubles import FaultyFiles, OpenStore, message
from tests.storage_engine.groups.resetting import (
    ack_of,
    assert_void,
    changes,
    consumer_offsets,
    filled,
    nack_of,
    offsets_of,
    reset,
    stats,
)
from tests.storage_engine.stopping import kill


async def test_a_dry_run_says_what_a_reset_does_and_changes_nothing(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 6)
        leased = store.receive(4)
        store.ack(leased, 0, 2)  # 0 and 2 are settled, 1 and 3 in flight, 4 and 5 ready
        preview = reset(store, ResetTo.OFFSET, 3, is_dry_run=True)
        assert changes(preview) == [(1, 3, 1, 0)]
        assert preview.queues[0].inflight_count == 2
        assert consumer_offsets(store) == [1]
        assert store.ack(leased).failures == []
        assert store.receive().bodies == [b"4", b"5"]


@pytest.mark.parametrize(
    ("to", "value", "expected"),
    [
        (ResetTo.EARLIEST, 0, (1, 0, 0, 2)),
        (ResetTo.OFFSET, 1, (1, 1, 0, 1)),
        (ResetTo.OFFSET, 2, (1, 2, 1, 1)),
        (ResetTo.OFFSET, 3, (1, 3, 1, 0)),
        (ResetTo.OFFSET, 6, (1, 6, 4, 0)),
        (ResetTo.LATEST, 0, (1, 6, 4, 0)),
    ],
)
async def test_each_target_skips_what_was_not_settled_and_replays_what_was(
    tmp_path: Path, to: ResetTo, value: int, expected: tuple[int, int, int, int]
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 6)
        store.ack(store.receive(3), 0, 2)
        assert changes(reset(store, to, value)) == [expected]
        assert offsets_of(store.receive()) == list(range(expected[1], 6))


async def test_a_time_leads_to_the_first_message_stored_then_or_later(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        for body in (b"a", b"b", b"c"):
            await store.put_bodies(body)
            store.clock.advance(1_000)
        began_ms = store.clock.now_ms() - 3_000
        for value, bodies in (
            (0, [b"a", b"b", b"c"]),
            (began_ms + 1, [b"b", b"c"]),
            (began_ms + 2_000, [b"c"]),
            (began_ms + 2_001, []),
        ):
            reset(store, ResetTo.TIMESTAMP, value)
            assert store.receive().bodies == bodies


async def test_only_the_chosen_queues_are_reset(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3, queues=3)
        store.ack(store.receive())
        reply = reset(store, ResetTo.OFFSET, 1, 2, 0)
        assert [each.queue_id for each in reply.queues] == [0, 2]
        assert consumer_offsets(store) == [1, 3, 1]


async def test_receipts_from_before_a_reset_settle_nothing(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 4)
        leased = store.receive()
        reset(store, ResetTo.OFFSET, 2)
        assert_void(store, leased)
        assert stats(store)[0].inflight_count == 0
        again = store.receive()
        assert (again.bodies, again.attempts) == ([b"2", b"3"], [1, 1])
        assert_void(store, leased)
        assert store.ack(again).failures == []


async def test_they_settle_nothing_after_a_kill_either_but_newer_ones_do(tmp_path: Path) -> None:
    for is_saved in (False, True):
        path = tmp_path / f"s{is_saved}"
        store = await filled(OpenStore(path).open(), 4)
        old = store.receive()
        reset(store, ResetTo.EARLIEST)
        new = store.receive(2)
        if is_saved:
            await store.store.checkpoint()
        kill(store.store)
        async with OpenStore(path) as again:
            for record in old.records:
                reply = again.store.consumption.settle(ack_of(old, record))
                assert [each.code for each in reply.failures] == [LeaseExpired.code]
            assert again.ack(new).acked_count == 2
            assert again.receive().bodies == [b"2", b"3"]


async def test_a_lease_from_before_that_ends_later_moves_nothing(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 2)
        store.receive(lease_ms=1_000)
        reset(store, ResetTo.EARLIEST)
        store.receive(lease_ms=60_000)
        await store.pass_time(1_000)
        assert store.receive().bodies == []
        assert [each.topic for each in stats(store)] == ["t"]
        assert stats(store)[0].inflight_count == 2


async def test_a_failure_from_before_that_waits_moves_nothing(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 2)
        leased = store.receive()
        assert store.store.consumption.settle(nack_of(leased, leased.records[0])).nacked_count == 1
        reset(store, ResetTo.EARLIEST)
        again = store.receive()
        assert offsets_of(again) == [0, 1]
        before = store.store.stats(0).append_offset
        await store.settled()
        assert store.store.stats(0).append_offset == before
        assert store.ack(again).acked_count == 2
        assert consumer_offsets(store) == [2]


async def test_a_move_under_way_does_not_settle_what_a_reset_made_deliverable(
    tmp_path: Path,
) -> None:
    # Given a failed message whose new record is not durable yet
    files = FaultyFiles()
    store = await filled(OpenStore(tmp_path / "s", files=files).open(), 2)
    leased = store.receive()
    store.store.consumption.settle(nack_of(leased, leased.records[0]))
    files.sync_gate = threading.Event()
    store.store.tick()
    # When the group is reset, and has the message again
    reset(store, ResetTo.EARLIEST)
    again = store.receive()
    assert offsets_of(again) == [0, 1]
    files.sync_gate.set()
    await store.settled()
    # Then the end of the move takes nothing from the new delivery
    assert consumer_offsets(store) == [0]
    assert stats(store)[0].inflight_count == 2
    kill(store.store)
    async with OpenStore(tmp_path / "s") as opened:
        assert consumer_offsets(opened) == [0]
        assert opened.ack(again).acked_count == 2
        retried = opened.receive()  # not touched
        assert (retried.bodies, retried.attempts) == ([b"0"], [2])


async def test_an_ordered_group_continues_in_order_whatever_was_suspended(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 4)
        store.store.catalog.group_put(
            GroupConfig(group="g", dispatch=Dispatch.EXCLUSIVE, is_ordered=True)
        )
        leased = store.receive(3)
        store.store.consumption.settle(nack_of(leased, leased.records[1], 30_000))
        assert store.receive().bodies == []
        reset(store, ResetTo.EARLIEST)
        again = store.receive()
        assert (offsets_of(again), again.attempts) == ([0, 1, 2, 3], [1, 1, 1, 1])
        await store.pass_time(500)
        assert store.ack(again).failures == []
        assert consumer_offsets(store) == [4]


async def test_those_who_wait_get_what_is_replayed(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3)
        store.ack(store.receive())
        first, _ = store.park(2)
        second, _ = store.park(2)
        reset(store, ResetTo.EARLIEST)
        assert [leased.bodies for leased in first + second] == [[b"0", b"1"], [b"2"]]


async def test_a_group_that_never_read_the_topic_begins_where_it_is_reset_to(
    tmp_path: Path,
) -> None:
    store = await filled(OpenStore(tmp_path / "s").open(), 3, queues=2)
    store.group("l", start_from=StartFrom.LATEST)
    preview = reset(store, ResetTo.OFFSET, 1, 0, group="l", is_dry_run=True)
    assert changes(preview) == [(None, 1, None, None)]
    assert stats(store, "l") == []
    reset(store, ResetTo.OFFSET, 1, 0, group="l")
    kill(store.store)
    async with OpenStore(tmp_path / "s") as again:
        assert consumer_offsets(again, "l") == [1, 3]
        assert again.receive(group="l").bodies == [b"1", b"2"]


async def test_a_queue_added_since_is_reset_like_the_others(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 2)
        store.ack(store.receive())
        store.topic(queues=2)
        await store.put_bodies(b"x", b"y", queue_id=1)
        assert changes(reset(store, ResetTo.LATEST)) == [(2, 2, 0, 0), (0, 2, 2, 0)]
        assert store.receive().bodies == []


async def test_what_waits_for_a_retry_is_counted_and_not_touched(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3)
        leased = store.receive()
        for record, delay_ms in zip(leased.records, (0, 60_000, 90_000), strict=True):
            store.store.consumption.settle(nack_of(leased, record, delay_ms))
        await store.settled()
        reply = reset(store, ResetTo.LATEST)
        assert (reply.retry_count, reply.scheduled_count) == (1, 2)
        assert store.receive().bodies == [b"0"]
        await store.pass_time(90_000)
        assert sorted(store.receive().bodies) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("to", "value", "queue_ids", "group", "topic", "error"),
    [
        (ResetTo.OFFSET, 4, (), "g", "t", OffsetOutOfRange),
        (ResetTo.OFFSET, -1, (0,), "g", "t", OffsetOutOfRange),
        (ResetTo.TIMESTAMP, -1, (), "g", "t", BadRequest),
        (ResetTo.EARLIEST, 0, (0, 2), "g", "t", QueueNotFound),
        (ResetTo.EARLIEST, 0, (-1,), "g", "t", QueueNotFound),
        (ResetTo.EARLIEST, 0, (), "nobody", "t", GroupNotFound),
        (ResetTo.EARLIEST, 0, (), "g", "nothing", TopicNotFound),
    ],
)
async def test_a_reset_that_cannot_be_is_refused_and_changes_nothing(
    tmp_path: Path,
    to: ResetTo,
    value: int,
    queue_ids: tuple[int, ...],
    group: str,
    topic: str,
    error: type[StoreError],
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3, queues=2)
        await store.put_bodies(b"3")  # offset 4 is good for queue 0 alone
        leased = store.receive()
        with pytest.raises(error):
            reset(store, to, value, *queue_ids, group=group, topic=topic)
        assert store.ack(leased).failures == []


async def test_a_reset_below_what_retention_left_is_refused(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3)
        store.receive(1)
        store.store._queues.by_topic[b"t"][0].raise_min(2)
        with pytest.raises(OffsetOutOfRange, match=r"\[2, 3\]"):
            reset(store, ResetTo.OFFSET, 1)
        assert changes(reset(store, ResetTo.EARLIEST)) == [(0, 2, 0, 0)]
        assert store.receive().bodies == [b"2"]


async def test_a_group_may_start_at_a_time(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic(queues=2)
    for body in (b"a", b"b", b"c"):
        await store.put_bodies(body)
        store.clock.advance(1_000)
    start_ms = store.clock.now_ms() - 2_000
    config = GroupConfig(group="g", start_from=StartFrom.TIMESTAMP, start_ms=start_ms)
    store.store.catalog.group_put(config)
    kill(store.store)
    async with OpenStore(tmp_path / "s") as again:
        assert again.store.catalog.groups["g"] == config
        assert again.receive(1).bodies == [b"b"]
        assert consumer_offsets(again) == [1, 0]
        with pytest.raises(BadRequest):
            again.store.catalog.group_put(GroupConfig(group="h", start_ms=-1))


async def test_what_a_filter_passed_over_counts_as_settled_on_both_sides(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        for tag in ("wanted", "other", "other", "wanted", "other"):
            await store.put(message(tag.encode(), tag=tag))
        assert len(store.receive(tags="wanted").records) == 2
        ahead = reset(store, ResetTo.OFFSET, 2, is_dry_run=True)
        assert changes(ahead) == [(0, 2, 1, 2)]
        back = reset(store, ResetTo.EARLIEST, is_dry_run=True)
        assert changes(back) == [(0, 0, 0, 3)]
