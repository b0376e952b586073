"""Reads the commit log record by record when nothing else says where the records are; pure reading.

    segments ──▶ [read_through] ──▶ Run of whole records · Damage · LogEnd, in the order of the log
    segments ──▶ [scan] ──▶ Scan: where the log ends, what is damaged before that
    segments ──▶ [walk] ──▶ (physical_offset, segment's bytes, position there) of each record

Recovery, verify, dump, repair, imports and the reader of other processes all go through
``read_through``, so that they find the same. What is whole ``record_check.fault_at`` says. What
stands in its place otherwise decides:

    found                             below the watermark   above, kept    above, cut
    whole record                      part of the log       part of it     part of it
    BLANK                             next segment          next segment   next segment
    damage, whole records behind it   damaged               damaged        torn tail: the log ends
    damage or zeros, nothing behind   damaged up to the     torn tail      torn tail
                                      watermark
    whole, but of a kind that only    the engine refuses the log, tools step over it
    RocketMQ has

"Behind" a damaged place is the next position whose bytes are a whole record that says it belongs
there; its length field is not believed. The watermark is what the checkpoint knows to be durable.
Above it a power cut leaves any mixture of old and new pages, none of which was acknowledged: cut
there, so that an async topic loses a suffix only. Damage that reaches over the watermark is two
ranges, each judged by its column, wherever reading began. Without a power cut (same boot of the
machine) or without a checkpoint, nothing is cut that whole records follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from storage_engine.disk.files import Files
from storage_engine.disk.layout import CHECKPOINT_FILE
from storage_engine.disk.mapped_file import MappedFile, are_zeros
from storage_engine.disk.run_mark import RunMark
from storage_engine.errors import RecordUnsupported, StoreCorrupt
from storage_engine.log.checkpoint import Checkpoint, read_checkpoint
from storage_engine.records.record import BLANK, LENGTH_4, MAGIC_V1, MAGIC_V2, parse_head
from storage_engine.records.record_check import WholeRun, fault_at, is_blank, whole_run
from storage_engine.records.record_parts import store_timestamp_of

_MAGIC_AT: Final = 4
_SEARCH_STEP_BYTES: Final = 1 << 20
_MAGIC_START: Final = MAGIC_V1.to_bytes(4)[:3]
_EVERYTHING: Final = 1 << 62
assert MAGIC_V2.to_bytes(4)[:3] == _MAGIC_START


class Run(NamedTuple):
    """Whole records back to back in one segment, from position ``start_at`` on."""

    segment: MappedFile
    start_at: int
    whole: WholeRun

    def positions(self) -> Iterator[int]:
        """Where each of them begins in the segment."""
        at, view = self.start_at, self.segment.view
        while at < self.whole.end_at:
            yield at
            at += LENGTH_4.unpack_from(view, at)[0]


class Damage(NamedTuple):
    """A range of the log that holds no whole record, in physical offsets, and why.

    ``is_unsupported``: it does hold one, which this engine cannot read.
    """

    start: int
    end: int
    reason: str
    is_unsupported: bool = False


class LogEnd(NamedTuple):
    """Where the log ends. ``reason`` is empty when only zeros follow; else why other bytes, up to
    ``torn_end``, are no part of it. The last of them are in the segment at ``newest_offset``.
    """

    offset: int
    reason: str = ""
    torn_end: int = 0
    newest_offset: int = 0

    def why_not_cut(self, *, is_ours: bool, torn_bytes_max: int) -> str:
        """Why the bytes behind the end must not be cut off; empty where they may be, or none are.

        There may stand what a power cut tore of our own writing, and nothing else.
        """
        end, last = self.offset, self.torn_end
        if not self.reason:
            return ""
        if not is_ours:
            why = "no checkpoint of this engine says that these bytes were never acknowledged"
        elif end < self.newest_offset and last - end > torn_bytes_max:
            why = f"a power cut leaves at most {torn_bytes_max} bytes of that kind"
        else:
            return ""
        return (
            f"the log's last whole record ends at {end}; from there to {last} are "
            f"{last - end} bytes that are not records ({self.reason}), and {why}. Nothing was "
            "changed. Let the broker that wrote the store recover it, or restore a "
            "backup; or cut off the end of the log there, which keeps what is cut off in "
            f"files beside the store: mqservice engine repair STORE --cut-at {end}"
        )


class Scan(NamedTuple):
    """What was found."""

    end: LogEnd
    record_count: int
    store_timestamp_ms: int
    damaged: list[Damage]

    @property
    def end_offset(self) -> int:
        return self.end.offset


class LastRun(NamedTuple):
    """How the last run on a store ended. ``checkpoint``: one of ours, and nobody else has written
    to the store since; ``keeps_whole`` chooses between the two columns above the watermark.
    """

    checkpoint: Checkpoint | None
    keeps_whole: bool

    @property
    def flushed_offset(self) -> int:
        return self.checkpoint.flushed_offset if self.checkpoint else 0


def last_run(store: Path, files: Files) -> LastRun:
    """Raises ``StoreCorrupt``: the checkpoint was written by a newer engine."""
    run_mark = RunMark(files, store)
    checkpoint = read_checkpoint(store / CHECKPOINT_FILE)
    if run_mark.is_of_rocketmq():
        checkpoint = None  # it may have cut the log, and written it anew, since
    return LastRun(checkpoint, checkpoint is None or not run_mark.was_power_cut())


def read_through(
    segments: list[MappedFile],
    start: int,
    flushed_offset: int,
    *,
    keeps_whole: bool,
    run_bytes_max: int = _EVERYTHING,
    closes: bool = False,
) -> Iterator[Run | Damage | LogEnd]:
    """Everything from ``start`` on, in the order of the log; a ``LogEnd`` comes last.

    ``flushed_offset`` is the watermark; ``keeps_whole`` chooses between the two columns above it.
    ``closes``: each segment once it is read, so that a tool has one mapped at a time.
    """
    offset = start
    for index, segment in enumerate(segments):
        base_offset = segment.base_offset
        segment_end = base_offset + segment.size_bytes
        while base_offset <= offset < segment_end:
            at = offset - base_offset
            whole = whole_run(segment.view, at, base_offset, run_bytes_max)
            if whole.record_count:
                yield Run(segment, at, whole)
                offset = base_offset + whole.end_at
                continue
            if is_blank(segment.view, at, segment.size_bytes):
                offset = segment_end
                break
            fault = fault_at(segment.view, at, base_offset)
            if fault is None:  # the engine, which is running, has just written it
                end_at = at + LENGTH_4.unpack_from(segment.view, at)[0]
                yield Run(segment, at, WholeRun(end_at, 1, at))
                offset = base_offset + end_at
                continue
            is_unsupported = isinstance(fault, RecordUnsupported)
            following = None
            if is_unsupported:
                following = offset + parse_head(segment.view, at).record_bytes
            elif offset < flushed_offset or keeps_whole:
                following = next_whole(segments[index:], at)
            if offset < flushed_offset and not is_unsupported:
                following = min(following or flushed_offset, flushed_offset)
            if following is None:
                yield _end(segments[index:], offset, str(fault))
                return
            yield Damage(offset, following, str(fault), is_unsupported)
            offset = following
        if closes:
            segment.close()
    yield LogEnd(offset)


def _end(segments: list[MappedFile], offset: int, fault: str) -> LogEnd:
    """The log's end in the first of the segments."""
    torn_end = newest_offset = 0
    for segment in segments:
        start = max(offset - segment.base_offset, 0)
        stop = segment.nonzero_end(start)
        if stop > start:
            torn_end, newest_offset = segment.base_offset + stop, segment.base_offset
    if not torn_end:
        return LogEnd(offset)
    if not any(segments[0].view[offset - segments[0].base_offset :][: BLANK.size]):
        fault = "zeros, followed by other bytes"
    return LogEnd(offset, fault, torn_end, newest_offset)


