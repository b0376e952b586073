"""Copies the newest part of a shard's store out of its bucket, for those who only read.

    SnapshotBucket ── segments of the time that is wanted, small files ─┐
    ReplicatedLog ── what was shipped since ────────────────────────────┴▶ [copy_shard] ─▶ directory

The directory has what a replica would have, without the segments whose records are all older. It is
made for one use and then deleted, so nothing of it is synced. The shard's owner is not asked, and
does not notice.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from storage_engine.clock import Clock
from storage_engine.disk.files import Files
from storage_engine.errors import DiskFull, StoreCorrupt
from storage_engine.reader import Extent, Segment, find_extent, read_columns
from storage_engine.records.record_check import fault_at
from storage_engine.records.record_parts import store_timestamp_of
from storage_engine.replicated_log.errors import Trimmed
from storage_engine.replicated_log.port import ReplicatedLog
from storage_engine.replicated_log.snapshot_bucket import SnapshotBucket
from storage_engine.replication.entry import decode
from storage_engine.replication.manifest import Manifest, StoredFile, segment_base
from storage_engine.replication.replica import BeginsAnew, NothingDerived, Replica
from storage_engine.replication.restorer import Restorer, split_without_bucket
from storage_engine.replication.tail import Tail

_LOOK_S: Final = 0.2  # between looks whether the log has reached an offset


class ShardCopy(NamedTuple):
    """Records begin in ``[start_offset, end_offset)``; the last was stored at ``last_ms``, if there
    is one.
    """

    start_offset: int
    end_offset: int
    last_ms: int | None


async def copy_shard(
    replicated_log: ReplicatedLog,
    snapshots: SnapshotBucket | None,
    directory: Path,
    clock: Clock,
    *,
    from_ms: int,
    reach: int,
    wait_ms: int,
    leave_bytes: int,
    files: Files | None = None,
) -> ShardCopy:
    """Fill an empty ``directory`` with all that was stored from ``from_ms`` on, and maybe more.

    ``reach``: waits up to ``wait_ms`` until the log goes so far, which its owner said it will.
    ``leave_bytes`` of the disk stay free.

    Raises ``LogError``: the bucket does not answer, refuses, or lacks entries that no snapshot has;
    ``StoreCorrupt``: nothing was ever shipped, or it cannot be read; ``DiskFull``.
    """
    copier = _Copier(replicated_log, snapshots, directory, from_ms, leave_bytes, files)
    until_ms = clock.monotonic_ms() + wait_ms
    await copier.read_on()
    while copier.log_end < reach and clock.monotonic_ms() < until_ms:
        await asyncio.sleep(_LOOK_S)
        await copier.read_on()
    return await asyncio.to_thread(copier.finish)


class _Copier:
    def __init__(
        self,
        replicated_log: ReplicatedLog,
        snapshots: SnapshotBucket | None,
        directory: Path,
        from_ms: int,
        leave_bytes: int,
        files: Files | None,
    ) -> None:
        self._log = replicated_log
        self._path = directory
        self._from_ms = from_ms
        self._leave_bytes = leave_bytes
        self._files = files or _UnsyncedFiles()
        self._replica = Replica(self._files, directory, Tail())
        self._restorer: Restorer | None = None
        if snapshots is not None:
            derived = NothingDerived()
            self._restorer = Restorer(snapshots, self._files, directory, derived, self._chosen)

    @property
    def log_end(self) -> int:
        return self._replica.tail.log_end

    async def read_on(self) -> None:
        """Take in what the log has behind what is here."""
        trimmed: Trimmed | None = None
        while True:
            if not self._replica.tail.number or trimmed is not None:
                tail = None
                if self._restorer is not None:
                    tail = await self._restorer.restore(self._replica.tail)
                if tail is not None:
                    self._replica = Replica(self._files, self._path, tail)
                elif trimmed is not None:
                    raise Trimmed(f"{trimmed}, and no snapshot has them") from trimmed
            try:
                async for each in self._log.read(self._replica.tail.position):
                    await asyncio.to_thread(self._replica.apply, decode(each.content), each.end)
                return
            except BeginsAnew as exc:
                trimmed = None
                if self._restorer is None:
                    raise split_without_bucket(exc.tail) from exc
                tail = await self._restorer.begin_anew(exc.tail, self._replica.tail)
                self._replica = Replica(self._files, self._path, tail)
            except Trimmed as exc:
                trimmed = exc

    async def _chosen(self, bucket: SnapshotBucket, manifest: Manifest) -> Manifest:
        """Without the segments that end before the time that is wanted; the last one always."""
        log_base = segment_base(manifest.log_start, manifest.segment_bytes)
        first, last = 0, len(manifest.segments) - 1
        while first < last:
            middle = (first + last + 1) // 2
            base_offset = log_base + middle * manifest.segment_bytes
            stored_ms = await _first_ms(bucket, manifest.segments[middle], base_offset)
            if stored_ms is not None and stored_ms < self._from_ms:
                first = middle
            else:
                last = middle - 1
        found = manifest.segments[first:]
        self._check_room(len(found) * manifest.segment_bytes)
        start = max(manifest.log_start, log_base + first * manifest.segment_bytes)
        return msgspec.structs.replace(manifest, segments=found, log_start=start)

    def _check_room(self, wanted_bytes: int) -> None:
        _, free_bytes = self._files.disk_usage(self._path)
        if free_bytes - wanted_bytes < self._leave_bytes:
            raise DiskFull(
                f"the part of the log that is wanted takes {wanted_bytes} bytes, and of the "
                f"{free_bytes} that are free below {self._path} {self._leave_bytes} are to stay so"
            )

    def finish(self) -> ShardCopy:
        if not self._replica.tail.number:
            raise StoreCorrupt("neither a snapshot nor an entry of this shard is in its bucket")
        self._replica.flush()
        extent = find_extent(self._path)
        return ShardCopy(extent.start_offset, extent.end_offset, _last_ms(extent))


async def _first_ms(bucket: SnapshotBucket, segment: StoredFile, base_offset: int) -> int | None:
    """When its first record was stored; None where its first piece does not have all of it."""
    view = memoryview(await bucket.read(segment.pieces[0]))
    if fault_at(view, 0, base_offset) is not None:
        return None
    return store_timestamp_of(view, 0)


def _last_ms(extent: Extent) -> int | None:
    """When the last whole record of a log was stored."""
    for segment in reversed(extent.segments):
        found = _last_ms_in(segment, extent.end_offset)
        if found is not None:
            return found
    return None


def _last_ms_in(segment: Segment, end_offset: int) -> int | None:
    last_ms = None
    for columns in read_columns(
        segment, segment.base_offset, end_offset, checks_crcs=False, damaged=lambda *_: None
    ):
        last_ms = int(columns.store_ms[-1])
    return last_ms


class _UnsyncedFiles(Files):
    """Of a copy that nobody uses after this machine stopped."""

    def sync_path(self, path: Path) -> None:
        pass

    def sync_dir(self, path: Path) -> None:
        pass

    def sync_file(self, descriptor: int, path: Path) -> None:
        pass

    def create(
        self,
        path: Path,
        size_bytes: int,
        allocate_bytes: int,
        content: bytes | memoryview = b"",
        *,
        durable: bool = True,
    ) -> None:
        super().create(path, size_bytes, allocate_bytes, content, durable=False)

    def replace(self, path: Path, content: bytes) -> None:
        self.write_at(path, 0, content, is_end=True)
