"""Compares every consume queue with the records of the log that belong to it.

    LogBatch.units ──▶ [QueueCheck.follow] ◀── units of consumequeue/<topic>/<queue id>/*
                                └─ what differs ──▶ Report

Unit n must hold place, size and tag hash of the record with queue offset n, and queue offsets of
the log must follow each other without a gap; where the log is damaged, units and gaps may point
into the damage. Units of records below the log's start are what retention leaves; of messages that
nobody can read any more it leaves records without units. Only reads.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONSUME_QUEUE_DIR, base_offset_of, segment_name
from storage_engine.queues.consume_queue import UNIT_BYTES
from storage_engine.tools.verify.files import read_floors
from storage_engine.tools.verify.log import LogBatch, LogCheck
from storage_engine.tools.verify.report import Kind, Report

_UNIT: Final = np.dtype([("physical_offset", ">i8"), ("record_bytes", ">i4"), ("tag_hash", ">i8")])
_STEP_UNITS: Final = 1 << 18
assert _UNIT.itemsize == UNIT_BYTES

Units = NDArray[np.void]


class QueueCheck:
    """All queues.

    ``below``: units of records above it may be missing, or not be right yet. ``is_complete``: all
    of them are right.
    """

    def __init__(
        self, store: Path, report: Report, log: LogCheck, *, below: int, is_complete: bool
    ) -> None:
        self._root = store / CONSUME_QUEUE_DIR
        self._report = report
        self._log = log
        self._below = below
        self._is_complete = is_complete
        self._queues: dict[tuple[bytes, int], _Queue] = {}
        self._floors: dict[str, list[int]] = {}
        for path in sorted(self._root.glob("*/*")):
            if path.is_dir() and path.name.isdecimal():
                self._queue(path.parent.name.encode(), int(path.name))
        # After the listing: where a queue begins is written down before its files are deleted.
        self._floors = read_floors(store)
        for (topic, queue_id), queue in self._queues.items():
            queue.floor = self._floor(topic, queue_id)

    def _floor(self, topic: bytes, queue_id: int) -> int:
        known = self._floors.get(topic.decode("utf-8", "replace"), [])
        return known[queue_id] if queue_id < len(known) else 0

    def _queue(self, topic: bytes, queue_id: int) -> _Queue:
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            path = self._root / topic.decode("utf-8", "replace") / str(queue_id)
            queue = self._queues[topic, queue_id] = _Queue(path, self._report, self._log)
            queue.floor = self._floor(topic, queue_id)
        return queue

    def follow(self, batch: LogBatch) -> None:
        """Compare the units of a batch."""
        for (topic, queue_id), flat in batch.units.items():
            rows = np.array(flat, np.int64).reshape(-1, 4)
            self._queue(topic, queue_id).follow(rows, self._below)

    def finish(self) -> None:
        """Look at what stands behind the last record of each queue."""
        if self._is_complete:
            for queue in self._queues.values():
                queue.finish()

    def begins_late(self) -> str | None:
        """A queue whose oldest record in the log is not the one that retention left it."""
        for (topic, queue_id), queue in self._queues.items():
            floor = self._floor(topic, queue_id)
            if queue.begin is not None and queue.begin > floor:
                name = topic.decode("utf-8", "replace")
                return f"{name}/{queue_id} starts at {queue.begin} instead of {floor}"
        return None

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Where the queue ends, by the log, its units and where it begins; 0 when there is none."""
        queue = self._queues.get((topic.encode(), queue_id))
        return max(self._floor(topic.encode(), queue_id), 0 if queue is None else queue.max_offset)


