"""Reads and checks every record of the commit log, and says what queues and index must contain.

    segments ──▶ [LogCheck.batches] ──▶ LogBatch: units and keys of some thousand whole records
                          └─ damage, missing segments ──▶ Report, and ``damaged`` ranges

What is whole, what is damaged and where the log ends ``log_scan.read_through`` says, as it does at
a start of the engine; but a check goes on where the engine refuses the log. Only reads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage_engine.config import GIB, MIB, StoreConfig
from storage_engine.disk.layout import COMMIT_LOG_DIR, base_offset_of
from storage_engine.disk.mapped_file import MappedFile, read_only
from storage_engine.disk.mapped_files import file_size_of
from storage_engine.log.log_scan import Damage, LastRun, LogEnd, Run, read_through
from storage_engine.records.dedup_mark import DEDUP_HEAD, dedup_mark_of, key_hash_of
from storage_engine.records.key_hash import topic_hash
from storage_engine.records.message_keys import keys_of
from storage_engine.records.record_parts import is_unseen, parts_of
from storage_engine.records.schedule_topic import (
    REAL_TOPIC,
    SCHEDULE_TOPIC_BYTES,
    unit_tag_of,
)
from storage_engine.records.settles import SETTLES_HEAD
from storage_engine.records.tag_hash import tag_of
from storage_engine.tools.verify.report import Kind, Report

BATCH_BYTES: Final = 4 * MIB
_REAL_TOPIC_HEAD: Final = f"{REAL_TOPIC}\x01".encode()


class Mark(NamedTuple):
    """What a record says of the request that stored it."""

    physical_offset: int
    key_hash: bytes
    fingerprint: bytes


class LogBatch:
    """Whole records that follow each other, as columns.

    ``tagged``: topic, tag and place of records with a tag, only where RocketMQ has indexed them.
    """

    def __init__(self, *, is_of_rocketmq: bool = False) -> None:
        # (topic, queue id) → queue offset, physical offset, record bytes, tag hash of each, flat
        self.units: dict[tuple[bytes, int], list[int]] = {}
        self.topic_hashes: list[int] = []  # one entry a key, in log order
        self.keys: list[bytes] = []
        self.key_offsets: list[int] = []
        self.tagged: list[tuple[bytes, bytes, int]] | None = [] if is_of_rocketmq else None
        self.marks: list[Mark] = []
        self.record_count = 0
        self.end_offset = 0


class LogCheck:
    """See the module's docstring.

    ``last_run``: how the last one ended, as a start of the engine sees it. ``is_of_rocketmq``: a
    broker was the last to write to the store.
    """

    def __init__(
        self, store: Path, report: Report, last_run: LastRun, *, is_of_rocketmq: bool = False
    ) -> None:
        self._report = report
        self._torn_bytes_max = StoreConfig(store_dir=str(store)).torn_bytes_max
        self._last_run = last_run
        self._is_of_rocketmq = is_of_rocketmq
        self._count = report.count("commit log")
        self.damaged: list[tuple[int, int]] = []  # ascending ranges without whole records
        self._size_bytes = file_size_of(store / COMMIT_LOG_DIR, GIB)
        self.segments = self._list(store / COMMIT_LOG_DIR)
        self.start_offset = self.segments[0].base_offset if self.segments else 0
        self.end_offset = self.start_offset

    def _list(self, directory: Path) -> list[MappedFile]:
        found = [
            read_only(path, base_offset, self._size_bytes)
            for path in (sorted(directory.iterdir()) if directory.is_dir() else ())
            if (base_offset := base_offset_of(path.name)) is not None and path.is_file()
        ]
        self._count.file_count = len(found)
        while found and not found[-1].present_bytes:
            found.pop()  # the machine stopped while it was being made
        return found

    @property
    def segments_end_offset(self) -> int:
        """Of the newest segment, used or not."""
        return self.segments[-1].base_offset + self._size_bytes if self.segments else 0

    def is_damaged(self, offset: int) -> bool:
        """Whether a place lies in a range that holds no whole record."""
        index = bisect_right(self.damaged, (offset, 1 << 63)) - 1
        return index >= 0 and offset < self.damaged[index][1]

    def has_none_at(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of each place, whether no record need stand there: retention deleted it, or damage."""
        has_none = offsets < self.start_offset
        for start, end in self.damaged:
            has_none |= (offsets >= start) & (offsets < end)
        return has_none

    def batches(self) -> Iterator[LogBatch]:
        """All whole records, in log order."""
        segments, size_bytes = self.segments, self._size_bytes
        flushed_offset = self._last_run.flushed_offset
        borders = [
            number
            for number, (before, after) in enumerate(pairwise(segments), 1)
            if before.base_offset + size_bytes != after.base_offset
        ]
        for first, stop in pairwise([0, *borders, len(segments)] if segments else []):
            log_end = segments[stop - 1].base_offset + size_bytes
            if stop == len(segments):
                yield from self._read(segments[first:], flushed_offset)
                continue
            yield from self._read(segments[first:stop], log_end)
            following = segments[stop].base_offset
            what = f"the bytes {log_end} to {following} of the log are in no file"
            self._note(Kind.SEGMENT_MISSING, segments[stop - 1], log_end, what)
            self.damaged.append((log_end, following))
        log_end = self.segments_end_offset
        if log_end < flushed_offset:
            self.damaged.append((log_end, flushed_offset))
            what = f"the log ends here, but the checkpoint says that {flushed_offset} bytes were"
            self._report.add(Kind.LOG_TOO_SHORT, COMMIT_LOG_DIR, log_end, f"{what} durable")

    def _read(self, segments: list[MappedFile], flushed_offset: int) -> Iterator[LogBatch]:
        """Of segments that follow each other. Below ``flushed_offset`` all must be whole."""
        keeps_whole = self._last_run.keeps_whole and self._report.is_whole_store
        while segments:
            self.end_offset = max(self.end_offset, segments[0].base_offset)
            try:
                for found in read_through(
                    segments,
                    self.end_offset,
                    flushed_offset,
                    keeps_whole=keeps_whole,
                    run_bytes_max=BATCH_BYTES,
                    closes=True,
                ):
                    match found:
                        case Run():
                            yield self._batch(found)
                        case Damage():
                            self._lose(segments, found)
                        case LogEnd():
                            self._end(segments, found)
                return
            except FileNotFoundError as exc:
                gone = Path(exc.filename).name
                self._report.notes.append(f"{gone} was deleted during the check")
                segments = [each for each in segments if each.path.name > gone]

    def _batch(self, run: Run) -> LogBatch:
        batch = LogBatch(is_of_rocketmq=self._is_of_rocketmq)
        for at in run.positions():
            _add(run.segment.view, at, run.segment.base_offset + at, batch)
        self._count.item_count += run.whole.record_count
        self._read_to(run.segment.base_offset + run.whole.end_at)
        batch.end_offset = self.end_offset
        return batch

    def _read_to(self, offset: int) -> None:
        self._count.byte_count += offset - self.end_offset
        self._report.byte_count += offset - self.end_offset
        self.end_offset = offset

    def _lose(self, segments: list[MappedFile], damage: Damage) -> None:
        self.damaged.append((damage.start, damage.end))
        self._read_to(damage.end)
        # A file that ends too early is the finding, not the record that it cuts off.
        if self._note_short(segments, damage.start, damage.end):
            return
        kind = Kind.LOG_REJECTED if damage.is_unsupported else Kind.RECORD_DAMAGED
        what = f"{damage.end - damage.start} bytes: {damage.reason}"
        self._note(kind, _segment_at(segments, damage.start), damage.start, what)

    def _end(self, segments: list[MappedFile], end: LogEnd) -> None:
        self._read_to(end.offset)
        if not self._report.is_whole_store or not end.reason:
            return
        segment = _segment_at(segments, end.offset)
        if self._note_short(segments, end.offset, segment.base_offset + segment.size_bytes):
            return
        rejection = end.why_not_cut(
            is_ours=self._last_run.checkpoint is not None, torn_bytes_max=self._torn_bytes_max
        )
        if rejection:
            self._note(Kind.LOG_REJECTED, segment, end.offset, rejection)
        else:
            what = f"neither a whole record nor zeros: {end.reason}"
            self._note(Kind.LOG_TAIL, segment, end.offset, what)

    def _note_short(self, segments: list[MappedFile], start: int, end: int) -> bool:
        """Whether a part of ``[start, end)`` is in no file, since a segment is cut short."""
        short = [
            each
            for each in segments
            if each.present_bytes < each.size_bytes
            and start < each.base_offset + each.size_bytes
            and end > each.base_offset + each.present_bytes
        ]
        for each in short:
            what = f"the file has {each.present_bytes} bytes, the others have {each.size_bytes}"
            self._note(Kind.SEGMENT_TRUNCATED, each, each.present_bytes, what)
        return bool(short)

    def _note(self, kind: Kind, segment: MappedFile, offset: int, what: str) -> None:
        self._report.add(kind, f"{COMMIT_LOG_DIR}/{segment.path.name}", offset, what)