def scan(segments: list[MappedFile], start: int, flushed_offset: int, *, keeps_whole: bool) -> Scan:
    """What ``read_through`` finds, in one.

    Raises ``RecordUnsupported``.
    """
    end, count, stamp = LogEnd(start), 0, 0
    damaged: list[Damage] = []
    for found in read_through(segments, start, flushed_offset, keeps_whole=keeps_whole):
        match found:
            case Run(segment, _, whole):
                count += whole.record_count
                stamp = max(stamp, store_timestamp_of(segment.view, whole.last_at))
            case Damage():
                if found.is_unsupported:
                    raise RecordUnsupported(found.reason)
                damaged.append(found)
            case LogEnd():
                end = found
    return Scan(end, count, stamp, damaged)


def lacks_records(segment: MappedFile, found: Scan) -> bool:
    """Whether a segment is shorter than the others, and records were in what it lacks."""
    end = segment.base_offset + segment.size_bytes
    short_at = segment.base_offset + segment.present_bytes
    is_torn = bool(found.end.reason) and segment.base_offset <= found.end_offset < end
    is_damaged = any(each.start < end and each.end > short_at for each in found.damaged)
    return short_at < end and (is_torn or is_damaged)


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
        if not segment.base_offset <= offset < segment_end:
            continue  # it may be only in the bucket
        view = segment.view
        while segment.base_offset <= offset < segment_end:
            if offset in jumps:
                offset = jumps[offset]
                continue
            at = offset - segment.base_offset
            if is_blank(view, at, segment.size_bytes):
                offset = segment.base_offset + segment.size_bytes
                break
            yield offset, view, at
            offset += LENGTH_4.unpack_from(view, at)[0]


def next_whole(segments: list[MappedFile], at: int) -> int | None:
    """Physical offset of the next whole record behind the damaged one at ``at`` of the first.

    Where the parts of a damaged record still add up, its own length says where it ends: what its
    body holds is then never taken for a record.
    """
    segment = segments[0]
    start = at + 1
    with suppress(StoreCorrupt):
        while True:
            start = at = at + parse_head(segment.view, at).record_bytes
            if is_blank(segment.view, at, segment.size_bytes) or _is_record(segment, at):
                return segment.base_offset + at
    for segment in segments:
        for first, stop in segment.data_ranges(start):
            found = _search(segment, max(first, start), stop)
            if found is not None:
                return segment.base_offset + found
        start = 0
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
            if _is_record(segment, first + found):
                return first + found
            found = content.find(_MAGIC_START, found + 1)
    return None


def _is_record(segment: MappedFile, at: int) -> bool:
    """Whether a whole record is there, be it one that this engine cannot read."""
    fault = fault_at(segment.view, at, segment.base_offset)
    return fault is None or isinstance(fault, RecordUnsupported)
