"""Snapshots of an owner's store: what they hold, what begins with them, and kills in between."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from obstore.store import MemoryStore

from storage_engine.clock import SystemClock
from storage_engine.config import HOUR_MS
from storage_engine.disk.files import Files
from storage_engine.errors import ReplicationUnavailable, StoreCorrupt
from storage_engine.replicated_log.bucket import Bucket, Found, Version
from storage_engine.replicated_log.errors import Fenced
from storage_engine.replicated_log.obstore_bucket import ObstoreBucket
from storage_engine.replicated_log.snapshot_bucket import SNAPSHOTS_KEPT
from storage_engine.replication.follower import Follower
from storage_engine.replication.manifest import Manifest, StoredFile, decode, encode
from storage_engine.replication.tail import Tail, read_tail
from tests.storage_engine.doubles import Killed, OpenStore, fingerprint
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replication.nodes import Node, snapshots_in
from tests.storage_engine.replication.test_takeover import put_aside
from tests.storage_engine.tools.test_backup import serious_findings


class CountingBucket:
    """Counts what is asked of a bucket. The process dies before its request number ``kill_at``, or
    when the write number ``kill_after`` is done.
    """

    linger_ms = 0

    def __init__(self) -> None:
        self.inner: Bucket = ObstoreBucket(MemoryStore())
        self.counts: Counter[str] = Counter()
        self.kill_at: int | None = None
        self.kill_after: int | None = None

    async def get(self, name: str) -> Found | None:
        self._begin("get")
        return await self.inner.get(name)

    async def exists(self, name: str) -> bool:
        self._begin("exists")
        return await self.inner.exists(name)

    async def put(self, name: str, content: bytes, *, version: Version | None) -> bool:
        self._begin("put")
        is_done = await self.inner.put(name, content, version=version)
        self._end_write("put")
        return is_done

    async def delete(self, names: Sequence[str]) -> None:
        self._begin("delete")
        await self.inner.delete(names)
        self._end_write("delete")

    async def list_before(self, prefix: str, before: str) -> list[str]:
        self._begin("list")
        return await self.inner.list_before(prefix, before)

    def _begin(self, name: str) -> None:
        self.counts[name] += 1
        if self.kill_at is not None:
            self.kill_at -= 1
            if self.kill_at < 0:
                raise Killed(name)

    def _end_write(self, name: str) -> None:
        if self.kill_after is not None:
            self.kill_after -= 1
            if self.kill_after < 0:
                raise Killed(name)

    async def pieces(self) -> set[str]:
        prefix = "snapshots/s/pieces/"
        found = await self.inner.list_before(prefix, prefix + "~")
        return {name.removeprefix(prefix) for name in found}


async def manifests_in(bucket: CountingBucket) -> list[Manifest]:
    """Of all snapshots that are listed, the newest first."""
    snapshots = snapshots_in(bucket.inner, SystemClock())
    return [decode(await snapshots.manifest(each)) for each in await snapshots.listed()]


async def used_pieces(bucket: CountingBucket) -> set[str]:
    snapshots = snapshots_in(bucket.inner, SystemClock())
    of_manifests = {piece for each in await snapshots.listed() for piece in each.manifest}
    return of_manifests.union(*[each.pieces for each in await manifests_in(bucket)])


async def filled(node: Node, first: int, count: int) -> list[bytes]:
    """Puts so many numbered messages, some 500 bytes each; settles the first one that is ready."""
    bodies = [b"%d " % number * 120 for number in range(first, first + count)]
    await node.open.put_bodies(*bodies)
    node.open.ack(node.open.receive(count=1))
    await node.replicated()
    return bodies


def late_replica(tmp_path: Path, shared: SharedLog, bucket: Bucket) -> Follower:
    """Of the log as it is now."""
    clock = SystemClock()
    log = MemoryLog(shared, clock)
    return Follower(log, snapshots_in(bucket, clock), tmp_path / "b", Files())


async def begun(tmp_path: Path, shared: SharedLog, bucket: Bucket) -> Node:
    owner = await Node(tmp_path / "a", shared, bucket).own()
    owner.topic()
    owner.open.group()
    return owner


async def test_a_node_begins_with_nothing_but_the_bucket(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    bodies: list[bytes] = []
    for number in range(SNAPSHOTS_KEPT + 1):
        bodies += await filled(owner, len(bodies), 12)
        if number == 1:
            await owner.open.store.checkpoint()
        await owner.snapshotter.take()
    bodies += await filled(owner, len(bodies), 3)
    assert shared.first > 0, "the log was trimmed"
    await owner.kill()
    heir = await Node(tmp_path / "b", shared, bucket).own()
    assert heir.open.pull_bodies() == bodies
    settled = SNAPSHOTS_KEPT + 2
    assert heir.open.receive(count=1).bodies == [bodies[settled]]
    await heir.open.put_bodies(b"more")
    await heir.stop()
    assert serious_findings(tmp_path / "b") == []


async def test_only_what_is_new_is_uploaded(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    before = await owner.snapshotter.take()
    uploaded = bucket.counts["put"]
    after = await owner.snapshotter.take()
    snapshots = snapshots_in(bucket, SystemClock())
    of_manifest = len((await snapshots.listed())[0].manifest)
    assert bucket.counts["put"] - uploaded == of_manifest + 1
    assert {piece for each in before.segments[:-1] for piece in each.pieces} <= set(after.pieces)
    await owner.stop()
    again = await Node(tmp_path / "a", shared, bucket).own()
    uploaded = bucket.counts["put"]
    newest = await again.snapshotter.take()
    newest_segment = len(newest.segments[-1].pieces)
    assert bucket.counts["put"] - uploaded <= newest_segment + len(newest.files) + of_manifest + 3
    assert {piece for each in before.segments[:-1] for piece in each.pieces} <= set(newest.pieces)
    await again.stop()


async def test_the_log_is_kept_from_the_oldest_snapshot_on_and_pieces_of_others_go(
    tmp_path: Path,
) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    taken: list[Manifest] = []
    for number in range(6):
        await filled(owner, number * 5, 5)
        taken.append(await owner.snapshotter.take())
        oldest = taken[-SNAPSHOTS_KEPT:][0]
        assert shared.first == oldest.tail.position.sequence
        assert await bucket.pieces() == await used_pieces(bucket)
    assert await manifests_in(bucket) == taken[: -SNAPSHOTS_KEPT - 1 : -1]
    await owner.stop()


async def test_a_replica_that_is_late_continues_from_a_snapshot(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    bodies = await filled(owner, 0, 40)
    follower = late_replica(tmp_path, shared, bucket)
    await follower.read_on()
    for _ in range(SNAPSHOTS_KEPT + 1):
        bodies += await filled(owner, len(bodies), 4)
        await owner.snapshotter.take()
    assert shared.first > follower.tail.position.sequence
    fetched = bucket.counts["get"]
    await follower.read_on()
    segments = (await manifests_in(bucket))[0].segments
    assert bucket.counts["get"] - fetched < sum(len(each.pieces) for each in segments)
    assert follower.tail.number == owner.replication._shipper.number
    await owner.kill()
    heir = await Node(tmp_path / "b", shared, bucket).own()
    assert heir.open.pull_bodies() == bodies
    await heir.stop()


async def test_an_owner_starts_again_after_it_has_trimmed_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With its own store: what the snapshots have it need not read."""
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    bodies: list[bytes] = []
    for _ in range(SNAPSHOTS_KEPT + 1):
        bodies += await filled(owner, len(bodies), 4)
        await owner.snapshotter.take()
    bodies += await filled(owner, len(bodies), 4)
    await owner.kill()
    again = await Node(tmp_path / "a", shared, bucket).own()
    assert again.open.pull_bodies() == bodies
    await again.stop()
    assert not put_aside(tmp_path)
    assert "stepped_down" not in [vars(record).get("action") for record in caplog.records]


