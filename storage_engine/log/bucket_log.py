"""A commit log whose oldest segments only the bucket has.

    commit log ── segments that a published snapshot has ──▶ [BucketLog.leave_to_bucket]
    readers ── (physical_offset, record_bytes) ──▶ [BucketLog] ── here? ──▶ bytes
                                                        └── no: ``NotLocal``, which can be fetched

The log begins where it does in the bucket: offsets, retention and consume queues know no
difference. Appends and what is read of local segments go as ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.errors import StoreCorrupt
from storage_engine.log.bucket_files import (
    BucketFile,
    delete_left,
    forget_before,
    read_bucket_files,
    write_bucket_files,
)
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.segment_cache import BucketSegment, SegmentCache, Wanted
from storage_engine.records.record_check import fault_at
from storage_engine.records.record_parts import store_timestamp_of

_Records = list[tuple[int, int]]
_NEVER_MS: Final = 1 << 62


class BucketLog(CommitLog):
    """See the module's docstring."""

    def __init__(
        self,
        config: StoreConfig,
        files: Files,
        clock: Clock,
        store_host: bytes,
        cache: SegmentCache,
    ) -> None:
        super().__init__(config, files, clock, store_host)
        self._access = files
        self._store = Path(config.store_dir)
        self.cache = cache
        self._left: list[BucketSegment] = []  # the first ones of all segments
        self._left_end = 0
        self._times: list[tuple[int, int]] = []  # of each of them, as ``times_in_bucket``

    def load(self) -> None:
        super().load()
        self.cache.clean()
        self._left = [self.cache.segment(each) for each in read_bucket_files(self._store)]
        for each in self._left:
            if each.size_bytes != self._run.size_bytes:
                raise StoreCorrupt(
                    f"the segment at {each.base_offset} has {each.size_bytes} bytes in the bucket, "
                    f"and {self._run.size_bytes} here. Nothing was changed: move the store away"
                )
        self._left_end = self._run.start_offset if self._left else 0
        self._run.files[:0] = self._left
        self._times = []

    @property
    def local_start_offset(self) -> int:
        return max(self._left_end, self.start_offset)

    def times_in_bucket(self, physical_offset: int) -> tuple[int, int] | None:
        if not self._left or physical_offset >= self.local_start_offset:
            return None
        at = (physical_offset - self._run.start_offset) // self._run.size_bytes
        times = self._times or self._find_times()
        return times[at] if at >= 0 else None

    def _find_times(self) -> list[tuple[int, int]]:
        """None of a segment is older than its first record, nor younger than that of the next."""
        segment = self._run.files[len(self._left)]
        is_whole = fault_at(segment.view, 0, segment.base_offset) is None
        last_ms = store_timestamp_of(segment.view, 0) if is_whole else _NEVER_MS
        times: list[tuple[int, int]] = []
        for each in reversed(self._left):
            times.append((each.file.first_ms, last_ms))
            last_ms = each.file.first_ms or last_ms
        times.reverse()
        if is_whole:
            self._times = times
        return times

    # Reading --------------------------------------------------------------------------------

    def damaged(self, records: _Records) -> list[int]:
        if not self._left:
            return super().damaged(records)
        with self._here(records):
            return super().damaged(records)

    def read_checked(self, records: _Records) -> tuple[bytes, list[int]]:
        if not self._left:
            return super().read_checked(records)
        with self._here(records):
            return super().read_checked(records)

    def read_whole(self, records: _Records) -> list[bytes | None]:
        if not self._left:
            return super().read_whole(records)
        with self._here(records):
            return super().read_whole(records)

    def read_many(self, records: _Records) -> bytes:
        if not self._left:
            return super().read_many(records)
        with self._here(records):
            return super().read_many(records)

    def properties(self, physical_offset: int, record_bytes: int) -> bytes | None:
        if physical_offset >= self._left_end:
            return super().properties(physical_offset, record_bytes)
        with self._here([(physical_offset, record_bytes)]):
            return super().properties(physical_offset, record_bytes)

    @contextmanager
    def _here(self, records: _Records) -> Iterator[None]:
        """While it runs, the bytes of these records are here. Raises ``NotLocal``."""
        local_start = self._left_end
        if not any(at < local_start for at, _ in records):
            yield
            return
        wanted: dict[Wanted, None] = {}
        here_count = len(records)
        for number, (start, record_bytes) in enumerate(records):
            if start < local_start and (missing := self._missing(start, start + record_bytes)):
                here_count = min(here_count, number)
                wanted.update(dict.fromkeys(missing))
        self.cache.need(list(wanted), here_count=here_count)
        was_checked, self.cache.is_checked = self.cache.is_checked, True
        try:
            yield
        finally:
            self.cache.is_checked = was_checked

    def _missing(self, start: int, end: int) -> list[Wanted]:
        segment = self._run.find(start)
        if not isinstance(segment, BucketSegment):
            return []  # gone from the log
        base = segment.base_offset
        return self.cache.missing(segment, start - base, end - base)

    # What is here ---------------------------------------------------------------------------

    async def leave_to_bucket(self, left: Sequence[BucketFile]) -> None:
        """Let go of the oldest local segments, which a published snapshot has; never of the last.

        Raises ``DiskFull``, ``SyncFailed``; where files stay the next start finds them.
        """
        first = len(self._left)
        files = self._run.files
        assert len(files) - first > len(left), "the newest segment stays"
        assert [each.base_offset for each in left] == [
            each.base_offset for each in files[first : first + len(left)]
        ]
        loop = asyncio.get_running_loop()
        known = self._access, self._store, left
        await loop.run_in_executor(None, write_bucket_files, *known)
        self._swap(left)
        await loop.run_in_executor(None, delete_left, *known)

    def _swap(self, left: Sequence[BucketFile]) -> None:
        """Readers that have a map of the old file keep it; nobody opens it again."""
        for each in left:
            at = (each.base_offset - self._run.start_offset) // self._run.size_bytes
            segment = self.cache.segment(each)
            self._run.files[at].close()
            self._run.files[at] = segment
            self._left.append(segment)
        self._left_end = left[-1].end_offset
        self._times = []

    async def delete_before(self, offset: int) -> None:
        taken = self._run.remove_before(offset)
        gone = [each for each in taken if isinstance(each, BucketSegment)]
        for each in gone:
            self.cache.drop(each)
        del self._left[: len(gone)]
        self._times = []
        loop = asyncio.get_running_loop()
        # Also of segments that were about to leave when the engine ended, and are here still.
        await loop.run_in_executor(None, forget_before, self._access, self._store, offset)
        await loop.run_in_executor(None, self._run.delete, taken[len(gone) :])

    def close(self) -> None:
        super().close()
        self.cache.close()


def open_log(
    config: StoreConfig,
    files: Files,
    clock: Clock,
    store_host: bytes,
    cache: SegmentCache | None,
) -> CommitLog:
    """The log of a store; ``cache``: of what of it only a bucket has."""
    if cache is None:
        return CommitLog(config, files, clock, store_host)
    return BucketLog(config, files, clock, store_host, cache)
