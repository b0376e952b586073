"""Reads one segment record by record, and finds the next record after damage.

    Segment, start, stop ──▶ [read_columns] ──▶ Columns of whole records, in log order
                                   └── damaged(start, end, reason) of each range without any

Memory: one batch, whatever the segment's size. The bytes are mapped, and never written.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from storage_engine.log.log_scan import next_whole
from storage_engine.reader.columns import HEAD_BYTES, Columns
from storage_engine.reader.extent import Segment, open_segment
from storage_engine.records.record import FIXED_BYTES, MAGIC_V1, MAGIC_V2
from storage_engine.records.record_check import fault_at, is_blank

BATCH_RECORDS: Final = 16_384
BATCH_BYTES: Final = 32 << 20  # of log; one record more may be in it
_HEAD = struct.Struct(">II")  # TOTALSIZE, MAGICCODE
_MAGICS: Final = frozenset({MAGIC_V1, MAGIC_V2})
Damaged = Callable[[int, int, str], object]
assert HEAD_BYTES <= FIXED_BYTES


def read_columns(
    segment: Segment, start_offset: int, end_offset: int, *, checks_crcs: bool, damaged: Damaged
) -> Iterator[Columns]:
    """The whole records of a segment that begin in ``[start_offset, end_offset)``.

    Both must be borders of records, or lie outside of the segment. Without ``checks_crcs`` bodies
    are not touched, and a body that has rotted is not noticed. ``damaged`` is called with physical
    offsets and the reason, in order.

    Raises:
        OffsetOutOfRange: the segment is gone.
    """
    content = open_segment(segment)
    content.madvise(mmap.MADV_SEQUENTIAL)
    base_offset = segment.base_offset
    at = max(start_offset - base_offset, 0)
    stop = min(end_offset - base_offset, segment.size_bytes)
    while at < stop:
        found, at = _batch(content, at, stop, base_offset, checks_crcs)
        if found is not None:
            yield found
            continue
        view = memoryview(content)
        if is_blank(view, at):
            return
        start = base_offset + at
        following = next_whole([segment.mapped()], at) or segment.end_offset
        following = min(following, base_offset + stop)
        damaged(start, following, str(fault_at(view, at, base_offset)))
        at = following - base_offset


def _batch(
    content: mmap.mmap, at: int, stop: int, base_offset: int, checks_crcs: bool
) -> tuple[Columns | None, int]:
    """The whole records from ``at`` on, as many as a batch takes, and where they end."""
    positions = _positions(content, at, stop)
    if not positions:
        return None, at
    found = Columns(content, np.array(positions, np.int64), base_offset)
    if checks_crcs:
        found.check_crcs()
    if not found.is_whole.all():
        count = int(np.argmin(found.is_whole))
        if not count:
            return None, at
        found = found.select(slice(count))
    return found, positions[len(found) - 1] + int(found.record_bytes[-1])


def _positions(content: mmap.mmap, at: int, stop: int) -> list[int]:
    """Where records begin from ``at`` on, by what they say of their length."""
    unpack, last = _HEAD.unpack_from, min(stop, at + BATCH_BYTES)
    positions: list[int] = []
    while at < last and len(positions) < BATCH_RECORDS and at + FIXED_BYTES <= stop:
        record_bytes, magic = unpack(content, at)
        end = at + record_bytes
        if magic not in _MAGICS or record_bytes < FIXED_BYTES or end > stop:
            break
        positions.append(at)
        at = end
    return positions