def _segment_at(segments: list[MappedFile], offset: int) -> MappedFile:
    return next(each for each in segments if offset < each.base_offset + each.size_bytes)


def _add(view: memoryview, at: int, physical_offset: int, batch: LogBatch) -> None:
    """Add a whole record to the batch: here a check of a store spends its time."""
    batch.record_count += 1
    if is_unseen(view, at):
        return
    parts = parts_of(view, at)
    topic, tail, properties_at = parts.topic, parts.tail, parts.properties_at
    properties = tail[properties_at:]
    units = batch.units.get((topic, parts.queue_id))
    if units is None:
        units = batch.units[topic, parts.queue_id] = []
    tag = unit_tag_of(topic, properties, parts.store_timestamp_ms)
    units += (parts.queue_offset, physical_offset, parts.record_bytes, tag)
    hashed = topic_hash(topic)
    for key in keys_of(tail, properties_at, len(tail)):
        batch.topic_hashes.append(hashed)
        batch.keys.append(key)
        batch.key_offsets.append(physical_offset)
    if batch.tagged is not None and (word := tag_of(properties)):
        batch.tagged.append((topic, word, physical_offset))
    if DEDUP_HEAD in properties and SETTLES_HEAD not in properties:  # else it was moved
        _mark(batch, physical_offset, topic, properties)


def _mark(batch: LogBatch, physical_offset: int, topic: bytes, properties: bytes) -> None:
    mark = dedup_mark_of(properties)
    if mark is None:
        return
    if topic == SCHEDULE_TOPIC_BYTES:
        _, head, rest = (b"\x02" + properties).partition(b"\x02" + _REAL_TOPIC_HEAD)
        topic = rest.partition(b"\x02")[0] if head else b""
    key_hash = key_hash_of(topic, mark.key)
    batch.marks.append(Mark(physical_offset, key_hash, mark.fingerprint))
