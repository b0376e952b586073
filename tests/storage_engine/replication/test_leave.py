"""From one machine to a replicated log and back: what others may do meanwhile, and what is left."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import shutil
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, Self

import pytest

from storage_engine.clock import SystemClock
from storage_engine.disk.files import Files
from storage_engine.disk.layout import COMMIT_LOG_DIR, LOCK_FILE, base_offsets_in
from storage_engine.errors import (
    ConfigInvalid,
    NotLeader,
    ReplicationUnavailable,
    StoreCorrupt,
)
from storage_engine.log.bucket_files import bucket_offsets
from storage_engine.replicated_log.bucket import Bucket
from storage_engine.replicated_log.port import Position
from storage_engine.replication.follower import Follower, follow
from storage_engine.replication.tail import Tail, read_tail
from storage_engine.tools.detach import leave_log
from tests.sizes import sized
from tests.storage_engine.doubles import FaultyFiles, Killed, OpenStore, fingerprint, message
from tests.storage_engine.replicated_log.memory_log import MemoryLog, Record, SharedLog
from tests.storage_engine.replication.bucket_nodes import LOCAL_SEGMENTS, BucketNode
from tests.storage_engine.replication.nodes import Node, snapshots_in
from tests.storage_engine.replication.test_snapshots import CountingBucket
from tests.storage_engine.test_store import wait_until
from tests.storage_engine.tools.test_backup import serious_findings

STEP: Final = sized(4, torture=1)  # of the moments at which something is killed
BODIES: Final = [b"%d" % number * 300 for number in range(40)]  # several segments


async def leave(
    directory: Path,
    shared: SharedLog,
    bucket: Bucket | None = None,
    *,
    files: Files | None = None,
    has_left_before: bool = False,
) -> Tail:
    clock = SystemClock()
    return await leave_log(
        MemoryLog(shared, clock),
        None if bucket is None else snapshots_in(bucket, clock),
        directory,
        files or Files(),
        clock,
        has_left_before=has_left_before,
    )


async def embedded(directory: Path) -> None:
    """A store that was never in a log."""
    async with OpenStore(directory) as store:
        store.topic()
        await use(store)


async def use(store: OpenStore) -> None:
    """``BODIES`` in its topic, and a group that has settled five of them."""
    store.group()
    await store.put_bodies(*BODIES)
    store.ack(store.receive(count=5))


async def replicated(directory: Path, shared: SharedLog, bucket: Bucket | None = None) -> None:
    """The same, whose owner has stopped in order."""
    owner = await Node(directory, shared, bucket).own()
    owner.topic()
    await use(owner.open)
    if bucket is not None:
        await owner.open.store.checkpoint()
        await owner.snapshotter.take()
    await owner.stop()


async def replica(directory: Path, shared: SharedLog, bucket: Bucket | None) -> None:
    """Up to the end of the log; with a bucket, which has what the log begins with, of nothing."""
    follower = Follower(MemoryLog(shared, SystemClock()), None, directory, Files())
    if bucket is None:
        await follower.read_on()


async def is_killed(directory: Path, shared: SharedLog, bucket: Bucket, kill_at: int) -> bool:
    """Whether leaving is killed at this moment; False: it was at its end by then."""
    files = FaultyFiles()
    files.kill_at = kill_at
    try:
        await leave(directory, shared, bucket, files=files)
    except Killed:
        return True
    return False


def segments_of(store: Path, *, end_offset: int) -> dict[int, str]:
    """The SHA-256 of each, up to where the log ends."""
    found: dict[int, str] = {}
    for base in base_offsets_in(store / COMMIT_LOG_DIR):
        content = (store / COMMIT_LOG_DIR / f"{base:020}").read_bytes()
        found[base] = hashlib.sha256(content[: max(end_offset - base, 0)]).hexdigest()
    return found


def state_of(shared: SharedLog) -> tuple[list[Record], int, int]:
    return list(shared.records), shared.first, shared.epoch


def put_back(shared: SharedLog, known: tuple[list[Record], int, int]) -> None:
    """As if nothing had happened since."""
    records, shared.first, shared.epoch = known
    shared.records = deque(records)


async def takes_over(node: Node) -> None:
    """From the log: all messages, all settles."""
    await node.own()
    assert node.open.pull_bodies() == BODIES
    assert node.open.receive().bodies == BODIES[5:21]
    await node.stop()


async def serves_alone(directory: Path) -> None:
    """Without a log: all messages, all settles, and new messages."""
    assert serious_findings(directory) == []
    async with OpenStore(directory) as store:
        assert store.pull_bodies() == BODIES
        assert store.receive().bodies == BODIES[5:21]
        assert (await store.put(message(b"more"))).error is None
        assert store.pull_bodies() == [*BODIES, b"more"]
    assert serious_findings(directory) == []


# There: the first upload --------------------------------------------------------------------------


class Uploader(Node):
    """In entries of a page each."""

    async def own(self, *, epoch: int = 0, is_shipping: bool = True) -> Self:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MemoryLog, "entry_bytes_max", 4_096)
            return await super().own(epoch=epoch, is_shipping=False)


async def uploads(directory: Path, shared: SharedLog) -> AsyncIterator[tuple[Path, int, int]]:
    """A store whose machine was lost when the log had none, one, and so on, of its entries; and of
    how many there are.
    """
    await embedded(directory / "home")
    uploader = await Uploader(directory / "home", shared).own()
    await uploader.kill()
    records = list(shared.records)
    assert len(records) > 10
    for entries in {*range(0, len(records), STEP), len(records) - 1}:
        shared.records, shared.epoch = deque(records[: entries + 1]), 1
        shutil.copytree(directory / "home", directory / str(entries))
        yield directory / str(entries), entries, len(records) - 1
    shared.records, shared.epoch = deque(records), 1


@pytest.mark.sized
async def test_nobody_takes_over_a_store_that_is_not_all_uploaded(tmp_path: Path) -> None:
    shared = SharedLog()
    async for home, entries, count in uploads(tmp_path, shared):
        heir = Node(tmp_path / f"heir-{entries}", shared)
        is_whole = entries == count
        if not entries:  # nothing says that there was to be more
            await (await heir.own()).stop()
            with pytest.raises(StoreCorrupt, match="nothing says that they belong together"):
                await Node(home, shared).own()
            continue
        if not is_whole:
            with pytest.raises(ReplicationUnavailable, match="only a part of the store"):
                await heir.own()
            assert shared.epoch == 1, "the upload was not disturbed"
        again = await Node(home, shared).own()
        assert again.open.pull_bodies() == BODIES
        await again.stop()
        await takes_over(Node(heir.store_dir, shared))
        assert serious_findings(heir.store_dir) == []


async def test_a_replica_of_a_partial_upload_does_not_say_that_it_could_take_over(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    await embedded(tmp_path / "a")
    await (await Uploader(tmp_path / "a", shared).own()).kill()
    records = list(shared.records)
    shared.records = deque(records[:-1])
    seen: list[Tail] = []
    following = asyncio.ensure_future(
        follow(
            MemoryLog(shared, SystemClock()), None, tmp_path / "b", Files(), interval_ms=1,
            caught_up=seen.append, wanted_epoch=asyncio.get_running_loop().create_future(),
        )
    )  # fmt: skip
    await wait_until(lambda: read_tail(tmp_path / "b") not in (None, Tail()))
    assert seen == []
    shared.records.append(records[-1])
    await wait_until(lambda: bool(seen))
    assert (seen[0].number, seen[0].is_partial) == (len(records) - 1, False)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_log_of_another_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    shared = SharedLog()
    await replicated(tmp_path / "theirs", shared)
    known = list(shared.records)
    await embedded(tmp_path / "a")
    found = fingerprint(tmp_path / "a", without={LOCK_FILE})
    with pytest.raises(StoreCorrupt, match="or the URL of another log"):
        await Node(tmp_path / "a", shared).own()
    with pytest.raises(StoreCorrupt, match="or the URL of another log"):
        await leave(tmp_path / "a", shared)
    assert list(shared.records) == known
    assert fingerprint(tmp_path / "a", without={LOCK_FILE}) == found
    await serves_alone(tmp_path / "a")


# And back -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_bucket", [False, True])
@pytest.mark.parametrize("where", ["owner", "replica", "empty"])
async def test_a_shard_that_leaves_its_log_is_served_from_this_disk_alone(
    tmp_path: Path, where: str, has_bucket: bool
) -> None:
    shared, bucket = SharedLog(), CountingBucket() if has_bucket else None
    await replicated(tmp_path / "owner", shared, bucket)
    await replica(tmp_path / "replica", shared, bucket)
    with pytest.raises(ConfigInvalid, match="mqservice shard detach"):
        OpenStore(tmp_path / "owner").open()
    tail = await leave(tmp_path / where, shared, bucket)
    end_offset = tail.log_end
    assert segments_of(tmp_path / where, end_offset=end_offset) == segments_of(
        tmp_path / "owner", end_offset=end_offset
    )
    assert end_offset > 4_096
    known = list(shared.records)
    for name in {"owner", "replica", "empty", "other"} - {where}:
        with pytest.raises(ReplicationUnavailable, match="the shard left this replicated log"):
            await Node(tmp_path / name, shared, bucket).own()
    assert await leave(tmp_path / where, shared, bucket) == tail, "it is done already"
    assert list(shared.records) == known
    await serves_alone(tmp_path / where)


async def test_a_store_that_left_goes_into_an_empty_log_again(tmp_path: Path) -> None:
    shared, second = SharedLog(), SharedLog()
    await replicated(tmp_path / "a", shared)
    await leave(tmp_path / "a", shared)
    with pytest.raises(StoreCorrupt, match="or the URL of another log"):
        await Node(tmp_path / "a", shared).own()
    again = await Node(tmp_path / "a", second).own()
    await again.kill()
    with pytest.raises(ConfigInvalid, match="belongs to a replicated log"):
        OpenStore(tmp_path / "a").open()
    heir = await Node(tmp_path / "b", second).own()
    assert heir.open.pull_bodies() == BODIES
    await heir.stop()
    await leave(tmp_path / "b", second)
    await serves_alone(tmp_path / "b")


@pytest.mark.sized
async def test_a_kill_at_any_moment_of_leaving_loses_nothing(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    await replicated(tmp_path / "a", shared, bucket)
    for kill_at in itertools.count(step=STEP):
        known = state_of(shared)
        directory = tmp_path / str(kill_at)
        if not await is_killed(directory, shared, bucket, kill_at):
            break
        if read_tail(directory) is not None:
            with pytest.raises(ConfigInvalid, match="belongs to a replicated log"):
                OpenStore(directory).open()
        await leave(directory, shared, bucket)
        await serves_alone(directory)
        put_back(shared, known)
    assert kill_at > 10


class LogOfALostMachine(MemoryLog):
    """Its machine is lost once it has fenced the log, before it can append anything."""

    def append(self, entry: bytes) -> asyncio.Future[Position]:
        raise Killed


@pytest.mark.parametrize("has_bucket", [False, True])
@pytest.mark.parametrize("next_one", ["owner", "replica", "empty", "detached"])
async def test_a_machine_that_is_lost_before_the_shard_has_left_takes_nothing_with_it(
    tmp_path: Path, next_one: str, has_bucket: bool
) -> None:
    shared, bucket = SharedLog(), CountingBucket() if has_bucket else None
    await replicated(tmp_path / "owner", shared, bucket)
    await replica(tmp_path / "replica", shared, bucket)
    clock, epoch = SystemClock(), shared.epoch
    snapshots = None if bucket is None else snapshots_in(bucket, clock)
    lost = LogOfALostMachine(shared, clock)
    with pytest.raises(Killed):
        await leave_log(lost, snapshots, tmp_path / "lost", Files(), clock)
    assert shared.epoch == epoch + 1, "every owner before is fenced"
    shutil.rmtree(tmp_path / "lost")
    if next_one == "detached":
        await leave(tmp_path / next_one, shared, bucket)
        await serves_alone(tmp_path / next_one)
        return
    await takes_over(Node(tmp_path / next_one, shared, bucket))


async def test_of_two_who_leave_at_once_only_one_is_served(tmp_path: Path) -> None:
    shared = SharedLog()
    await replicated(tmp_path / "owner", shared)
    results = await asyncio.gather(
        *[leave(tmp_path / name, shared) for name in ("a", "b")], return_exceptions=True
    )
    errors = [each for each in results if isinstance(each, BaseException)]
    assert len(errors) == 1
    assert isinstance(errors[0], NotLeader | ReplicationUnavailable)
    left = [name for name in ("a", "b") if (read_tail(tmp_path / name) or Tail()).has_left]
    assert len(left) == 1
    await serves_alone(tmp_path / left[0])


async def test_an_owner_that_still_runs_is_fenced(tmp_path: Path) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    await use(owner.open)
    await owner.replicated()
    await leave(tmp_path / "b", shared)
    put = await owner.open.put(message(b"late"))
    assert isinstance(put.error, NotLeader)
    await owner.kill()
    await serves_alone(tmp_path / "b")


async def test_a_disk_that_was_lost_after_leaving_is_filled_from_the_log(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    await replicated(tmp_path / "a", shared, bucket)
    await leave(tmp_path / "a", shared, bucket)
    with pytest.raises(ReplicationUnavailable, match="the shard left this replicated log"):
        await leave(tmp_path / "b", shared, bucket)
    await leave(tmp_path / "b", shared, bucket, has_left_before=True)
    await serves_alone(tmp_path / "b")


async def test_a_log_without_the_shard_cannot_be_left(tmp_path: Path) -> None:
    shared = SharedLog()
    with pytest.raises(StoreCorrupt, match="nothing of this shard is in the replicated log"):
        await leave(tmp_path / "a", shared)
    await embedded(tmp_path / "b")
    with pytest.raises(StoreCorrupt, match="nothing of this shard is in the replicated log"):
        await leave(tmp_path / "b", shared)
    assert not shared.records
    await serves_alone(tmp_path / "b")


@pytest.mark.sized
async def test_segments_that_only_the_bucket_has_come_back(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await BucketNode(tmp_path / "a", shared, bucket).own()
    owner.topic()
    await use(owner.open)
    before = segments_of(tmp_path / "a", end_offset=owner.open.store.stats(0).append_offset)
    assert await owner.leave_old() == LOCAL_SEGMENTS
    await owner.stop()
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    known = state_of(shared)
    for kill_at in itertools.count(step=STEP):
        shutil.rmtree(tmp_path / "a")
        shutil.copytree(tmp_path / "copy", tmp_path / "a")
        put_back(shared, known)
        if not await is_killed(tmp_path / "a", shared, bucket, kill_at):
            break
        tail = await leave(tmp_path / "a", shared, bucket)
        assert segments_of(tmp_path / "a", end_offset=tail.log_end) == before
        assert bucket_offsets(tmp_path / "a") == []
    assert kill_at > 10
    await serves_alone(tmp_path / "a")
