"""A shard begins anew with what a split made of another one's store: owners, replicas, copies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from storage_engine.clock import SystemClock
from storage_engine.disk.adopted_store import (
    check_incoming,
    incoming_path,
    split_number_of,
    write_split_number,
    write_uploaded,
)
from storage_engine.disk.files import Files
from storage_engine.errors import BadRequest, StoreCorrupt
from storage_engine.replicated_log.port import ReplicatedLog
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket
from storage_engine.replication.follower import Follower, exchanging_stores
from storage_engine.replication.tail import read_tail
from storage_engine.replication.uploads import SplitStore, StoreUpload, split_store
from storage_engine.tools.detach import leave_log
from storage_engine.wire.namespaces import NamespaceHoldRequest
from tests.storage_engine.doubles import SEGMENT_BYTES, Killed, OpenStore, fingerprint, message
from tests.storage_engine.independent_reader import read_log
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replication.nodes import Node, snapshots_in
from tests.storage_engine.replication.test_shard_copy import copy
from tests.storage_engine.replication.test_snapshots import (
    CountingBucket,
    begun,
    filled,
    late_replica,
    manifests_in,
)

ResultT = TypeVar("ResultT")

NUMBER = 5
BODIES = [b"moved %d " % number * 100 for number in range(60)]


async def made_by_split(path: Path) -> SplitStore:
    """A store with a namespace, that nobody has open."""
    async with OpenStore(path) as store:
        store.topic("acme%t")
        store.group("acme%g")
        for body in BODIES:
            await store.put(message(body, topic="acme%t"))
    write_split_number(Files(), path, NUMBER)
    return split_store(path, NUMBER)


async def uploaded(path: Path, bucket: CountingBucket) -> SplitStore:
    made = await made_by_split(path)
    snapshots = snapshots_in(bucket, SystemClock()).of_split(NUMBER)
    await StoreUpload(snapshots, path, segment_bytes=SEGMENT_BYTES).finish(made.log_end)
    write_uploaded(Files(), path)
    return made


async def begins_anew(owner: Node, made: SplitStore) -> None:
    """As an engine does that is to serve another store; its machine does not get so far."""
    await owner._end_run()
    await owner.open.store.close(made)


async def has_what_moved(node: Node) -> None:
    """And nothing else; puts go on behind it."""
    topics = node.open.store.catalog.topics
    assert [name for name in topics if not name.startswith("%")] == ["acme%t"]
    put = await node.open.put(message(b"since", topic="acme%t"))
    assert put.error is None
    found: list[bytes] = []
    while got := node.open.pull_bodies(queue_offset=len(found), topic="acme%t"):
        found += got
    assert found == [*BODIES, b"since"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_replica_has_what_moved(tmp_path: Path, when: str) -> None:
    """``when``: it begins before the shard does so, or after."""
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    await owner.snapshotter.take()
    if when == "before":
        follower = late_replica(tmp_path, shared, bucket)
        await follower.read_on()
        await follower.flush()
    made = await uploaded(tmp_path / "made", bucket)
    await begins_anew(owner, made)
    if when == "before":
        await follower.read_on()
        await follower.flush()
    node = await Node(tmp_path / "b", shared, bucket).own()
    await has_what_moved(node)
    await node.stop()
    third = await Node(tmp_path / "c", shared, bucket).own()
    assert third.open.store.catalog.topics.keys() == node.open.store.catalog.topics.keys()
    await third.stop()


async def test_a_replica_that_is_killed_on_the_way_has_it_in_the_end(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    follower = late_replica(tmp_path, shared, bucket)
    await follower.read_on()
    await follower.flush()
    await begins_anew(owner, await uploaded(tmp_path / "made", bucket))
    kills = 0
    while True:
        bucket.kill_at = kills
        try:
            await late_replica(tmp_path, shared, bucket).read_on()
            break
        except Killed:
            kills += 1
    bucket.kill_at = None
    assert kills > 3
    node = await Node(tmp_path / "b", shared, bucket).own()
    await has_what_moved(node)
    await node.stop()


async def test_an_owner_that_ended_there_takes_what_lies_ready(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    made = await uploaded(incoming_path(owner.store_dir), bucket)
    await begins_anew(owner, made)
    requests = bucket.counts["get"]
    node = await exchanged(owner.store_dir, shared, lambda *_: Node(owner.store_dir, shared).own())
    assert bucket.counts["get"] == requests
    await has_what_moved(node)
    await node.stop()


async def exchanged(
    store: Path,
    shared: SharedLog,
    lead: Callable[[ReplicatedLog, SnapshotBucket | None], Awaitable[ResultT]],
) -> ResultT:
    """As an engine begins, without a bucket."""
    return await exchanging_stores(
        lambda: (MemoryLog(shared, SystemClock()), None), store, Files(), lead
    )


async def test_a_shard_leaves_its_log_with_what_lies_ready(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    made = await uploaded(incoming_path(owner.store_dir), bucket)
    await begins_anew(owner, made)
    tail = await exchanged(
        owner.store_dir,
        shared,
        lambda log, snapshots: leave_log(log, snapshots, owner.store_dir, Files(), SystemClock()),
    )
    assert (tail.has_left, tail.log_end) == (True, made.log_end)
    async with OpenStore(owner.store_dir) as store:
        assert store.pull_bodies(topic="acme%t")[:3] == BODIES[:3]


async def test_an_owner_that_ended_there_and_has_lost_it_fetches_it(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    await begins_anew(owner, await uploaded(tmp_path / "made", bucket))
    node = await Node(owner.store_dir, shared, bucket).own()
    await has_what_moved(node)
    await node.stop()


async def test_a_snapshot_has_nothing_of_the_store_before(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 200)
    before = await owner.snapshotter.take()
    await begins_anew(owner, await uploaded(tmp_path / "made", bucket))
    node = await Node(tmp_path / "b", shared, bucket).own()
    assert await node.snapshotter.is_due()
    manifest = await node.snapshotter.take()
    assert not set(manifest.pieces) & set(before.pieces)
    await node.stop()
    third = await Node(tmp_path / "c", shared, bucket).own()
    await has_what_moved(third)
    await third.stop()


async def test_the_bucket_keeps_it_for_as_long_as_a_snapshot_is_of_the_store_before(
    tmp_path: Path,
) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    await owner.snapshotter.take()
    await begins_anew(owner, await uploaded(tmp_path / "made", bucket))
    node = await Node(tmp_path / "b", shared, bucket).own()
    left: list[int] = []
    while len({each.tail.split_number for each in await manifests_in(bucket)}) > 1 or not left:
        left.append(len(await bucket.inner.list_before("snapshots/s/splits/", "snapshots/s/t")))
        await node.snapshotter.take()
        await node.open.put(message(b"more", topic="acme%t"))
    assert min(left) > 0
    assert await bucket.inner.list_before("snapshots/s/splits/", "snapshots/s/t") == []
    await node.stop()


async def test_a_copy_for_reports_has_what_moved(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    made = await uploaded(tmp_path / "made", bucket)
    await begins_anew(owner, made)
    copied = await copy(tmp_path / "copy", shared, bucket)
    assert (copied.start_offset, copied.end_offset) == (0, made.log_end)
    sizes = [each.body_bytes for each in read_log(tmp_path / "copy")]
    assert sizes == list(map(len, BODIES))


@pytest.mark.parametrize("has_bucket", [True, False])
async def test_what_the_bucket_does_not_have_is_not_believed(
    tmp_path: Path, has_bucket: bool
) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    follower = late_replica(tmp_path, shared, bucket)
    await follower.read_on()
    await follower.flush()
    await begins_anew(owner, SplitStore(NUMBER, 1_000))
    before = fingerprint(tmp_path / "b")
    snapshots = snapshots_in(bucket, SystemClock()) if has_bucket else None
    log = MemoryLog(shared, SystemClock())
    with pytest.raises(StoreCorrupt, match="split 5"):
        await Follower(log, snapshots, tmp_path / "b", Files()).read_on()
    assert fingerprint(tmp_path / "b") == before


async def test_what_was_not_uploaded_is_not_adopted(tmp_path: Path) -> None:
    await made_by_split(incoming_path(tmp_path / "store"))
    check_incoming(tmp_path / "store", NUMBER)
    with pytest.raises(BadRequest, match="MQ_REPLICATED_LOG"):
        check_incoming(tmp_path / "store", NUMBER, is_replicated=True)
    write_uploaded(Files(), incoming_path(tmp_path / "store"))
    check_incoming(tmp_path / "store", NUMBER, is_replicated=True)
    assert split_number_of(incoming_path(tmp_path / "store")) == NUMBER


async def test_a_log_that_does_not_answer_leaves_the_shard_with_its_store(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 10)
    made = await uploaded(incoming_path(owner.store_dir), bucket)
    owner.replication._timeout_ms = 50
    shared.hold()
    await begins_anew(owner, made)
    shared.heal()
    tail = read_tail(owner.store_dir)
    assert tail is not None
    assert tail.split_number == 0


async def test_a_hold_is_in_the_log_when_it_is_answered(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    request = NamespaceHoldRequest(namespaces=["acme"], number=NUMBER)
    moving = owner.open.store.consumption.moving
    await owner.open.store.move(lambda: moving.hold(request))
    await owner.kill()
    node = await Node(tmp_path / "b", shared, bucket).own()
    assert node.open.store.catalog.holds.numbers == {"acme": NUMBER}
    await node.stop()
