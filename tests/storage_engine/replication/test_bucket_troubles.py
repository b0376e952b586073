"""Old messages that cannot be fetched, or not yet: whom that holds up, and whom it does not."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from storage_engine.delivery.subscription import Subscription
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CHECKPOINT_FILE
from storage_engine.errors import NotLocal, OldMessagesUnavailable, StoreCorrupt
from storage_engine.log import checkpoint
from storage_engine.log.checkpoint import read_checkpoint
from storage_engine.replicated_log.bucket import BucketRefused, Found
from storage_engine.server.server import Server
from storage_engine.tools.detach import leave_log
from storage_engine.wire.async_client import AsyncStoreClient
from storage_engine.wire.deliveries import LeaveRequest, ReceiveRequest
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.operations import Op
from tests.storage_engine.doubles import SEGMENT_BYTES, WAIT_S
from tests.storage_engine.replicated_log.memory_log import MemoryLog
from tests.storage_engine.replication.bucket_nodes import LOCAL_SEGMENTS, here
from tests.storage_engine.replication.nodes import snapshots_in
from tests.storage_engine.replication.test_local_retention import Shard
from tests.storage_engine.replication.test_snapshots import CountingBucket
from tests.storage_engine.test_store import wait_until


class TroubledBucket(CountingBucket):
    """``damaged``: names of pieces, which are not whole; the others come once the gate is open. All
    are refused where ``is_away``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.damaged: set[str] = set()
        self.is_away = False
        self.open_gate = asyncio.Event()
        self.open_gate.set()

    async def get(self, name: str) -> Found | None:
        if "/pieces/" not in name:
            return await super().get(name)
        if self.is_away:
            raise BucketRefused("expired credentials")
        found = await super().get(name)
        if found is not None and name.rpartition("/")[2] in self.damaged:
            return found._replace(content=found.content[:-1])
        while not self.open_gate.is_set():  # of another thread's loop
            await asyncio.sleep(0.001)
        return found


async def troubled(tmp_path: Path, queues: int = 1) -> tuple[Shard, TroubledBucket]:
    """A shard whose old messages, all of queue 0, are only in the bucket."""
    shard = Shard(tmp_path)
    bucket = TroubledBucket()
    shard.owner.bucket = shard.bucket = bucket
    await shard.owner.own()
    shard.owner.open.topic("t", queues)
    shard.owner.open.group()
    await shard.fill(60)
    assert await shard.owner.leave_old() == LOCAL_SEGMENTS
    return shard, bucket


async def test_a_damaged_piece_fails_only_those_who_need_it(tmp_path: Path) -> None:
    shard, bucket = await troubled(tmp_path)
    log, cache = shard.owner.open.store.parts.commit_log, shard.owner.cache
    segments = log.segments()
    first = segments[0]
    [piece, *_] = first.file.pieces  # type: ignore[attr-defined] # it is only in the bucket
    bucket.damaged.add(piece)
    wanted = [cache.missing(each, 0, 100) for each in segments[:3]]  # type: ignore[arg-type] # so are these
    # More at once than are fetched together: some wait while the damaged one fails.
    bucket.open_gate.clear()
    tasks = [asyncio.ensure_future(cache.fetch(each)) for each in wanted]
    await wait_until(lambda: cache.failed_count == 1)
    bucket.open_gate.set()
    failed, *others = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(failed, OldMessagesUnavailable)
    assert others == [None, None]
    assert len(log.read_many([(SEGMENT_BYTES, 100)])) == 100
    await shard.owner.stop()


async def test_all_fail_together_while_the_bucket_is_away(tmp_path: Path) -> None:
    shard, bucket = await troubled(tmp_path)
    cache = shard.owner.cache
    segments = shard.owner.open.store.parts.commit_log.segments()
    bucket.is_away = True
    asked = bucket.counts["get"]
    wanted = [cache.missing(each, 0, 100) for each in segments[:3]]  # type: ignore[arg-type] # only in the bucket
    results = await asyncio.gather(*map(cache.fetch, wanted), return_exceptions=True)
    assert [type(each) for each in results] == [OldMessagesUnavailable] * 3
    assert cache.failed_count < 3, "the last one was told without another request"
    assert bucket.counts["get"] - asked <= 2
    await shard.owner.stop()


