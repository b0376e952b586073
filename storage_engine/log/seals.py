"""Checksums of ranges of the log, so that a reader checks many records at once.

    CommitLog.append ── bytes just written ──▶ [Seals] ── a CRC for each 64 KiB or more
    LogReader ── records wanted ──▶ ``hold`` ──▶ they are the bytes that were appended

A record's own CRC stands in it as ten decimal digits, reversed, as RocketMQ writes it: to say
what they should be takes several times as long as the CRC itself. A seal is a number in memory,
over all records of its stretch, whichever queues they are of. It only ever vouches: where none
holds, after a restart or where a byte has changed, each record is asked for its own.

Memory: three integers a seal, ``COUNT_MAX`` of them at most; older stretches lose theirs. One
thread only.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from isal.isal_zlib import crc32

from storage_engine.disk.mapped_files import MappedFiles

COUNT_MAX: Final = 32_768  # 2 GiB of log or more
STRETCH_BYTES: Final = 64 * 1024
# Fewer records, or such as stand far apart, are quicker asked for their own CRC, which takes as
# long as that of some KiB.
RECORDS_MIN: Final = 8
SEALED_BYTES_A_RECORD_MAX: Final = 6 * 1024


class Seals:
    """See the module's docstring."""

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
