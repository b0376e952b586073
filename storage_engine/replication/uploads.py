"""Uploads the files of a store: those of a running owner, or what a split has made.

log ── pieces that are not there yet ──▶ SnapshotBucket ──▶ a StoredFile of each segment
small files ─────────────────────────────────▶ └──▶ Manifest
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from storage_engine.disk.layout import CHECKPOINT_FILE, COMMIT_LOG_DIR, segment_name
from storage_engine.disk.small_files import identities
from storage_engine.errors import StoreCorrupt
from storage_engine.log.checkpoint import read_checkpoint
from storage_engine.reader import find_extent
from storage_engine.replicated_log.snapshot_bucket import PIECE_BYTES, SnapshotBucket
from storage_engine.replication.manifest import (
    Manifest,
    StoredFile,
    encode,
    segment_base,
    segments_of,
)
from storage_engine.replication.tail import Tail


class LogSource(Protocol):
    """Where the bytes of a log come from. ``read_log``: of one segment; any thread."""

    segment_bytes: int

    def read_log(self, start: int, end: int) -> bytes: ...

    def first_ms(self, base_offset: int) -> int: ...


def read_log(store: Path, start: int, end: int, *, segment_bytes: int) -> bytes:
    """Bytes of a store's log, all in one segment."""
    base = segment_base(start, segment_bytes)
    descriptor = os.open(store / COMMIT_LOG_DIR / segment_name(base), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, end - start, start - base)
    finally:
        os.close(descriptor)


async def upload_log(
    bucket: SnapshotBucket,
    source: LogSource,
    log_start: int,
    log_end: int,
    *,
    known: Mapping[str, StoredFile],
    unchanged_to: int,
    piece_bytes: int,
) -> list[StoredFile]:
    """``known``: segments of an earlier upload, by name; what they have below ``unchanged_to`` is
    not read again. Raises ``LogError``, ``OSError``.
    """
    stored: list[StoredFile] = []
    segment_bytes = source.segment_bytes
    base = segment_base(log_start, segment_bytes)
    for name, size_bytes in segments_of(log_start, log_end, segment_bytes):
        unchanged = max(unchanged_to - base, 0)
        is_whole = unchanged >= segment_bytes
        file = known.get(name)
        pieces = [] if file is None else file.pieces
        pieces = pieces[: None if is_whole else unchanged // piece_bytes]
        for start in range(len(pieces) * piece_bytes, size_bytes, piece_bytes):
            end = min(start + piece_bytes, size_bytes)
            content = await asyncio.to_thread(source.read_log, base + start, base + end)
            pieces.append(await bucket.write(content))
        first_ms = file.first_ms if is_whole and file is not None else 0
        stored.append(StoredFile(name, size_bytes, pieces, first_ms or source.first_ms(base)))
        base += segment_bytes
    return stored


async def upload_file(bucket: SnapshotBucket, content: bytes, piece_bytes: int) -> list[str]:
    """The pieces of a small file, or of a manifest. Raises ``LogError``."""
    parts = range(0, len(content), piece_bytes)
    return [await bucket.write(content[at : at + piece_bytes]) for at in parts]


class SplitStore(NamedTuple):
    """What a split has made, which nobody has open: ``number`` of the split, end of its log."""

    number: int
    log_end: int


def split_store(store: Path, number: int) -> SplitStore:
    """Raises ``StoreCorrupt``: it was not closed in order."""
    mark = read_checkpoint(store / CHECKPOINT_FILE)
    if mark is None:
        raise StoreCorrupt(f"{store} has no checkpoint, so it is not whole")
    return SplitStore(number, mark.flushed_offset)


class StoreUpload:
    """Uploads a store that no engine has open, in rounds while its log grows, for the replicas of
    the shard that begins anew with it. ``bucket``: ``SnapshotBucket.of_split``; ``log_end``: it has
    the log below.

    All raise ``LogError``, ``OSError``.
    """

    def __init__(self, bucket: SnapshotBucket, store: Path, *, segment_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        self._bucket = bucket
        self._store = store
        self._segments: list[StoredFile] = []
        self._log_start = self.log_end = 0
        self._is_begun = False

    def read_log(self, start: int, end: int) -> bytes:
        return read_log(self._store, start, end, segment_bytes=self.segment_bytes)

    def first_ms(self, base_offset: int) -> int:
        """Unknown: who restores it has the segments."""
        return 0

    async def upload_log(self, log_end: int) -> None:
        """What the log has more than before, below ``log_end``, where it never changes any more."""
        if not self._is_begun:
            await self._bucket.claim(1)
            self._bucket.begin(())
            self._is_begun = True
        extent = await asyncio.to_thread(find_extent, self._store, end_offset=log_end)
        known = {each.name: each for each in self._segments}
        self._log_start = extent.start_offset
        self._segments = await upload_log(
            self._bucket,
            self,
            extent.start_offset,
            log_end,
            known=known,
            unchanged_to=self.log_end,
            piece_bytes=PIECE_BYTES,
        )
        self.log_end = log_end

    async def finish(self, log_end: int) -> None:
        """The rest, and what it consists of; replicas can begin with it on return."""
        await self.upload_log(log_end)
        files = [
            StoredFile(name, len(content), await upload_file(self._bucket, content, PIECE_BYTES))
            for name in sorted(identities(self._store))
            for content in [(self._store / name).read_bytes()]
        ]
        manifest = Manifest(
            tail=Tail(log_end=self.log_end),
            log_start=self._log_start,
            segment_bytes=self.segment_bytes,
            piece_bytes=PIECE_BYTES,
            segments=self._segments,
            files=files,
        )
        await self._bucket.publish(await upload_file(self._bucket, encode(manifest), PIECE_BYTES))