async def test_a_deposed_owner_whose_place_was_trimmed_continues_from_a_snapshot(
    tmp_path: Path,
) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    deposed = await begun(tmp_path, shared, bucket)
    bodies = await filled(deposed, 0, 4)
    await deposed.kill()
    owner = await Node(tmp_path / "b", shared, bucket).own()
    for _ in range(SNAPSHOTS_KEPT):
        bodies += await filled(owner, len(bodies), 4)
        await owner.snapshotter.take()
    await owner.stop()
    again = await Node(tmp_path / "a", shared, bucket).own()
    assert again.open.pull_bodies() == bodies
    await again.stop()
    assert not put_aside(tmp_path)
    assert serious_findings(tmp_path / "a") == []


async def test_a_store_of_its_own_is_refused_though_the_log_was_trimmed(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    for _ in range(SNAPSHOTS_KEPT):
        await filled(owner, 0, 2)
        await owner.snapshotter.take()
    await owner.stop()
    async with OpenStore(tmp_path / "embedded") as store:
        store.topic()
    found = fingerprint(tmp_path / "embedded", without=["lock"])
    with pytest.raises(StoreCorrupt, match="belong together"):
        await Node(tmp_path / "embedded", shared, bucket).own()
    assert fingerprint(tmp_path / "embedded", without=["lock"]) == found


async def test_without_its_snapshots_a_log_that_was_trimmed_is_no_beginning(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    for _ in range(SNAPSHOTS_KEPT):
        await filled(owner, 0, 2)
        await owner.snapshotter.take()
    await owner.stop()
    with pytest.raises(ReplicationUnavailable, match="MQ_ENGINE_SNAPSHOT_URL"):
        await Node(tmp_path / "b", shared).own()


async def test_an_old_owner_makes_no_snapshot_once_a_newer_one_has(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    old = await begun(tmp_path, shared, bucket)
    await filled(old, 0, 4)
    await old.snapshotter.take()
    owner = await Node(tmp_path / "b", shared, bucket).own()
    await filled(owner, 4, 4)
    await owner.snapshotter.take()
    listed = await manifests_in(bucket)
    with pytest.raises(Fenced):
        await old.snapshotter.take()
    assert await manifests_in(bucket) == listed
    assert await used_pieces(bucket) <= await bucket.pieces()
    await owner.stop()


async def test_retention_waits_for_an_upload_unless_the_disk_is_full(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await filled(owner, 0, 40)
    owner.open.store.retention.snapshots.hold_upload(0)
    owner.clock.advance(200 * HOUR_MS)
    assert await owner.open.store.retention.run() == 0
    owner.open.files.disk = (100, 10)
    assert await owner.open.store.retention.run() > 0
    with pytest.raises(FileNotFoundError):
        owner.replication._reader.read_log(0, 100)
    manifest = await owner.snapshotter.take()
    assert manifest.log_start > 0
    await owner.stop()


async def test_a_snapshot_is_due_when_the_log_has_so_much_behind_the_newest(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    snapshotter = owner.snapshotter
    snapshotter._entries_max = owner.replication._shipper.number + 3
    while not await snapshotter.is_due():
        await filled(owner, 0, 1)
    await snapshotter.take()
    assert not await snapshotter.is_due()
    snapshotter._bytes_max, snapshotter._entries_max = 50_000, 4_000
    await filled(owner, 0, 10)
    assert not await snapshotter.is_due()
    await filled(owner, 0, 100)
    assert await snapshotter.is_due()
    await owner.stop()


async def test_a_kill_after_any_write_of_a_snapshot_loses_nothing(tmp_path: Path) -> None:
    """Whoever comes next begins with what is there, and in the end nothing is left over."""
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    bodies: list[bytes] = []
    for _ in range(SNAPSHOTS_KEPT):
        bodies += await filled(owner, len(bodies), 3)
        await owner.snapshotter.take()
    at, is_over = 0, False  # over: so many writes were not made
    while not is_over:
        bodies.append(b"%d" % at)
        await owner.open.put_bodies(bodies[-1])
        bucket.kill_after = at
        with contextlib.suppress(Killed):
            await owner.snapshotter.take()
        is_over = bucket.kill_after >= 0
        bucket.kill_after = None
        assert await used_pieces(bucket) <= await bucket.pieces()
        await owner.kill()
        owner = await Node(tmp_path / str(at), shared, bucket).own()
        assert owner.open.pull_bodies() == bodies
        at += 1
    assert at > 8
    assert await bucket.pieces() == await used_pieces(bucket)
    await owner.stop()


async def test_a_kill_at_any_request_of_a_beginning_is_taken_up_again(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    bodies: list[bytes] = []
    for _ in range(SNAPSHOTS_KEPT):
        bodies += await filled(owner, len(bodies), 8)
        await owner.snapshotter.take()
    await owner.kill()
    heir, at = Node(tmp_path / "b", shared, bucket), 0
    while True:
        bucket.kill_at = at
        try:
            await heir.own()
            break
        except Killed:
            at += 1
            assert read_tail(tmp_path / "b") in (None, Tail())
    assert heir.open.pull_bodies() == bodies
    await heir.stop()
    assert serious_findings(tmp_path / "b") == []


async def test_what_a_deposed_owner_wrote_too_far_is_cleared(tmp_path: Path) -> None:
    """A replica that is late may have bytes that the next owner has taken back."""
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    bodies = await filled(owner, 0, 4)
    follower = late_replica(tmp_path, shared, bucket)
    await follower.read_on()
    (segment,) = (tmp_path / "b" / "commitlog").iterdir()
    content = bytearray(segment.read_bytes())
    content[follower.tail.log_end + 1_500 :] = b"x" * len(content[follower.tail.log_end + 1_500 :])
    segment.write_bytes(content)
    for _ in range(SNAPSHOTS_KEPT):
        bodies += await filled(owner, len(bodies), 1)
        await owner.snapshotter.take()
    await follower.read_on()
    logs = [(tmp_path / name / "commitlog" / segment.name).read_bytes() for name in "ab"]
    assert logs[0] == logs[1]
    await owner.kill()


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"log_start": 9_999},
        {"segment_bytes": 0},
        {"files": [StoredFile("../outside", 0, [])]},
        {"files": [StoredFile("commitlog/00000000000000000000", 0, [])]},
        {"files": [StoredFile("checkpoint", 5, [])]},
        {"segments": [StoredFile("commitlog/00000000000000000000", 10, ["1-1-a"])]},
        {"segments": [StoredFile("commitlog/00000000000000004096", 100, ["1-1-a"])]},
        {"segments": []},
    ],
)
def test_a_manifest_that_no_owner_makes_is_refused(change: dict[str, object]) -> None:
    manifest = Manifest(
        tail=Tail(log_end=100), log_start=0, segment_bytes=4_096, piece_bytes=1_000, files=[],
        segments=[StoredFile("commitlog/00000000000000000000", 100, ["1-1-a"])],
    )  # fmt: skip
    assert decode(encode(manifest)) == manifest
    with pytest.raises(StoreCorrupt):
        decode(encode(msgspec.structs.replace(manifest, **change)))
    with pytest.raises(StoreCorrupt):
        decode(encode(manifest)[:-1])
