"""A deleted topic's messages never come back, though the log keeps their records for a while."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from storage_engine.errors import BadRequest, QueueNotFound, TopicNotFound
from storage_engine.records.schedule_topic import SCHEDULE_QUEUES, SCHEDULE_TOPIC
from storage_engine.schedule import schedule
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import SEGMENT_BYTES, FaultyFiles, Killed, OpenStore, message
from tests.storage_engine.groups.test_group_delete import WAYS, Restart
from tests.storage_engine.index.keyed import keyed, pages
from tests.storage_engine.recovering import poke
from tests.storage_engine.retention.deleting import (
    RETRY_DELAY_MS,
    begun,
    bodies_of,
    delayed,
    delete_topic,
    killed,
    nack,
    park,
    receive,
    wait_for_schedule,
)
from tests.storage_engine.schedule.test_scheduled_messages import listed
from tests.storage_engine.stopping import kill
from tests.storage_engine.tools.test_verify import check, found

HOUR_MS = 3_600_000


async def test_waiting_receives_are_told_that_the_topic_is_gone(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    answers = park(store)
    delete_topic(store)
    assert [type(answer) for answer in answers] == [TopicNotFound]
    with pytest.raises(TopicNotFound):
        store.receive()
    with pytest.raises(TopicNotFound):
        delete_topic(store)
    await store.close()


async def test_puts_to_a_deleted_topic_are_refused(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a")
    delete_topic(store)
    answer = await store.put(message(b"b"))
    assert answer.offsets[0][0] == -TopicNotFound.code
    await store.close()


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g", SCHEDULE_TOPIC])
async def test_topics_of_groups_and_of_the_engine_stay(tmp_path: Path, topic: str) -> None:
    store = await begun(tmp_path / "s")
    store.topic(topic)
    with pytest.raises(BadRequest):
        delete_topic(store, topic)
    await store.close()


@WAYS
async def test_a_topic_made_again_shows_nothing_of_before(tmp_path: Path, again: Restart) -> None:
    store = await begun(tmp_path / "s", *[b"old %d" % at for at in range(9)], queues=3)
    await store.put(keyed("0A" * 17, ["order"], body=b"old keyed"))
    leased = store.receive(2)
    delete_topic(store)
    store = again(store)
    with pytest.raises(TopicNotFound):
        store.store.catalog.get_queues("t")
    store.topic(queues=2)
    store = again(store)
    assert bodies_of(store) == []
    assert pages(store, "order") == []
    assert store.receive().bodies == []
    reply = store.ack(leased)
    assert reply.acked_count in (0, 2)  # settled long ago, or unknown: nothing happens
    await store.put(keyed("0B" * 17, ["order"], body=b"new"))
    assert bodies_of(store) == [b"new"]
    assert [record.body for record in pages(store, "order")] == [b"new"]
    store = again(store)
    assert store.receive().bodies == [b"new"]
    assert len(store.store.topic_stats("t").queues) == 2
    await store.close()


@WAYS
async def test_queues_beyond_those_of_the_new_topic_are_there_when_it_grows(
    tmp_path: Path, again: Restart
) -> None:
    store = await begun(tmp_path / "s", queues=3)
    await store.put(message(b"old", queue_id=2))
    delete_topic(store)
    store.topic(queues=1)
    answer = await store.put(message(b"x", queue_id=2))
    assert answer.offsets[0][0] == -QueueNotFound.code
    store = again(store)
    store.topic(queues=3)
    await store.put(message(b"new", queue_id=2))
    assert bodies_of(store, queue_id=2) == [b"new"]
    assert store.receive().bodies == [b"new"]
    await store.close()


@WAYS
@pytest.mark.parametrize("durability", [Durability.SYNC, Durability.ASYNC])
async def test_messages_that_were_on_their_way_to_the_disk_are_gone_too(
    tmp_path: Path, again: Restart, durability: Durability
) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic(durability=durability)
    under_way = store.start_put([message(b"old")])
    delete_topic(store)
    store.topic(durability=durability)
    await under_way
    await store.put_bodies(b"new")
    store = again(store)
    assert bodies_of(store) == [b"new"]
    await store.close()


@WAYS
async def test_progress_on_the_old_topic_is_forgotten(tmp_path: Path, again: Restart) -> None:
    store = await begun(tmp_path / "s", b"a", b"b", b"c")
    store.ack(store.receive())
    delete_topic(store)
    assert store.store.consumption.group_stats("g").queues == []
    store = again(store)
    store.topic()
    assert store.receive().bodies == []
    await store.put_bodies(b"d")
    (queue,) = store.store.consumption.group_stats("g").queues
    assert queue.max_offset - queue.consumer_offset == 1
    assert store.receive().bodies == [b"d"]
    await store.close()


@WAYS
@pytest.mark.parametrize("delay_ms", [0, RETRY_DELAY_MS])
async def test_retries_of_the_old_topic_do_not_come(
    tmp_path: Path, again: Restart, delay_ms: int
) -> None:
    store = await begun(tmp_path / "s", b"old")
    await nack(store, store.receive(1), delay_ms)
    delete_topic(store)
    store.topic()
    store = again(store)
    await wait_for_schedule(store, RETRY_DELAY_MS)
    await store.put_bodies(b"new")
    assert store.receive().bodies == [b"new"]
    assert store.store.consumption.schedule.pending_count == 0
    await store.close()


@WAYS
async def test_retries_of_other_topics_come(tmp_path: Path, again: Restart) -> None:
    store = await begun(tmp_path / "s", b"kept")
    await nack(store, store.receive(1))
    store.topic("u")
    delete_topic(store, "u")
    store = again(store)
    await wait_for_schedule(store, RETRY_DELAY_MS)
    assert store.receive().bodies == [b"kept"]
    await store.close()


@WAYS
async def test_delayed_messages_for_the_old_topic_do_not_come(
    tmp_path: Path, again: Restart
) -> None:
    store = await begun(tmp_path / "s")
    store.topic(SCHEDULE_TOPIC)
    due_ms = store.clock.now_ms() + HOUR_MS
    await store.put(delayed(b"old", due_ms=due_ms))
    delete_topic(store)
    store.topic()
    await store.put(delayed(b"new", due_ms=due_ms))
    store = again(store)
    assert listed(store) == [(b"new", due_ms)]
    await wait_for_schedule(store, HOUR_MS)
    assert bodies_of(store) == [b"new"]
    await store.close()


async def test_once_the_log_has_nothing_of_it_the_topic_leaves_no_trace(tmp_path: Path) -> None:
    # Given a deleted topic, one made again, and a log that retention moves on
    limits = {"retention_bytes": 2 * 4_096, "retention_files_max": 100}
    store = OpenStore(tmp_path / "s", limits=limits).open()
    for topic in ("t", "u", "filler"):
        store.topic(topic)
        await store.put(message(b"old", topic=topic))
    delete_topic(store, "t")
    delete_topic(store, "u")
    store.topic("u")
    await store.store.retention.run()
    assert set(store.store._min_offsets.deleted) == {"t", "u"}
    for _ in range(20):
        await store.put(message(bytes(800), topic="filler"))
    await store.store.checkpoint()
    # When it has deleted the segment with the last record of before
    await store.store.retention.run()
    # Then nothing is known of it, on disk neither
    assert store.store._min_offsets.deleted == {}
    assert "t" not in store.store._min_offsets.table
    assert not (store.store_dir / "consumequeue" / "t").exists()
    store.topic("t")
    await store.put(message(b"new"))
    assert store.store.catalog.get_queues("t")[0].max_offset == 1
    assert store.store.catalog.get_queues("u")[0].max_offset == 1  # made again: goes on from there
    store = killed(store)
    assert bodies_of(store) == [b"new"]
    await store.close()


async def test_verify_finds_no_fault(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", *[b"%d" % at for at in range(20)], queues=2)
    store.ack(store.receive(3))
    delete_topic(store)
    await store.store.retention.run()
    await store.close()
    assert found(check(tmp_path / "s")) == []
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    await store.put_bodies(b"new")
    store.receive()
    await store.close()
    assert found(check(tmp_path / "s")) == []


@pytest.mark.parametrize("operation", range(8))
async def test_a_kill_while_deleting_leaves_a_topic_that_can_be_deleted(
    tmp_path: Path, operation: int
) -> None:
    store = await begun(tmp_path / "s", b"a", b"b", b"c")
    store.ack(store.receive(1))
    store.files.kill_at = operation
    with contextlib.suppress(Killed):
        delete_topic(store)
    store.files.kill_at = None
    store = killed(store)
    if "t" in store.store.catalog.topics:
        assert bodies_of(store) in ([b"a", b"b", b"c"], [])
        delete_topic(store)
    store.topic()
    await store.put_bodies(b"new")
    assert store.receive().bodies == [b"new"]
    await store.close()


async def test_the_retry_queue_of_a_deleted_topic_is_given_to_another(tmp_path: Path) -> None:
    """A topic has only so many queues, and a group may see any number of topics come and go."""
    store = OpenStore(tmp_path / "s", limits={"queue_count_max": SCHEDULE_QUEUES}).open()
    store.group()
    for name in ("kept", *map(str, range(SCHEDULE_QUEUES)), "last"):
        store.topic(name)
        await store.put(message(name.encode(), topic=name))
        await nack(store, receive(store, name))
        if name not in ("kept", "last"):
            delete_topic(store, name)
    store = killed(store)
    await wait_for_schedule(store, RETRY_DELAY_MS)
    assert len(store.store.catalog.get_queues("%RETRY%g")) == 2
    for name in ("kept", "last"):
        found = receive(store, name)
        assert (found.bodies, found.attempts) == ([name.encode()], [2])
    await store.close()


async def test_many_delayed_messages_for_a_deleted_topic_are_dropped_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each costs a read and an entry in the journal; others want their turn in between."""
    monkeypatch.setattr(schedule, "_BATCH_COUNT_MAX", 3)
    store = await begun(tmp_path / "s")
    store.topic(SCHEDULE_TOPIC)
    due_ms = store.clock.now_ms() + HOUR_MS
    await store.put(*[delayed(b"old", due_ms=due_ms)] * 8)
    delete_topic(store)
    store.topic()
    await store.put(delayed(b"new", due_ms=due_ms))
    store.clock.advance(HOUR_MS)
    counts = [0]
    store.store.tick()
    while counts[-1] < 8:
        counts.append(store.store.consumption.schedule.undeliverable_count)
        await asyncio.sleep(0)
    assert all(after - before <= 3 for before, after in pairwise(counts))
    await store.settled()
    assert bodies_of(store) == [b"new"]
    await store.close()


