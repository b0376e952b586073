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

from storage_engine.errors import StoreCorrupt
from storage_engine.reader.columns import HEAD_BYTES, Columns
from storage_engine.reader.extent import Segment, open_segment
from storage_engine.reader.salvage import next_whole
from storage_engine.records.record import FIXED_BYTES, MAGIC_V1, MAGIC_V2, parse_head
from storage_engine.records.record_check import is_blank, whole_record

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
        following = min(_next(content, view, at, base_offset), stop)
        damaged(base_offset + at, base_offset + following, _reason(view, at, base_offset))
        at = following


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


def _next(content: mmap.mmap, view: memoryview, at: int, base_offset: int) -> int:
    """Where the next record or BLANK stands behind the damage at ``at``; the end when none does.

    As recovery does: where the damaged record's parts still add up, its own length says where it
    ends, so that what its body holds is never taken for a record.
    """
    try:
        end = at + parse_head(view, at).record_bytes
    except StoreCorrupt:
        end = 0
    if end and (end == len(view) or is_blank(view, end) or not _reason(view, end, base_offset)):
        return end
    found = next_whole(content, view, at + 1, base_offset)
    return len(view) if found is None else found


def _reason(view: memoryview, at: int, base_offset: int) -> str:
    """Why no whole record stands at ``at``; empty when one does."""
    try:
        whole_record(view, at, base_offset)
    except StoreCorrupt as exc:
        return str(exc)
    return ""
