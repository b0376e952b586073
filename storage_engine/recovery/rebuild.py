"""Fills consume queues from a scanned log again, and collects everything else that one reading of
it can tell.

    records ──▶ [rebuild] ──▶ units, many of a queue at once ──▶ ConsumeQueue
                    ├── keys of each, many at once ──▶ keys (the indexer)
                    ├── marks of requests ──▶ found_mark
                    └──▶ what records settle that took another one's place

A start has millions to look at. Most are like others before: all of the record behind its body but
the id and the CRC is the same. Then tag, topic and keys are what they were there. What is known of
those is bounded. The records were verified by the scan, so their bytes are trusted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final, NamedTuple

from storage_engine.disk.mapped_file import MappedFile
from storage_engine.errors import StoreCorrupt
from storage_engine.index.indexer import Indexer
from storage_engine.log.log_scan import Damage, Scan, walk
from storage_engine.queues.consume_queue import PRE_BLANK_BYTES, UNIT, ConsumeQueue, Unit
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.records.dedup_mark import DEDUP_HEAD
from storage_engine.records.key_hash import topic_hash
from storage_engine.records.message_keys import (
    BEHIND_ID,
    ID_BACK,
    ID_END_BACK,
    ID_HEAD,
    ID_HEAD_BACK,
    PAIR_END,
    KeyBatch,
    empty_batch,
    keys_of,
)
from storage_engine.records.record import CRC_DIGITS, FIXED_BYTES
from storage_engine.records.record_parts import (
    RecordParts,
    is_unseen,
    parts_of,
    plain_parts_of,
)
from storage_engine.records.schedule_topic import (
    PROPERTY_DELIVER_AT,
    SCHEDULE_TOPIC_BYTES,
    unit_tag_of,
)
from storage_engine.records.settles import SETTLES_HEAD, Settles, settles_of

BATCH_RECORDS: Final = 2_048
_TEMPLATES_MAX: Final = 1_024
_TEMPLATE_BYTES_MAX: Final = 1_024  # of what makes records alike; longer ones are read one by one
_DIGITS_BACK: Final = CRC_DIGITS + 1
_DELIVER_AT: Final = PROPERTY_DELIVER_AT.encode()
_NO_NAMES: Final = frozenset({b"", b".", b".."})

# A unit that is known without its record: of which queue, its place there, what it says.
KnownUnit = tuple[ConsumeQueue, int, Unit]


class _RecordTemplate(NamedTuple):
    """What is the same of records whose bytes behind the body differ in id and CRC only."""

    fills: list[_Fill]
    tag: int
    topic_hash: int
    more_keys: list[bytes]


class _Fill:
    """A consume queue and the units that go there next; ``end`` is its max_offset with them."""

    __slots__ = ("end", "queue", "units")

    def __init__(self, queue: ConsumeQueue) -> None:
        self.queue = queue
        self.end = queue.max_offset
        self.units: list[bytes] = []

    def flush(self) -> None:
        if self.units:
            self.queue.put_many(self.units)
            self.units.clear()

    def put(self, *unit: int) -> None:
        self.units.append(UNIT.pack(*unit))
        self.end += 1


class Rebuild:
    """See the module's docstring. Raises ``DiskFull`` where a queue's file has no room.

    ``known``: units of damaged records, in the order of the log. Settles and marks are told of
    records from ``unsaved_offset`` on: those of the others are in files that a checkpoint counts.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        found: Scan,
        known: list[KnownUnit],
        *,
        unsaved_offset: int,
        keys: Indexer,
        found_mark: Callable[[int, RecordParts], None],
    ) -> None:
        self._queues = queues
        self._found = found
        self._known = known
        self._at_known = 0
        self._unsaved_offset = unsaved_offset
        self._keys = keys
        self._found_mark = found_mark
        self._fills: dict[bytes, list[_Fill]] = {}
        self._templates: dict[bytes, _RecordTemplate] = {}
        self._is_whole_log = True
        self.settles: list[Settles] = []

    def run(self, segments: list[MappedFile], start: int) -> None:
        """Look at all records from ``start`` to the end of the scan."""
        self._is_whole_log = not segments or segments[0].base_offset == 0
        end = self._found.end_offset
        records = walk(segments, start, end, self._found.damaged)
        batch, batch_start, wanted = empty_batch(), start, self._keys.collected_offset
        likes, pack = self._templates, UNIT.pack
        left = BATCH_RECORDS
        for offset, view, at in records:
            if self._at_known < len(self._known):
                self._put_known_below(offset)
            if not left:
                self._flush(batch, max(batch_start, wanted), offset)
                batch, batch_start, left = empty_batch(), offset, BATCH_RECORDS
            left -= 1
            record_bytes, queue_id, queue_offset, stamp, tail = plain_parts_of(view, at)
            message_id = tail[-ID_BACK:-ID_END_BACK]
            like = likes.get(tail[:-ID_BACK])
            if (
                like is None
                or PAIR_END in message_id
                or tail[-ID_END_BACK:-_DIGITS_BACK] != BEHIND_ID
            ):
                parts = parts_of(view, at)
                queue_id, queue_offset, stamp = parts[1:4]
                if is_unseen(view, at):
                    continue
                like, keys = self._read_record(offset, parts, is_plain=bool(tail))
            elif like.more_keys:
                keys = [message_id, *like.more_keys]
            else:
                keys = [message_id]
            fills, tag, hashed, _ = like
            if queue_id < len(fills) and fills[queue_id].end == queue_offset:
                fill = fills[queue_id]
                fill.units.append(pack(offset, record_bytes, tag))
                fill.end = queue_offset + 1
            else:
                self._put(offset, parts_of(view, at), tag)
            if offset >= wanted:
                if len(keys) != 1:
                    batch.counts.append((len(batch.topic_hashes), len(keys)))
                batch.topic_hashes.append(hashed)
                batch.keys.extend(keys)
                batch.physical_offsets.append(offset)
                batch.stamps.append(stamp)
        self._flush(batch, max(batch_start, wanted), end)
        while self._at_known < len(self._known):
            self._put_next_known()

    def _flush(self, batch: KeyBatch, start: int, end: int) -> None:
        for fills in self._fills.values():
            for fill in fills:
                fill.flush()
        if start < end:
            self._keys.published(start, end, batch)

    def _read_record(
        self, offset: int, parts: RecordParts, *, is_plain: bool
    ) -> tuple[_RecordTemplate, list[bytes]]:
        """Read all of a record, its keys too; remember it where others may be like it."""
        tail, properties_at = parts.tail, parts.properties_at
        is_new = offset >= self._unsaved_offset
        has_settles, has_mark = SETTLES_HEAD in tail, DEDUP_HEAD in tail
        if has_settles and is_new:
            settled = settles_of(tail, properties_at)
            if settled is not None:
                self.settles.append(settled)
        if has_mark and is_new:
            self._found_mark(offset, parts)
        tag = unit_tag_of(parts.topic, tail[properties_at:], parts.store_timestamp_ms)
        fills = self._fills_of(parts.topic, parts.queue_id)
        keys = keys_of(tail, properties_at, len(tail))
        like = _RecordTemplate(fills, tag, topic_hash(parts.topic), keys[1:])
        head_at = len(tail) - ID_HEAD_BACK
        if (
            is_plain
            and properties_at <= head_at <= _TEMPLATE_BYTES_MAX
            and not has_settles
            and not has_mark
            and tail.startswith(ID_HEAD, head_at)
            and tail.startswith(BEHIND_ID, len(tail) - ID_END_BACK)
            # Else when it is due depends on when it was stored.
            and (parts.topic != SCHEDULE_TOPIC_BYTES or _DELIVER_AT in tail)
            and (head_at == properties_at or tail[head_at - 1] == PAIR_END)
            and keys[:1] == [tail[-ID_BACK:-ID_END_BACK]]
            and PAIR_END not in keys[0]
        ):
            if len(self._templates) >= _TEMPLATES_MAX:
                self._templates.clear()
            self._templates[tail[:-ID_BACK]] = like
        return like, keys

    def _fills_of(self, topic: bytes, queue_id: int) -> list[_Fill]:
        fills = self._fills.setdefault(topic, [])
        if queue_id >= len(fills):
            queues = self._queues.by_topic.get(topic, [])
            if queue_id >= len(queues):
                queues = self._queues.ensure(_name_of(topic), queue_id + 1)
            fills += [_Fill(queue) for queue in queues[len(fills) :]]
        return fills

    def _put(self, offset: int, parts: RecordParts, tag: int) -> None:
        """Put the unit of a record that does not follow the one before it in its queue."""
        fill = self._fills_of(parts.topic, parts.queue_id)[parts.queue_id]
        lost_count = parts.queue_offset - fill.end
        if lost_count < 0:
            return  # it was dispatched and durable already
        if lost_count and not fill.end and not self._is_whole_log:
            # What came before has expired and been deleted.
            fill.queue.start_at(parts.queue_offset)
            fill.end = parts.queue_offset
        elif lost_count > offset // FIXED_BYTES:
            raise StoreCorrupt(
                f"the record at {offset} says it has queue offset "
                f"{parts.queue_offset} of {parts.topic!r}/{parts.queue_id}, but that "
                f"queue ends at {fill.end}"
            )
        elif lost_count:
            # Nothing knows these messages any more: their units lead to what is left of them.
            damaged = self._found.damaged
            before = bisect_left(damaged, offset, key=_start_of)
            lost = damaged[before - 1] if before else Damage(offset, offset + 1, "")
            lost_bytes = min(lost.end - lost.start, PRE_BLANK_BYTES - 1)
            fill.flush()
            for _ in range(lost_count):
                fill.queue.put(lost.start, lost_bytes, 0)
            fill.end = parts.queue_offset
        fill.put(offset, parts.record_bytes, tag)

    def _put_known_below(self, offset: int) -> None:
        known = self._known
        while self._at_known < len(known) and known[self._at_known][2][0] < offset:
            self._put_next_known()

    def _put_next_known(self) -> None:
        self.put_known(self._known[self._at_known])
        self._at_known += 1

    def put_known(self, known: KnownUnit) -> None:
        """Put a unit where it belongs, unless another one has that place."""
        queue, queue_offset, unit = known
        fills = self._fills_of(queue.topic.encode(), queue.queue_id)
        fill = fills[queue.queue_id]
        if queue_offset == fill.end:
            fill.put(*unit)
            fill.flush()


def _name_of(topic: bytes) -> str:
    """A topic's name, which is a directory of consume queues. Raises ``StoreCorrupt``: it is
    none.
    """
    try:
        name = topic.decode()
    except UnicodeDecodeError as exc:
        raise StoreCorrupt(f"a record has topic {topic!r}, which is not text") from exc
    if topic in _NO_NAMES or "/" in name or "\0" in name:
        raise StoreCorrupt(f"a record has topic {topic!r}, which cannot be the name of a directory")
    return name


def _start_of(damage: Damage) -> int:
    return damage.start
