"""Put, receive and settle through the one facade: when it answers, and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from functools import partial
from pathlib import Path

import pytest

from storage_engine.errors import (
    DiskFull,
    GroupNotFound,
    QueueNotFound,
    RecordRefused,
    ShuttingDown,
    StoreInUse,
    StoreReadOnly,
    SyncFailed,
    TopicNotFound,
)
from storage_engine.log.checkpoint import read_checkpoint
from storage_engine.wire.groups import StartFrom
from storage_engine.wire.reads import PullRequest, PullStatus
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import WAIT_S, OpenStore, Put, copy_store, fingerprint, message


async def wait_until(is_true: object) -> None:
    """Let the loop run until a claim holds."""
    assert callable(is_true)
    async with asyncio.timeout(WAIT_S):
        while not is_true():
            await asyncio.sleep(0)


async def test_a_message_is_put_received_and_settled(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        put = await store.put(message(b"one"))
        assert put.offsets == [(0, 0)]
        leased = store.receive()
        assert leased.bodies == [b"one"]
        assert leased.attempts == [1]
        assert store.ack(leased).acked_count == 1
        assert store.receive().bodies == []
        assert store.store.consumption.group_stats("g").queues[0].consumer_offset == 1


async def test_a_sync_message_is_invisible_until_the_disk_has_it(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        future = store.start_put([message(b"one")])
        assert store.pull_bodies() == []
        assert not future.done()
        await future
        assert store.pull_bodies() == [b"one"]


async def test_an_async_message_is_answered_and_visible_at_once(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic(durability=Durability.ASYNC)
        future = store.start_put([message(b"one")])
        assert future.done()
        assert store.pull_bodies() == [b"one"]


async def test_async_behind_sync_becomes_visible_in_log_order(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.topic("a", durability=Durability.ASYNC)
        waiting = store.start_put([message(b"sync")])
        assert store.start_put([message(b"async", topic="a")]).done()
        assert store.store.topic_stats("a").queues[0].max_offset == 0
        await waiting
        await wait_until(lambda: store.store.topic_stats("a").queues[0].max_offset == 1)


async def test_many_waiting_puts_share_a_sync_and_are_answered_in_order(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        order: list[int] = []
        futures = [store.start_put([message(b"%d" % i)]) for i in range(100)]
        for index, future in enumerate(futures):
            future.add_done_callback(partial(_append_index, order, index))
        puts = await asyncio.gather(*futures)
        assert [put.offsets[0][0] for put in puts] == list(range(100))
        assert order == list(range(100))
        assert store.store.stats(0).sync_count < 100


async def test_a_sync_answers_nobody_whose_bytes_came_after_it_began(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.files.sync_gate = gate = threading.Event()
        store.files.syncing.clear()
        first = store.start_put([message(b"one")])
        await asyncio.to_thread(store.files.syncing.wait, 10)
        second = store.start_put([message(b"two")])
        store.files.sync_gate = next_gate = threading.Event()
        gate.set()
        assert (await first).error is None
        assert not second.done()
        assert store.pull_bodies() == [b"one"]
        next_gate.set()
        assert (await second).error is None


def _append_index(order: list[int], index: int, _: asyncio.Future[Put]) -> None:
    order.append(index)


async def test_a_refused_record_does_not_stop_its_neighbours(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        put = await store.put(
            message(b"one"),
            message(b"lost", topic="absent"),
            message(b"wrong queue", queue_id=1),
            message(bytes(2_049)),
            message(b"two"),
        )
        codes = [offset for offset, _ in put.offsets]
        assert codes == [0, -TopicNotFound.code, -QueueNotFound.code, -RecordRefused.code, 1]
        assert store.pull_bodies() == [b"one", b"two"]


async def test_refused_records_are_not_counted_as_puts(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put(message(b"one"), message(b"lost", topic="absent"))
        assert store.store.stats(0).put_count == 1


async def test_pull_names_the_range_when_the_offset_is_outside(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(b"a", b"b")
        request = PullRequest(topic="t", queue_id=0, queue_offset=3, messages_max=1, bytes_max=1)
        head, found = store.store.pull(request)
        assert (head.status, head.next_offset, head.min_offset, head.max_offset) == (
            PullStatus.OFFSET_ILLEGAL,
            2,
            0,
            2,
        )
        assert found == []
        head, _ = store.store.pull(
            PullRequest(topic="t", queue_id=0, queue_offset=2, messages_max=1, bytes_max=1)
        )
        assert (head.status, head.next_offset) == (PullStatus.NO_NEW_MSG, 2)


async def test_unknown_names_are_refused(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        with pytest.raises(GroupNotFound):
            store.receive()
        store.group()
        with pytest.raises(QueueNotFound):
            store.pull_bodies(queue_id=1)
        with pytest.raises(TopicNotFound):
            store.store.topic_stats("absent")


async def test_a_second_engine_on_the_directory_is_refused_and_changes_nothing(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(b"a")
        before = fingerprint(tmp_path / "s")
        with pytest.raises(StoreInUse, match="in use by process"):
            OpenStore(tmp_path / "s").open()
        assert fingerprint(tmp_path / "s") == before


async def test_after_a_failed_sync_the_segment_is_rewritten_and_all_continues(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(b"kept")
        segment = tmp_path / "s" / "commitlog" / f"{0:020d}"
        inode = segment.stat().st_ino
        store.files.sync_failures = 1
        futures = [store.start_put([message(b"%d" % i)]) for i in range(3)]
        puts = await asyncio.gather(*futures)
        assert [put.error for put in puts] == [None] * 3
        assert segment.stat().st_ino != inode  # nothing rests on the file whose sync failed
        await store.put_bodies(b"later")
        copy = copy_store(tmp_path / "s", tmp_path / "copy")
        bodies = [b"kept", b"0", b"1", b"2", b"later"]
        assert store.pull_bodies() == bodies
    async with OpenStore(copy) as store:
        assert store.pull_bodies() == bodies


async def test_a_disk_that_refuses_a_new_file_too_is_told_to_all_who_wait_and_tried_again(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(b"kept")
        store.files.sync_failures = 1
        store.files.full.add("create")
        futures = [store.start_put([message(b"%d" % i)]) for i in range(3)]
        puts = await asyncio.gather(*futures)
        assert [type(put.error) for put in puts] == [SyncFailed] * 3
        with pytest.raises(StoreReadOnly):
            store.start_put([message(b"later")])
        assert not store.store.stats(0).is_writable
        assert store.pull_bodies() == [b"kept"]
        store.files.full.clear()
        await wait_until(lambda: store.store.stats(0).is_writable)
        # Their outcome was unknown; now they are there.
        assert store.pull_bodies() == [b"kept", b"0", b"1", b"2"]
        await store.put_bodies(b"later")


async def test_a_retried_sync_after_a_failed_one_acknowledges_nothing(tmp_path: Path) -> None:
    """The second msync reports success for pages that the first one lost."""
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(b"kept")
        flushed = store.store.stats(0).flushed_offset
        store.files.full.add("create")
        store.files.sync_failures = 1
        store.files.sync_gate = gate = threading.Event()
        store.files.syncing.clear()
        first = store.start_put([message(b"one")])
        await asyncio.to_thread(store.files.syncing.wait, 10)
        second = store.start_put([message(b"two")])  # asks for a sync of its own
        gate.set()
        for put in await asyncio.gather(first, second):
            assert isinstance(put.error, SyncFailed)
        await store.close()
        assert store.store.stats(0).flushed_offset == flushed
        mark = read_checkpoint(tmp_path / "s" / "checkpoint")
        assert mark is None or mark.flushed_offset <= flushed


async def test_closing_does_not_retry_a_sync_that_has_just_failed(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    store.files.sync_failures = 1
    future = store.start_put([message(b"one")])
    await store.close()
    assert isinstance((await future).error, (SyncFailed, ShuttingDown))


async def test_puts_that_wait_are_answered_before_the_store_closes(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    futures = [store.start_put([message(b"%d" % i)]) for i in range(10)]
    await store.close()
    assert [put.error for put in await asyncio.gather(*futures)] == [None] * 10
    assert not (tmp_path / "s" / "abort").exists()
    with pytest.raises(ShuttingDown):
        store.start_put([message(b"late")])


async def test_a_full_log_disk_refuses_puts_and_recovers_on_its_own(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        await store.put(*[message(bytes(1_000))] * 3)
        store.files.full = {"create"}
        with pytest.raises(DiskFull):
            store.start_put([message(bytes(1_000))])
        small = await store.put(message(b"still fits"))
        assert small.offsets[0][0] == 3  # no hole where the refused one would have been
        leased = store.receive()
        assert len(leased.records) == 4
        assert store.ack(leased).acked_count == 4
        store.files.full = set()
        assert (await store.put(message(bytes(1_000)))).offsets[0][0] == 4


async def test_a_full_disk_in_the_middle_of_a_large_frame_stores_what_it_says(
    tmp_path: Path,
) -> None:
    """A frame larger than a segment goes record by record: those stored must not be denied."""
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(b"first")
        store.files.full = {"create"}
        frame = [message(b"%d" % i + bytes(1_500)) for i in range(4)]
        try:
            put = await store.put(*frame)
        except DiskFull:
            stored = 0
        else:
            stored = sum(offset >= 0 for offset, _ in put.offsets)
        store.files.full = set()
        await store.put_bodies(b"last")
        assert len(store.pull_bodies()) == stored + 2


async def test_a_full_consume_queue_disk_refuses_the_whole_put_and_leaves_no_hole(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic(queues=2)
        store.group()
        await store.put_bodies(b"a", b"b", b"c", b"d", queue_id=1)
        store.ack(store.receive())
        answers, _ = store.park()
        store.files.full = {"create", "allocate"}
        # Queue 0 has no file yet, queue 1 is at the end of its first: neither can grow.
        with pytest.raises(DiskFull):
            store.start_put([message(b"e"), message(b"f", queue_id=1)])
        store.files.full = set()
        assert answers == []
        assert (await store.put(message(b"g", queue_id=1))).offsets[0][0] == 4
        assert [answer.bodies for answer in answers] == [[b"g"]]
        assert (await store.put(message(b"h"))).offsets[0][0] == 0


async def test_any_error_while_a_queue_grows_leaves_no_hole(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic(queues=2)
        await store.put_bodies(b"a")
        store.files.broken = {"create"}
        with pytest.raises(OSError, match="injected"):
            store.start_put([message(b"b"), message(b"c", queue_id=1)])
        store.files.broken = set()
        put = await store.put(message(b"d"), message(b"e", queue_id=1))
        assert [queue_offset for queue_offset, _ in put.offsets] == [1, 0]
    async with OpenStore(tmp_path / "s") as store:
        assert store.pull_bodies() == [b"a", b"d"]


async def test_settles_on_a_full_disk_are_refused_whole_and_work_later(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        await store.put_bodies(b"a", b"b")
        leased = store.receive()
        store.files.full = {"append"}
        with pytest.raises(DiskFull):
            store.ack(leased)
        assert store.store.consumption.group_stats("g").queues[0].consumer_offset == 0
        store.files.full = set()
        assert store.ack(leased).acked_count == 2
        assert store.store.consumption.group_stats("g").queues[0].consumer_offset == 2


async def test_latest_is_the_end_of_every_queue_although_the_disk_was_full_in_between(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.files.full_append = 1
        store.topic(queues=2)
        store.group(start_from=StartFrom.LATEST)
        await store.put_bodies(b"old", queue_id=0)
        await store.put_bodies(b"old", queue_id=1)
        with contextlib.suppress(DiskFull):
            store.receive()
        store.files.full_append = -1
        assert store.receive().bodies == []


async def test_a_segment_whose_directory_could_not_be_synced_is_made_again(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put(*[message(bytes(1_000))] * 3)
        store.files.dir_sync_failures = 1
        with pytest.raises(SyncFailed):
            store.start_put([message(bytes(1_000))])
        assert (await store.put(message(bytes(1_000)))).offsets[0][0] == 3


async def test_messages_in_queues_that_a_topic_has_no_more_are_read_and_delivered(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic(queues=2)
        store.group()
        await store.put_bodies(b"kept", queue_id=1)
        store.topic(queues=1)
        assert store.pull_bodies(queue_id=1) == [b"kept"]
        (offset, _), *_ = (await store.put(message(b"refused", queue_id=1))).offsets
        assert offset == -QueueNotFound.code
    async with OpenStore(tmp_path / "s") as store:
        assert store.pull_bodies(queue_id=1) == [b"kept"]
        assert store.receive().bodies == [b"kept"]
