"""One entry of the replicated log: bytes that one store has, for another that shall have the same.

    shipper ── encode ──▶ [entry] ── decode ──▶ replica: the same bytes in the same files

    offset  width  field
         0      4  magic          "MQRE"
         4      1  version        1; 2 with a section of kind 5, so that engines which do not know
                                  that kind say that they are too old
         5      1  flags          bit 0: the first of its epoch; bit 1: cut, the next one goes on;
                              bit 2: with it the epoch's entries have all small files;
                              bit 3: the last of all, the store is served without a log from now on
         6      2  section count
         8      8  epoch
        16      8  number         one more than that of the entry before, whichever epoch wrote it
        24      8  log_start      the writer's commit log has no segment below
        32      8  log_end        where it ends with this entry
        40      4  segment_bytes
        44      4  CRC-32 of bytes 0 to 43, then of everything behind this field

    section, as often as counted: 16 bytes, the name, the content
         0      1  kind           1 log, 2 appended, 3 file, 4 gone, 5 anew
         1      1  zero
         2      2  name_bytes     0 for kinds 1 and 5
         4      4  content_bytes  0 for kinds 4 and 5
         8      8  position       physical offset; or where in the file the content stands; or the
                                  number of a split

Sections of the log come one behind the other and end at ``log_end``. An entry with a section of
kind 5 has no other: with it the store begins anew, with what the split made of another shard's
store, whose log ends at ``log_end``. Names are those of
``disk/small_files.py``. What does not follow these rules to the byte is refused.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from storage_engine.disk.small_files import is_small_file
from storage_engine.errors import StoreCorrupt

_HEAD = struct.Struct(">4sBBHQQQQI")
_CRC = struct.Struct(">I")
_SECTION = struct.Struct(">BxHIQ")
_MAGIC: Final = b"MQRE"
_VERSION: Final = 1
_VERSION_ANEW: Final = 2
_IS_FIRST: Final = 1
_IS_CUT: Final = 2
_IS_WHOLE: Final = 4
_IS_LEFT: Final = 8
HEAD_BYTES: Final = _HEAD.size + _CRC.size
SECTION_BYTES: Final = _SECTION.size
assert HEAD_BYTES == 48
assert SECTION_BYTES == 16


class Kind(enum.IntEnum):
    """What a section is."""

    LOG = 1
    APPENDED = 2
    FILE = 3
    GONE = 4
    ANEW = 5


class Section(NamedTuple):
    """Bytes of the log at a physical offset, or of the file ``name`` at a position."""

    kind: Kind
    position: int
    content: bytes
    name: str = ""

    @property
    def encoded_bytes(self) -> int:
        return SECTION_BYTES + len(self.name) + len(self.content)


class ReplicatedEntry(NamedTuple):
    """See the module's docstring. ``is_cut``: its files are whole with the next entry only;
    ``is_whole``: with it the entries of its epoch have every small file that the store has;
    ``is_left``: its store is served without a log, and nobody takes it over from here any more.
    """

    epoch: int
    number: int
    log_start: int
    log_end: int
    segment_bytes: int
    sections: Sequence[Section] = ()
    is_first: bool = False
    is_cut: bool = False
    is_whole: bool = False
    is_left: bool = False

    @property
    def log_from(self) -> int:
        """Where the log ended before this entry."""
        return self.log_end - sum(
            [len(each.content) for each in self.sections if each.kind is Kind.LOG]
        )

    @property
    def split_number(self) -> int:
        """Of the split with whose store this one begins anew here; 0: it goes on."""
        is_anew = len(self.sections) == 1 and self.sections[0].kind is Kind.ANEW
        return self.sections[0].position if is_anew else 0


def beginning_anew(
    epoch: int, number: int, *, log_end: int, segment_bytes: int, split_number: int
) -> ReplicatedEntry:
    """``log_end``: of the store that a split has made."""
    anew = Section(Kind.ANEW, split_number, b"")
    return ReplicatedEntry(epoch, number, log_end, log_end, segment_bytes, [anew])


def encode(entry: ReplicatedEntry) -> bytes:
    head = _HEAD.pack(
        _MAGIC,
        _VERSION_ANEW if entry.split_number else _VERSION,
        entry.is_first * _IS_FIRST
        | entry.is_cut * _IS_CUT
        | entry.is_whole * _IS_WHOLE
        | entry.is_left * _IS_LEFT,
        len(entry.sections),
        entry.epoch,
        entry.number,
        entry.log_start,
        entry.log_end,
        entry.segment_bytes,
    )
    parts = [head, b""]
    for kind, position, content, name in entry.sections:
        parts += [_SECTION.pack(kind, len(name), len(content), position), name.encode(), content]
    crc = crc32(head)
    for part in parts[2:]:
        crc = crc32(part, crc)
    parts[1] = _CRC.pack(crc)
    return b"".join(parts)


def decode(content: bytes) -> ReplicatedEntry:
    """Raises ``StoreCorrupt`` for anything that ``encode`` would not have made."""
    if len(content) < HEAD_BYTES:
        raise _refused(f"it has {len(content)} bytes, less than a head")
    head = content[: _HEAD.size]
    magic, version, flags, count, epoch, number, log_start, log_end, segment_bytes = _HEAD.unpack(
        head
    )
    if magic != _MAGIC:
        raise _refused(f"it begins with {magic!r}")
    if version not in (_VERSION, _VERSION_ANEW):
        raise _refused(
            f"it has version {version}, this engine knows {_VERSION_ANEW}: start the newer engine "
            "that wrote it"
        )
    if _CRC.unpack_from(content, _HEAD.size)[0] != crc32(content[HEAD_BYTES:], crc32(head)):
        raise _refused("its bytes do not have its CRC")
    if flags > _IS_FIRST | _IS_CUT | _IS_WHOLE | _IS_LEFT or log_start > log_end:
        raise _refused(f"flags {flags}, log from {log_start} to {log_end}")
    sections, at = [], HEAD_BYTES
    for _ in range(count):
        section, at = _section_at(content, at)
        sections.append(section)
    if at != len(content):
        raise _refused(f"{len(content) - at} bytes follow its {count} sections")
    entry = ReplicatedEntry(
        epoch,
        number,
        log_start,
        log_end,
        segment_bytes,
        sections,
        bool(flags & _IS_FIRST),
        bool(flags & _IS_CUT),
        bool(flags & _IS_WHOLE),
        bool(flags & _IS_LEFT),
    )
    is_anew = any(each.kind is Kind.ANEW for each in sections)
    if is_anew != bool(entry.split_number) or is_anew != (version == _VERSION_ANEW):
        raise _refused("a store that begins anew, with other sections or without a number")
    position = entry.log_from
    for section in sections:
        if section.kind is Kind.LOG:
            if section.position != position:
                raise _refused(f"bytes of the log at {section.position} instead of {position}")
            position += len(section.content)
    return entry


def _section_at(content: bytes, at: int) -> tuple[Section, int]:
    """A section, and where it ends."""
    name_at = at + SECTION_BYTES
    if name_at > len(content):
        raise _refused(f"it ends inside a section at {at}")
    number, name_bytes, content_bytes, position = _SECTION.unpack_from(content, at)
    content_at = name_at + name_bytes
    end = content_at + content_bytes
    if end > len(content):
        raise _refused(f"it ends inside the section at {at}")
    if number not in set(Kind) or content[at + 1]:
        raise _refused(f"a section of kind {number} at {at}")
    kind = Kind(number)
    name = content[name_at:content_at].decode("ascii", "replace")
    is_unnamed = kind in (Kind.LOG, Kind.ANEW)
    if is_unnamed == bool(name) or (name and not is_small_file(name)):
        raise _refused(f"a section of kind {kind.name.lower()} with the name {name!r}")
    if kind is Kind.GONE and (content_bytes or position):
        raise _refused(f"a file that is gone has content: {name}")
    if kind is Kind.ANEW and content_bytes:
        raise _refused("a store that begins anew has content")
    return Section(kind, position, content[content_at:end], name), end


def _refused(reason: str) -> StoreCorrupt:
    return StoreCorrupt(f"an entry of the replicated log cannot be read: {reason}")
