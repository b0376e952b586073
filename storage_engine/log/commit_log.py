"""The one log of all topics: appends whole batches; what ``LogReader`` reads.

    store.put ── payload, entries ──▶ [CommitLog] ──▶ active segment, holes filled there
    flusher ── sync(to) ──▶ msync of what was appended since

A record, or the whole batch, needs its bytes + 8 free in the segment; else an 8-byte BLANK
(remaining bytes, BLANK magic) ends the segment and the batch goes to the next one. Invariants:
flushed_offset <= append_offset; store timestamps never decrease along the log. Appends: loop
thread. ``sync``: one flusher thread at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from isal.isal_zlib import crc32

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.disk.layout import COMMIT_LOG_DIR
from storage_engine.disk.mapped_file import MappedFile
from storage_engine.disk.mapped_files import MappedFiles
from storage_engine.errors import (
    RecordRefused,
    StoreError,
    StoreReadOnly,
    SyncFailed,
)
from storage_engine.log.log_reader import LogReader
from storage_engine.log.log_scan import scan
from storage_engine.queues.consume_queue import UNIT, UNIT_BYTES, ConsumeQueue
from storage_engine.records.record import (
    BLANK,
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_HEAD,
    MAGIC_BLANK,
    OFFSETS,
    QUEUE_OFFSET_AT,
    STORED_BY,
)

log = logging.getLogger(__name__)

BLANK_BYTES: Final = BLANK.size
_DIGITS_FROM: Final = len(CRC_PROPERTY_HEAD)
_DIGITS_TO: Final = _DIGITS_FROM + CRC_DIGITS
_pack_offsets = OFFSETS.pack_into
_pack_stored_by = STORED_BY.pack_into
_pack_unit = UNIT.pack_into
assert BLANK_BYTES == 8


# One record of a batch before it is appended, as a plain tuple since there are very many:
# (position in the batch, record_bytes, consume queue, position of STORETIMESTAMP in the record,
# tag_hash).
Entry = tuple[int, int, ConsumeQueue, int, int]


class CommitLog(LogReader):
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, files: Files, clock: Clock, store_host: bytes) -> None:
        self._config = config
        self._clock = clock
        self._store_host = store_host
        super().__init__(
            MappedFiles(files, Path(config.store_dir) / COMMIT_LOG_DIR, config.segment_bytes)
        )
        self._active: MappedFile | None = None
        self._prefault_next = 0
        self._failed_sync: SyncFailed | None = None
        # Called when the writer has come near the end of the pages that are ready.
        self.prefault_wanted: Callable[[], None] = _nothing
        self.append_offset = 0
        self.flushed_offset = 0
        self.store_timestamp_ms = 0

    # Appending ------------------------------------------------------------------------------

    def append(self, payload: bytes, entries: list[Entry]) -> list[int]:
        """Append a batch that is contiguous in ``payload`` and covers all of it.

        The consume-queue units are written too, and stay invisible until ``Dispatcher`` publishes
        them.

        Returns:
            queue_offset and physical_offset of each record in turn, flat. Nothing is durable yet.

        Raises:
            DiskFull: no room for a segment or for units; nothing was appended, no offset was used.
            RecordRefused: the batch is larger than a segment.
            StoreReadOnly: a sync has failed; ``replace_unsynced`` would not see what is appended.
        """
        if self._failed_sync is not None:
            raise StoreReadOnly(
                f"an earlier sync failed and its bytes are not rewritten yet: {self._failed_sync}"
            )
        # Whatever can fail comes before the first byte: a refused record must never be found in the
        # log, not even after a power cut.
        self._reserve_units(entries)
        batch_bytes = len(payload)
        segment, position = self._room_for(batch_bytes)
        view = segment.view
        view[position : position + batch_bytes] = payload
        base = segment.base_offset + position
        stamp = max(self._clock.now_ms(), self.store_timestamp_ms)
        store_host = self._store_host
        results: list[int] = []
        result = results.append
        try:
            for at, record_bytes, queue, stamp_at, tag_hash in entries:
                start = position + at
                physical_offset = base + at
                queue_offset = queue.append_offset
                _pack_offsets(view, start + QUEUE_OFFSET_AT, queue_offset, physical_offset)
                _pack_stored_by(view, start + stamp_at, stamp, store_host)
                crc_at = start + record_bytes - CRC_PROPERTY_BYTES
                crc = crc32(view[start:crc_at]) & CRC_MASK
                view[crc_at + _DIGITS_FROM : crc_at + _DIGITS_TO] = (b"%010d" % crc)[::-1]
                unit_at = queue.unit_at
                if unit_at >= queue.unit_room:
                    unit_at = queue.open_next_file()
                _pack_unit(queue.unit_view, unit_at, physical_offset, record_bytes, tag_hash)
                queue.unit_at = unit_at + UNIT_BYTES
                queue.append_offset = queue_offset + 1
                result(queue_offset)
                result(physical_offset)
        except BaseException:
            # A queue file could not be mapped: neither its record nor those before it may be found.
            view[position : position + batch_bytes] = bytes(batch_bytes)
            for _, _, queue, _, _ in entries[: len(results) // 2]:
                queue.remove_last()
            raise
        self._seals.add(view[position : position + batch_bytes], base)
        self.store_timestamp_ms = stamp
        self.append_offset = base + batch_bytes
        if self.append_offset > self._prefault_next:
            self._prefault_next = self.append_offset + self._config.prefault_bytes // 2
            self.prefault_wanted()
        return results

    def make_room(self, batch_bytes: int, entries: list[Entry]) -> None:
        """Do now what may take long of an ``append``, which must follow at once.

        Raises ``DiskFull``; nothing was appended, no offset was used.
        """
        self._reserve_units(entries)
        if batch_bytes <= self.batch_bytes_max:
            self._room_for(batch_bytes)

    def _reserve_units(self, entries: list[Entry]) -> None:
        count = len(entries)
        for queue in {entry[2] for entry in entries}:
            if queue.unit_at + count * UNIT_BYTES > queue.unit_room:
                queue.reserve(count)

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that fits a segment."""
        return self._config.segment_bytes - BLANK_BYTES

    def _room_for(self, batch_bytes: int) -> tuple[MappedFile, int]:
        needed = batch_bytes + BLANK_BYTES
        if needed > self._config.segment_bytes:
            raise RecordRefused(
                f"a batch of {batch_bytes} bytes does not fit into a segment of "
                f"{self._config.segment_bytes} bytes"
            )
        segment = self._active
        if segment is None:
            segment = self._active = self._run.roll()
        position = self.append_offset - segment.base_offset
        if position + needed > segment.size_bytes:
            following = self._run.roll()  # first, so that a full disk leaves this segment as it is
            if position < segment.size_bytes:
                BLANK.pack_into(segment.view, position, segment.size_bytes - position, MAGIC_BLANK)
            segment = self._active = following
            self.append_offset = following.base_offset
            position = 0
        return segment, position

    def make_ready(self) -> None:
        """Give the next pages their memory and make the next segment; any thread, so that appends
        do not wait for it.
        """
        segment, ahead = self._active, self._config.prefault_bytes
        if segment is None:
            return
        position = max(self.append_offset - segment.base_offset, 0)
        segment.prefault(position, ahead)
        if self._config.prepare_segments and position >= segment.size_bytes // 2:
            try:
                following = self._run.prepare(segment.base_offset + segment.size_bytes)
            except StoreError as exc:  # puts will meet it when they need the segment
                log.warning(
                    "Could not prepare the next segment ahead of time",
                    extra={"action": "segment_prepare_failed", "reason": str(exc)},
                )
            else:
                if following is not None:
                    following.prefault(0, ahead)

    async def release_memory(self) -> None:
        """Let go of the pages of durable records, but for the last ``warm_bytes``.

        Those of a log that is only appended to would count as the engine's memory for ever.
        """
        end = self.flushed_offset - self._config.warm_bytes
        releases = [
            release
            for segment in self._run.files
            if segment.base_offset < end
            and (release := segment.memory_release(end - segment.base_offset)) is not None
        ]
        loop = asyncio.get_running_loop()
        for release in releases:  # one at a time, on a thread: 0.1 ms a MiB
            await loop.run_in_executor(None, release)

    async def delete_before(self, offset: int) -> None:
        """Delete the segments that end at or before ``offset``, never the last, oldest first.

        They are gone for readers at once; the file system's work is done on a thread.
        """
        taken = self._run.remove_before(offset)
        await asyncio.get_running_loop().run_in_executor(None, self._run.delete, taken)

    # Durability -----------------------------------------------------------------------------

    def sync(self, to: int) -> None:
        """Make everything below ``to`` durable; one msync for each segment touched.

        Raises:
            SyncFailed: ``flushed_offset`` has not moved, and nothing above it may be acknowledged.
        """
        if self._failed_sync is not None:
            # The kernel may have dropped the pages and marked them clean: a second try would lie.
            raise SyncFailed(f"an earlier sync failed: {self._failed_sync}")
        position = self.flushed_offset
        while position < to:
            segment = self._run.find(position)
            assert segment is not None
            stop = min(to, segment.base_offset + segment.size_bytes)
            try:
                segment.sync(position - segment.base_offset, stop - segment.base_offset)
            except SyncFailed as exc:
                self._failed_sync = exc
                raise
            position = stop
        self.flushed_offset = max(self.flushed_offset, to)

    def replace_unsynced(self) -> None:
        """Rewrite the segments whose sync failed, as new files; on any thread, while nothing is
        appended.

        ``take_replaced`` must follow. Raises ``SyncFailed``, ``DiskFull``; may be tried again.
        """
        # A copy: retention may delete segments meanwhile.
        damaged = [file for file in list(self._run.files) if self._unsynced_end(file) > 0]
        found = scan(damaged, self.flushed_offset, self.flushed_offset, keeps_whole=False)
        if found.end_offset < self.append_offset:
            raise SyncFailed(
                f"the failed sync lost the record at {found.end_offset}: {found.end.reason}"
            )
        for segment in damaged:
            segment.replace(self._unsynced_end(segment))

    def _unsynced_end(self, segment: MappedFile) -> int:
        """Position up to which a segment is used, when some of that is not durable; else 0."""
        end = min(self.append_offset - segment.base_offset, segment.size_bytes)
        return end if segment.base_offset + end > self.flushed_offset else 0

    def take_replaced(self) -> None:
        """Go on with the new files; all that is appended is durable in them."""
        for segment in self._run.files:
            if self._unsynced_end(segment) > 0:
                segment.close()
        self.flushed_offset = self.append_offset
        self._failed_sync = None

    def rewrite_from(self, offset: int) -> None:
        """Rewrite everything from ``offset`` on, and make it durable.

        Recovery read it from the page cache, which may know more than the disk.
        """
        for segment in self._run.files:
            start = max(offset - segment.base_offset, 0)
            end = min(self.append_offset - segment.base_offset, segment.size_bytes)
            if start < end:
                segment.rewrite(start, end)

    def segments(self) -> list[MappedFile]:
        return self._run.files

    @property
    def start_offset(self) -> int:
        return self._run.start_offset

    @property
    def local_start_offset(self) -> int:
        """What is below, only the bucket has; see ``BucketLog``."""
        return self.start_offset

    def times_in_bucket(self, physical_offset: int) -> tuple[int, int] | None:
        """Of a record that only the bucket has, when it was stored, at the earliest and at the
        latest; None for one that is here, which tells it exactly.
        """
        return None

    @property
    def end_offset(self) -> int:
        """Of the newest segment, used or not."""
        return self._run.end_offset

    # Recovery -------------------------------------------------------------------------------

    def load(self) -> None:
        """Find the segments, and change nothing; ``tidy`` must follow, and ``truncate`` before
        anything is appended. Raises ``StoreCorrupt``.
        """
        self._run.open_read_only()

    def tidy(self) -> None:
        """Give segments that were cut short behind the log's end their size again, and report
        them.
        """
        for segment in self._run.files:
            if segment.present_bytes < segment.size_bytes:
                log.warning(
                    "A segment file was too short but no record is missing; extended it",
                    extra={
                        "action": "segment_extended",
                        "path": str(segment.path),
                        "found_bytes": segment.present_bytes,
                        "size_bytes": segment.size_bytes,
                    },
                )
        self._run.tidy()

    def truncate(
        self, end_offset: int, store_timestamp_ms: int, *, has_zeros_behind: bool = False
    ) -> int:
        """Let the log end at ``end_offset``: what follows becomes zeros, later segments go.

        ``has_zeros_behind``: somebody has looked. Returns how many bytes in the segment were not
        zero.
        """
        self._run.drop_after(
            end_offset if end_offset % self._config.segment_bytes else end_offset + 1
        )
        self.append_offset = self.flushed_offset = end_offset
        self.store_timestamp_ms = store_timestamp_ms
        segment = self._run.find(end_offset)
        cut_bytes = 0
        if segment is not None and not has_zeros_behind:
            cut_bytes = segment.zero_after(end_offset - segment.base_offset)
        self._active = self._run.files[-1] if self._run.files else None
        if self._active is not None:
            # A copied store may have holes; a write into one on a full disk would kill the process.
            self._active.allocate_to(self._active.size_bytes, self._active.size_bytes)
        return cut_bytes

    def close(self) -> None:
        self._run.close()


def _nothing() -> None:
    """Until somebody prefaults."""
