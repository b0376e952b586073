"""Reads records of the log by offset, and detects those that are damaged.

dispatcher, deliveries, lookups ── (physical_offset, record_bytes) ──▶ [LogReader] ──▶ bytes
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from isal.isal_zlib import crc32

from storage_engine.disk.mapped_files import MappedFiles
from storage_engine.errors import StoreCorrupt
from storage_engine.records.record_check import are_placed, are_whole, find_whole, is_whole
from storage_engine.records.record_parts import properties_of

COUNT_MAX: Final = 32_768  # 2 GiB of log or more
STRETCH_BYTES: Final = 64 * 1024
# Fewer records, or such as stand far apart, are quicker asked for their own CRC, which takes as
# long as that of some KiB.
RECORDS_MIN: Final = 8
SEALED_BYTES_A_RECORD_MAX: Final = 6 * 1024


class Seals:
    """Checksums of ranges of the log, so that a reader checks many records at once.

        CommitLog.append ── bytes just written ──▶ [Seals] ── a CRC for each 64 KiB or more
        LogReader ── records wanted ──▶ ``hold`` ──▶ they are the bytes that were appended

    A record's own CRC stands in it as ten decimal digits, reversed, as RocketMQ writes it: to
    say what they should be takes several times as long as the CRC itself. A seal is a number in
    memory, over all records of its stretch, whichever queues they are of. It only ever vouches:
    where none holds, after a restart or where a byte has changed, each record is asked for its
    own.

    Memory: three integers a seal, ``COUNT_MAX`` of them at most; older stretches lose theirs.
    One thread only.
    """

    __slots__ = ("_crcs", "_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []  # physical offsets
        self._ends: list[int] = []
        self._crcs: list[int] = []

    def add(self, appended: memoryview, physical_offset: int) -> None:
        """Seal bytes that were just appended at an offset, which never were there before."""
        starts, ends, crcs = self._starts, self._ends, self._crcs
        end = physical_offset + len(appended)
        # No stretch crosses into another segment: at least a BLANK stands between two.
        if ends and ends[-1] == physical_offset and physical_offset - starts[-1] < STRETCH_BYTES:
            crcs[-1] = crc32(appended, crcs[-1])
            ends[-1] = end
            return
        starts.append(physical_offset)
        ends.append(end)
        crcs.append(crc32(appended))
        if len(starts) >= 2 * COUNT_MAX:
            for each in starts, ends, crcs:
                del each[:COUNT_MAX]

    def hold(self, stretches: list[tuple[int, int]], record_count: int, run: MappedFiles) -> bool:
        """Whether all of these (start, end), which so many records fill, were sealed and are as
        they were appended. False says nothing about them.
        """
        if record_count < RECORDS_MIN:
            return False
        starts, ends, sealed_count = self._starts, self._ends, len(self._starts)
        touched: set[int] = set()
        wanted_bytes = 0
        for start, end in stretches:
            at = bisect_right(starts, start) - 1
            if at < 0 or start >= ends[at]:
                return False
            touched.add(at)
            while end > ends[at]:
                at += 1
                if at == sealed_count or starts[at] != ends[at - 1]:
                    return False
                touched.add(at)
            wanted_bytes += end - start
        sealed_bytes = sum([ends[at] - starts[at] for at in touched])
        if sealed_bytes > wanted_bytes + SEALED_BYTES_A_RECORD_MAX * record_count:
            return False
        return all(self._is_unchanged(at, run) for at in touched)

    def _is_unchanged(self, at: int, run: MappedFiles) -> bool:
        start, end = self._starts[at], self._ends[at]
        segment = run.find(start)
        if segment is None:
            return False
        base_offset = segment.base_offset
        return crc32(segment.view[start - base_offset : end - base_offset]) == self._crcs[at]


class LogReader:
    """See the module's docstring. ``run`` holds the segments."""

    def __init__(self, run: MappedFiles) -> None:
        self._run = run
        self._seals = Seals()

    def damaged(self, records: list[tuple[int, int]]) -> list[int]:
        """Which of the records given by (physical_offset, record_bytes) cannot be read as written.

        Positions in ``records``; nearly always none.
        """
        found = []
        for index, (physical_offset, record_bytes) in enumerate(records):
            segment = self._run.find(physical_offset)
            if segment is None or not is_whole(
                segment.view, physical_offset - segment.base_offset, record_bytes, physical_offset
            ):
                found.append(index)
        return found

    def read_checked(self, records: list[tuple[int, int]]) -> tuple[bytes, list[int]]:
        """The records given by (physical_offset, record_bytes), back to back, but for those that
        cannot be read as written, whose positions in ``records`` come with them.
        """
        stretches = _stretches(records)
        try:
            content = self._read(stretches)
        except StoreCorrupt:  # a segment is gone
            content = b""
        is_sealed = self._seals.hold(stretches, len(records), self._run)
        if are_placed(content, records) if is_sealed else are_whole(content, records):
            return content, []
        damaged = self.damaged(records)
        lost = frozenset(damaged)
        return self.read_many([each for at, each in enumerate(records) if at not in lost]), damaged

    def read_whole(self, records: list[tuple[int, int]]) -> list[bytes | None]:
        """Each of the records given by (physical_offset, record_bytes), verified; None for one that
        cannot be read as written.
        """
        found: list[bytes | None] = []
        base_offset = end_offset = -1
        for physical_offset, record_bytes in records:
            if not base_offset <= physical_offset < end_offset:
                segment = self._run.find(physical_offset)
                if segment is None:
                    found.append(None)
                    continue
                base_offset, view = segment.base_offset, segment.view
                end_offset = base_offset + segment.size_bytes
            at = physical_offset - base_offset
            found.append(find_whole(view, at, record_bytes, physical_offset))
        return found

    def properties(self, physical_offset: int, record_bytes: int) -> bytes | None:
        """The encoded property list of a record, not verified; None when it cannot be one."""
        segment = self._run.find(physical_offset)
        if segment is None:
            return None
        at = physical_offset - segment.base_offset
        return properties_of(segment.view[at : at + record_bytes])

    def read_many(self, records: list[tuple[int, int]]) -> bytes:
        """Records given by (physical_offset, record_bytes), back to back; neighbours in one
        slice.
        """
        return self._read(_stretches(records))

    def _read(self, stretches: list[tuple[int, int]]) -> bytes:
        parts: list[memoryview] = []
        view = memoryview(b"")
        base_offset = end_offset = -1  # of the segment at hand
        for start, end in stretches:
            at = start
            while at < end:
                if not base_offset <= at < end_offset:
                    segment = self._run.find(at)
                    if segment is None:
                        raise StoreCorrupt(f"no segment contains physical offset {at}")
                    base_offset, view = segment.base_offset, segment.view
                    end_offset = base_offset + segment.size_bytes
                stop = min(end, end_offset)
                parts.append(view[at - base_offset : stop - base_offset])
                at = stop
        return b"".join(parts)


def _stretches(records: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Start and end of what these (physical_offset, record_bytes) are, neighbours in one."""
    found: list[tuple[int, int]] = []
    start = end = -1
    for physical_offset, record_bytes in records:
        if physical_offset != end:
            if end > start:
                found.append((start, end))
            start = physical_offset
        end = physical_offset + record_bytes
    if end > start:
        found.append((start, end))
    return found