async def test_what_a_power_cut_takes_of_the_log_does_not_make_orphans_of_what_comes_then(
    tmp_path: Path,
) -> None:
    """The offset of a deletion may lie behind the end that the log has after a power cut."""
    store = OpenStore(tmp_path / "s").open()
    store.topic("async", durability=Durability.ASYNC)
    store.topic()
    store.topic(SCHEDULE_TOPIC)
    await store.put_bodies(b"durable")
    durable_end = store.store.stats(0).flushed_offset
    store.files.sync_gate = threading.Event()
    await store.put(message(bytes(2_000), topic="async"))
    delete_topic(store)
    store.files.sync_gate.set()
    kill(store.store)
    poke(store.store_dir, durable_end, bytes(SEGMENT_BYTES))
    files = FaultyFiles()
    files.medium = "second boot"
    store = OpenStore(store.store_dir, clock=store.clock, files=files).open()
    assert store.store.stats(0).append_offset == durable_end
    store.topic()
    due_ms = store.clock.now_ms() + HOUR_MS
    await store.put(delayed(b"new", due_ms=due_ms))
    store = killed(store)
    await wait_for_schedule(store, HOUR_MS)
    assert bodies_of(store) == [b"new"]
    await store.close()


async def test_retention_does_not_carry_messages_over_to_a_new_topic_of_the_name(
    tmp_path: Path,
) -> None:
    limits = {"retention_bytes": 2 * SEGMENT_BYTES}
    store = OpenStore(tmp_path / "s", limits=limits).open()
    for name in ("t", "other", SCHEDULE_TOPIC):
        store.topic(name)
    due_ms = store.clock.now_ms() + HOUR_MS
    await store.put(delayed(b"old", due_ms=due_ms))
    delete_topic(store)
    store.topic()
    await store.put(delayed(b"new", due_ms=due_ms))
    for _ in range(8):
        await store.put(message(bytes(2_000), topic="other"))
    assert await store.store.retention.run() > 0
    await wait_for_schedule(store, HOUR_MS)
    assert bodies_of(store) == [b"new"]
    await store.close()


async def test_retries_that_were_ready_do_not_come_when_the_new_topic_has_its_first(
    tmp_path: Path,
) -> None:
    store = await begun(tmp_path / "s", b"old")
    await nack(store, store.receive(), delay_ms=0)
    delete_topic(store)
    store.topic()
    await store.put_bodies(b"new")
    await nack(store, store.receive(), delay_ms=0)
    again = store.receive()
    assert (again.bodies, again.attempts) == ([b"new"], [2])
    await store.close()


async def test_nobody_remembers_those_who_read_a_deleted_topic(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    exclusive = GroupConfig(group="e", dispatch=Dispatch.EXCLUSIVE)
    store.store.catalog.group_put(exclusive)
    park(store)
    park(store, group="e")
    (queue,) = store.store.catalog.get_queues("t")
    delete_topic(store)
    assert queue.arrivals == []
    assert len(store.store.consumption.delivery._memberships._exclusive) == 0
    await store.close()
