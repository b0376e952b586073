"""Whether a record is still what was written there, asked before it is served; pure functions."""

from __future__ import annotations

import struct
from typing import Final

from isal.isal_zlib import crc32

from storage_engine.record import CRC_MASK, CRC_PROPERTY_BYTES, CRC_PROPERTY_HEAD, FIXED_BYTES

_PLACE = struct.Struct(">I24xq")  # TOTALSIZE, PHYSICALOFFSET
_PROPERTY_END: Final = b"\x02"


def is_whole(view: memoryview, at: int, record_bytes: int, physical_offset: int) -> bool:
    """True when a record of that size, with a CRC that matches, says that it stands there.

    What ``verify_record`` says, for readers that know a record's place and size: a third of the
    time.
    """
    end = at + record_bytes
    crc_at = end - CRC_PROPERTY_BYTES
    if record_bytes < FIXED_BYTES or end > len(view):
        return False
    if _PLACE.unpack_from(view, at) != (record_bytes, physical_offset):
        return False
    crc = crc32(view[at:crc_at]) & CRC_MASK
    return view[crc_at:end] == CRC_PROPERTY_HEAD + (b"%010d" % crc)[::-1] + _PROPERTY_END
