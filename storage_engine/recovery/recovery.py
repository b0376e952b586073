"""Turns the files that any stop left behind into a log with a clean end and matching queues.

    checkpoint, commit log ──▶ [read_log] ──▶ LogFound, or a refusal; no byte has changed
    LogFound, consume queues ──▶ [recover] ──▶ append_offset, flushed_offset, queues
                                     └── keys of records ──▶ index

The log is scanned from ``dispatched_offset`` of the checkpoint; what is damaged and where it ends
is decided by the table in ``log_scan.py``. Each whole record goes into its consume queue again; a
damaged one gets the unit it had, so that its queue offset is not used twice, and the quarantine
says so. Records that took another one's place say what they settle (``records/settles.py``).
Consume queues that do not hold what the checkpoint counted are rebuilt from the start of the log.
Nothing is changed before the log has been read; running it twice changes nothing the second time.
Times are never used to choose where to begin.

What is refused, with every byte as it was (``repair.py`` is what an operator may do then):

    found                                                         because
    segments missing, or cut short where records were             nothing can stand in for them
    bytes behind the log's end, and no checkpoint of ours         somebody else wrote them: nobody
                                                                  knows what they are
    more of them than the newest segment's, and more than can     a power cut leaves no such thing
    have been without a sync
    records, and no table of topics                               groups and offsets are missing too
    a kind of record that only RocketMQ has                       it would be lost
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.disk.layout import CHECKPOINT_FILE
from storage_engine.disk.mapped_file import MappedFile
from storage_engine.errors import StoreCorrupt
from storage_engine.index.indexer import Indexer
from storage_engine.log.checkpoint import Checkpoint, write_checkpoint
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.log_scan import Damage, LastRun, Scan, lacks_records, scan
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.records.record import parse_head
from storage_engine.records.record_parts import RecordParts
from storage_engine.records.schedule_topic import unit_tag_of
from storage_engine.records.settles import Settles
from storage_engine.recovery.rebuild import KnownUnit, Rebuild

log = logging.getLogger(__name__)


class Recovered(NamedTuple):
    """What was found. ``start_offset``: where scanning the log began."""

    start_offset: int
    end_offset: int
    record_count: int
    truncated_bytes: int
    damaged: list[Damage]
    settles: list[Settles]  # of records that took another one's place


class LogFound(NamedTuple):
    """The log as a stop left it."""

    scan: Scan
    start_offset: int
    last_run: LastRun


def read_log(commit_log: CommitLog, last_run: LastRun, *, torn_bytes_max: int) -> LogFound:
    """Find out where the log ends and what is damaged in it; changes no byte.

    ``torn_bytes_max``: what a power cut can have taken, at most.

    Raises:
        StoreCorrupt: see the module's docstring.
    """
    checkpoint, keeps_whole = last_run
    mark = checkpoint or Checkpoint()
    commit_log.load()
    segments = commit_log.segments()
    log_end = segments[-1].base_offset + segments[-1].size_bytes if segments else 0
    if mark.flushed_offset > log_end:
        raise StoreCorrupt(
            f"the checkpoint says that {mark.flushed_offset} bytes are durable, but "
            f"the log has only {log_end}: segments are missing. Nothing was changed: "
            "restore them, for example from a backup"
        )
    start = max(mark.dispatched_offset, commit_log.start_offset)
    found = _read_log(segments, start, mark.flushed_offset, keeps_whole=keeps_whole)
    _reject_short_segments(segments, found, start)
    why_not_cut = found.end.why_not_cut(
        is_ours=checkpoint is not None, torn_bytes_max=torn_bytes_max
    )
    if why_not_cut:
        raise StoreCorrupt(why_not_cut)
    return LogFound(found, start, last_run)


def _reject_short_segments(segments: list[MappedFile], found: Scan, start_offset: int) -> None:
    """A segment may be shorter than the others only where nothing was in what it lacks."""
    for segment in segments:
        end = segment.base_offset + segment.size_bytes
        short_at = segment.base_offset + segment.present_bytes
        looked = found
        if short_at < min(start_offset, end):  # nobody has looked at its end
            looked = scan([segment], segment.base_offset, end, keeps_whole=True)
        if lacks_records(segment, looked):
            raise StoreCorrupt(
                f"{segment.path} has only {segment.present_bytes} of "
                f"{segment.size_bytes} bytes, and records are missing at its end: it "
                "was not copied completely. Nothing was changed: copy it again, or "
                "restore a backup"
            )


def recover(
    parts: EngineParts,
    log_found: LogFound,
    *,
    keys: Indexer,
    found_mark: Callable[[int, RecordParts], None],
) -> Recovered:
    """Bring log and consume queues to one end; both are ready for appends on return.

    ``keys`` are told of the records that are not in their files. ``found_mark``: told of each
    record with the mark of a request that no checkpoint covers.

    Raises:
        DiskFull, SyncFailed: queues or index cannot be taken over; nothing is lost.
    """
    found, start, (checkpoint, keeps_whole) = log_found
    commit_log, queues, floors = parts.commit_log, parts.queues, parts.min_offsets.table
    path = parts.config.store_path / CHECKPOINT_FILE
    save = partial(write_checkpoint, parts.files, path)
    mark = checkpoint or Checkpoint()
    commit_log.tidy()
    segments = commit_log.segments()
    unsaved_offset = mark.dispatched_offset
    cut = queues.load(start, floors)
    unit_count = sum(queue.max_offset for queue in queues)
    if unit_count != mark.unit_count or _raise_queue_starts(queues, floors):
        # Somebody deleted or exchanged consume queues: all of them come back from the log. No
        # checkpoint may count their units meanwhile: after a power cut some files are the old ones.
        if checkpoint is not None:
            mark = msgspec.structs.replace(mark, dispatched_offset=0, unit_count=0)
            save(mark)
        start = commit_log.start_offset
        found = _read_log(segments, start, found.end_offset, keeps_whole=keeps_whole)
        cut = queues.load(start, floors) + cut  # what was cut first is higher in the log
    parts.quarantine.note(found.damaged)
    known, guessed = _units_of_damaged(queues, segments, found, cut)
    end_offset = found.end_offset
    keys.begin(
        mark,
        save if checkpoint else None,
        start_offset=start,
        end_offset=end_offset,
        damaged=found.damaged,
    )
    rebuild = Rebuild(
        queues, found, known, unsaved_offset=unsaved_offset, keys=keys, found_mark=found_mark
    )
    rebuild.run(segments, start)
    for entry in guessed:
        rebuild.put_known(entry)
    # RocketMQ has no floors: its queues begin where its log does.
    raise_to_floors(queues, floors, 0 if checkpoint else commit_log.start_offset)
    stamp = max(found.store_timestamp_ms, mark.store_timestamp_ms)
    truncated_bytes = commit_log.truncate(end_offset, stamp, has_zeros_behind=not found.end.reason)
    commit_log.rewrite_from(mark.flushed_offset)
    keys.complete(end_offset)
    if truncated_bytes:
        what = {"action": "tail_truncated", "offset": end_offset, "reason": found.end.reason}
        log.warning("Cut off an incomplete write at the end of the commit log", extra=what)
    count, settles = found.record_count, rebuild.settles
    return Recovered(start, end_offset, count, truncated_bytes, found.damaged, settles)


def raise_to_floors(
    queues: ConsumeQueues, floors: Mapping[str, list[int]], start_offset: int
) -> None:
    """Let no queue begin below its least min_offset, nor before ``start_offset`` of the log."""
    for topic, offsets in floors.items():
        for queue, floor in zip(queues.ensure(topic, len(offsets)), offsets, strict=False):
            if queue.max_offset < floor:
                queue.start_at(floor)  # all of it has expired and been deleted
            queue.raise_min(floor)
    for queue in queues if start_offset else ():
        queue.raise_min(queue.first_at_or_above(start_offset))


def _read_log(
    segments: list[MappedFile], start: int, flushed_offset: int, *, keeps_whole: bool
) -> Scan:
    """``scan``, announced: of a whole log it takes minutes, in which nobody is answered."""
    segment_count = sum(1 for each in segments if each.base_offset + each.size_bytes > start)
    told = {"action": "log_reading", "start_offset": start, "segment_count": segment_count}
    if segment_count:
        log.info("Reading the commit log; clients cannot connect until this is done", extra=told)
    return scan(segments, start, flushed_offset, keeps_whole=keeps_whole)


def _raise_queue_starts(queues: ConsumeQueues, floors: Mapping[str, list[int]]) -> bool:
    """Whether the first file of a queue is missing, which leaves its end as it was."""
    for queue in queues:
        of_topic = floors.get(queue.topic, [])
        floor = of_topic[queue.queue_id] if queue.queue_id < len(of_topic) else 0
        if queue.min_offset > floor:
            return True
    return False


def _units_of_damaged(
    queues: ConsumeQueues, segments: list[MappedFile], found: Scan, cut: list[KnownUnit]
) -> tuple[list[KnownUnit], list[KnownUnit]]:
    """The units of records that cannot be read any more, in the order of the log.

    First those from the consume queue that was there; then, of the other records, what their own
    heads say, when that still makes sense. A damaged head may name the place of a whole record, so
    that those belong behind all others.
    """
    known: list[KnownUnit] = []
    guessed: list[KnownUnit] = []
    for damage in found.damaged:
        units = [entry for entry in cut if damage.start <= entry[2][0] < damage.end]
        known += units
        if not units:
            guessed += _from_head(queues, segments, damage)
    return known, guessed


def _from_head(
    queues: ConsumeQueues, segments: list[MappedFile], damage: Damage
) -> list[KnownUnit]:
    segment = next(file for file in segments if damage.start < file.base_offset + file.size_bytes)
    try:
        head = parse_head(segment.view, damage.start - segment.base_offset)
    except StoreCorrupt:
        return []
    of_topic = queues.by_topic.get(head.topic, [])
    if head.physical_offset != damage.start or not 0 <= head.queue_id < len(of_topic):
        return []
    properties_at = damage.start - segment.base_offset + head.properties_at
    properties = bytes(segment.view[properties_at : properties_at + head.properties_bytes])
    tag = unit_tag_of(head.topic, properties, head.store_timestamp_ms)
    unit = (damage.start, head.record_bytes, tag)
    return [(of_topic[head.queue_id], head.queue_offset, unit)]
