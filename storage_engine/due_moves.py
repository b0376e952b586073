"""What becomes of scheduled messages when they are due: the records that take their place.

    schedule ── record, where it stands ──▶ [DueMoves] ──▶ Move, or: there is no such place

Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable

from storage_engine.catalog import Catalog
from storage_engine.delivery.progress import Progress
from storage_engine.engine_puts import Target
from storage_engine.errors import TopicNotFound
from storage_engine.groups.quick_due import QuickWay
from storage_engine.groups.retry_record import due_record
from storage_engine.moves import Move, settling
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.key_hash import topic_hash
from storage_engine.records.record_parts import parts_of
from storage_engine.records.settles import settles_value


class DueMoves:
    """See the module's docstring. ``is_orphan`` says that a record's topic was deleted since."""

    def __init__(self, catalog: Catalog, is_orphan: Callable[[bytes], bool]) -> None:
        self._catalog = catalog
        self._is_orphan = is_orphan
        self._quick = QuickWay()
        # Of the schedule's queues: reset count, and the end of what a record of it settles.
        self._ends: dict[Progress, tuple[int, bytes]] = {}

    def move(self, progress: Progress, queue_offset: int, record: bytes) -> Move:
        """Raises ``TopicNotFound``: the message has nowhere to go; other ``StoreError``: it is none
        that could be delivered.
        """
        if self._is_orphan(record):
            raise TopicNotFound("the topic is not the one that it was scheduled for")
        quick = self._quick.due(record, b"%d%b" % (queue_offset, self._end(progress)))
        if quick is not None:
            topic = quick.topic
            target = Target(
                self._queue(topic.decode(), quick.queue_id),
                quick.tag_hash,
                topic_hash(topic),
                quick.keys,
            )
            return Move(quick.record, progress, queue_offset, target)
        due = due_record(record, settles=settling(progress, queue_offset))
        parts = parts_of(due)
        self._queue(parts.topic.decode(), parts.queue_id)
        return Move(due, progress, queue_offset)

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue:
        queues = self._catalog.queues_of(topic) if topic in self._catalog.topics else []
        if queue_id >= len(queues):
            raise TopicNotFound(f"{topic} has no queue {queue_id}")
        return queues[queue_id]

    def _end(self, progress: Progress) -> bytes:
        known = self._ends.get(progress)
        if known is None or known[0] != progress.reset_count:
            value = settles_value(settling(progress, 0)).encode()
            known = self._ends[progress] = progress.reset_count, value[1:]
        return known[1]
