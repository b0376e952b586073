"""A purged topic begins at its end: nothing of before comes back, and everything after is there."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from storage_engine.errors import BadRequest, LeaseExpired, TopicNotFound
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.wire.topics import Durability, TopicPurgeReply, TopicPurgeRequest
from tests.storage_engine.doubles import SEGMENT_BYTES, FaultyFiles, Killed, OpenStore, message
from tests.storage_engine.groups.listeners import Listener, broadcast
from tests.storage_engine.groups.test_group_delete import WAYS, Restart
from tests.storage_engine.groups.test_notices import Ear
from tests.storage_engine.index.keyed import keyed, pages
from tests.storage_engine.recovering import poke
from tests.storage_engine.retention.deleting import (
    RETRY_DELAY_MS,
    begun,
    bodies_of,
    delayed,
    killed,
    nack,
    receive,
    start_nack,
    wait_for_schedule,
)
from tests.storage_engine.schedule.test_scheduled_messages import listed
from tests.storage_engine.stopping import kill
from tests.storage_engine.tools.test_verify import check, found

HOUR_MS = 3_600_000


def purge(
    store: OpenStore, topic: str = "t", *, is_dry_run: bool = False, has_scheduled: bool = False
) -> TopicPurgeReply:
    return store.store.consumption.deletions.topic_purge(
        TopicPurgeRequest(topic=topic, is_dry_run=is_dry_run, has_scheduled=has_scheduled)
    )


def ranges(reply: TopicPurgeReply) -> list[tuple[int, int]]:
    return [(each.from_offset, each.to_offset) for each in reply.queues]


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g", SCHEDULE_TOPIC])
async def test_topics_of_groups_and_of_the_engine_are_not_purged(
    tmp_path: Path, topic: str
) -> None:
    store = await begun(tmp_path / "s")
    store.topic(topic)
    with pytest.raises(BadRequest):
        purge(store, topic)
    with pytest.raises(TopicNotFound):
        purge(store, "nowhere")
    await store.close()


@WAYS
async def test_nothing_of_before_can_be_read_or_found(tmp_path: Path, again: Restart) -> None:
    store = await begun(tmp_path / "s", *[b"old %d" % at for at in range(9)], queues=3)
    await store.put(keyed("0A" * 17, ["order"], body=b"old keyed"))
    reply = purge(store)
    assert sum(high - low for low, high in ranges(reply)) == 10
    store = again(store)
    assert [bodies_of(store, queue_id=at) for at in range(3)] == [[], [], []]
    assert pages(store, "order") == []
    assert store.receive().bodies == []
    assert ranges(purge(store, is_dry_run=True)) == [(high, high) for _, high in ranges(reply)]
    await store.put(keyed("0B" * 17, ["order"], body=b"new"))
    store = again(store)
    assert [record.body for record in pages(store, "order")] == [b"new"]
    assert store.receive().bodies == [b"new"]
    await store.close()


async def test_a_dry_run_says_what_would_go_and_changes_nothing(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a", b"b", b"c", b"d")
    await nack(store, store.receive(1), delay_ms=0)
    held = receive(store, "t")  # the retry and the other three
    reply = purge(store, is_dry_run=True)
    assert (ranges(reply), reply.inflight_count, reply.retry_count) == ([(0, 4)], 4, 1)
    assert store.ack(held).acked_count == 4
    assert len(bodies_of(store)) == 4
    await store.close()


@WAYS
async def test_groups_continue_with_what_comes_then(tmp_path: Path, again: Restart) -> None:
    store = await begun(tmp_path / "s", *[b"%d" % at for at in range(8)])
    taken = store.receive(6)
    store.ack(taken)
    purge(store)
    store = again(store)
    (queue,) = store.store.consumption.group_stats("g").queues
    assert (queue.consumer_offset, queue.min_offset, queue.max_offset) == (8, 8, 8)
    await store.put_bodies(b"new")
    assert store.receive().bodies == [b"new"]
    await store.close()


@WAYS
async def test_deliveries_of_before_settle_nothing_and_come_no_more(
    tmp_path: Path, again: Restart
) -> None:
    store = await begun(tmp_path / "s", b"a", b"b", b"c")
    leased = store.receive(2)
    purge(store)
    store = again(store)
    await store.put_bodies(b"new")
    reply = store.ack(leased)
    # After a restart the engine forgets leases, and what is settled stays so
    assert reply.acked_count == 0 or again(store) is not store
    assert {failure.code for failure in reply.failures} <= {LeaseExpired.code}
    await store.pass_time(2_000)  # the leases that were dropped end without an effect
    fresh = store.receive()
    assert (fresh.bodies, fresh.attempts) == ([b"new"], [1])
    assert store.ack(fresh).acked_count == 1
    await store.close()


async def test_who_listens_is_told_which_deliveries_are_void(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a", b"b")
    await nack(store, store.receive(1), delay_ms=0)
    assert len(receive(store, "t").records) == 2
    heard = Ear(store)
    purge(store)
    (notice,) = heard.heard
    assert (notice.kind, notice.group, notice.topic) == ("reset", "g", "t")
    assert (notice.queue_ids, notice.has_retries) == ((0,), True)
    await store.close()


async def test_a_group_that_has_nothing_to_lose_hears_nothing(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a")
    store.ack(store.receive())
    (before,) = store.store.consumption.group_stats("g").queues
    heard = Ear(store)
    purge(store)
    assert heard.heard == []
    (after,) = store.store.consumption.group_stats("g").queues
    assert after.reset_count == before.reset_count
    await store.close()


@WAYS
@pytest.mark.parametrize("delay_ms", [0, RETRY_DELAY_MS])
async def test_retries_of_before_do_not_come(tmp_path: Path, again: Restart, delay_ms: int) -> None:
    store = await begun(tmp_path / "s", b"old")
    await nack(store, store.receive(1), delay_ms)
    purge(store)
    store = again(store)
    await wait_for_schedule(store, RETRY_DELAY_MS)
    await store.put_bodies(b"new")
    assert store.receive().bodies == [b"new"]
    assert store.store.consumption.schedule.pending_count == 0
    await store.close()


@WAYS
async def test_a_failure_on_its_way_to_the_disk_does_not_come(
    tmp_path: Path, again: Restart
) -> None:
    store = await begun(tmp_path / "s", b"old")
    await nack(store, store.receive(1), delay_ms=0)
    start_nack(store, receive(store, "t"), delay_ms=0)
    store.files.sync_gate = threading.Event()
    store.store.tick()  # its record is appended, and visible to nobody yet
    purge(store)
    assert store.store.consumption.group_stats("g").queues[-1].ready_count == 0
    store.files.sync_gate.set()
    await store.settled()
    store = again(store)
    await store.put_bodies(b"new")
    assert store.receive().bodies == [b"new"]
    await store.close()


@WAYS
async def test_retries_of_what_came_then_and_of_other_topics_come(
    tmp_path: Path, again: Restart
) -> None:
    store = await begun(tmp_path / "s", b"old")
    store.topic("u")
    await store.put(message(b"other", topic="u"))
    await nack(store, receive(store, "u"))
    await nack(store, store.receive(1))
    purge(store)
    await store.put_bodies(b"new")
    await nack(store, store.receive(1))
    store = again(store)
    await wait_for_schedule(store, RETRY_DELAY_MS)
    assert receive(store, "t").bodies == [b"new"]
    assert receive(store, "u").bodies == [b"other"]
    await store.close()


@WAYS
async def test_scheduled_messages_and_dead_letters_stay(tmp_path: Path, again: Restart) -> None:
    store = await begun(tmp_path / "s", b"dead")
    store.topic(SCHEDULE_TOPIC)
    await nack(store, store.receive(1), is_dead=True)
    await store.put(delayed(b"later", due_ms=store.clock.now_ms() + HOUR_MS))
    purge(store)
    store = again(store)
    await wait_for_schedule(store, HOUR_MS)
    assert bodies_of(store) == [b"later"]
    assert bodies_of(store, "%DLQ%g") == [b"dead"]
    await store.close()


@WAYS
async def test_scheduled_messages_go_where_that_is_wanted(tmp_path: Path, again: Restart) -> None:
    store = await begun(tmp_path / "s")
    for topic in ("u", SCHEDULE_TOPIC):
        store.topic(topic)
    due_ms = store.clock.now_ms() + HOUR_MS
    await store.put(delayed(b"old", due_ms=due_ms), delayed(b"other", due_ms=due_ms, topic="u"))
    store.files.sync_gate = threading.Event()
    under_way = store.start_put([delayed(b"not answered yet", due_ms=due_ms)])
    purge(store, has_scheduled=True)
    store.files.sync_gate.set()
    await under_way
    await store.put(delayed(b"new", due_ms=due_ms))
    store = again(store)
    assert [body for body, _ in listed(store)] == [b"not answered yet", b"new"]
    await wait_for_schedule(store, HOUR_MS)
    assert bodies_of(store) == [b"not answered yet", b"new"]
    assert bodies_of(store, "u") == [b"other"]
    await store.close()


@WAYS
@pytest.mark.parametrize("durability", [Durability.SYNC, Durability.ASYNC])
async def test_a_put_that_is_not_answered_yet_is_there_afterwards(
    tmp_path: Path, again: Restart, durability: Durability
) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.group()
    store.topic(durability=durability)
    await store.put_bodies(b"old")
    store.files.sync_gate = threading.Event()
    under_way = store.start_put([message(b"new")])
    purge(store)
    store.files.sync_gate.set()
    await under_way
    store = again(store)
    expected = [b"new"] if durability is Durability.SYNC else []  # that one was answered before
    assert bodies_of(store) == expected
    assert store.receive().bodies == expected
    await store.close()


@WAYS
async def test_every_client_of_a_broadcast_group_continues_there(
    tmp_path: Path, again: Restart
) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    broadcast(store)
    await store.put_bodies(b"old", b"older")
    for client in ("one", "two"):
        assert Listener(store, client).receive(1).bodies == [b"old"]
    purge(store)
    await store.put_bodies(b"new")
    store = again(store)
    for client in ("one", "two"):
        assert Listener(store, client).receive().bodies == [b"new"]
    await store.close()


@pytest.mark.parametrize("operation", range(8))
@WAYS
async def test_a_kill_while_purging_leaves_all_or_nothing(
    tmp_path: Path, again: Restart, operation: int
) -> None:
    store = await begun(tmp_path / "s", b"a", b"b", b"c", queues=2)
    await nack(store, store.receive(1))
    store.files.kill_at = operation
    was_killed = True
    with contextlib.suppress(Killed):
        purge(store)
        was_killed = False
    store.files.kill_at = None
    store = again(killed(store))
    await wait_for_schedule(store, RETRY_DELAY_MS)
    left = sorted(receive(store, "t").bodies)
    assert left in ([], [b"a", b"b", b"c"])
    assert left == [] or was_killed
    purge(store)
    await store.put_bodies(b"new")
    assert receive(store, "t").bodies == [b"new"]
    await store.close()


async def test_what_a_power_cut_takes_of_the_log_leaves_new_messages_and_retries_alone(
    tmp_path: Path,
) -> None:
    """The end that was purged may lie behind the one that the log has after a power cut."""
    store = OpenStore(tmp_path / "s").open()
    store.group()
    store.topic(durability=Durability.ASYNC)
    store.topic(SCHEDULE_TOPIC)
    await store.put(message(b"durable"))
    await store.settled()
    durable_end = store.store.stats(0).flushed_offset
    store.files.sync_gate = threading.Event()
    await store.put(message(bytes(2_000)))
    (low_high,) = ranges(purge(store))
    store.files.sync_gate.set()
    kill(store.store)
    poke(store.store_dir, durable_end, bytes(SEGMENT_BYTES))
    files = FaultyFiles()
    files.medium = "second boot"
    store = OpenStore(store.store_dir, clock=store.clock, files=files).open()
    assert store.store.stats(0).append_offset == durable_end
    await store.put_bodies(b"new")
    await nack(store, store.receive())
    store = killed(store)
    await wait_for_schedule(store, RETRY_DELAY_MS)
    assert store.receive().bodies == [b"new"]
    (queue,) = store.store.catalog.get_queues("t")
    assert queue.min_offset == low_high[1] == queue.max_offset - 1
    await store.close()


async def test_the_bytes_go_with_retention_and_then_the_note_of_it(tmp_path: Path) -> None:
    limits = {"retention_bytes": 3 * SEGMENT_BYTES, "retention_files_max": 100}
    store = OpenStore(tmp_path / "s", limits=limits).open()
    for name in ("t", "filler"):
        store.topic(name)
    await store.put(*[message(bytes(2_000))] * 2)
    purge(store)
    assert set(store.store._min_offsets.purged) == {"t"}
    await store.store.retention.run()  # a record of it is in the last segment
    assert set(store.store._min_offsets.purged) == {"t"}
    for _ in range(20):
        await store.put(message(bytes(800), topic="filler"))
    await store.store.checkpoint()
    await store.store.retention.run()
    assert store.store._min_offsets.purged == {}
    await store.put_bodies(b"new")
    store = killed(store)
    assert bodies_of(store) == [b"new"]
    await store.close()
    assert found(check(tmp_path / "s")) == []
