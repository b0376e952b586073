"""Reads and checks every record of the commit log, and says what queues and index must contain.

    segments ──▶ [LogCheck.batches] ──▶ LogBatch: units and keys of some thousand whole records
                          └─ damage, missing segments ──▶ Report, and ``damaged`` ranges

Of each record: lengths, body CRC, record CRC, its place. Behind a damaged place reading goes on at
the next whole record. Only reads.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from isal.isal_zlib import crc32
from numpy.typing import NDArray

from storage_engine.disk.layout import COMMIT_LOG_DIR, base_offset_of
from storage_engine.errors import StoreCorrupt
from storage_engine.reader.salvage import first_nonzero, mapped, next_whole
from storage_engine.records.dedup_mark import DEDUP_HEAD, dedup_mark_of, key_hash_of
from storage_engine.records.key_hash import topic_hash
from storage_engine.records.message_keys import keys_of
from storage_engine.records.record import (
    CRC_MASK,
    CRC_PROPERTY_BYTES,
    LENGTH_2,
    LENGTH_4,
    MAGIC_V1,
    MAGIC_V2,
    SYSFLAG_BORN_HOST_V6,
    SYSFLAG_STORE_HOST_V6,
)
from storage_engine.records.record_check import is_blank, whole_record
from storage_engine.records.record_parts import is_unseen, store_timestamp_of
from storage_engine.records.schedule_topic import (
    REAL_TOPIC,
    SCHEDULE_TOPIC_BYTES,
    unit_tag_of,
)
from storage_engine.records.settles import SETTLES_HEAD
from storage_engine.records.tag_hash import tag_of
from storage_engine.tools.verify.report import Kind, Report

BATCH_BYTES: Final = 16 << 20
BATCH_RECORDS: Final = 32_768
_HEAD = struct.Struct(">IIIi4xqqi44xI")  # size, magic, CRC, queue, queue offset, place, sysflag
_HEAD_BYTES: Final = 88
_V6: Final = SYSFLAG_BORN_HOST_V6 | SYSFLAG_STORE_HOST_V6
assert _HEAD.size == _HEAD_BYTES
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


class Segment(NamedTuple):
    path: Path
    base_offset: int
    size_bytes: int


class LogCheck:
    """See the module's docstring.

    ``flushed_offset``: below it everything must be whole. ``must_be_whole``: above it too, since
    the engine stopped in order. ``is_of_rocketmq``: a broker was the last to write to the store.
    """

    def __init__(
        self,
        store: Path,
        report: Report,
        *,
        flushed_offset: int,
        must_be_whole: bool,
        is_of_rocketmq: bool = False,
    ) -> None:
        self._report = report
        self._is_of_rocketmq = is_of_rocketmq
        self._flushed_offset = flushed_offset
        self._must_be_whole = must_be_whole
        self._count = report.count("commit log")
        self._ended = False
        self.damaged: list[tuple[int, int]] = []  # ascending ranges without whole records
        self.segments = self._list(store / COMMIT_LOG_DIR)
        self.start_offset = self.segments[0].base_offset if self.segments else 0
        self.end_offset = self.start_offset

    def _list(self, directory: Path) -> list[Segment]:
        found = []
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            base_offset = base_offset_of(path.name)
            if base_offset is not None and path.is_file():
                found.append(Segment(path, base_offset, path.stat().st_size))
        self._count.file_count = len(found)
        return found

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
        size_bytes = max((segment.size_bytes for segment in self.segments), default=0)
        for number, segment in enumerate(self.segments):
            is_last = number == len(self.segments) - 1
            following = None if is_last else self.segments[number + 1].base_offset
            if self._ended:
                self._check_prepared(segment)
                continue
            self.end_offset = segment.base_offset
            if segment.size_bytes < size_bytes:
                self._note(
                    Kind.SEGMENT_TRUNCATED,
                    segment,
                    segment.size_bytes,
                    f"the file has {segment.size_bytes} bytes, the others have {size_bytes}",
                )
            if segment.size_bytes:
                try:
                    yield from self._read(segment, is_truncated=segment.size_bytes < size_bytes)
                except FileNotFoundError:
                    self._report.notes.append(f"{segment.path.name} was deleted during the check")
            end = segment.base_offset + size_bytes
            if following is not None and following > end and not self._ended:
                self._lose(end, following)
                self._note(
                    Kind.SEGMENT_MISSING,
                    segment,
                    end,
                    f"the bytes {end} to {following} of the log are in no file",
                )
            if segment.size_bytes < size_bytes and not self._ended:
                self._lose(segment.base_offset + segment.size_bytes, end)
        if self.end_offset < self._flushed_offset:
            self._lose(self.end_offset, self._flushed_offset)
            if not any(each.size_bytes < size_bytes for each in self.segments):
                self._report.add(
                    Kind.LOG_TOO_SHORT,
                    COMMIT_LOG_DIR,
                    self.end_offset,
                    "the log ends here, but the checkpoint says that "
                    f"{self._flushed_offset} bytes were durable",
                )

    def _read(self, segment: Segment, *, is_truncated: bool) -> Iterator[LogBatch]:
        with mapped(segment.path) as content, memoryview(content) as view:
            at, size = 0, len(view)
            batch, batch_at = self._new_batch(), 0
            while at < size:
                taken = _take(view, at, segment.base_offset, batch)
                if taken:
                    at += taken
                    if batch.record_count >= BATCH_RECORDS or at - batch_at >= BATCH_BYTES:
                        yield self._done(batch, segment, batch_at, at)
                        batch, batch_at = self._new_batch(), at
                    continue
                if is_blank(view, at):
                    self.end_offset = segment.base_offset + size
                    yield self._done(batch, segment, batch_at, size)
                    return
                offset = segment.base_offset + at
                # Zeros need no search, of which the last segment may have a GiB that no disk holds.
                is_zero = first_nonzero(segment.path, view, at) is None
                if is_truncated and is_zero:
                    break
                if offset >= self._flushed_offset and not self._report.is_whole_store:
                    self._ended = True  # the engine is writing here just now
                    break
                following = (
                    None if is_zero else next_whole(content, view, at + 1, segment.base_offset)
                )
                if following is None and self._is_end(segment, view, at):
                    self._ended = True
                    break
                stop = size if following is None else following
                # A file that ends too early is the finding, not the record that it cuts off.
                is_cut = following is None and segment.base_offset + size < self._flushed_offset
                is_cut = is_cut and segment is self.segments[-1]
                if not (following is None and is_truncated) and not is_cut:
                    reason = _reason(view, at, segment.base_offset)
                    reason = reason or "the body does not match its CRC"
                    self._note(Kind.RECORD_DAMAGED, segment, offset, reason)
                self._lose(offset, segment.base_offset + stop)
                at = stop
            self.end_offset = segment.base_offset + at
            yield self._done(batch, segment, batch_at, at)

    def _new_batch(self) -> LogBatch:
        return LogBatch(is_of_rocketmq=self._is_of_rocketmq)

    def _is_end(self, segment: Segment, view: memoryview, at: int) -> bool:
        """Whether the log ends here, as it may; what stands behind its end is looked at too."""
        offset = segment.base_offset + at
        behind = [each for each in self.segments if each.base_offset > offset]
        if any(_begins_whole(each) for each in behind):
            return False
        dirty = first_nonzero(segment.path, view, at)
        if offset < self._flushed_offset:
            return dirty is None  # zeros where records were: reported as a log that is too short
        if dirty is not None and self._report.is_whole_store:
            if self._must_be_whole:
                return False
            self._note(
                Kind.LOG_TAIL,
                segment,
                offset,
                f"neither a whole record nor zeros: {_reason(view, at, segment.base_offset)}",
            )
        return True

    def _check_prepared(self, segment: Segment) -> None:
        """Segments behind the end are made ahead of use and hold nothing."""
        if not segment.size_bytes or not self._report.is_whole_store:
            return
        with mapped(segment.path) as content, memoryview(content) as view:
            dirty = first_nonzero(segment.path, view, 0)
        if dirty is not None:
            self._note(
                Kind.LOG_TAIL,
                segment,
                segment.base_offset + dirty,
                "the bytes after the end of the log are not zero",
            )

    def _done(self, batch: LogBatch, segment: Segment, start: int, end: int) -> LogBatch:
        batch.end_offset = segment.base_offset + end
        self._count.byte_count += end - start
        self._count.item_count += batch.record_count
        self._report.byte_count += end - start
        return batch

    def _lose(self, start: int, end: int) -> None:
        self.damaged.append((start, end))

    def _note(self, kind: Kind, segment: Segment, offset: int, what: str) -> None:
        self._report.add(kind, f"{COMMIT_LOG_DIR}/{segment.path.name}", offset, what)


def _take(view: memoryview, at: int, base_offset: int, batch: LogBatch) -> int:
    """Check one record and add it to the batch; its size, or 0 when it is not whole.

    The same rules as ``record.verify_record`` and the body's CRC, in one pass without an object:
    this is where a check of a store spends its time.
    """
    size = len(view)
    if size - at < _HEAD_BYTES:
        return 0
    (
        record_bytes,
        magic,
        body_crc,
        queue_id,
        queue_offset,
        physical_offset,
        sysflag,
        body_bytes,
    ) = _HEAD.unpack_from(view, at)
    body_at = at + _HEAD_BYTES
    if sysflag & _V6:
        body_at += 12 if sysflag & _V6 != _V6 else 24
        if body_at > size:
            return 0
        body_bytes = LENGTH_4.unpack_from(view, body_at - 4)[0]
    topic_at = body_at + body_bytes
    end = at + record_bytes
    if end > size or topic_at + 3 > end:
        return 0
    if magic == MAGIC_V1:
        properties_at = topic_at + 3 + view[topic_at]
        topic = bytes(view[topic_at + 1 : properties_at - 2])
    elif magic == MAGIC_V2:
        properties_at = topic_at + 4 + LENGTH_2.unpack_from(view, topic_at)[0]
        topic = bytes(view[topic_at + 2 : properties_at - 2])
    else:
        return 0
    if (
        properties_at > end
        or LENGTH_2.unpack_from(view, properties_at - 2)[0] != end - properties_at
        or physical_offset != base_offset + at
        or crc32(view[body_at:topic_at]) & CRC_MASK != body_crc
    ):
        return 0
    properties = bytes(view[properties_at:end])
    crc = crc32(view[at : end - CRC_PROPERTY_BYTES]) & CRC_MASK
    if not properties.endswith(b"__CRC32#\x01%b\x02" % (b"%010d" % crc)[::-1]) and _reason(
        view, at, base_offset
    ):
        return 0
    batch.record_count += 1
    taken: int = record_bytes
    if is_unseen(view, at):
        return taken
    tag = unit_tag_of(topic, properties, store_timestamp_of(view, at))
    row = (queue_offset, physical_offset, record_bytes, tag)
    units = batch.units.get((topic, queue_id))
    if units is None:
        units = batch.units[topic, queue_id] = []
    units += row
    hashed = topic_hash(topic)
    for key in keys_of(properties, 0, len(properties)):
        batch.topic_hashes.append(hashed)
        batch.keys.append(key)
        batch.key_offsets.append(physical_offset)
    if batch.tagged is not None and (word := tag_of(properties)):
        batch.tagged.append((topic, word, physical_offset))
    if DEDUP_HEAD in properties and SETTLES_HEAD not in properties:  # else it was moved
        _mark(batch, physical_offset, topic, properties)
    return taken


def _mark(batch: LogBatch, physical_offset: int, topic: bytes, properties: bytes) -> None:
    mark = dedup_mark_of(properties)
    if mark is None:
        return
    if topic == SCHEDULE_TOPIC_BYTES:
        _, head, rest = (b"\x02" + properties).partition(b"\x02" + _REAL_TOPIC_HEAD)
        topic = rest.partition(b"\x02")[0] if head else b""
    key_hash = key_hash_of(topic, mark.key)
    batch.marks.append(Mark(physical_offset, key_hash, mark.fingerprint))


def _reason(view: memoryview, at: int, base_offset: int) -> str:
    try:
        whole_record(view, at, base_offset)
    except StoreCorrupt as exc:
        return str(exc)
    return ""


def _begins_whole(segment: Segment) -> bool:
    if not segment.size_bytes:
        return False
    with mapped(segment.path) as content, memoryview(content) as view:
        return bool(_take(view, 0, segment.base_offset, LogBatch()))
