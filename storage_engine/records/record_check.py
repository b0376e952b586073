"""Judges whether a whole record, or a BLANK, is at an offset of a segment; pure functions.

readers, recovery, tools ── segment's bytes, position ──▶ [fault_at, whole_run, is_whole, …]

A record is whole when it says that it stands there, its lengths add up, and its CRC is right, or
what ``record.verify_uncovered`` looks at where it has none. ``fault_at`` says what is wrong,
``whole_run`` the same of many at once; ``is_whole`` and those like it are for records that were
found whole before, and ask only whether they still are as they were written.
"""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from storage_engine.errors import StoreCorrupt
from storage_engine.records.record import (
    BLANK,
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    CRC_PROPERTY_HEAD,
    FIXED_BYTES,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    SYSFLAG_BORN_HOST_V6,
    SYSFLAG_STORE_HOST_V6,
    looks_covered,
    parse_head,
    verify_record,
)

_MAGICS: Final = frozenset({MAGIC_V1, MAGIC_V2})
# TOTALSIZE, MAGICCODE, PHYSICALOFFSET, SYSFLAG, BODYLENGTH where both hosts are IPv4
_HEAD = struct.Struct(">II20xqI44xI")
_HEAD_BYTES: Final = _HEAD.size
_V6: Final = SYSFLAG_BORN_HOST_V6 | SYSFLAG_STORE_HOST_V6
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
    """Whether it is a whole record without a CRC property."""
    if looks_covered(bytes(view[end - CRC_PROPERTY_BYTES : end])):
        return False
    try:
        return verify_record(view[:end], at).record_bytes == end - at
    except StoreCorrupt:
        return False


def _crc_property(crc: int) -> bytes:
    return CRC_PROPERTY_HEAD + (b"%010d" % crc)[::-1] + _PROPERTY_END


def fault_at(view: memoryview, at: int, base_offset: int) -> StoreCorrupt | None:
    """Why no whole record is at a position of the segment at ``base_offset``; None where one is.

    ``RecordUnsupported`` where it is whole, of a kind that this engine cannot read.
    """
    try:
        head = parse_head(view, at)
        if head.physical_offset == base_offset + at:
            verify_record(view, at)
            return None
    except StoreCorrupt as exc:
        return exc.with_traceback(None)  # whose frames would keep the segment mapped
    place = head.physical_offset
    return StoreCorrupt(f"the record says it is at {place}, but it is at {base_offset + at}")


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


def whole_run(view: memoryview, at: int, base_offset: int, bytes_max: int = 1 << 62) -> WholeRun:
    """The whole records that follow each other from ``at`` on, in a segment at ``base_offset``.

    It stops at whatever is none, be it a BLANK, zeros or damage, and once it has ``bytes_max``. A
    start has millions to look at.
    """
    size_bytes = len(view)
    room = min(size_bytes - FIXED_BYTES, at + bytes_max - 1)
    count, last_at = 0, -1
    while at <= room:
        record_bytes, magic, physical_offset, sysflag, body_bytes = _HEAD.unpack_from(view, at)
        end = at + record_bytes
        if (
            magic not in _MAGICS
            or record_bytes < FIXED_BYTES
            or end > size_bytes
            or physical_offset != base_offset + at
        ):
            break
        crc_at = end - CRC_PROPERTY_BYTES
        digits = (b"%010d" % (crc32(view[at:crc_at]) & CRC_MASK))[::-1]
        if view[crc_at:end] != CRC_PROPERTY_HEAD + digits + _PROPERTY_END:
            if not _is_uncovered(view, at, end):
                break
        elif magic != MAGIC_V1 or sysflag & _V6:
            if fault_at(view, at, base_offset):
                break
        else:  # whoever reads it next trusts its lengths
            topic_at = at + _HEAD_BYTES + body_bytes
            if topic_at + 3 > end:
                break
            properties_at = topic_at + 3 + view[topic_at]
            if (
                properties_at > end
                or (view[properties_at - 2] << 8) + view[properties_at - 1] != end - properties_at
            ):
                break
        count += 1
        last_at, at = at, end
    return WholeRun(at, count, last_at)
