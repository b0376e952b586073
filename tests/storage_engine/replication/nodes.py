"""Nodes of one shard in this process: owners and replicas over one log, each in its directory.

Node a (owner) ── Store, Replication ──▶ SharedLog ◀── take_over, read ── Node b
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from random import SystemRandom
from typing import Self

from storage_engine.clock import Clock
from storage_engine.disk.files import Files
from storage_engine.replicated_log.bucket import Bucket
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket
from storage_engine.replication.follower import take_over
from storage_engine.replication.replication import Replication
from storage_engine.replication.snapshotter import Snapshotter
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import FaultyFiles, ManualClock, OpenStore
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.stopping import kill

LIMITS = {"replication_interval_ms": 10}
PIECE_BYTES = 1_500  # of a page there are three


def snapshots_in(bucket: Bucket, clock: Clock) -> SnapshotBucket:
    """As one node sees them."""
    return SnapshotBucket(bucket, shard="s", deployment="", clock=clock, random=SystemRandom())


class Node:
    """A machine with one directory; ``own`` makes it the owner. Use inside a coroutine."""

    def __init__(self, store_dir: Path, shared: SharedLog, bucket: Bucket | None = None) -> None:
        self.store_dir = store_dir
        self.shared = shared
        self.bucket = bucket  # for snapshots
        self.clock = ManualClock()
        self.files = FaultyFiles()  # of the store that is served
        self.log: MemoryLog
        self.open: OpenStore
        self.run: asyncio.Task[None] | None = None

    async def own(self, *, epoch: int = 0, is_shipping: bool = True) -> Self:
        """Take the shard over and serve it."""
        self.log = MemoryLog(self.shared, self.clock)
        snapshots = None if self.bucket is None else snapshots_in(self.bucket, self.clock)
        place = await take_over(self.log, snapshots, self.store_dir, Files(), epoch=epoch)
        self.open = OpenStore(
            self.store_dir, clock=self.clock, files=self.files, limits=LIMITS, place=place
        ).open()
        await self.replication.begin()
        if is_shipping:
            self.run = asyncio.ensure_future(self.replication.run())
        return self

    @property
    def replication(self) -> Replication:
        found = self.open.store.replication
        assert found is not None
        return found

    @property
    def snapshotter(self) -> Snapshotter:
        """Of small pieces."""
        found = self.replication.snapshotter
        assert found is not None
        found._piece_bytes = PIECE_BYTES
        return found

    def topic(self, name: str = "t", durability: Durability = Durability.REPLICATED) -> None:
        self.open.topic(name, durability=durability)

    async def replicated(self) -> None:
        """Until the log has everything that is on the disk now, small files too."""
        await self.replication._shipper.ship_rest()

    async def _end_run(self) -> None:
        if self.run is not None:
            self.run.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self.run
            self.run = None

    async def stop(self) -> None:
        await self._end_run()
        await self.open.close()

    async def kill(self, *, arriving: int = 0) -> None:
        """As kill -9 does; so many entries that are on their way still arrive."""
        await self._end_run()
        self.log.kill(stored=arriving)
        kill(self.open.store)
