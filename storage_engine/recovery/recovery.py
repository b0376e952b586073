"""From whatever files a stop left behind to a log with a clean end and the queues that belong to
it.

    checkpoint, commit log, consume queues ──▶ [recover] ──▶ append_offset, flushed_offset, queues

The log is scanned from ``dispatched_offset`` of the checkpoint; what is damaged and where it ends
is decided by the table in ``log_scan.py``. Each whole record goes into its consume queue again; a
damaged one gets the unit it had, so that its queue offset is not used twice, and the quarantine
says so. Records that took another one's place say what they settle (``records/settles.py``).
Consume queues that do not hold what the checkpoint counted are rebuilt from the start of the log.
Nothing is changed before the log has been read; running it twice changes nothing the second time.
Times are never used to choose where to begin.

Only a log whose segments are missing is refused: everything else can be served around.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from storage_engine.disk.mapped_file import MappedFile
from storage_engine.errors import StoreCorrupt
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.log_scan import Damage, Scan, scan, walk
from storage_engine.log.quarantine import Quarantine
from storage_engine.queues.consume_queue import PRE_BLANK_BYTES, ConsumeQueue, Unit
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.records.dedup_mark import DEDUP_HEAD
from storage_engine.records.record import parse_head
from storage_engine.records.record_parts import RecordParts, parts_of
from storage_engine.records.schedule_topic import unit_tag_of
from storage_engine.records.settles import SETTLES_HEAD, Settles, settles_of
from storage_engine.recovery.checkpoint import Checkpoint

log = logging.getLogger(__name__)


class Recovered(NamedTuple):
    """What was found. ``start_offset``: where scanning the log began."""

    start_offset: int
    end_offset: int
    record_count: int
    truncated_bytes: int
    damaged: list[Damage]
    settles: list[Settles]  # of records that took another one's place


def recover(
    commit_log: CommitLog,
    queues: ConsumeQueues,
    checkpoint: Checkpoint | None,
    *,
    floors: Mapping[str, list[int]],
    quarantine: Quarantine,
    was_power_cut: bool,
    save: Callable[[Checkpoint], None],
    found_mark: Callable[[int, RecordParts], None],
) -> Recovered:
    """Bring log and consume queues to one end; both are ready for appends on return.

    ``floors``: least min_offset of each queue, by topic. ``was_power_cut``: pages that were not
    synced may be missing. ``save`` makes another checkpoint durable. ``found_mark``: told of each
    record with the mark of a request that no checkpoint covers.

    Raises:
        StoreCorrupt: a segment is missing; nothing is changed.
    """
    mark = checkpoint or Checkpoint()
    commit_log.load()
    segments = commit_log.segments()
    log_end = segments[-1].base_offset + segments[-1].size_bytes if segments else 0
    if mark.flushed_offset > log_end:
        raise StoreCorrupt(
            f"the checkpoint says {mark.flushed_offset} bytes are durable, the log has {log_end}: "
            "segments are missing"
        )
    keeps_whole = checkpoint is None or not was_power_cut
    start = max(mark.dispatched_offset, commit_log.start_offset)
    found = scan(segments, start, mark.flushed_offset, keeps_whole=keeps_whole)
    cut = queues.load(start, floors)
    if sum(queue.max_offset for queue in queues) != mark.unit_count or _begin_late(queues, floors):
        # Somebody deleted or exchanged consume queues: all of them come back from the log. No
        # checkpoint may count their units meanwhile: after a power cut some files are the old ones.
        if checkpoint is not None:
            save(msgspec.structs.replace(mark, dispatched_offset=0, unit_count=0))
        start = commit_log.start_offset
        found = scan(segments, start, found.end_offset, keeps_whole=keeps_whole)
        cut = queues.load(start, floors) + cut  # what was cut first is higher in the log
    quarantine.add(found.damaged)
    known, guessed = _units_of_damaged(queues, segments, found, cut)
    settles = _dispatch_all(
        queues, segments, start, found, known, mark.dispatched_offset, found_mark
    )
    for entry in guessed:
        _put_known(*entry)
    for topic, offsets in floors.items():
        for queue, floor in zip(queues.ensure(topic, len(offsets)), offsets, strict=False):
            if queue.max_offset < floor:
                queue.begin_at(floor)  # all of it has expired and been deleted
            queue.raise_min(floor)
    stamp = max(found.store_timestamp_ms, mark.store_timestamp_ms)
    truncated_bytes = commit_log.truncate(found.end_offset, stamp)
    commit_log.rewrite_from(mark.flushed_offset)
    if truncated_bytes:
        log.warning(
            "torn tail cut off",
            extra={"action": "tail_cut", "offset": found.end_offset, "reason": found.tail_reason},
        )
    return Recovered(
        start, found.end_offset, found.record_count, truncated_bytes, found.damaged, settles
    )


def _begin_late(queues: ConsumeQueues, floors: Mapping[str, list[int]]) -> bool:
    """Whether the first file of a queue is missing, which leaves its end as it was."""
    for queue in queues:
        of_topic = floors.get(queue.topic, [])
        floor = of_topic[queue.queue_id] if queue.queue_id < len(of_topic) else 0
        if queue.min_offset > floor:
            return True
    return False


_KnownUnit = tuple[ConsumeQueue, int, Unit]


def _units_of_damaged(
    queues: ConsumeQueues, segments: list[MappedFile], found: Scan, cut: list[_KnownUnit]
) -> tuple[list[_KnownUnit], list[_KnownUnit]]:
    """The units of records that cannot be read any more, in the order of the log.

    First those from the consume queue that was there; then, of the other records, what their own
    heads say, when that still makes sense. A damaged head may name the place of a whole record, so
    that those belong behind all others.
    """
    known: list[_KnownUnit] = []
    guessed: list[_KnownUnit] = []
    for damage in found.damaged:
        units = [entry for entry in cut if damage.start <= entry[2][0] < damage.end]
        known += units
        if not units:
            guessed += _from_head(queues, segments, damage)
    return known, guessed


def _from_head(
    queues: ConsumeQueues, segments: list[MappedFile], damage: Damage
) -> list[_KnownUnit]:
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
    unit = (damage.start, head.record_bytes, unit_tag_of(head.topic, properties))
    return [(of_topic[head.queue_id], head.queue_offset, unit)]


def _dispatch_all(
    queues: ConsumeQueues,
    segments: list[MappedFile],
    start: int,
    found: Scan,
    known: list[_KnownUnit],
    dispatched_offset: int,
    found_mark: Callable[[int, RecordParts], None],
) -> list[Settles]:
    """Put every record into its queue; what those above ``dispatched_offset`` settle.

    What the others settle is in the consumer offsets, which are written before the checkpoint.
    """
    settles: list[Settles] = []
    is_whole_log = not segments or segments[0].base_offset == 0
    at_known = 0
    for offset, view, at in walk(segments, start, found.end_offset, found.damaged):
        while at_known < len(known) and known[at_known][2][0] < offset:
            _put_known(*known[at_known])
            at_known += 1
        parts = parts_of(view, at)
        _dispatch(queues, offset, parts, found.damaged, is_whole_log=is_whole_log)
        if offset >= dispatched_offset and SETTLES_HEAD in parts.tail:
            settled = settles_of(parts.tail, parts.properties_at)
            if settled is not None:
                settles.append(settled)
        if offset >= dispatched_offset and DEDUP_HEAD in parts.tail:
            found_mark(offset, parts)
    for entry in known[at_known:]:
        _put_known(*entry)
    return settles


def _put_known(queue: ConsumeQueue, queue_offset: int, unit: Unit) -> None:
    if queue_offset == queue.max_offset:
        queue.put(*unit)


def _dispatch(
    queues: ConsumeQueues,
    offset: int,
    parts: RecordParts,
    damaged: list[Damage],
    *,
    is_whole_log: bool,
) -> None:
    record_bytes, queue_id, queue_offset, _, topic, tail, properties_at = parts
    of_topic = queues.by_topic.get(topic)
    if of_topic is None or queue_id >= len(of_topic):
        of_topic = queues.ensure(topic.decode(), queue_id + 1)
    queue = of_topic[queue_id]
    lost_count = queue_offset - queue.max_offset
    if lost_count < 0:
        return  # it was dispatched and durable already
    if lost_count and not queue.max_offset and not is_whole_log:
        queue.begin_at(queue_offset)  # what came before has expired and been deleted
    elif lost_count:
        # Nothing knows these messages any more: their units lead to what is left of them.
        before = bisect_left(damaged, offset, key=_start_of)
        lost = damaged[before - 1] if before else Damage(offset, offset + 1, "")
        lost_bytes = min(lost.end - lost.start, PRE_BLANK_BYTES - 1)
        for _ in range(lost_count):
            queue.put(lost.start, lost_bytes, 0)
    queue.put(offset, record_bytes, unit_tag_of(topic, tail[properties_at:]))


def _start_of(damage: Damage) -> int:
    return damage.start
