"""Checks whether there is a record, or a BLANK, at an offset of a segment; pure functions.

readers, recovery, tools ── segment's bytes, position ──▶ [is_whole, whole_run, …]
"""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from storage_engine.errors import RecordUnsupported, StoreCorrupt
from storage_engine.records.record import (
    BLANK,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_HEAD,
    FIXED_BYTES,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RecordHead,
    looks_covered,
    parse_head,
    verify_record,
)

_MAGICS: Final = frozenset({MAGIC_V1, MAGIC_V2})
_HEAD = struct.Struct(">II20xq")  # TOTALSIZE, MAGICCODE, PHYSICALOFFSET
_PLACE = struct.Struct(">I24xq")  # TOTALSIZE, PHYSICALOFFSET
_PROPERTY_END: Final = b"\x02"


def is_whole(view: memoryview, at: int, record_bytes: int, physical_offset: int) -> bool:
    """True when a record of that size, with a CRC that matches, says that it stands there.

    What ``verify_record`` says, for readers that know a record's place and size: a third of the
    time.
    """
    end = at + record_bytes
    if record_bytes < FIXED_BYTES or end > len(view):
        return False
    return _PLACE.unpack_from(view, at) == (record_bytes, physical_offset) and (
        _has_own_crc(view, at, end) or _is_uncovered(view, at, end)
    )


def are_whole(content: bytes, places: list[tuple[int, int]]) -> bool:
    """True when ``content`` is the records of these (physical_offset, record_bytes), back to back,
    and each is what ``is_whole`` says.

    On a copy, which has to be made to send them: comparing bytes is quicker than a view's.
    """
    view = memoryview(content)
    at = 0
    for place in places:
        physical_offset, record_bytes = place
        end = at + record_bytes
        crc_at = end - CRC_PROPERTY_BYTES
        if (
            record_bytes < FIXED_BYTES
            or end > len(content)
            or _PLACE.unpack_from(content, at) != (record_bytes, physical_offset)
            or not (
                content.endswith(_crc_property(crc32(view[at:crc_at]) & CRC_MASK), at, end)
                or _is_uncovered(view, at, end)
            )
        ):
            return False
        at = end
    return at == len(content)


def are_placed(content: bytes, places: list[tuple[int, int]]) -> bool:
    """True when ``content`` is as long as the records of these (physical_offset, record_bytes)
    together, and each says of itself that it stands there; what else they say is not looked at.
    """
    sizes = [record_bytes for _, record_bytes in places]
    if not sizes:
        return not content
    starts = list(accumulate(sizes, initial=0))
    if starts.pop() != len(content) or min(sizes) < FIXED_BYTES:
        return False
    place_of = _PLACE.unpack_from
    return [place_of(content, at) for at in starts] == [(size, at) for at, size in places]


def find_whole(view: memoryview, at: int, record_bytes: int, physical_offset: int) -> bytes | None:
    """The bytes of a record that is whole, as ``is_whole`` says; else None."""
    crc_at = at + record_bytes - CRC_PROPERTY_BYTES
    record = bytes(view[at : at + record_bytes])
    if (
        record_bytes < FIXED_BYTES
        or len(record) < record_bytes
        or _PLACE.unpack_from(record) != (record_bytes, physical_offset)
    ):
        return None
    crc = crc32(view[at:crc_at]) & CRC_MASK
    is_whole = record.endswith(_crc_property(crc))
    return record if is_whole or _is_uncovered(memoryview(record), 0, record_bytes) else None


def _has_own_crc(view: memoryview, at: int, end: int) -> bool:
    crc_at = end - CRC_PROPERTY_BYTES
    return view[crc_at:end] == _crc_property(crc32(view[at:crc_at]) & CRC_MASK)


def _is_uncovered(view: memoryview, at: int, end: int) -> bool:
    """Whether it is a whole record without a CRC property. Raises ``RecordUnsupported``."""
    if looks_covered(bytes(view[end - CRC_PROPERTY_BYTES : end])):
        return False
    try:
        return verify_record(view[:end], at).record_bytes == end - at
    except RecordUnsupported:
        raise
    except StoreCorrupt:
        return False


def _crc_property(crc: int) -> bytes:
    return CRC_PROPERTY_HEAD + (b"%010d" % crc)[::-1] + _PROPERTY_END


def whole_record(view: memoryview, at: int, base_offset: int) -> RecordHead:
    """The record at a position of the segment at ``base_offset``, which says that it stands there.

    Raises ``StoreCorrupt`` with the reason when there is none.
    """
    head = parse_head(view, at)
    if head.physical_offset != base_offset + at:
        raise StoreCorrupt(
            f"the record says it is at {head.physical_offset}, but it is at {base_offset + at}"
        )
    return verify_record(view, at)


def is_blank(view: memoryview, at: int, size_bytes: int | None = None) -> bool:
    """True when a BLANK reaches from ``at`` to the end of the segment.

    ``size_bytes``: of the segment, where the file is shorter than that.
    """
    room = (len(view) if size_bytes is None else size_bytes) - at
    if len(view) - at < BLANK.size:
        return False
    return BLANK.unpack_from(view, at) == (room, MAGIC_BLANK)


class WholeRun(NamedTuple):
    """Whole records back to back, in positions of one segment; ``last_at`` is -1 without any."""

    end_at: int
    record_count: int
    last_at: int


def whole_run(view: memoryview, at: int, base_offset: int) -> WholeRun:
    """The whole records that follow each other from ``at`` on, in a segment at ``base_offset``.

    It stops at whatever is none, be it a BLANK, zeros or damage. A start has millions to look at.
    Raises ``RecordUnsupported``.
    """
    room = len(view) - FIXED_BYTES
    count, last_at = 0, -1
    while at <= room:
        record_bytes, magic, physical_offset = _HEAD.unpack_from(view, at)
        end = at + record_bytes
        if (
            magic not in _MAGICS
            or record_bytes < FIXED_BYTES
            or end > len(view)
            or physical_offset != base_offset + at
            or not (_has_own_crc(view, at, end) or _is_uncovered(view, at, end))
        ):
            break
        count += 1
        last_at, at = at, end
    return WholeRun(at, count, last_at)