@pytest.mark.parametrize("ignores_queues", [False, True])
async def test_newer_messages_of_other_queues_are_delivered_while_the_oldest_cannot_be_read(
    tmp_path: Path, ignores_queues: bool
) -> None:
    shard, bucket = await troubled(tmp_path, queues=2)
    store = shard.owner.open
    new = [b"new %d" % number for number in range(4)]
    await store.put_bodies(*new, queue_id=1)
    bucket.is_away = True
    with pytest.raises(NotLocal) as absent:
        while True:  # what is here may come first
            leased = store.receive(count=1, ignores_queues=ignores_queues)
            store.ack(leased)
            new = [body for body in new if body not in leased.bodies]
    with pytest.raises(OldMessagesUnavailable):
        await absent.value.fetch()
    while new:
        leased = store.receive(count=1, ignores_queues=ignores_queues)
        assert leased.bodies == new[:1]
        store.ack(leased)
        new.pop(0)
    with pytest.raises(NotLocal):
        store.receive(count=1, ignores_queues=ignores_queues)
    bucket.is_away = False
    assert (
        await here(lambda: store.receive(count=1, ignores_queues=ignores_queues))
    ).bodies == shard.bodies[1:2]
    await shard.owner.stop()


async def test_what_was_left_out_comes_once_the_bucket_is_back_though_nobody_asks_for_it(
    tmp_path: Path,
) -> None:
    shard, bucket = await troubled(tmp_path, queues=2)
    store = shard.owner.open
    await store.put_bodies(b"one", b"two", queue_id=1)
    bucket.is_away = True
    with pytest.raises(NotLocal) as absent:
        store.receive(count=1, ignores_queues=True)
    with pytest.raises(OldMessagesUnavailable):
        await absent.value.fetch()
    bucket.is_away = False
    fetched = shard.owner.cache.fetched_count
    assert store.receive(count=1, ignores_queues=True).bodies == [b"one"]
    await wait_until(lambda: shard.owner.cache.fetched_count > fetched)
    assert store.receive(count=1, ignores_queues=True).bodies == shard.bodies[1:2]
    await shard.owner.stop()


@pytest.mark.parametrize("ignores_queues", [False, True])
async def test_a_receipt_stays_good_when_its_message_was_nearly_given_to_another(
    tmp_path: Path, ignores_queues: bool
) -> None:
    shard, _ = await troubled(tmp_path)
    store = shard.owner.open
    leased = await here(lambda: store.receive(count=1))
    queue = store.store.consumption.delivery.subscriptions.find_queue("g", "t", 0)
    assert queue is not None
    queue.release(leased.records[0].queue_offset, 0, is_attempt=False)  # as at a lease's end
    await shard.owner.pull_bodies()  # of all segments: its own is not here any more
    for _ in range(2):
        with pytest.raises(NotLocal):
            store.receive(count=1, member_id="other", ignores_queues=ignores_queues)
    assert store.ack(leased).acked_count == 1
    await shard.owner.stop()


async def test_a_member_that_has_left_is_none_again_when_its_messages_are_here(
    tmp_path: Path,
) -> None:
    shard, bucket = await troubled(tmp_path)
    store = shard.owner.open.store
    store.catalog.group_put(GroupConfig(group="x", dispatch=Dispatch.EXCLUSIVE))
    server = Server(store)
    path = str(tmp_path / "socket")
    await server.start(path)
    client = AsyncStoreClient(path, client_name="test")
    await client.wait_connected(10_000)
    bucket.open_gate.clear()
    who = {"group": "x", "topic": "t", "member_id": "m"}
    request = ReceiveRequest(**who, messages_max=1, bytes_max=1_000, wait_ms=0, lease_ms=1_000)  # type: ignore[arg-type] # all text
    received = asyncio.ensure_future(client.receive(request))
    subscription = await _member_of(shard, "m")
    await client.call(Op.LEAVE, LeaveRequest(**who))
    assert not len(subscription.members)
    bucket.open_gate.set()
    with pytest.raises(OldMessagesUnavailable, match="has left"):
        await asyncio.wait_for(received, WAIT_S)
    await here(lambda: store.parts.commit_log.read_many([(0, 100)]))
    for _ in range(10):  # turns of the loop in which it would be served
        await asyncio.sleep(0)
    assert not len(subscription.members)
    await client.aclose()
    await server.stop()
    await shard.owner.stop()


