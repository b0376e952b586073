"""The one log of all topics: appends whole batches, reads by physical offset.

    store.put ── payload, entries ──▶ [CommitLog] ──▶ active segment, holes filled there
    flusher ── sync(to) ──▶ msync of what was appended since
    dispatcher, readers ── read(physical_offset, record_bytes) ──▶ bytes

A record, or the whole batch, needs its bytes + 8 free in the segment; else an 8-byte BLANK
(remaining bytes, BLANK magic) ends the segment and the batch goes to the next one. Invariants:
flushed_offset <= append_offset; store timestamps never decrease along the log. Appends: loop
thread. ``sync``: one flusher thread at a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.consume_queue import ConsumeQueue
from storage_engine.errors import RecordRefused, StoreCorrupt
from storage_engine.files import Files
from storage_engine.layout import COMMIT_LOG_DIR
from storage_engine.mapped_files import MappedFile, MappedFiles
from storage_engine.record import (
    BLANK,
    CRC_DIGITS,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    MAGIC_BLANK,
    OFFSETS,
    QUEUE_OFFSET_AT,
    STORE_TIMESTAMP_AT,
    STORED_BY,
)

BLANK_BYTES: Final = BLANK.size
_DIGITS_AT: Final = CRC_DIGITS + 1  # from the end of the record
_STORE_TIMESTAMP_V6_AT: Final = STORE_TIMESTAMP_AT + HOST_V6_BYTES - HOST_V4_BYTES
assert BLANK_BYTES == 8


class Entry(NamedTuple):
    """One record of a batch, before it is appended. ``at`` is its position in the batch."""

    at: int
    record_bytes: int
    queue: ConsumeQueue
    is_born_host_v6: bool
    tag_hash: int


class CommitLog:
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, files: Files, clock: Clock, store_host: bytes) -> None:
        self._config = config
        self._clock = clock
        self._store_host = store_host
        self._run = MappedFiles(
            files, Path(config.store_dir) / COMMIT_LOG_DIR, config.segment_bytes
        )
        self._active: MappedFile | None = None
        self._prefaulted_to = 0
        self.append_offset = 0
        self.flushed_offset = 0
        self.store_timestamp_ms = 0

    # Appending ------------------------------------------------------------------------------

    def append(self, payload: bytes, entries: list[Entry]) -> list[tuple[int, int]]:
        """Append a batch that is contiguous in ``payload`` and covers all of it.

        Returns:
            (queue_offset, physical_offset) of each record, in order. Nothing is durable yet.

        Raises:
            DiskFull: no room for the next segment; nothing was appended and no offset was used.
            RecordRefused: the batch is larger than a segment.
        """
        batch_bytes = len(payload)
        segment, position = self._room_for(batch_bytes)
        view = segment.view
        view[position : position + batch_bytes] = payload
        base = segment.base_offset + position
        stamp = max(self._clock.now_ms(), self.store_timestamp_ms)
        self.store_timestamp_ms = stamp
        store_host = self._store_host
        results = []
        for at, record_bytes, queue, is_born_host_v6, _ in entries:
            start = position + at
            crc_at = start + record_bytes - CRC_PROPERTY_BYTES
            queue_offset = queue.append_offset
            queue.append_offset = queue_offset + 1
            OFFSETS.pack_into(view, start + QUEUE_OFFSET_AT, queue_offset, base + at)
            STORED_BY.pack_into(
                view,
                start + (_STORE_TIMESTAMP_V6_AT if is_born_host_v6 else STORE_TIMESTAMP_AT),
                stamp,
                store_host,
            )
            crc = crc32(view[start:crc_at]) & CRC_MASK
            digits_at = crc_at + CRC_PROPERTY_BYTES - _DIGITS_AT
            view[digits_at : digits_at + CRC_DIGITS] = (b"%010d" % crc)[::-1]
            results.append((queue_offset, base + at))
        self.append_offset = base + batch_bytes
        return results

    def _room_for(self, batch_bytes: int) -> tuple[MappedFile, int]:
        needed = batch_bytes + BLANK_BYTES
        if needed > self._config.segment_bytes:
            raise RecordRefused(
                f"{batch_bytes} bytes do not fit a segment of {self._config.segment_bytes}"
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

    def prefault(self) -> None:
        """Make the next pages ready; called off the loop thread, so that appends never wait for
        one.
        """
        segment = self._active
        ahead = self._config.prefault_bytes
        if segment is None or not ahead:
            return
        position = self.append_offset - segment.base_offset
        start = max(self._prefaulted_to - segment.base_offset, position, 0)
        if start - position < ahead // 2 and start < segment.size_bytes:
            end = min(position + ahead, segment.size_bytes)
            segment.prefault(start, end - start)
            self._prefaulted_to = segment.base_offset + end

    # Durability -----------------------------------------------------------------------------

    def sync(self, to: int) -> None:
        """Make everything below ``to`` durable; one msync for each segment touched.

        Raises:
            SyncFailed: ``flushed_offset`` has not moved, and nothing above it may be acknowledged.
        """
        position = self.flushed_offset
        while position < to:
            segment = self._run.find(position)
            assert segment is not None
            stop = min(to, segment.base_offset + segment.size_bytes)
            segment.sync(position - segment.base_offset, stop - segment.base_offset)
            position = stop
        self.flushed_offset = max(self.flushed_offset, to)

    def sync_all(self) -> None:
        """Make everything durable that recovery took over: the page cache may know more than the
        disk.
        """
        for segment in self._run.files:
            end = min(self.append_offset - segment.base_offset, segment.size_bytes)
            segment.sync(0, max(end, 0))

    # Reading --------------------------------------------------------------------------------

    def read_many(self, records: list[tuple[int, int]]) -> bytes:
        """Records given by (physical_offset, record_bytes), back to back; neighbours in one
        slice.
        """
        parts: list[bytes | memoryview] = []
        start = end = -1
        for physical_offset, record_bytes in records:
            if physical_offset == end and self._run.find(start) is self._run.find(end):
                end += record_bytes
                continue
            if end > start:
                parts.append(self._slice(start, end))
            start, end = physical_offset, physical_offset + record_bytes
        if end > start:
            parts.append(self._slice(start, end))
        return b"".join(parts)

    def _slice(self, start: int, end: int) -> memoryview:
        segment = self._run.find(start)
        if segment is None:
            raise StoreCorrupt(f"no segment holds physical offset {start}")
        return segment.view[start - segment.base_offset : end - segment.base_offset]

    def segments(self) -> list[MappedFile]:
        return self._run.files

    @property
    def start_offset(self) -> int:
        return self._run.start_offset

    # Recovery -------------------------------------------------------------------------------

    def load(self) -> None:
        """Find the segments; ``truncate`` must follow before anything is appended."""
        self._run.load()

    def truncate(self, end_offset: int, store_timestamp_ms: int) -> None:
        """Let the log end at ``end_offset``: what follows becomes zeros, later segments go."""
        self._run.drop_after(
            end_offset if end_offset % self._config.segment_bytes else end_offset + 1
        )
        self.append_offset = self.flushed_offset = end_offset
        self.store_timestamp_ms = store_timestamp_ms
        segment = self._run.find(end_offset)
        if segment is not None:
            segment.zero_after(end_offset - segment.base_offset)
        self._active = self._run.files[-1] if self._run.files else None
        if self._active is not None:
            # A copied store may have holes; a write into one on a full disk would kill the process.
            self._active.allocate_to(self._active.size_bytes, self._active.size_bytes)

    def close(self) -> None:
        self._run.close()
