"""Which segments a log has and up to where it can be trusted; only reads.

    commitlog/, checkpoint ──▶ [find_extent] ──▶ Extent
                 └── behind the checkpoint: as far as the engine's next start would keep it

Below the checkpoint's watermark the log is durable, and damage there is damage. Above it the table
of ``log_scan.py`` says where the log ends: a torn tail, or where the engine is writing just now.
"""

from __future__ import annotations

import mmap
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from storage_engine.disk.files import Files
from storage_engine.disk.layout import CHECKPOINT_FILE, COMMIT_LOG_DIR, base_offset_of
from storage_engine.disk.mapped_file import MappedFile, read_only
from storage_engine.errors import OffsetOutOfRange, StoreCorrupt
from storage_engine.log.log_scan import last_run, scan
from storage_engine.records.record_check import fault_at, is_blank
from storage_engine.records.record_parts import store_timestamp_of


class Segment(NamedTuple):
    """One file of the log; holds ``[base_offset, base_offset + size_bytes)``."""

    path: str
    base_offset: int
    size_bytes: int

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.size_bytes

    def mapped(self) -> MappedFile:
        return read_only(Path(self.path), self.base_offset)


class Extent(NamedTuple):
    """Records begin in ``[start_offset, end_offset)``; both are borders of records."""

    segments: tuple[Segment, ...]
    start_offset: int
    end_offset: int


def find_extent(store: Path, *, end_offset: int | None = None, with_tail: bool = True) -> Extent:
    """The log of a store; ``end_offset`` is a snapshot's, without one the files decide.

    Then it ends at the checkpoint's watermark, or ``with_tail`` behind the whole records that
    follow there: a power cut may still take those. Costs one look into the directory, and a check
    of the tail.

    Raises:
        OffsetOutOfRange: the log does not reach ``end_offset``.
        StoreCorrupt: this is no store, a segment is missing, or its checkpoint is of a newer
            format.
    """
    if not (store / COMMIT_LOG_DIR).is_dir() and not (store / CHECKPOINT_FILE).is_file():
        raise StoreCorrupt(
            f"{store} is not a store: it has neither {COMMIT_LOG_DIR} nor {CHECKPOINT_FILE}"
        )
    segments = _segments(store / COMMIT_LOG_DIR)
    start_offset = segments[0].base_offset if segments else 0
    last_offset = segments[-1].end_offset if segments else 0
    if end_offset is None:
        last = last_run(store, Files())
        end_offset = min(max(start_offset, last.flushed_offset), last_offset)
        if with_tail:
            files = [each.mapped() for each in segments if each.end_offset > end_offset]
            end_offset = scan(files, end_offset, 0, keeps_whole=last.keeps_whole).end_offset
    elif not start_offset <= end_offset <= last_offset:
        raise OffsetOutOfRange(
            f"{store} has the bytes {start_offset} to {last_offset} of its log, but "
            f"the read should go up to {end_offset}"
        )
    held = tuple(segment for segment in segments if segment.base_offset < end_offset)
    return Extent(held, start_offset, end_offset)


def first_store_ms(segment: Segment) -> int | None:
    """When the segment's first record was stored; None when no whole record begins it."""
    return _store_ms(segment, 0)


def store_ms_at(extent: Extent, offset: int) -> int | None:
    """When the record at an offset of the log was stored; None when no whole record stands there.

    At a BLANK: the first one of the next segment.
    """
    for segment in extent.segments:
        if not segment.base_offset <= offset < segment.end_offset:
            continue
        at = offset - segment.base_offset
        if not is_blank(memoryview(open_segment(segment)), at):
            return _store_ms(segment, at)
        offset = segment.end_offset
    return None


def _store_ms(segment: Segment, at: int) -> int | None:
    view = memoryview(open_segment(segment))
    is_whole = fault_at(view, at, segment.base_offset) is None
    return store_timestamp_of(view, at) if is_whole else None


def open_segment(segment: Segment) -> mmap.mmap:
    """The segment's bytes, read-only; closed when nobody uses them any more.

    Raises:
        OffsetOutOfRange: the file is gone.
    """
    try:
        with open(segment.path, "rb") as file:
            return mmap.mmap(file.fileno(), segment.size_bytes, prot=mmap.PROT_READ)
    except FileNotFoundError as exc:
        raise OffsetOutOfRange(
            f"{segment.path} was deleted by retention; hold a snapshot while reading"
        ) from exc


def _segments(directory: Path) -> list[Segment]:
    found = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        base_offset = base_offset_of(path.name)
        if base_offset is None:
            continue
        try:
            size_bytes = path.stat().st_size
        except FileNotFoundError:
            continue  # retention took it since the directory was read
        if size_bytes:  # else the machine stopped while it was being made
            found.append(Segment(str(path), base_offset, size_bytes))
    for before, after in pairwise(found):
        if before.end_offset != after.base_offset:
            raise StoreCorrupt(
                f"no file in {directory} has the bytes {before.end_offset} to "
                f"{after.base_offset} of the log"
            )
    return found
