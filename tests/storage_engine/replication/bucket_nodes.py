"""Nodes of a shard that leave the oldest segments of their log to the bucket.

fill ──▶ snapshot ──▶ retention ──▶ two segments here, the others in the bucket ──▶ here(read)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from storage_engine.clock import SystemClock
from storage_engine.disk.files import Files
from storage_engine.disk.layout import COMMIT_LOG_DIR, base_offsets_in
from storage_engine.errors import NotLocal
from storage_engine.log.bucket_files import bucket_offsets
from storage_engine.log.segment_cache import SegmentCache
from storage_engine.recovery.warm_replica import WarmReplica
from storage_engine.replicated_log.bucket import Bucket
from storage_engine.replication.follower import Follower, take_over
from tests.storage_engine.doubles import SEGMENT_BYTES, OpenStore, tiny_config
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replication.nodes import LIMITS, Node, snapshots_in

ResultT = TypeVar("ResultT")

LOCAL_SEGMENTS: Final = 2
CACHED_SEGMENTS: Final = 3


class BucketNode(Node):
    """As ``Node``; ``limits`` besides the usual ones."""

    def __init__(self, store_dir: Path, shared: SharedLog, bucket: Bucket, **limits: int) -> None:
        super().__init__(store_dir, shared, bucket)
        self.limits = {
            **LIMITS,
            "local_retention_bytes": LOCAL_SEGMENTS * SEGMENT_BYTES,
            "local_cache_bytes": CACHED_SEGMENTS * SEGMENT_BYTES,
            **limits,
        }
        self.cache: SegmentCache

    def new_cache(self) -> SegmentCache:
        bucket = self.bucket
        assert bucket is not None
        return SegmentCache(
            self.store_dir,
            self.files,
            lambda: snapshots_in(bucket, SystemClock()),
            bytes_max=self.limits["local_cache_bytes"],
            segment_bytes=SEGMENT_BYTES,
        )

    def warm(self) -> WarmReplica:
        config = tiny_config(self.store_dir, **LIMITS)
        return WarmReplica(config, Files(), self.clock, self.cache)

    def follower(self) -> Follower:
        assert self.bucket is not None
        self.cache = self.new_cache()
        log, snapshots = MemoryLog(self.shared, self.clock), snapshots_in(self.bucket, self.clock)
        known = log, snapshots, self.store_dir, Files(), self.warm()
        return Follower(*known, leaves_old=True)

    async def own(self, *, epoch: int = 0, is_shipping: bool = True) -> Self:
        assert self.bucket is not None
        self.log = MemoryLog(self.shared, self.clock)
        self.cache = self.new_cache()
        place = await take_over(
            self.log,
            snapshots_in(self.bucket, self.clock),
            self.store_dir,
            Files(),
            epoch=epoch,
            derived=self.warm(),
            leaves_old=True,
        )
        self.open = OpenStore(
            self.store_dir, clock=self.clock, files=self.files, limits=self.limits, place=place,
            cache=self.cache,
        ).open()  # fmt: skip
        await self.replication.begin()
        if is_shipping:
            self.run = asyncio.ensure_future(self.replication.run())
        return self

    async def leave_old(self) -> int:
        """A checkpoint, a snapshot, and one pass of retention; segments that are here then."""
        await self.open.store.checkpoint()
        await self.replicated()
        await self.snapshotter.take()
        await self.open.store.retention.run()
        return len(self.local_bases())

    def local_bases(self) -> list[int]:
        return base_offsets_in(self.store_dir / COMMIT_LOG_DIR)

    def left_bases(self) -> list[int]:
        """Of segments that only the bucket has."""
        return bucket_offsets(self.store_dir)

    async def pull_bodies(self) -> list[bytes]:
        """All of the queue, as a client reads it."""
        found: list[bytes] = []
        queue = self.open.store.parts.queues.ensure("t", 1)[0]
        while len(found) < queue.max_offset - queue.min_offset:
            at = queue.min_offset + len(found)
            found += await here(partial(self.open.pull_bodies, queue_offset=at))
        return found


async def here(read: Callable[[], ResultT], rounds_max: int = 200) -> ResultT:
    """What it reads, as often as it must be tried."""
    for _ in range(rounds_max):
        try:
            return read()
        except NotLocal as exc:
            await exc.fetch()
    raise AssertionError(f"not here after {rounds_max} fetches")
