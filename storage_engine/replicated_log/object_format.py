"""The bytes of an object of the log.

    offset  size
         0     4  magic, "MQRL"
         4     1  version, 1
         5     1  kind: 1 entry, 2 fence, 3 boundary, 4 deployment, 5 snapshots
         6     2  zero
         8     8  epoch of who wrote it; in a boundary and in snapshots, the one that may write
        16     8  sequence: its own place; in a boundary, the oldest that is kept; else 0
        24    16  writer: who wrote it, random for each opener
        40     4  length of the content
        44     4  CRC-32 of everything before this field and of the content
        48        content: of an entry; the name of a deployment

All numbers are big-endian.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from storage_engine.replicated_log.errors import Damaged

_MAGIC: Final = b"MQRL"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sBBHQQ16sI")
_CRC: Final = struct.Struct(">I")
HEADER_BYTES: Final = _HEADER.size + _CRC.size
assert HEADER_BYTES == 48


class Kind(IntEnum):
    ENTRY = 1
    FENCE = 2
    BOUNDARY = 3
    DEPLOYMENT = 4
    SNAPSHOTS = 5


class LogObject(NamedTuple):
    kind: Kind
    epoch: int
    sequence: int
    writer: bytes
    content: bytes = b""


def encode(written: LogObject) -> bytes:
    kind, epoch, sequence, writer, content = written
    header = _HEADER.pack(_MAGIC, _VERSION, kind, 0, epoch, sequence, writer, len(content))
    return b"".join((header, _CRC.pack(crc32(content, crc32(header))), content))


def decode(found: bytes, name: str) -> LogObject:
    """Raises Damaged for anything but a whole object of this format."""
    if len(found) < HEADER_BYTES or found[:4] != _MAGIC:
        raise Damaged(f"{name} ({len(found)} bytes) was not written by this program")
    _, version, kind, _, epoch, sequence, writer, length = _HEADER.unpack_from(found)
    if version != _VERSION:
        raise Damaged(
            f"{name} has version {version}, this engine knows {_VERSION}: start the newer engine "
            "that wrote it"
        )
    if kind not in set(Kind):
        raise Damaged(f"{name} is of an unknown kind, {kind}")
    content = found[HEADER_BYTES:]
    (crc,) = _CRC.unpack_from(found, _HEADER.size)
    is_whole = len(content) == length
    if not is_whole or crc != crc32(content, crc32(found[: _HEADER.size])):
        raise Damaged(
            f"{name} is damaged: {len(content)} bytes of {length}, or others than written"
        )
    return LogObject(Kind(kind), epoch, sequence, writer, content)
