"""One queue of one topic, as an array of fixed-size units over the commit log.

    commit_log ── unit ──▶ [ConsumeQueue topic/queue_id] ── units(offset, count) ──▶ store
    dispatcher ── publish(max_offset) ──▶

    offset  width  field             meaning
         0      8  physical_offset   where the record starts in the commit log, bytes
         8      4  record_bytes      its whole length, so one read fetches it
        12      8  tag_hash          0 without a tag; lets a filter skip without reading

Invariants: queue_offset of unit n is n; physical_offset grows strictly; every unit below
``max_offset`` is below the dispatched offset. ``append_offset`` is the next queue offset to give to
a record; it runs ahead of ``max_offset`` by the records that are appended but not yet visible.
Derived: may be deleted while stopped; recovery rebuilds the same bytes. Loop thread only."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from storage_engine.files import Files
from storage_engine.mapped_files import MappedFiles

UNIT = struct.Struct(">qiq")
UNIT_BYTES: Final = 20
assert UNIT.size == UNIT_BYTES


class ConsumeQueue:
    """See the module's docstring."""

    __slots__ = (
        "_allocate_bytes",
        "_dirty_from",
        "_run",
        "append_offset",
        "arrivals",
        "max_offset",
        "min_offset",
        "queue_id",
        "topic",
        "unit_at",
        "unit_room",
        "unit_view",
    )

    def __init__(
        self,
        files: Files,
        directory: Path,
        topic: str,
        queue_id: int,
        *,
        file_bytes: int,
        allocate_bytes: int,
    ) -> None:
        assert file_bytes % UNIT_BYTES == 0
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = 0
        self.max_offset = 0
        self.append_offset = 0
        # Called after the queue has grown; delivery adds to it for groups that read the queue.
        self.arrivals: list[Callable[[], None]] = []
        self._run = MappedFiles(files, directory, file_bytes)
        self._allocate_bytes = allocate_bytes
        self._dirty_from = 0  # array position of the first byte not yet synced
        # Where the next unit goes, kept open for ``CommitLog.append``, which writes it: the tail
        # file, the position in it, and the position from which on no disk is taken yet.
        self.unit_view = memoryview(b"")
        self.unit_at = 0
        self.unit_room = 0

    def put(self, physical_offset: int, record_bytes: int, tag_hash: int) -> None:
        """Append one visible unit (recovery only). Raises ``DiskFull``, with nothing changed."""
        if self.unit_at >= self.unit_room:
            self.reserve(1)
        UNIT.pack_into(self.unit_view, self.unit_at, physical_offset, record_bytes, tag_hash)
        self.unit_at += UNIT_BYTES
        self.max_offset += 1
        self.append_offset = self.max_offset

    def reserve(self, count: int) -> None:
        """Put disk behind the next ``count`` units, so that writing them cannot fail.

        Raises ``DiskFull``; the queue can be used as before.
        """
        start = self.append_offset * UNIT_BYTES
        end = start + count * UNIT_BYTES
        run = self._run
        while run.end_offset < end:
            run.roll(min(self._allocate_bytes, run.size_bytes))
        position = start
        while position < end:
            file = run.find(position)
            assert file is not None
            stop = min(end - file.base_offset, file.size_bytes)
            file.allocate_to(stop, self._allocate_bytes)
            position = file.base_offset + stop
        self.turn()

    def turn(self) -> int:
        """Point ``unit_view`` at the file of the next unit, which is reserved.

        Returns the unit's position in it.
        """
        position = self.append_offset * UNIT_BYTES
        file = self._run.find(position)
        assert file is not None
        self.unit_view = file.view
        self.unit_at = position - file.base_offset
        self.unit_room = file.allocated_bytes // UNIT_BYTES * UNIT_BYTES
        return self.unit_at

    def unit(self, queue_offset: int) -> tuple[int, int, int]:
        """(physical_offset, record_bytes, tag_hash) of one visible message."""
        assert self.min_offset <= queue_offset < self.max_offset
        position = queue_offset * UNIT_BYTES
        file = self._run.find(position)
        assert file is not None
        return UNIT.unpack_from(file.view, position - file.base_offset)

    def units(self, queue_offset: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Up to ``count`` units from ``queue_offset`` on, fewer at the end of the queue."""
        end = min(queue_offset + count, self.max_offset)
        while queue_offset < end:
            position = queue_offset * UNIT_BYTES
            file = self._run.find(position)
            assert file is not None
            start = position - file.base_offset
            stop = min(start + (end - queue_offset) * UNIT_BYTES, file.size_bytes)
            yield from UNIT.iter_unpack(file.view[start:stop])
            queue_offset += (stop - start) // UNIT_BYTES

    def sync(self) -> None:
        """Make all units durable; one msync for each file written since the last time."""
        end = self.max_offset * UNIT_BYTES
        position = self._dirty_from
        while position < end:
            file = self._run.find(position)
            assert file is not None
            stop = min(end, file.base_offset + file.size_bytes)
            file.sync(position - file.base_offset, stop - file.base_offset)
            position = stop
        self._dirty_from = end

    @property
    def is_dirty(self) -> bool:
        return self._dirty_from < self.max_offset * UNIT_BYTES

    def recover(self, dispatched_offset: int) -> None:
        """Take over the files; keep only units of records below ``dispatched_offset`` of the log.

        Those were durable when the checkpoint was written and stand without a gap from the start,
        so the first unit that is empty or lies higher ends the queue.
        """
        self._run.load()
        self.min_offset = self._run.start_offset // UNIT_BYTES
        low, high = self.min_offset, self._run.end_offset // UNIT_BYTES
        while low < high:
            middle = (low + high) // 2
            position = middle * UNIT_BYTES
            file = self._run.find(position)
            assert file is not None
            physical_offset, record_bytes, _ = UNIT.unpack_from(
                file.view, position - file.base_offset
            )
            if record_bytes > 0 and physical_offset < dispatched_offset:
                low = middle + 1
            else:
                high = middle
        self._cut(low)

    def _cut(self, max_offset: int) -> None:
        end = max_offset * UNIT_BYTES
        keep_to = -(-end // self._run.size_bytes) * self._run.size_bytes
        self._run.drop_after(max(keep_to, self._run.start_offset))
        self.max_offset = self.append_offset = max_offset
        self._dirty_from = end
        self.unit_at, self.unit_room = 0, 0
        if self._run.files:
            tail = self._run.files[-1]
            tail.zero_after(end - tail.base_offset)

    def close(self) -> None:
        self.unit_view = memoryview(b"")
        self._run.close()
