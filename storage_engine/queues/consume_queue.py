"""One queue of one topic, as an array of fixed-size units over the commit log.

    commit_log ── unit ──▶ [ConsumeQueue topic/queue_id] ── units(offset, count) ──▶ store
    dispatcher ── publish(max_offset) ──▶        retention ── raise_min(min_offset) ──▶

    offset  width  field             meaning
         0      8  physical_offset   where the record starts in the commit log, bytes
         8      4  record_bytes      its whole length, so one read fetches it
        12      8  tag_hash          0 without a tag; lets a filter skip without reading

Invariants: queue_offset of unit n is n; physical_offset grows; every unit below ``max_offset`` is
below the dispatched offset. ``append_offset`` is the next queue offset to give to a record; it runs
ahead of ``max_offset`` by the records that are appended but not yet visible. Units before the first
one that recovery knew are (0, 2^31 - 1, 0), RocketMQ's ``fillPreBlank``. Derived: may be deleted
while stopped; recovery rebuilds the same bytes. So nothing is synced here, not even a new file: a
checkpoint that counts units does it before (``ConsumeQueues.sync``). Loop thread only.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from storage_engine.disk.files import Files
from storage_engine.disk.mapped_file import MappedFile, MapPool
from storage_engine.disk.mapped_files import MappedFiles
from storage_engine.errors import StoreCorrupt

Unit = tuple[int, int, int]  # (physical_offset, record_bytes, tag_hash)

UNIT = struct.Struct(">qiq")
UNIT_BYTES: Final = 20
PRE_BLANK_BYTES: Final = 0x7FFF_FFFF
_UNIT_TYPE: Final = np.dtype([("physical_offset", ">i8"), ("record_bytes", ">i4"), ("tag", ">i8")])
_PRE_BLANK: Final = UNIT.pack(0, PRE_BLANK_BYTES, 0)
assert UNIT.size == _UNIT_TYPE.itemsize == UNIT_BYTES


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
        pool: MapPool | None = None,
    ) -> None:
        assert file_bytes % UNIT_BYTES == 0
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = 0
        self.max_offset = 0
        self.append_offset = 0
        # Called after the queue has grown; delivery adds to it for groups that read the queue.
        self.arrivals: list[Callable[[], None]] = []
        self._run = MappedFiles(
            files, directory, file_bytes, pool=pool, let_go=self._let_go, are_durable=False
        )
        self._allocate_bytes = allocate_bytes
        self._dirty_from = 0  # array position of the first byte not yet synced
        # Where the next unit goes, kept open for ``CommitLog.append``, which writes it: the tail
        # file, the position in it, and the position from which on no disk is taken yet.
        self.unit_view = memoryview(b"")
        self.unit_at = 0
        self.unit_room = 0

    def _let_go(self) -> None:
        self.unit_view = memoryview(b"")
        self.unit_at = self.unit_room = 0

    def put(self, physical_offset: int, record_bytes: int, tag_hash: int) -> None:
        """Append one visible unit (recovery only). Raises ``DiskFull``, with nothing changed."""
        if self.unit_at >= self.unit_room:
            self.reserve(1)
        UNIT.pack_into(self.unit_view, self.unit_at, physical_offset, record_bytes, tag_hash)
        self.unit_at += UNIT_BYTES
        self.max_offset += 1
        self.append_offset = self.max_offset

    def put_many(self, units: list[bytes]) -> None:
        """Append visible units, encoded (recovery only). Raises ``DiskFull``, some put."""
        put_count = 0
        while put_count < len(units):
            if self.unit_at >= self.unit_room:
                self.reserve(1)
            room = (self.unit_room - self.unit_at) // UNIT_BYTES
            content = b"".join(units[put_count : put_count + room])
            self.unit_view[self.unit_at : self.unit_at + len(content)] = content
            self.unit_at += len(content)
            put_count += len(content) // UNIT_BYTES
            self.max_offset += len(content) // UNIT_BYTES
            self.append_offset = self.max_offset

    def start_at(self, queue_offset: int) -> None:
        """Let the queue be empty and begin at ``queue_offset`` (recovery only).

        Raises ``DiskFull``.
        """
        self._run.drop_all()
        first = queue_offset * UNIT_BYTES // self._run.size_bytes * self._run.size_bytes
        blanks = queue_offset - first // UNIT_BYTES
        self.min_offset = self.max_offset = self.append_offset = first // UNIT_BYTES
        if blanks:
            self.reserve(blanks)
            self.unit_view[: blanks * UNIT_BYTES] = _PRE_BLANK * blanks
        self._dirty_from = first
        self.min_offset = self.max_offset = self.append_offset = queue_offset
        self._let_go()

    def reserve(self, count: int) -> None:
        """Put disk behind the next ``count`` units, so that writing them cannot fail.

        Raises ``DiskFull``; the queue can be used as before.
        """
        start = self.append_offset * UNIT_BYTES
        end = start + count * UNIT_BYTES
        run = self._run
        while run.end_offset < end:
            first = start // run.size_bytes * run.size_bytes
            run.roll(min(self._allocate_bytes, run.size_bytes), first)
        position = start
        while position < end:
            file = run.find(position)
            assert file is not None
            stop = min(end - file.base_offset, file.size_bytes)
            file.allocate_to(stop, self._allocate_bytes)
            position = file.base_offset + stop
        self.open_next_file()

    def open_next_file(self) -> int:
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

    def remove_last(self) -> None:
        """Forget the last unit that was appended, which is not visible."""
        assert self.append_offset > self.max_offset
        self.append_offset -= 1
        self._let_go()

    def unit(self, queue_offset: int) -> Unit:
        """The unit of one visible message."""
        assert self.min_offset <= queue_offset < self.max_offset
        return self._unit(queue_offset)

    def _unit(self, queue_offset: int) -> Unit:
        position = queue_offset * UNIT_BYTES
        file = self._run.find(position)
        assert file is not None
        return UNIT.unpack_from(file.view, position - file.base_offset)

    def units(self, queue_offset: int, count: int) -> Iterator[Unit]:
        """Up to ``count`` units from ``queue_offset`` on, fewer at the end of the queue."""
        return self._units(queue_offset, min(queue_offset + count, self.max_offset))

    def _units(self, queue_offset: int, end: int) -> Iterator[Unit]:
        while queue_offset < end:
            position = queue_offset * UNIT_BYTES
            file = self._run.find(position)
            assert file is not None
            start = position - file.base_offset
            stop = min(start + (end - queue_offset) * UNIT_BYTES, file.size_bytes)
            yield from UNIT.iter_unpack(file.view[start:stop])
            queue_offset += (stop - start) // UNIT_BYTES

    def tag_fields(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """(queue offset of the first, tag field of each) of the units in ``[start, stop)``.

        A piece for each file.
        """
        return self._fields("tag", start, stop)

    def size_fields(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The same of the lengths of the records, in bytes."""
        return self._fields("record_bytes", start, stop)

    def physical_offsets(self, start: int, stop: int) -> NDArray[np.int64]:
        """Where the records of the units in ``[start, stop)`` stand in the log."""
        found = np.empty(max(stop - start, 0), np.int64)
        for first, offsets in self._fields("physical_offset", start, stop):
            found[first - start : first - start + len(offsets)] = offsets
        return found

    def _fields(self, name: str, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        size_bytes = self._run.size_bytes
        while start < stop:
            position = start * UNIT_BYTES
            file = self._run.find(position)
            assert file is not None
            at = position - file.base_offset
            count = min(stop - start, (size_bytes - at) // UNIT_BYTES)
            units = np.frombuffer(file.view, _UNIT_TYPE, count, at)
            # A copy: the pool may close this map when the next file is opened.
            yield start, units[name].astype(np.int64)
            start += count

    def first_at_or_above(self, physical_offset: int) -> int:
        """Queue offset of the first visible message that stands there or higher in the log."""
        return self._bisect(self.min_offset, self.max_offset, physical_offset)

    def _bisect(self, low: int, high: int, physical_offset: int) -> int:
        """First offset in ``[low, high)`` whose unit is empty or not below ``physical_offset``."""
        while low < high:
            middle = (low + high) // 2
            unit_physical_offset, record_bytes, _ = self._unit(middle)
            if record_bytes > 0 and unit_physical_offset < physical_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def raise_min(self, min_offset: int) -> bool:
        """Let the queue begin at ``min_offset``, at most at its end; True when that moves it."""
        min_offset = min(min_offset, self.max_offset)
        is_higher = min_offset > self.min_offset
        if is_higher:
            self.min_offset = min_offset
        return is_higher

    def raise_start(self, queue_offset: int) -> None:
        """Let nothing below ``queue_offset`` be readable any more, which may be above what is
        visible: then ``min_offset`` is ahead of ``max_offset`` until that is. Never goes back.
        """
        assert queue_offset <= self.append_offset
        self.min_offset = max(self.min_offset, queue_offset)

    def empty(self) -> None:
        """Let nothing of what is appended be readable any more, be it visible or not."""
        self.raise_start(self.append_offset)

    def delete_files(self) -> None:
        """Delete all that the disk has of the queue, which must be forgotten then."""
        self.close()
        self._run.drop_all()
        with contextlib.suppress(OSError):  # not there yet, or somebody keeps a file there
            self._run.directory.rmdir()
            self._run.directory.parent.rmdir()

    def delete_unreadable_files(self) -> None:
        """Delete the files that hold nothing readable any more, but never the last."""
        run = self._run
        run.delete(run.remove_before(min(self.min_offset * UNIT_BYTES, self._dirty_from)))

    # Durability -----------------------------------------------------------------------------

    def is_dirty(self, end_offset: int) -> bool:
        """Whether some of the units below ``end_offset`` may not be durable."""
        return self._dirty_from < end_offset * UNIT_BYTES

    def dirty_files(self, end_offset: int) -> list[MappedFile]:
        """Those to sync before the units below are durable; then call ``synced``."""
        run = self._run
        first = self._dirty_from - self._dirty_from % run.size_bytes
        end = end_offset * UNIT_BYTES
        found = [run.find(at) for at in range(first, end, run.size_bytes)]
        return [file for file in found if file is not None]

    def synced(self, max_offset: int) -> None:
        """The units below ``max_offset`` are durable."""
        self._dirty_from = max(self._dirty_from, max_offset * UNIT_BYTES)

    # Recovery -------------------------------------------------------------------------------

    def recover(self, dispatched_offset: int, floor: int) -> list[tuple[int, Unit]]:
        """Take over the files; keep only units of records below ``dispatched_offset`` of the log.

        Those were durable when the checkpoint was written and stand without a gap from the start,
        so the first unit that is empty or lies higher ends the queue. ``floor`` is the least
        ``min_offset``. Files that make no run are deleted: the log has everything in them. None is
        made: that must wait until no checkpoint counts what is gone.

        Returns:
            The units that were cut, with their queue offsets: recovery asks them about records
            that it cannot read any more.
        """
        try:
            self._run.load()
        except StoreCorrupt:
            self._run.drop_all()
        start, end = self._run.start_offset // UNIT_BYTES, self._run.end_offset // UNIT_BYTES
        low = self._bisect(start, end, dispatched_offset)
        first = self._first_known(start, low)
        cut = []
        for queue_offset, unit in enumerate(self._units(low, end), low):
            if unit[1] <= 0:
                break
            cut.append((queue_offset, unit))
        if low == start > floor:
            self._run.drop_all()  # units from the floor on are missing: they come from the log
            low = first = 0
        self._cut(low)
        self.min_offset = min(max(first, floor), self.max_offset)
        for file in self._run.files:
            file.close()
        return cut

    def _first_known(self, low: int, high: int) -> int:
        while low < high:
            middle = (low + high) // 2
            if self._unit(middle)[1] == PRE_BLANK_BYTES:
                low = middle + 1
            else:
                high = middle
        return low

    def _cut(self, max_offset: int) -> None:
        end = max_offset * UNIT_BYTES
        keep_to = -(-end // self._run.size_bytes) * self._run.size_bytes
        self._run.drop_after(max(keep_to, self._run.start_offset))
        self.max_offset = self.append_offset = max_offset
        self._dirty_from = end
        self._let_go()
        if self._run.files:
            tail = self._run.files[-1]
            tail.zero_after(end - tail.base_offset)

    def close(self) -> None:
        self.unit_view = memoryview(b"")
        self._run.close()
