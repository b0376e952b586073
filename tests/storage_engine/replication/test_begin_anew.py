"""A shard begins anew with what a split made of another one's store: owners, replicas, copies."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from storage_engine.clock import SystemClock
from storage_engine.disk.adopted_store import (
    check_incoming,
    incoming_path,
    split_number_of,
    write_discarded_number,
    write_split_number,
    write_uploaded,
)
from storage_engine.disk.files import Files
from storage_engine.errors import BadRequest, StoreCorrupt
from storage_engine.replicated_log.errors import Unavailable
from storage_engine.replicated_log.port import ReplicatedLog
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket
from storage_engine.replication import follower as follower_module
from storage_engine.replication.follower import Follower, exchanging_stores
from storage_engine.replication.restorer import Restorer
from storage_engine.replication.tail import Tail, read_tail
from storage_engine.replication.uploads import SplitStore, StoreUpload, split_store
from storage_engine.tools.detach import leave_log
from storage_engine.wire.namespaces import NamespaceHoldRequest
from tests.storage_engine.doubles import (
    SEGMENT_BYTES,
    FaultyFiles,
    Killed,
    OpenStore,
    fingerprint,
    message,
)
from tests.storage_engine.independent_reader import read_log
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replication.nodes import Node, snapshots_in
from tests.storage_engine.replication.test_local_retention import Shard
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


async def test_a_kill_between_two_writes_of_a_replica_loses_nothing(tmp_path: Path) -> None:
    """What it has read since its last flush comes again, and then that the shard begins anew."""
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    follower = late_replica(tmp_path, shared, bucket)
    await follower.read_on()
    await follower.flush()
    for number in range(40, 46):
        await filled(owner, number, 1)
        if number == 43:
            await owner.open.store.checkpoint()  # with a journal of its own
    await begins_anew(owner, await uploaded(tmp_path / "made", bucket))
    shutil.copytree(tmp_path / "b", tmp_path / "before")
    kills, is_killed = 0, True
    while is_killed:
        shutil.rmtree(tmp_path / "b")
        shutil.copytree(tmp_path / "before", tmp_path / "b")
        files = FaultyFiles()
        files.kill_at = kills
        log, snapshots = MemoryLog(shared, SystemClock()), snapshots_in(bucket, SystemClock())
        with contextlib.suppress(Killed):
            await Follower(log, snapshots, tmp_path / "b", files).read_on()
            is_killed = False
        kills += is_killed
        await late_replica(tmp_path, shared, bucket).read_on()
    assert kills > 20
    node = await Node(tmp_path / "b", shared, bucket).own()
    await has_what_moved(node)
    await node.stop()


async def test_a_replica_waits_for_a_bucket_that_is_away_when_the_shard_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    follower = late_replica(tmp_path, shared, bucket)
    await follower.read_on()
    await begins_anew(owner, await uploaded(tmp_path / "made", bucket))
    tries = 0

    async def restored(restorer: Restorer, tail: Tail) -> Tail:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise Unavailable("the store does not answer")
        return await real(restorer, tail)

    real = Restorer._restore_split
    monkeypatch.setattr(Restorer, "_restore_split", restored)
    monkeypatch.setattr(follower_module, "_PAUSE_S", 0.0)
    await follower.read_on()
    assert tries == 2
    node = await Node(tmp_path / "b", shared, bucket).own()
    await has_what_moved(node)
    await node.stop()


@pytest.mark.parametrize("is_owner", [False, True])
async def test_whoever_comes_so_late_that_it_was_deleted_begins_with_a_snapshot(
    tmp_path: Path, is_owner: bool
) -> None:
    """``is_owner``: the one that ended there, without what lay beside its store."""
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    await owner.snapshotter.take()  # it keeps the log from there on
    follower = late_replica(tmp_path, shared, bucket)
    await follower.read_on()
    await begins_anew(owner, await uploaded(tmp_path / "made", bucket))
    node = await Node(tmp_path / "c", shared, bucket).own()
    await node.snapshotter.take()
    await snapshots_in(bucket, SystemClock()).delete_splits(NUMBER)
    await node.stop()
    late = await Node(tmp_path / ("a" if is_owner else "b"), shared, bucket).own()
    await has_what_moved(late)
    await late.stop()


async def test_a_replica_leaves_none_of_it_to_the_bucket_as_the_owner_had_left_the_store_before(
    tmp_path: Path,
) -> None:
    shard = await Shard(tmp_path).begin()
    await shard.fill(80)
    replica = shard.node("b")
    follower = replica.follower()
    await shard.leave_old_before(follower)
    assert await follower.leave_old(), "it has only begun to"
    await begins_anew(shard.owner, await uploaded(tmp_path / "made", shard.bucket))
    await follower.read_on()
    await follower.flush()
    while await follower.leave_old():
        pass
    assert replica.left_bases() == []
    node = await shard.node("b").own()
    await has_what_moved(node)
    await node.stop()


async def test_a_kill_between_the_two_renames_exchanges_the_stores_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    made = await uploaded(incoming_path(owner.store_dir), bucket)
    await begins_anew(owner, made)
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        if target == owner.store_dir:
            raise Killed(str(target))
        real(source, target)

    def lead(*_: object) -> Awaitable[Node]:
        return Node(owner.store_dir, shared).own()

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(Killed):
        await exchanged(owner.store_dir, shared, lead)
    monkeypatch.undo()
    node = await exchanged(owner.store_dir, shared, lead)
    await has_what_moved(node)
    await node.stop()


async def test_what_was_given_up_while_the_engine_stopped_is_not_begun_with(
    tmp_path: Path,
) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    bodies = await filled(owner, 0, 10)
    made = await uploaded(incoming_path(owner.store_dir), bucket)
    write_discarded_number(Files(), owner.store_dir, NUMBER)
    await begins_anew(owner, made)
    node = await exchanged(owner.store_dir, shared, lambda *_: Node(owner.store_dir, shared).own())
    assert node.open.pull_bodies() == bodies
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
    with pytest.raises(StoreCorrupt, match="SNAPSHOT_URL"):
        await copy(tmp_path / "without a bucket", shared, None)


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


async def test_a_log_that_does_not_answer_leaves_the_shard_with_its_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 10)
    made = await uploaded(incoming_path(owner.store_dir), bucket)
    # Whoever is cut off while shipping ships its tables again, which the log would hold up, too.
    await owner._end_run()
    await owner.replication.ship_all()
    owner.replication._timeout_ms = 50
    shared.hold()
    await begins_anew(owner, made)
    reason = "the replicated log does not answer"
    said = [(each.__dict__.get("action"), each.__dict__.get("reason")) for each in caplog.records]
    assert said[-1] == ("store_not_adopted", reason)
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
