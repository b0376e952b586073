"""What only an operator can mend: it is named, nothing is lost, and nobody else is disturbed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from storage_engine.disk.files import Files
from storage_engine.disk.layout import LOCK_FILE
from storage_engine.errors import (
    DiskFull,
    OutcomeUnknown,
    ReplicationUnavailable,
    StoreCorrupt,
)
from storage_engine.replicated_log.bucket import BucketRefused
from storage_engine.replicated_log.errors import Misconfigured
from storage_engine.replicated_log.object_log import ObjectLog
from storage_engine.replicated_log.object_requests import ObjectRequests
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket
from storage_engine.replication import entry, snapshotter
from storage_engine.replication.follower import Follower, take_over
from storage_engine.replication.manifest import Manifest, encode
from storage_engine.replication.replication import Replication
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import ManualClock, OpenStore, fingerprint, message
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replication.nodes import LIMITS, Node, snapshots_in
from tests.storage_engine.replication.test_snapshots import CountingBucket
from tests.storage_engine.test_store import wait_until


def views(
    bucket: CountingBucket, clock: ManualClock, deployment: str
) -> tuple[ObjectLog, SnapshotBucket]:
    """The log and the snapshots of shard ``s`` in one bucket, as an engine opens them."""
    log = ObjectLog(bucket, shard="s", deployment=deployment, clock=clock, random=Random(1))
    snapshots = SnapshotBucket(
        bucket, shard="s", deployment=deployment, clock=clock, random=Random(2)
    )
    return log, snapshots


# A bucket of another deployment -------------------------------------------------------------------


async def test_a_bucket_of_another_deployment_is_named_and_left_alone(tmp_path: Path) -> None:
    bucket, clock = CountingBucket(), ManualClock()
    theirs, _ = views(bucket, clock, "theirs")
    await theirs.open(1)
    await theirs.append(b"theirs")
    known = await bucket.inner.list_before("", "~")
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put_bodies(b"ours")
    before = fingerprint(tmp_path, without={LOCK_FILE})
    with pytest.raises(
        ReplicationUnavailable, match=r"'theirs', and this is 'ours': name another bucket"
    ):
        await take_over(*views(bucket, clock, "ours"), tmp_path, Files(), epoch=0)
    assert await bucket.inner.list_before("", "~") == known
    assert fingerprint(tmp_path, without={LOCK_FILE}) == before
    await theirs.append(b"goes on")
    await theirs.close()

    place = await take_over(*views(CountingBucket(), clock, "ours"), tmp_path, Files(), epoch=0)
    store = OpenStore(tmp_path, clock=clock, limits=LIMITS, place=place).open()
    assert store.pull_bodies() == [b"ours"]
    await store.close()


async def test_snapshots_of_another_deployment_end_nothing(tmp_path: Path) -> None:
    """The log is ours, and only ``MQ_ENGINE_SNAPSHOT_URL`` is wrong."""
    shared, bucket = SharedLog(), CountingBucket()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    await owner.open.put_bodies(b"one")
    await owner.stop()
    _, theirs = views(bucket, owner.clock, "theirs")
    await theirs.claim(1)
    known = await bucket.inner.list_before("", "~")
    owner = await Node(tmp_path / "a", shared, bucket).own()
    with pytest.raises(Misconfigured, match="belongs to deployment 'theirs'"):
        await owner.snapshotter.take()
    assert shared.first == 0, "nothing is trimmed that no snapshot has"
    assert await bucket.inner.list_before("", "~") == known
    await owner.open.put_bodies(b"two")
    assert owner.open.pull_bodies() == [b"one", b"two"]
    with pytest.raises(ReplicationUnavailable, match="belongs to deployment 'theirs'"):
        await Node(tmp_path / "b", shared, bucket).own()
    await owner.stop()


# Credentials that expire --------------------------------------------------------------------------


class ExpiringBucket(CountingBucket):
    """Refuses everything while its credentials have expired."""

    has_expired = False

    def _begin(self, name: str) -> None:
        super()._begin(name)
        if self.has_expired:
            raise BucketRefused("403 ExpiredToken")


async def test_credentials_that_expire_in_flight_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ObjectRequests, "_backoff_s", lambda requests, attempt: 0)
    bucket, clock = ExpiringBucket(), ManualClock()
    place = await take_over(*views(bucket, clock, "d"), tmp_path / "a", Files(), epoch=0)
    owner = OpenStore(tmp_path / "a", clock=clock, limits=LIMITS, place=place).open()
    replication = owner.store.replication
    assert replication is not None
    await replication.begin()
    async with running(replication):
        owner.topic(durability=Durability.REPLICATED)
        owner.topic("s", durability=Durability.SYNC)
        owner.group()
        await owner.put_bodies(b"before")

        bucket.has_expired = True
        put_count = bucket.counts["put"]
        in_flight = owner.start_put([message(b"in flight")])
        await wait_until(lambda: bucket.counts["put"] > put_count)
        clock.advance(4_000)
        replication.tick()
        assert isinstance((await in_flight).error, OutcomeUnknown)
        refused = await owner.put(message(b"refused"), message(b"taken", topic="s"))
        assert refused.offsets[0] == (-ReplicationUnavailable.code, 0)
        assert refused.offsets[1][0] == 0
        assert "The object store refuses: 403 ExpiredToken" in str(replication.refusal)
        assert owner.ack(owner.receive()).acked_count == 1
        assert replication.snapshotter is not None
        with pytest.raises(Misconfigured, match="ExpiredToken"):
            await replication.snapshotter.take()

        bucket.has_expired = False
        await wait_until(lambda: owner.pull_bodies() == [b"before", b"in flight"])
        replication.tick()
        await owner.put_bodies(b"after")
        await replication.snapshotter.take()
    await owner.close()

    place = await take_over(*views(bucket, clock, "d"), tmp_path / "b", Files(), epoch=0)
    heir = OpenStore(tmp_path / "b", clock=clock, limits=LIMITS, place=place).open()
    assert heir.pull_bodies() == [b"before", b"in flight", b"after"]
    assert heir.receive().bodies == [b"in flight", b"after"]
    await heir.close()


@contextlib.asynccontextmanager
async def running(replication: Replication) -> AsyncIterator[None]:
    run = asyncio.ensure_future(replication.run())
    try:
        yield
    finally:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


# A replica of an older version --------------------------------------------------------------------


async def test_a_standby_of_an_older_version_disturbs_no_owner_and_a_newer_one_goes_on_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    await owner.open.put_bodies(b"old version")
    await owner.replicated()
    standby = Follower(MemoryLog(shared, owner.clock), None, tmp_path / "b", Files())
    await standby.read_on()
    await standby.flush()

    newer = entry._VERSION_ANEW + 1
    monkeypatch.setattr(entry, "_VERSION", newer)
    await owner.open.put_bodies(b"new version")
    await owner.replicated()
    await owner._end_run()  # it would ship as the older version does
    before, epoch = fingerprint(tmp_path / "b", without={LOCK_FILE}), shared.epoch
    monkeypatch.undo()
    with pytest.raises(StoreCorrupt, match=f"version {newer}.*start the newer engine"):
        await Node(tmp_path / "b", shared).own()
    assert fingerprint(tmp_path / "b", without={LOCK_FILE}) == before
    assert shared.epoch == epoch, "the owner was not fenced"

    monkeypatch.setattr(entry, "_VERSION", newer)
    async with running(owner.replication):
        await owner.open.put_bodies(b"acknowledged")
    await owner.kill()
    heir = await Node(tmp_path / "b", shared).own()
    assert heir.open.pull_bodies() == [b"old version", b"new version", b"acknowledged"]
    await heir.stop()


def newer_manifest(manifest: Manifest) -> bytes:
    """As a newer engine might write it."""
    return encode(msgspec.structs.replace(manifest, version=manifest.version + 1))


async def test_a_snapshot_of_a_newer_version_is_named_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await Node(tmp_path / "a", shared, bucket).own()
    owner.topic()
    await owner.open.put_bodies(b"one")
    await owner.replicated()
    await owner.snapshotter.take()
    known = snapshots_in(bucket, owner.clock), tmp_path / "b", Files()
    standby = Follower(MemoryLog(shared, owner.clock), *known, leaves_old=True)
    await standby.read_on()
    monkeypatch.setattr(snapshotter, "encode", newer_manifest)
    await owner.snapshotter.take()

    await standby.leave_old()
    await owner.open.put_bodies(b"two")
    await standby.read_on()
    assert standby.tail.log_end == owner.replication.confirmed_offset

    with pytest.raises(StoreCorrupt, match="start the newer engine that wrote it"):
        await Node(tmp_path / "c", shared, bucket).own()
    await owner.stop()


# A full disk --------------------------------------------------------------------------------------


async def test_an_owner_whose_disk_is_full_loses_nothing_and_the_log_gets_its_settles(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    owner.open.group()
    taken = [b"first"]
    await owner.open.put_bodies(*taken)
    owner.files.full = {"create", "allocate"}
    with pytest.raises(DiskFull, match="no room"):
        for number in range(100):
            body = b"%d " % number * 200
            await owner.open.put_bodies(body)
            taken.append(body)
    assert owner.replication.refusal is None, "the log is well"
    leased = owner.open.receive(count=3)
    assert owner.open.ack(leased).acked_count == len(leased.bodies) > 0

    owner.files.full = set()
    await owner.open.put_bodies(b"after")
    await owner.replicated()
    await owner.kill()
    heir = await Node(tmp_path / "b", shared).own()
    assert heir.open.pull_bodies() == [*taken, b"after"]
    assert heir.open.receive().bodies[0] == [*taken, b"after"][len(leased.bodies)]
    await heir.stop()