async def _member_of(shard: Shard, name: str) -> Subscription:
    """What it reads, once it is there."""
    find = partial(shard.owner.open.store.consumption.delivery.subscriptions.find, "x", "t")

    def is_there() -> bool:
        found = find()
        return found is not None and name in found.members

    await wait_until(is_there)
    found = find()
    assert found is not None
    return found


async def test_a_replica_follows_while_it_leaves_many_segments(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin()
    await shard.fill(80)
    replica = shard.node("b")
    follower = replica.follower()
    await shard.leave_old_before(follower)
    assert len(shard.owner.local_bases()) == LOCAL_SEGMENTS
    assert not replica.left_bases()
    left: list[int] = []
    has_more = True
    while has_more:
        has_more = await follower.leave_old()
        left.append(len(replica.left_bases()))
        await shard.fill(1)
        await follower.read_on()
    await follower.flush()
    assert replica.left_bases() == shard.owner.left_bases()
    assert len(left) > 2, "it took several calls"
    assert max(after - before for before, after in pairwise([0, *left])) <= 4
    await shard.owner.kill()
    heir = await shard.node("b").own()
    assert await heir.pull_bodies() == shard.bodies
    await heir.stop()


# Engines that do not know the bucket --------------------------------------------------------------


def as_an_older_engine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoint, "FORMAT_VERSION", 3)
    patch.setattr(checkpoint, "_VERSIONS_READ", frozenset({1, 2, 3}))


async def test_an_older_engine_refuses_a_disk_without_the_segments_in_the_bucket(
    tmp_path: Path,
) -> None:
    shard = await Shard(tmp_path).begin()
    await shard.fill(60)
    await shard.owner.open.store.checkpoint()
    path = tmp_path / "a" / CHECKPOINT_FILE
    with pytest.MonkeyPatch.context() as patch:
        as_an_older_engine(patch)
        assert read_checkpoint(path) is not None, "all of the log is here"
    assert await shard.owner.leave_old() == LOCAL_SEGMENTS
    await shard.owner.snapshotter.take()
    for is_served in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            as_an_older_engine(patch)
            with pytest.raises(StoreCorrupt, match="start the newer engine that wrote it"):
                read_checkpoint(path)
        if is_served:
            await shard.owner.stop()
    replica = shard.node("b")
    follower = replica.follower()
    await follower.read_on()
    await follower.flush()
    assert replica.left_bases()
    with pytest.MonkeyPatch.context() as patch:
        as_an_older_engine(patch)
        with pytest.raises(StoreCorrupt, match="start the newer engine that wrote it"):
            read_checkpoint(tmp_path / "b" / CHECKPOINT_FILE)
    again = await shard.owner.own()
    assert await again.pull_bodies() == shard.bodies
    await again.stop()


async def test_an_older_engine_opens_a_store_that_has_all_of_its_log_again(tmp_path: Path) -> None:
    shard, bucket = await troubled(tmp_path)
    await shard.owner.stop()
    clock = shard.owner.clock
    log = MemoryLog(shard.shared, clock)
    await leave_log(log, snapshots_in(bucket, clock), tmp_path / "a", Files(), clock)
    assert not shard.owner.left_bases()
    with pytest.MonkeyPatch.context() as patch:
        as_an_older_engine(patch)
        assert read_checkpoint(tmp_path / "a" / CHECKPOINT_FILE) is not None