class _Queue:
    """One queue of one topic."""

    def __init__(self, path: Path, report: Report, log: LogCheck) -> None:
        self._path = path
        self._name = f"{CONSUME_QUEUE_DIR}/{path.parent.name}/{path.name}"
        self._report = report
        self._log = log
        self._files: dict[int, Path] = {}  # by first unit
        self._missing: set[int] = set()
        self._expected: int | None = None  # queue offset of the next record
        self.floor = 0  # nobody can read what stands below
        self.begin: int | None = None  # of the oldest record in the log
        self._list()

    def _list(self) -> None:
        sizes = {}
        for path in sorted(self._path.iterdir()) if self._path.is_dir() else ():
            base_offset = base_offset_of(path.name)
            if base_offset is not None and path.is_file():
                self._files[base_offset // UNIT_BYTES] = path
                sizes[path] = path.stat().st_size
        count = self._report.count("consume queues")
        count.file_count += len(sizes)
        size_bytes = max(sizes.values(), default=0)
        self._file_units = size_bytes // UNIT_BYTES
        for path, found in sizes.items():
            if found != size_bytes:
                self._note(
                    Kind.QUEUE_FILE_TRUNCATED,
                    found // UNIT_BYTES,
                    f"{path.name} has {found} bytes, the others have {size_bytes}",
                )
        self._first = min(self._files, default=0)

    @property
    def max_offset(self) -> int:
        return self._expected or 0

    def follow(self, rows: NDArray[np.int64], below: int) -> None:
        """Compare records (queue offset, place, size, tag hash), in log order, with their units."""
        if self._expected is None:
            self.begin = int(rows[0, 0])
            self._begin(self.begin)
        assert self._expected is not None
        steps = np.diff(rows[:, 0], prepend=self._expected - 1)
        starts = [0, *np.flatnonzero(steps != 1).tolist(), len(rows)]
        for start, stop in itertools.pairwise(starts):
            if start < stop:
                self._follow_run(rows[start:stop], below)

    def _begin(self, first: int) -> None:
        """The first record of the queue in the log: what stands before it must be gone."""
        if self._log.start_offset == 0 and not self._log.damaged:
            self._expected = 0
            return
        self._expected = first
        if first > self._first:
            self._check_unmatched(self._first, first)

    def _follow_run(self, rows: NDArray[np.int64], below: int) -> None:
        """Records whose queue offsets follow each other."""
        first = int(rows[0, 0])
        if first != self._expected:
            self._jump(first, int(rows[0, 1]))
        self._expected = first + len(rows)
        rows = rows[rows[:, 1] < below]
        while len(rows):
            part = rows[:_STEP_UNITS]
            rows = rows[_STEP_UNITS:]
            self._compare(part)

    def _jump(self, first: int, physical_offset: int) -> None:
        expected = self._expected
        assert expected is not None
        if first > expected and self._log.damaged:
            self._check_unmatched(expected, first)
        else:
            what = (
                f"the record at {physical_offset} has queue offset {first}, but "
                f"{expected} comes next"
            )
            self._note(Kind.QUEUE_OFFSET_WRONG, expected, what)

    def _compare(self, rows: NDArray[np.int64]) -> None:
        first = int(rows[0, 0])
        units = self._read(first, len(rows))
        self._report.count("consume queues").item_count += len(units)
        is_right = units["physical_offset"] == rows[:, 1]
        is_right &= units["record_bytes"] == rows[:, 2]
        is_right &= units["tag_hash"] == rows[:, 3]
        for index in np.flatnonzero(~is_right).tolist():
            if self._is_there(first + index):
                found = tuple(units[index].tolist())
                wanted = tuple(rows[index, 1:].tolist())
                self._wrong(first + index, found, wanted)

    def _wrong(
        self, offset: int, found: tuple[int, int, int], wanted: tuple[int, int, int]
    ) -> None:
        names = ("place", "size", "tag hash")
        what = ", ".join(
            f"{name} is {is_}, but the record's is {should}"
            for name, is_, should in zip(names, found, wanted, strict=True)
            if is_ != should
        )
        self._note(Kind.UNIT_WRONG, offset, what)

    def _check_unmatched(self, first: int, stop: int) -> None:
        """Units for which the log has no record: they must lead below its start, or to damage."""
        for start in range(first, stop, _STEP_UNITS):
            units = self._read(start, min(_STEP_UNITS, stop - start))
            places = units["physical_offset"].astype(np.int64)
            suspects = (places >= self._log.start_offset) | (units["record_bytes"] <= 0)
            for index in np.flatnonzero(suspects).tolist():
                offset, place = start + index, int(places[index])
                if self._log.is_damaged(place) or not self._is_there(offset):
                    continue
                if units["record_bytes"][index] == 0 and place == 0:
                    continue  # an empty unit; retention and repairs leave them
                self._note(Kind.UNIT_WRONG, offset, f"there is no record of this queue at {place}")

    def finish(self) -> None:
        """Behind the last record only zeros, or units of records that are damaged."""
        end = self._expected if self._expected is not None else self._first
        last = max(self._files, default=0)
        for first in range(end - end % max(self._file_units, 1), last + 1, self._file_units or 1):
            path = self._files.get(first)
            if path is None:
                continue
            start = max(end - first, 0) * UNIT_BYTES
            for data_start, data_end in Files().data_ranges(path, start, path.stat().st_size):
                low = first + data_start // UNIT_BYTES
                self._check_behind(max(low, end), first + -(-data_end // UNIT_BYTES))

    def _check_behind(self, first: int, stop: int) -> None:
        units = self._read(first, stop - first)
        for index in np.flatnonzero(units["record_bytes"] != 0).tolist():
            place = int(units["physical_offset"][index])
            if self._log.is_damaged(place):
                self._expected = max(self._expected or 0, first + index + 1)
            elif place < self._log.start_offset:
                continue
            elif place >= self._log.end_offset:
                self._note(
                    Kind.UNIT_BEYOND_LOG,
                    first + index,
                    f"points to {place}, but the log ends at {self._log.end_offset}",
                )
            else:
                self._note(
                    Kind.UNIT_WRONG, first + index, f"there is no record of this queue at {place}"
                )

    def _read(self, first: int, count: int) -> Units:
        """Units, zeros where there is no file."""
        parts = []
        self._report.count("consume queues").byte_count += count * UNIT_BYTES
        self._report.byte_count += count * UNIT_BYTES
        while count:
            base = first - first % self._file_units if self._file_units else first
            here = min(count, base + self._file_units - first) if self._file_units else count
            parts.append(self._read_file(base, first - base, here))
            first, count = first + here, count - here
        return np.frombuffer(b"".join(parts), _UNIT)

    def _read_file(self, base: int, index: int, count: int) -> bytes:
        path = self._files.get(base)
        content = b""
        if path is None:
            self._miss(base, base + (self._file_units or index + count))
        else:
            with path.open("rb") as file:
                content = os.pread(file.fileno(), count * UNIT_BYTES, index * UNIT_BYTES)
        return content.ljust(count * UNIT_BYTES, b"\0")

    def _is_there(self, offset: int) -> bool:
        """Whether a unit's file is there and long enough: else that is the finding."""
        base = offset - offset % self._file_units if self._file_units else 0
        path = self._files.get(base)
        return path is not None and (offset - base + 1) * UNIT_BYTES <= path.stat().st_size

    def _miss(self, base: int, stop: int) -> None:
        if base in self._missing or (not self._file_units and self._missing) or stop <= self.floor:
            return
        self._missing.add(base)
        name = segment_name(base * UNIT_BYTES) if self._file_units else "the whole queue"
        self._note(Kind.QUEUE_FILE_MISSING, base, f"{name} is missing, but the log has its records")

    def _note(self, kind: Kind, offset: int, what: str) -> None:
        self._report.add(kind, self._name, offset, what)
