"""A deleted group leaves nothing: whoever makes one of its name again begins anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage_engine.errors import DiskFull, GroupNotFound, LeaseExpired, TopicNotFound
from storage_engine.wire.dead_letters import PurgeRequest
from storage_engine.wire.groups import StartFrom
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.power_cuts import SyncedFiles
from tests.storage_engine.retention.deleting import (
    RETRY_DELAY_MS,
    begun,
    bodies_of,
    delete_group,
    killed,
    nack,
    park,
    rebuilt,
    wait_for_schedule,
)

Restart = Callable[[OpenStore], OpenStore]
same: Restart = lambda store: store  # noqa: E731  # a third way to go on, beside killed and rebuilt
WAYS = pytest.mark.parametrize("again", [same, killed, rebuilt], ids=["on", "killed", "rebuilt"])


async def test_waiting_receives_are_told_that_the_group_is_gone(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    answers = park(store)
    delete_group(store)
    assert [type(answer) for answer in answers] == [GroupNotFound]
    assert store.store.stats(0).parked_count == 0
    await store.put_bodies(b"nobody waits for this")
    with pytest.raises(GroupNotFound):
        store.receive()
    await store.close()


async def test_deleting_twice_is_refused(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    delete_group(store)
    with pytest.raises(GroupNotFound):
        delete_group(store)
    await store.close()


async def test_receipts_of_a_deleted_group_are_dead(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a", b"b")
    leased = store.receive()
    delete_group(store)
    with pytest.raises(GroupNotFound):
        store.ack(leased)
    store.group()
    again = store.receive(1)
    reply = store.ack(leased)
    assert [failure.code for failure in reply.failures] == [LeaseExpired.code] * 2
    assert again.bodies == [b"a"]
    await store.pass_time(2_000)  # the leases that were dropped end without an effect
    assert store.store.consumption.delivery.subscriptions.inflight_count == 0
    await store.close()


@WAYS
async def test_a_new_group_of_the_name_begins_where_it_is_told(
    tmp_path: Path, again: Restart
) -> None:
    store = await begun(tmp_path / "s", b"a", b"b", b"c")
    store.ack(store.receive(2))
    delete_group(store)
    store = again(store)
    store.group()
    assert store.receive().bodies == [b"a", b"b", b"c"]
    delete_group(store)
    store = again(store)
    store.group(start_from=StartFrom.LATEST)
    assert store.receive().bodies == []
    await store.put_bodies(b"d")
    assert store.receive().bodies == [b"d"]
    await store.close()


async def test_a_deletion_survives_a_power_cut_that_comes_with_the_answer(tmp_path: Path) -> None:
    files = SyncedFiles()
    store = OpenStore(tmp_path / "s", files=files).open()
    store.topic()
    store.group()
    await store.put_bodies(b"a", b"b")
    store.ack(store.receive())
    store.store.sync_offsets()
    delete_group(store)
    cut = files.cut_power(tmp_path / "s", tmp_path / "cut")
    await store.close()
    async with OpenStore(cut) as again:
        again.group()
        assert again.receive().bodies == [b"a", b"b"]


@WAYS
async def test_progress_of_the_new_group_is_its_own(tmp_path: Path, again: Restart) -> None:
    store = await begun(tmp_path / "s", *[b"%d" % at for at in range(8)])
    store.ack(store.receive(6))
    await store.store.checkpoint()
    delete_group(store)
    store.group()
    store.ack(store.receive(2))
    await store.store.checkpoint()
    store = again(store)
    assert store.receive().bodies == [b"2", b"3", b"4", b"5", b"6", b"7"]
    await store.close()


@WAYS
@pytest.mark.parametrize("checkpoints", [False, True])
async def test_what_the_old_group_failed_is_not_settled_for_the_new_one(
    tmp_path: Path, again: Restart, checkpoints: bool
) -> None:
    # Given a record in the log that settles message a for the old group
    store = await begun(tmp_path / "s", b"a", b"b")
    await nack(store, store.receive(1))
    if checkpoints:
        await store.store.checkpoint()
    # When the group is made anew, and the log is read again
    delete_group(store)
    store.group()
    assert store.receive(1, lease_ms=60_000).bodies == [b"a"]
    store = again(again(store))
    # Then it has a still to come, unless it was given out in this run
    left = store.receive(lease_ms=60_000).bodies
    assert left == ([b"b"] if again is same else [b"a", b"b"])
    # and what the old one was to get again does not come
    await wait_for_schedule(store, RETRY_DELAY_MS)
    assert store.receive().bodies == []
    await store.close()


@WAYS
async def test_retries_and_dead_letters_go_with_the_group(tmp_path: Path, again: Restart) -> None:
    store = await begun(tmp_path / "s", b"retried", b"dead")
    await nack(store, store.receive(1), 0)
    await nack(store, store.receive(1), is_dead=True)
    assert bodies_of(store, "%DLQ%g") or bodies_of(store, "%RETRY%g")
    delete_group(store)
    assert sorted(store.store.catalog.topics) == ["t"]
    store = again(store)
    for topic in ("%RETRY%g", "%DLQ%g"):
        with pytest.raises(TopicNotFound):
            store.store.catalog.get_queues(topic)
    store.group()
    await nack(store, store.receive(1), 0)
    assert bodies_of(store, "%RETRY%g") == [b"retried"]
    await nack(store, store.receive(1), is_dead=True)
    assert bodies_of(store, "%DLQ%g") == [b"dead"]
    assert store.receive().bodies == [b"retried"]
    await store.close()


async def test_what_waits_to_be_moved_when_the_group_goes_is_forgotten(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a")
    store.receive(1)
    store.clock.advance(2_000)
    store.store.consumption.delivery.tick()  # the lease ends, the message waits for its move
    assert store.store.consumption.retries.waiting_count == 1
    delete_group(store)
    assert store.store.consumption.retries.waiting_count == 0
    await store.settled()
    assert "%RETRY%g" not in store.store.catalog.topics
    await store.close()


async def test_a_move_under_way_when_the_group_goes_leaves_nothing(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a", b"b")
    store.receive(1)
    store.clock.advance(2_000)
    store.store.tick()  # appended, not durable yet
    delete_group(store)
    await store.settled()
    store.group()
    assert store.receive(lease_ms=60_000).bodies == [b"a", b"b"]
    store = killed(store)
    assert store.receive().bodies == [b"a", b"b"]
    await store.close()


async def test_a_move_under_way_is_nothing_to_a_new_group_either(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a", b"b")
    store.receive(1)
    store.clock.advance(2_000)
    store.store.tick()  # appended, not durable yet
    delete_group(store)
    store.group()
    assert store.receive(1, lease_ms=60_000).bodies == [b"a"]
    await store.settled()
    store = killed(store)
    assert store.receive().bodies == [b"a", b"b"]
    await store.close()


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_a_group_that_goes_while_a_checkpoint_is_written_stays_gone(
    tmp_path: Path, is_made_again: bool
) -> None:
    # Given a checkpoint whose consumer offsets are of before the deletion
    store = await begun(tmp_path / "s", b"a", b"b", b"c")
    store.ack(store.receive(2))
    offsets = store.store._consumer_offsets
    taken = offsets.snapshot()
    delete_group(store)
    if is_made_again:
        store.group()
        store.ack(store.receive(1))
    offsets.write(taken)
    offsets.finish(taken)
    # When the process dies
    store = killed(store)
    # Then only what came after the deletion counts
    store.group()
    assert store.receive().bodies == ([b"b", b"c"] if is_made_again else [b"a", b"b", b"c"])
    await store.close()


async def test_other_groups_keep_what_they_have(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a", b"b")
    store.group("other")
    store.ack(store.receive(1, group="other"), group="other")
    delete_group(store)
    store = killed(store)
    assert store.receive(group="other").bodies == [b"b"]
    await store.close()


async def test_a_full_disk_refuses_and_the_same_call_finishes_later(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a")
    store.ack(store.receive())
    store.files.full.add("replace")
    with pytest.raises(DiskFull):
        delete_group(store)
    assert "g" in store.store.catalog.groups
    store.files.full.clear()
    delete_group(store)
    store.group()
    assert store.receive().bodies == [b"a"]
    await store.close()


@WAYS
async def test_receipts_of_the_old_group_settle_nothing_of_the_new_one(
    tmp_path: Path, again: Restart
) -> None:
    store = await begun(tmp_path / "s", b"a", b"b")
    old = store.receive()
    delete_group(store)
    store.group()
    store.ack(store.receive(1))  # begins; a is its own
    store = again(store)
    reply = store.ack(old)
    assert [failure.code for failure in reply.failures] == [LeaseExpired.code] * 2
    assert store.receive().bodies == [b"b"]
    await store.close()


async def test_retries_of_the_old_group_are_not_counted_for_the_new_one(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a", b"b")
    await nack(store, store.receive(1))
    delete_group(store)
    store.group()
    await nack(store, store.receive(1))
    stats = store.store.consumption.group_stats("g")
    assert [queue.scheduled_count for queue in stats.queues if queue.retry_of] == [1]
    await store.close()


async def test_what_was_dropped_of_the_dead_letters_says_nothing_of_those_of_a_new_group(
    tmp_path: Path,
) -> None:
    """Their queue begins at 0 again once the log has nothing of the old ones."""
    store = await begun(tmp_path / "s", b"old")
    await nack(store, store.receive(), is_dead=True)
    dead_letters = store.store.consumption.dead_letters
    dead_letters.purge(PurgeRequest(group="g", queue_offsets=[0]))
    assert dead_letters.is_removed("%DLQ%g", 0, 0)
    delete_group(store)
    assert not dead_letters.is_removed("%DLQ%g", 0, 0)
    await store.close()
