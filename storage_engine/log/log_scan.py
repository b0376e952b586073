"""Reads the commit log record by record when nothing else says where the records are; pure reading.

    segments ──▶ [scan] ──▶ Scan: where the log ends, what is damaged before that
    segments ──▶ [walk] ──▶ (physical_offset, segment's bytes, position there) of each record

A record is whole when its lengths, its CRC and its own PHYSICALOFFSET are right. What stands in its
place otherwise decides:

    found                             below the watermark   above, kept    above, cut
    whole record                      part of the log       part of it     part of it
    BLANK                             next segment          next segment   next segment
    damage, whole records behind it   damaged               damaged        torn tail: the log ends
    damage or zeros, nothing behind   damaged up to the     torn tail      torn tail
                                      watermark

"Behind" a damaged place is the next position whose bytes are a whole record that says it belongs
there; its length field is not believed. The watermark is what the checkpoint knows to be durable.
Above it a power cut leaves any mixture of old and new pages, none of which was acknowledged: cut
there, so that an async topic loses a suffix only. Without a power cut (same boot of the machine) or
without a checkpoint, nothing is cut that whole records follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from storage_engine.disk.mapped_file import MappedFile, are_zeros
from storage_engine.errors import RecordUnsupported, StoreCorrupt
from storage_engine.records.record import (
    BLANK,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    parse_head,
)
from storage_engine.records.record_check import is_blank, whole_record, whole_run
from storage_engine.records.record_parts import store_timestamp_of

_MAGIC_AT: Final = 4
_SEARCH_STEP_BYTES: Final = 1 << 20
_MAGIC_START: Final = MAGIC_V1.to_bytes(4)[:3]
assert MAGIC_V2.to_bytes(4)[:3] == _MAGIC_START


class Damage(NamedTuple):
    """A range of the log that holds no whole record, in physical offsets, and why."""

    start: int
    end: int
    reason: str


class Scan(NamedTuple):
    """What was found. ``tail_reason`` is empty when the log ends with zeros or with its segment."""

    end_offset: int
    record_count: int
    store_timestamp_ms: int
    damaged: list[Damage]
    tail_reason: str


def scan(segments: list[MappedFile], start: int, flushed_offset: int, *, keeps_whole: bool) -> Scan:
    """Verify record after record from ``start`` on; changes nothing.

    ``flushed_offset`` is the watermark; ``keeps_whole`` chooses between the two columns above it.

    Raises ``RecordUnsupported``.
    """
    offset, count, stamp = start, 0, 0
    damaged: list[Damage] = []
    for index, segment in enumerate(segments):
        segment_end = segment.base_offset + segment.size_bytes
        while segment.base_offset <= offset < segment_end:
            run = whole_run(segment.view, offset - segment.base_offset, segment.base_offset)
            at = run.end_at
            offset = segment.base_offset + at
            if run.record_count:
                count += run.record_count
                stamp = max(stamp, store_timestamp_of(segment.view, run.last_at))
                continue
            if is_blank(segment.view, at, segment.size_bytes):
                offset = segment_end
                break
            reason = _why_not_whole(segment, at)
            following = None
            if offset < flushed_offset or keeps_whole:
                following = _next_whole(segments[index:], at)
            if following is None and offset < flushed_offset:
                following = flushed_offset
            if following is None:
                is_clean = _is_zero(segment, at)
                return Scan(offset, count, stamp, damaged, "" if is_clean else reason)
            damaged.append(Damage(offset, following, reason))
            offset = following
    return Scan(offset, count, stamp, damaged, "")


def walk(
    segments: list[MappedFile], start: int, end: int, damaged: list[Damage] | None = None
) -> Iterator[tuple[int, memoryview, int]]:
    """(physical_offset, segment's bytes, position in them) of the records in ``[start, end)``.

    They must have been scanned: damaged ranges are jumped over, nothing is verified again.
    """
    offset = start
    jumps = {damage.start: damage.end for damage in damaged or ()}
    for segment in segments:
        segment_end = min(segment.base_offset + segment.size_bytes, end)
        view = segment.view
        while segment.base_offset <= offset < segment_end:
            if offset in jumps:
                offset = jumps[offset]
                continue
            at = offset - segment.base_offset
            record_bytes, magic = BLANK.unpack_from(view, at)
            if magic == MAGIC_BLANK and record_bytes == len(view) - at:
                offset = segment.base_offset + segment.size_bytes
                break
            yield offset, view, at
            offset += record_bytes


def _next_whole(segments: list[MappedFile], at: int) -> int | None:
    """Physical offset of the next whole record behind the damaged one at ``at`` of the first.

    Where the damaged record's parts still add up, its own length says where it ends: what its body
    holds is then never taken for a record.
    """
    segment = segments[0]
    try:
        end = at + parse_head(segment.view, at).record_bytes
    except StoreCorrupt:
        end = segment.size_bytes
    if end < segment.size_bytes and (is_blank(segment.view, end) or _is_whole(segment, end)):
        return segment.base_offset + end
    at += 1
    for segment in segments:
        for start, stop in segment.data_ranges(at):
            found = _search(segment, max(start, at), stop)
            if found is not None:
                return segment.base_offset + found
        at = 0
    return None


def _search(segment: MappedFile, start: int, stop: int) -> int | None:
    """Position of the first whole record that begins in ``[start, stop)``."""
    for first in range(start, stop, _SEARCH_STEP_BYTES):
        last = min(first + _SEARCH_STEP_BYTES, stop)
        content = bytes(segment.view[first + _MAGIC_AT : last + _MAGIC_AT + len(_MAGIC_START) - 1])
        if are_zeros(content):
            continue
        found = content.find(_MAGIC_START)
        while found >= 0:
            if _is_whole(segment, first + found):
                return first + found
            found = content.find(_MAGIC_START, found + 1)
    return None


def _is_whole(segment: MappedFile, at: int) -> bool:
    return not _why_not_whole(segment, at)


def _why_not_whole(segment: MappedFile, at: int) -> str:
    """Why there is no whole record at ``at``; empty if there is one."""
    try:
        whole_record(segment.view, at, segment.base_offset)
    except RecordUnsupported:
        raise
    except StoreCorrupt as exc:
        return str(exc)
    return ""


def _is_zero(segment: MappedFile, at: int) -> bool:
    return not any(segment.view[at : at + BLANK.size])
