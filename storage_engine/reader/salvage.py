"""Finds the next record after damaged bytes of the log, for tools that only read.

mapped segment, damaged place ──▶ [next_whole] ──▶ where the next whole record stands
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from storage_engine.disk.files import Files
from storage_engine.errors import StoreCorrupt
from storage_engine.records.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from storage_engine.records.record_check import is_blank, whole_record

_MAGIC_AT: Final = 4
_CHUNK_BYTES: Final = 1 << 20


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """A file as read-only bytes. Raises ``OSError``; ValueError when it is empty."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        yield content


def next_whole(content: mmap.mmap, view: memoryview, at: int, base_offset: int) -> int | None:
    """Position of the next whole record or BLANK at or behind ``at``; None when none follows."""
    best: int | None = None
    for magic in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK):
        wanted = magic.to_bytes(4)
        stop = len(content) if best is None else best + _MAGIC_AT
        found = content.find(wanted, at + _MAGIC_AT, stop)
        while found >= 0:
            if _is_whole(view, found - _MAGIC_AT, base_offset):
                best = found - _MAGIC_AT
                break
            found = content.find(wanted, found + 1, stop)
    return best


def first_nonzero(path: Path, view: memoryview, at: int) -> int | None:
    """Position of the first byte at or behind ``at`` that is not zero."""
    for start, end in Files().data_ranges(path, at, len(view)):
        for chunk_at in range(start, end, _CHUNK_BYTES):
            chunk = bytes(view[chunk_at : min(chunk_at + _CHUNK_BYTES, end)])
            if chunk.count(0) != len(chunk):
                return chunk_at + len(chunk) - len(chunk.lstrip(b"\0"))
    return None


def _is_whole(view: memoryview, at: int, base_offset: int) -> bool:
    if is_blank(view, at):
        return True
    try:
        whole_record(view, at, base_offset)
    except StoreCorrupt:
        return False
    return True
