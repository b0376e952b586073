"""Segments that only the bucket has: when they go, how they are read, and what a kill leaves."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from pathlib import Path

import msgspec
import pytest

from storage_engine.clock import SystemClock
from storage_engine.config import GIB, HOUR_MS, StoreConfig
from storage_engine.disk.files import Files
from storage_engine.disk.layout import (
    BUCKET_DIR,
    COMMIT_LOG_DIR,
    INDEX_DIR,
    TEMPORARY_SUFFIX,
    segment_name,
)
from storage_engine.errors import ConfigInvalid, NotLocal, OldMessagesUnavailable, StoreCorrupt
from storage_engine.log.bucket_files import BucketFile, read_bucket_files, write_bucket_files
from storage_engine.log.commit_log import CommitLog
from storage_engine.replicated_log.bucket import BucketRefused, Found
from storage_engine.replicated_log.errors import Unavailable
from storage_engine.replicated_log.opening import open_shard
from storage_engine.replication.follower import Follower
from storage_engine.replication.replica import Replica
from storage_engine.replication.tail import Tail
from storage_engine.tools.transfer.exporting import OwnStore
from storage_engine.tools.transfer.source import SourceRejected
from storage_engine.tools.verify.report import Kind
from storage_engine.tools.verify.verification import Verification
from storage_engine.wire.offsets import OffsetResetRequest, ResetTo
from storage_engine.wire.reads import LookUpRequest, OffsetAtTimeRequest
from tests.storage_engine.doubles import SEGMENT_BYTES, Killed, OpenStore, message
from tests.storage_engine.replicated_log.memory_log import SharedLog
from tests.storage_engine.replication.bucket_nodes import (
    CACHED_SEGMENTS,
    LOCAL_SEGMENTS,
    BucketNode,
    here,
)
from tests.storage_engine.replication.test_snapshots import CountingBucket, used_pieces
from tests.storage_engine.replication.test_takeover import put_aside
from tests.storage_engine.schedule.delaying import delayed, put_delayed
from tests.storage_engine.tools.test_backup import serious_findings


class Shard:
    """An owner and its messages."""

    def __init__(self, tmp_path: Path, **limits: int) -> None:
        self.shared, self.bucket = SharedLog(), CountingBucket()
        self.path = tmp_path
        self.owner = BucketNode(tmp_path / "a", self.shared, self.bucket, **limits)
        self.bodies: list[bytes] = []

    async def begin(self) -> Shard:
        await self.owner.own()
        self.owner.topic()
        self.owner.open.group()
        return self

    async def fill(self, count: int) -> None:
        """Some 500 bytes each; the very first one is settled."""
        first = len(self.bodies)
        self.bodies += [b"%d " % number * 120 for number in range(first, first + count)]
        await self.owner.open.put_bodies(*self.bodies[first:])
        if not first:
            self.owner.open.ack(self.owner.open.receive(count=1))
        await self.owner.replicated()

    async def begin_old(self, count: int = 60) -> Shard:
        """With most of its segments in the bucket."""
        await self.begin()
        await self.fill(count)
        assert await self.owner.leave_old() == LOCAL_SEGMENTS
        assert len(self.owner.left_bases()) > CACHED_SEGMENTS
        return self

    async def leave_old_before(self, follower: Follower) -> None:
        """The owner leaves old segments to the bucket; ``follower`` has them still."""
        store = self.owner.open.store
        for _ in range(2):  # the second snapshot knows what the first has let go
            await store.checkpoint()
            await self.owner.replicated()
            await follower.read_on()
            await follower.flush()
            await self.owner.snapshotter.take()
            await store.retention.run()

    def node(self, name: str) -> BucketNode:
        return BucketNode(self.path / name, self.shared, self.bucket)


async def test_the_local_disk_is_bounded_and_everything_is_read(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    owner = shard.owner
    assert owner.open.store.stats(0).segment_count > LOCAL_SEGMENTS + CACHED_SEGMENTS
    assert await owner.pull_bodies() == shard.bodies
    parts = list((tmp_path / "a" / BUCKET_DIR).glob("*.part"))
    assert 0 < len(parts) <= CACHED_SEGMENTS
    assert owner.cache.size_bytes <= CACHED_SEGMENTS * SEGMENT_BYTES
    assert len(owner.local_bases()) == LOCAL_SEGMENTS
    await shard.fill(30)
    assert await owner.leave_old() == LOCAL_SEGMENTS
    await owner.stop()
    again = await owner.own()
    assert await again.pull_bodies() == shard.bodies
    await again.stop()
    assert serious_findings(tmp_path / "a") == []


async def test_messages_of_a_group_that_is_far_behind_are_delivered(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    store = shard.owner.open
    got: list[bytes] = []
    while len(got) < len(shard.bodies) - 1:
        leased = await here(lambda: store.receive(count=7))
        assert leased.bodies, "nothing although there is more"
        assert set(leased.attempts) == {1}
        store.ack(leased)
        got += leased.bodies
    assert got == shard.bodies[1:], "the first one was settled while it was here"
    await shard.owner.stop()


async def test_a_receive_that_waits_is_served_when_the_messages_are_here(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    store = shard.owner.open
    changes = store.store.consumption
    changes.offset_reset(OffsetResetRequest(group="g", topic="t", to=ResetTo.LATEST))
    answers, parked = store.park(count=2)
    assert parked is not None
    changes.offset_reset(OffsetResetRequest(group="g", topic="t", to=ResetTo.EARLIEST))
    while not answers:
        await asyncio.sleep(0.001)
    assert answers[0].bodies == shard.bodies[:1] or answers[0].bodies == shard.bodies[:2]
    await shard.owner.stop()


@pytest.mark.parametrize(("tags", "sql"), [("b", ""), ("", "n > 1")])
async def test_a_filter_goes_on_where_messages_are_only_in_the_bucket(
    tmp_path: Path, tags: str, sql: str
) -> None:
    shard = await Shard(tmp_path).begin()
    store = shard.owner.open
    bodies = [b"%d" % number + b"." * 500 for number in range(60)]
    for number, body in enumerate(bodies):
        given = message(body, tag="ab"[number % 2], properties={"n": str(number % 3)})
        assert (await store.put(given)).error is None
    assert await shard.owner.leave_old() == LOCAL_SEGMENTS
    got: list[bytes] = []
    wanted = [body for at, body in enumerate(bodies) if (at % 2 if tags else at % 3 > 1)]
    while len(got) < len(wanted):
        leased = await here(lambda: store.receive(count=3, tags=tags, sql=sql))
        store.ack(leased)
        got += leased.bodies
    assert got == wanted
    await shard.owner.stop()


async def test_a_message_that_fails_is_retried_though_it_has_left_the_cache(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    store = shard.owner.open
    leased = await here(lambda: store.receive(count=1))
    await shard.owner.pull_bodies()  # of all segments: that one is dropped
    offset = leased.records[0].queue_offset
    assert shard.owner.cache.missing(store.store.parts.commit_log.segments()[0], 0, 1)  # type: ignore[arg-type] # the first one is in the bucket
    await store.pass_time(1_000)
    while store.store.consumption.retries.waiting_count:
        await asyncio.sleep(0.001)
        await store.settled()
    while not (again := await here(lambda: store.receive(count=16))).attempts.count(2):
        assert again.bodies
        store.ack(again)
    retried = again.records[again.attempts.index(2)]
    assert retried.body == leased.records[0].body
    assert offset == leased.records[0].queue_offset
    await shard.owner.stop()


async def test_searches_and_times_reach_into_the_bucket(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin()
    store = shard.owner.open
    stamps: list[int] = []
    for number in range(60):
        given = message(b"." * 500, properties={"KEYS": f"k{number}"})
        assert (await store.put(given)).error is None
        stamps.append(shard.owner.clock.now_ms())
        shard.owner.clock.advance(1_000)
    assert await shard.owner.leave_old() == LOCAL_SEGMENTS
    queries = store.store.queries
    request = LookUpRequest(topic="t", key="k3", messages_max=10, bytes_max=1 << 20)
    _, found = await here(lambda: queries.look_up(request))
    assert b"KEYS\x01k3" in found
    for at in (0, 7, 31, 59):
        asked = OffsetAtTimeRequest(topic="t", queue_id=0, timestamp_ms=stamps[at])
        fetched = shard.owner.cache.fetched_count
        reply = await here(partial(queries.offset_at_time, asked))
        assert reply.queue_offset == at
        assert shard.owner.cache.fetched_count - fetched <= 3, "of one segment"
    await shard.owner.stop()


# When they go ----------------------------------------------------------------------------------


async def test_nothing_goes_that_no_published_snapshot_has_whole(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin()
    await shard.fill(60)
    await shard.owner.open.store.checkpoint()
    before = shard.owner.local_bases()
    await shard.owner.open.store.retention.run()
    assert shard.owner.local_bases() == before, "there is no snapshot"
    snapshotter = shard.owner.snapshotter
    shard.bucket.kill_after = 20  # all but its end is uploaded
    with contextlib.suppress(Killed):
        await snapshotter.take()
    shard.bucket.kill_after = None
    await shard.owner.open.store.retention.run()
    assert shard.owner.local_bases() == before, "it is not published"
    manifest = await snapshotter.take()
    await shard.fill(20)
    await shard.owner.open.store.checkpoint()
    await shard.owner.open.store.retention.run()
    left = shard.owner.left_bases()
    assert left == [at for at in before if at + SEGMENT_BYTES <= manifest.tail.log_end]
    assert await shard.owner.pull_bodies() == shard.bodies
    await shard.owner.stop()


async def test_nothing_goes_whose_pieces_somebody_has_deleted(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin()
    await shard.fill(60)
    await shard.owner.open.store.checkpoint()
    manifest = await shard.owner.snapshotter.take()
    await shard.bucket.delete([f"snapshots/s/pieces/{manifest.segments[0].pieces[-1]}"])
    before = shard.owner.local_bases()
    await shard.owner.open.store.retention.run()
    assert shard.owner.local_bases() == before
    await shard.owner.stop()


async def test_a_reader_of_the_files_and_an_upload_hold_segments(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin()
    await shard.fill(60)
    before = shard.owner.local_bases()
    shard.owner.open.store.retention.snapshots.hold_upload(0)
    await shard.owner.open.store.checkpoint()
    await shard.owner.snapshotter.take()
    shard.owner.open.store.retention.snapshots.hold_upload(0)
    await shard.owner.open.store.retention.run()
    assert shard.owner.local_bases() == before
    shard.owner.open.store.retention.snapshots.hold_upload(None)
    await shard.owner.open.store.retention.run()
    assert len(shard.owner.local_bases()) == LOCAL_SEGMENTS
    await shard.owner.stop()


async def test_a_kill_at_any_operation_leaves_everything_readable(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin()
    await shard.fill(30)
    await shard.owner.open.store.checkpoint()
    await shard.owner.replicated()
    await shard.owner.snapshotter.take()
    at, is_over = 0, False
    while not is_over:
        shard.owner.files.kill_at = at
        try:
            await shard.owner.open.store.retention.run()
            is_over = True
        except Killed:
            at += 1
        shard.owner.files.kill_at = None
        await shard.owner.kill()
        await shard.owner.own()
        assert await shard.owner.pull_bodies() == shard.bodies
        await shard.fill(10)
        await shard.owner.open.store.checkpoint()
        await shard.owner.snapshotter.take()
    assert at > 5
    await shard.owner.open.store.retention.run()
    assert len(shard.owner.local_bases()) == LOCAL_SEGMENTS
    await shard.owner.stop()
    assert serious_findings(tmp_path / "a") == []


# Retention ---------------------------------------------------------------------------------------


async def test_time_and_bytes_count_over_bucket_and_disk(tmp_path: Path) -> None:
    shard = await Shard(tmp_path, retention_bytes=9 * SEGMENT_BYTES).begin()
    await shard.fill(30)
    shard.owner.clock.advance(40 * HOUR_MS)
    await shard.fill(30)
    assert await shard.owner.leave_old() == LOCAL_SEGMENTS
    log = shard.owner.open.store.parts.commit_log
    assert len(log.segments()) == 9
    kept = len(await shard.owner.pull_bodies())
    assert await shard.owner.pull_bodies() == shard.bodies[-kept:]
    shard.owner.clock.advance(40 * HOUR_MS)
    for _ in range(5):
        await shard.owner.open.store.retention.run()
        shard.owner.clock.advance(60_000)
    kept = len(await shard.owner.pull_bodies())
    assert 30 <= kept < 38, "all of the second half, and what shares a segment with it"
    assert shard.owner.left_bases()[0] == log.start_offset > 0
    for _ in range(3):
        await shard.fill(1)
        await shard.owner.snapshotter.take()
    assert await shard.bucket.pieces() == await used_pieces(shard.bucket)
    await shard.owner.stop()
    assert serious_findings(tmp_path / "a") == []


async def test_a_full_disk_deletes_nothing_that_the_bucket_has(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    shard.owner.files.disk = (100, 10)
    for _ in range(3):
        assert await shard.owner.open.store.retention.run() == 0
    assert len(shard.owner.local_bases()) == 1, "all that may go is in the bucket"
    shard.owner.files.disk = (1 << 40, 1 << 40)
    assert await shard.owner.pull_bodies() == shard.bodies
    await shard.owner.stop()


async def test_an_idle_shard_makes_snapshots_until_the_bucket_has_nothing_expired(
    tmp_path: Path,
) -> None:
    shard = await Shard(tmp_path).begin_old()
    snapshotter = shard.owner.snapshotter
    snapshotter._bytes_max = SEGMENT_BYTES
    await shard.owner.replicated()  # the checkpoint that says that segments have left, too
    await snapshotter.take()
    assert not await snapshotter.is_due()
    shard.owner.clock.advance(100 * HOUR_MS)
    await shard.owner.open.store.retention.run()
    assert await snapshotter.is_due()
    await shard.owner.stop()


async def test_scheduled_messages_are_delivered_though_their_segment_has_left(
    tmp_path: Path,
) -> None:
    shard = await Shard(tmp_path).begin()
    store = shard.owner.open
    assert (await put_delayed(store, delayed(b"later", delay_ms=HOUR_MS))).error is None
    await shard.fill(60)
    assert await shard.owner.leave_old() <= LOCAL_SEGMENTS + 1
    assert shard.owner.left_bases()[0] == 0
    await store.pass_time(HOUR_MS)
    assert await shard.owner.pull_bodies() == [*shard.bodies, b"later"]
    await shard.owner.stop()


async def test_segments_of_scheduled_messages_stay(tmp_path: Path) -> None:
    """They would be written again and again, and the log grow for ever."""
    shard = await Shard(tmp_path).begin()
    store = shard.owner.open
    await shard.fill(2)  # else retention deletes segments that have nothing else
    for _ in range(40):
        assert (await put_delayed(store, delayed(b"." * 500, delay_ms=HOUR_MS))).error is None
    end = store.store.stats(0).append_offset
    await shard.owner.leave_old()
    await shard.owner.leave_old()
    assert shard.owner.left_bases() == []
    assert store.store.stats(0).append_offset == end
    await shard.owner.stop()


# A bucket in trouble ------------------------------------------------------------------------------


class RefusingBucket(CountingBucket):
    """Refuses pieces, cuts them short, or gives other bytes than those that it has."""

    is_refusing = False
    is_cutting = False
    is_flipping = False

    async def get(self, name: str) -> Found | None:
        if self.is_refusing and "/pieces/" in name:
            raise BucketRefused("expired credentials")
        found = await super().get(name)
        if self.is_cutting and found is not None and "/pieces/" in name:
            return found._replace(content=found.content[:-1])
        if self.is_flipping and found is not None and "/pieces/" in name:
            return found._replace(content=found.content[:-1] + bytes([found.content[-1] ^ 1]))
        return found


@pytest.mark.parametrize("trouble", ["is_refusing", "is_cutting", "is_flipping"])
async def test_what_cannot_be_read_from_the_bucket_is_told_and_not_lost(
    tmp_path: Path, trouble: str
) -> None:
    shard = Shard(tmp_path)
    bucket = shard.owner.bucket = shard.bucket = RefusingBucket()
    await shard.begin_old()
    setattr(bucket, trouble, True)
    store = shard.owner.open
    with pytest.raises(OldMessagesUnavailable, match="only in the bucket"):
        await here(lambda: store.receive(count=3))
    with pytest.raises(OldMessagesUnavailable, match="only in the bucket"):
        await shard.owner.pull_bodies()
    await store.put_bodies(b"new")
    assert store.store.parts.quarantine.count == 0
    setattr(bucket, trouble, False)
    assert await shard.owner.pull_bodies() == [*shard.bodies, b"new"]
    assert (await here(lambda: store.receive(count=3))).bodies == shard.bodies[1:4]
    await shard.owner.stop()


async def test_a_start_asks_the_bucket_for_no_old_segment(tmp_path: Path) -> None:
    shard = Shard(tmp_path)
    bucket = shard.owner.bucket = shard.bucket = RefusingBucket()
    await shard.begin_old()
    await shard.owner.kill()
    bucket.is_refusing = True
    await shard.owner.own()
    store = shard.owner.open
    await store.put_bodies(b"new")
    store.files.full_dirs = {INDEX_DIR}  # the index reads the log again
    await store.put_bodies(*[b"%d" % number for number in range(20)])
    await store.settled()
    store.files.full_dirs = set()
    await store.settled()
    assert not store.store.indexer.is_behind
    bucket.is_refusing = False
    assert (await shard.owner.pull_bodies())[:60] == shard.bodies
    await shard.owner.stop()


async def test_a_start_deletes_what_a_kill_left_of_fetched_segments(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    await here(lambda: shard.owner.open.receive(count=3))
    directory = tmp_path / "a" / BUCKET_DIR
    (fetched,) = directory.glob("*.part")
    noted = sorted(directory.glob("*.json"))
    await shard.owner.kill()
    for path in (fetched, noted[0]):  # killed before these were renamed
        path.with_name(path.name + TEMPORARY_SUFFIX).write_bytes(bytes(100))
    await shard.owner.own()
    assert sorted(directory.iterdir()) == noted
    assert await shard.owner.pull_bodies() == shard.bodies
    await shard.owner.stop()


async def test_two_who_read_the_same_wait_for_one_request(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    store = shard.owner.open
    fetched = shard.bucket.counts["get"]
    await here(lambda: store.store.parts.commit_log.read_many([(0, 100)]))  # the bucket's mark too
    opened = shard.bucket.counts["get"] - fetched
    fetched = shard.bucket.counts["get"]

    async def read() -> bytes:
        return await here(lambda: store.store.parts.commit_log.read_many([(SEGMENT_BYTES, 100)]))

    first, *others = await asyncio.gather(*[read() for _ in range(5)])
    assert all(each == first for each in others)
    assert shard.bucket.counts["get"] - fetched == 1
    assert opened <= 2
    await shard.owner.stop()


async def test_one_who_gives_up_does_not_end_the_fetch_of_others(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    log = shard.owner.open.store.parts.commit_log
    with pytest.raises(NotLocal) as first:
        log.read_many([(0, 100)])
    with pytest.raises(NotLocal) as second:
        log.read_many([(0, 100)])
    tasks = [asyncio.ensure_future(each.value.fetch()) for each in (first, second)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await tasks[1]
    assert len(log.read_many([(0, 100)])) == 100
    await shard.owner.stop()


# Other nodes --------------------------------------------------------------------------------------


async def test_a_node_with_an_empty_disk_leaves_old_segments_where_they_are(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    await shard.owner.snapshotter.take()
    await shard.owner.kill()
    heir = await shard.node("b").own()
    assert len(heir.local_bases()) == LOCAL_SEGMENTS
    assert heir.left_bases()[0] == 0
    assert await heir.pull_bodies() == shard.bodies
    assert (await here(lambda: heir.open.receive(count=1))).bodies == shard.bodies[1:2]
    await heir.open.put_bodies(b"more")
    shard.bodies.append(b"more")
    shard.owner = heir
    await shard.fill(30)
    assert await heir.leave_old() == LOCAL_SEGMENTS
    await heir.stop()
    assert serious_findings(tmp_path / "b") == []


async def test_a_replica_leaves_what_its_owner_has_left(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin()
    await shard.fill(30)
    replica = shard.node("b")
    follower = replica.follower()
    await follower.read_on()
    await follower.flush()
    await shard.fill(30)
    assert await shard.owner.leave_old() == LOCAL_SEGMENTS
    await shard.owner.snapshotter.take()
    await follower.read_on()
    await follower.flush()
    await follower.leave_old()
    assert replica.left_bases() == shard.owner.left_bases() != []
    await shard.fill(5)
    await follower.read_on()
    await follower.flush()
    await shard.owner.kill()
    heir = await shard.node("b").own()
    assert await heir.pull_bodies() == shard.bodies
    await heir.stop()
    assert serious_findings(tmp_path / "b") == []


async def test_a_former_owner_follows_with_the_segments_that_it_has(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    await shard.owner.kill()
    heir = await shard.node("b").own()
    shard.owner, former = heir, shard.owner
    await shard.fill(20)
    follower = former.follower()
    await follower.read_on()
    await follower.flush()
    assert not put_aside(tmp_path)
    assert former.left_bases()[0] == 0
    await heir.kill()
    again = await former.own()
    assert await again.pull_bodies() == shard.bodies
    await again.stop()
    assert serious_findings(tmp_path / "a") == []


async def test_queues_come_back_from_segments_in_the_bucket(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    await shard.owner.stop()
    for path in (tmp_path / "a" / "consumequeue").rglob("0*"):
        if path.is_file():
            path.unlink()
    again = await shard.owner.own()
    assert len(again.local_bases()) == LOCAL_SEGMENTS
    assert again.cache.size_bytes <= CACHED_SEGMENTS * SEGMENT_BYTES
    assert await again.pull_bodies() == shard.bodies
    await again.stop()


async def test_a_takeover_while_a_segment_is_fetched(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    log = shard.owner.open.store.parts.commit_log
    with pytest.raises(NotLocal) as absent:
        log.read_many([(0, 100)])
    fetch = asyncio.ensure_future(absent.value.fetch())
    await asyncio.sleep(0)
    heir = await shard.node("b").own()
    await shard.owner.kill()
    await asyncio.wait([fetch])
    assert await heir.pull_bodies() == shard.bodies
    await heir.stop()


async def test_a_store_is_not_served_without_its_bucket(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    await shard.owner.stop()
    (tmp_path / "a" / "replication.json").unlink()
    with pytest.raises(ConfigInvalid, match="only in the bucket"):
        OpenStore(tmp_path / "a").open()


async def test_tools_know_what_is_only_in_the_bucket(tmp_path: Path) -> None:
    shard = await Shard(tmp_path).begin_old()
    left_end = shard.owner.local_bases()[0]
    await shard.owner.stop()
    check = Verification(tmp_path / "a", index_slots=5)
    for _ in check.run():
        pass
    assert check.report.findings == []
    assert f"the log's bytes 0 to {left_end} are only in the bucket" in check.report.notes[0]
    with pytest.raises(SourceRejected, match="only in the bucket"):
        OwnStore(tmp_path / "a")._require_kind()
    (tmp_path / "a" / BUCKET_DIR / segment_name(SEGMENT_BYTES)).with_suffix(".json").unlink()
    broken = Verification(tmp_path / "a", index_slots=5)
    for _ in broken.run():
        pass
    assert Kind.LOG_REJECTED in broken.report.finding_counts
    with pytest.raises(StoreCorrupt, match=f"the segment at {SEGMENT_BYTES} is not here"):
        await shard.owner.own()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"local_retention_bytes": 1}, "no bucket"),
        ({"local_retention_bytes": 1, "replicated_log": "memory:"}, "two segments"),
        (
            {"local_retention_bytes": 1, "replicated_log": "kafka://h:1", "local_cache_bytes": GIB},
            "SNAPSHOT_URL",
        ),
    ],
)
def test_settings_that_leave_no_bucket_or_no_room_are_refused(
    settings: dict[str, int | str], why: str
) -> None:
    pytest.importorskip("confluent_kafka", reason="the extra kafka is not installed")
    values = {"store_dir": "s", "segment_bytes": GIB // 4, "local_cache_bytes": GIB // 4}
    with pytest.raises(ConfigInvalid, match=why):
        open_shard(msgspec.convert(values | settings, StoreConfig).check(), SystemClock())


async def test_a_store_without_a_bucket_has_the_log_it_always_had(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        assert type(store.store.parts.commit_log) is CommitLog
        assert store.store.retention.local is None
        assert not (tmp_path / BUCKET_DIR).exists()
        assert (tmp_path / COMMIT_LOG_DIR).parent == tmp_path


async def _published(tmp_path: Path, **limits: int) -> Shard:
    """A shard of whose sealed segments a snapshot has all, and none has left the disk."""
    shard = await Shard(tmp_path, **limits).begin()
    await shard.fill(60)
    await shard.owner.open.store.checkpoint()
    await shard.owner.replicated()
    await shard.owner.snapshotter.take()
    return shard


async def test_a_full_disk_leaves_segments_before_it_deletes_any(tmp_path: Path) -> None:
    shard = await _published(tmp_path, local_retention_bytes=GIB)
    owner, known = shard.owner, shard.owner.files.disk
    owner.files.disk = (100, 10)
    for _ in range(3):
        await owner.open.store.retention.run()
    assert owner.left_bases()
    assert owner.open.store.retention.lost_message_count == 0
    owner.files.disk = known
    assert await owner.pull_bodies() == shard.bodies
    await owner.stop()


async def test_a_full_disk_deletes_nothing_while_the_bucket_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = await _published(tmp_path, local_retention_bytes=GIB)
    owner, known = shard.owner, shard.owner.files.disk
    bases = owner.local_bases()

    async def refuse(_: object) -> None:
        raise Unavailable("the bucket is away")

    monkeypatch.setattr(owner.snapshotter, "confirm", refuse)
    owner.files.disk = (100, 10)
    for _ in range(3):
        await owner.open.store.retention.run()
    owner.files.disk = known
    assert (owner.local_bases(), owner.left_bases()) == (bases, [])
    assert await owner.pull_bodies() == shard.bodies
    await owner.stop()


async def test_what_was_about_to_leave_at_a_kill_may_expire_here(tmp_path: Path) -> None:
    shard = await _published(tmp_path)
    owner = shard.owner
    bases = owner.local_bases()
    sealed = owner.snapshotter.sealed_segments
    write_bucket_files(Files(), owner.store_dir, [sealed[base] for base in bases[:2]])
    await owner.stop()  # killed before it deleted the segments
    owner.limits |= {"local_retention_bytes": GIB, "retention_bytes": 4 * SEGMENT_BYTES}
    again = await owner.own()
    while again.local_bases()[0] < bases[3]:
        await again.open.store.retention.run()
    await again.stop()
    await (await owner.own()).stop()


async def test_receipts_of_before_a_restart_are_good_when_nobody_got_the_messages(
    tmp_path: Path,
) -> None:
    shard = await _published(tmp_path)
    leased = shard.owner.open.receive(count=3)
    assert await shard.owner.leave_old() == LOCAL_SEGMENTS
    await shard.owner.stop()
    again = await shard.owner.own()
    with pytest.raises(NotLocal):
        again.open.receive(count=3)
    assert again.open.ack(leased).acked_count == 3
    await again.stop()


async def test_a_snapshot_of_a_segment_that_has_just_expired(tmp_path: Path) -> None:
    shard = await _published(tmp_path)
    store = shard.owner.open.store
    await store._commit_log.delete_before(2 * SEGMENT_BYTES)
    assert shard.owner.snapshotter._reader.first_ms(0) == 0
    await shard.owner.stop()


def test_a_replica_killed_while_old_segments_expire_has_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, store = Files(), tmp_path / "a"
    left = [
        BucketFile(base_offset=base, size_bytes=4096, piece_bytes=4096, pieces=["x"])
        for base in (0, 4096)
    ]
    write_bucket_files(files, store, left)
    files.make_dirs(store / COMMIT_LOG_DIR)
    for base in (8192, 12288, 16384):
        files.create(store / COMMIT_LOG_DIR / segment_name(base), 4096, 4096)
    assert len(read_bucket_files(store)) == 2
    unlink = files.unlink

    def unlink_one(path: Path) -> None:
        unlink(path)
        raise Killed

    monkeypatch.setattr(files, "unlink", unlink_one)
    with pytest.raises(Killed):
        Replica(files, store, Tail())._delete_before(12288)
    read_bucket_files(store)
