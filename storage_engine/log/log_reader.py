"""Reads records of the log by offset, and detects those that are damaged.

dispatcher, deliveries, lookups ── (physical_offset, record_bytes) ──▶ [LogReader] ──▶ bytes
"""

from __future__ import annotations

from storage_engine.disk.mapped_files import MappedFiles
from storage_engine.errors import StoreCorrupt
from storage_engine.log.seals import Seals
from storage_engine.records.record_check import are_placed, are_whole, find_whole, is_whole
from storage_engine.records.record_parts import properties_of


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
