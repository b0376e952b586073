"""The records that replace scheduled messages when these are due.

    schedule ── records, where they stand ──▶ [DueMoves] ──▶ DueBatch: records for one append;
                                                             of others, why they go nowhere

Most records of a batch are like one before them: then only what differs is looked at, and the new
record is put together from parts of the old one, which costs a third of reading it.
Loop thread only.
"""

from __future__ import annotations

from collections.abc import Sequence

from storage_engine.catalog.catalog import Catalog
from storage_engine.delivery.progress import Progress
from storage_engine.errors import StoreCorrupt, StoreError, TopicNotFound
from storage_engine.moves.moves import Move, settles_for
from storage_engine.puts.engine_puts import PutBatch
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.min_offsets import MinOffsets
from storage_engine.records.due_fast_path import HEAD, NEW_HEAD, DueFastPath
from storage_engine.records.key_hash import topic_hash
from storage_engine.records.message_keys import BEHIND_ID, PAIR_END
from storage_engine.records.record import MAGIC_V1, STORE_TIMESTAMP_AT
from storage_engine.records.record_parts import parts_of
from storage_engine.records.retry_record import due_record
from storage_engine.records.settles import SETTLES_HEAD, settles_value

# Where a scheduled message waits: the schedule's progress on its queue, queue offset, physical
# offset.
Place = tuple[Progress, int, int]


class DueBatch:
    """``puts`` take the places ``sources`` of messages; ``failed``: those that go nowhere, and
    why.
    """

    __slots__ = ("failed", "puts", "sources")

    def __init__(self) -> None:
        self.puts = PutBatch()
        self.sources: dict[Progress, list[int]] = {}
        self.failed: list[tuple[Progress, int, StoreError]] = []


# Of the messages of a batch that go to the same queue: that queue, its id, the topic and its length
# as they stand in a record, ``key_hash.topic_hash``, and before which physical offset a record was
# stored for another topic of that name, which was deleted.
_Target = tuple[ConsumeQueue, int, bytes, int, int]


class DueMoves:
    """See the module's docstring."""

    def __init__(self, catalog: Catalog, min_offsets: MinOffsets) -> None:
        self._catalog = catalog
        self._min_offsets = min_offsets
        self._quick = DueFastPath()
        # Of the schedule's queues: reset count, and the end of what a record of it settles.
        self._ends: dict[Progress, tuple[int, bytes]] = {}

    def move(self, progress: Progress, queue_offset: int, record: bytes) -> Move:
        """One message, by itself. Raises ``TopicNotFound``: it has nowhere to go; other
        ``StoreError``: it is none that could be delivered.
        """
        batch = PutBatch()
        self._add(batch, progress, queue_offset, record, {})
        return Move(batch.parts[0], progress, queue_offset)

    def batch(self, places: Sequence[Place], records: Sequence[bytes | None]) -> DueBatch:
        """All messages of one append; a record is None where it is damaged."""
        due = DueBatch()
        puts = due.puts
        parts, entries = puts.parts, puts.entries
        topic_hashes, keys = puts.keys.topic_hashes, puts.keys.keys
        layouts, layout = self._quick.layouts, None
        targets: dict[bytes, _Target] = {}
        before: Progress | None = None
        end, taken = b"", list[int]()
        at = 0
        for (progress, queue_offset, physical_offset), record in zip(places, records, strict=True):
            if progress is not before:
                before, end = progress, self._end(progress)
                taken = due.sources.setdefault(progress, [])
            if record is None:
                due.failed.append((progress, queue_offset, StoreCorrupt("damaged")))
                continue
            size, magic, body_crc, _, sysflag, body_bytes = HEAD.unpack_from(record)
            topic_at = HEAD.size + body_bytes
            tail = record[topic_at:]
            like = layouts.get(len(tail))
            if like is not None:
                if like is not layout:
                    layout = like
                    due_at, due_to, id_at, id_to, rest_at, middle, tag_hash = like
                target = targets.get(tail[:due_at])
                message_id = tail[id_at:id_to]
                if (
                    target is not None
                    and tail[due_to:id_at] == middle
                    and tail[due_at:due_to].isdigit()
                    and tail.startswith(BEHIND_ID, id_to)
                    and PAIR_END not in message_id
                    and magic == MAGIC_V1
                    and not sysflag
                    and size == len(record)
                    and physical_offset >= target[4]
                ):
                    queue, queue_id, head, hashed, _ = target
                    settles = b"%d%b" % (queue_offset, end)
                    rest = tail[rest_at:]
                    properties_bytes = len(SETTLES_HEAD) + len(settles) + len(rest)
                    new_size = topic_at + len(head) + 2 + properties_bytes
                    parts += (
                        NEW_HEAD.pack(new_size, magic, body_crc, queue_id),
                        record[NEW_HEAD.size : topic_at],
                        head,
                        properties_bytes.to_bytes(2),
                        SETTLES_HEAD,
                        settles,
                        rest,
                    )
                    entries.append((at, new_size, queue, STORE_TIMESTAMP_AT, tag_hash))
                    topic_hashes.append(hashed)
                    keys.append(message_id)
                    taken.append(queue_offset)
                    at += new_size
                    continue
            puts.size_bytes = at
            try:
                self._add(puts, progress, queue_offset, record, targets)
            except StoreError as exc:
                due.failed.append((progress, queue_offset, exc))
            else:
                taken.append(queue_offset)
                at = puts.size_bytes
        puts.size_bytes = at
        return due

    def _add(
        self,
        puts: PutBatch,
        progress: Progress,
        queue_offset: int,
        record: bytes,
        targets: dict[bytes, _Target],
    ) -> None:
        """Add what one record becomes, and note in ``targets`` what others like it need.

        Raises as ``move``.
        """
        if self._min_offsets.is_orphan(record):
            raise TopicNotFound("the topic was deleted or purged after the message was scheduled")
        quick = self._quick.due(record, b"%d%b" % (queue_offset, self._end(progress)))
        if quick is None:
            due = due_record(record, settles=settles_for(progress, queue_offset))
            parts = parts_of(due)
            self._queue(parts.topic, parts.queue_id)
            puts.add(due, {parts.topic: self._catalog.queues_of(parts.topic.decode())})
            return
        queue, hashed = self._queue(quick.topic, quick.queue_id), topic_hash(quick.topic)
        puts.add_known(quick.record, queue, quick.tag_hash, hashed, quick.keys)
        if quick.layout is not None:
            below = self._min_offsets.gone_below(quick.topic.decode(), "")
            head = bytes([len(quick.topic)]) + quick.topic
            *_, body_bytes = HEAD.unpack_from(record)
            topic_at = HEAD.size + body_bytes
            place = record[topic_at : topic_at + quick.layout[0]]
            targets[place] = queue, quick.queue_id, head, hashed, below

    def _queue(self, topic: bytes, queue_id: int) -> ConsumeQueue:
        name = topic.decode()
        queues = self._catalog.queues_of(name) if name in self._catalog.topics else []
        if queue_id >= len(queues):
            raise TopicNotFound(f"{name} has no queue {queue_id}")
        return queues[queue_id]

    def _end(self, progress: Progress) -> bytes:
        known = self._ends.get(progress)
        if known is None or known[0] != progress.reset_count:
            value = settles_value(settles_for(progress, 0)).encode()
            known = self._ends[progress] = progress.reset_count, value[1:]
        return known[1]
