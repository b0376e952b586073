"""Redrives, drops and counts the dead letters of a group.

    server ── redrive(offsets) ──▶ [DeadLetters] ── moves ──▶ the topic they came from, or another
    server ── purge(offsets) ────▶      └── settled by an internal group ──▶ pull, look-up: gone

A dead letter is gone once that internal group has settled it; the record that a redrive appends
says so itself (``moves.py``), and so does a consumer that receives letters as that group and acks
them. So a redrive that is killed and tried again neither doubles a message
nor loses one. Loop thread only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Final

from storage_engine.catalog.catalog import Catalog
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.offset_bits import runs_of
from storage_engine.delivery.progress import Progress
from storage_engine.errors import BadRequest, NotLocal, RecordRefused, TopicNotFound
from storage_engine.log.offset_at_time import offset_at_time, store_timestamp
from storage_engine.moves.moves import Move, Mover, settles_for
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.record import Record
from storage_engine.records.record_run import decode_records
from storage_engine.records.retry_record import find_dead_letter, redrive_record
from storage_engine.records.topic_names import DLQ_PREFIX, LETTERS_GROUP, dlq_topic_of
from storage_engine.wire.dead_letters import (
    DeadLetterCount,
    DeadLettersReply,
    DeadLettersRequest,
    PurgeReply,
    PurgeRequest,
    RedriveOutcome,
    RedriveReply,
    RedriveRequest,
)

_OFFSETS_MAX: Final = 1_000
_GROUPS_MAX: Final = 1_000  # counted at a time: a microsecond or two each
_TIMES_MAX: Final = 256  # of all groups of a request: each is a search through the queue


class DeadLetters:
    """See the module's docstring."""

    def __init__(self, parts: EngineParts, catalog: Catalog, mover: Mover) -> None:
        self._commit_log = parts.commit_log
        self._queues = parts.queues
        self._consumer_offsets = parts.consumer_offsets
        self._catalog = catalog
        self._mover = mover
        self._moving: set[tuple[str, int]] = set()  # (topic, queue offset)
        self._turn = 0  # round robin over the queues of a target
        self.redriven_count = 0

    def is_removed(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Whether it is a dead letter that was redriven or dropped."""
        if not topic.startswith(DLQ_PREFIX):
            return False
        progress = self._consumer_offsets.find(LETTERS_GROUP, topic, queue_id)
        return progress is not None and progress.is_settled(queue_offset)

    # Count ----------------------------------------------------------------------------------

    def counts(self, request: DeadLettersRequest) -> DeadLettersReply:
        """How many letters there are. Raises ``BadRequest`` for too many groups or times."""
        group_count, time_count = len(request.groups), len(request.before_ms)
        if group_count > _GROUPS_MAX or group_count * time_count > _TIMES_MAX:
            raise BadRequest(
                f"the request has {group_count} groups and {time_count} times in all, "
                f"at most {_GROUPS_MAX} groups and {_TIMES_MAX} times are allowed"
            )
        counts = [self._count(group, request.before_ms) for group in request.groups]
        return DeadLettersReply(counts=counts)

    def _count(self, group: str, before_ms: list[int]) -> DeadLetterCount:
        topic = dlq_topic_of(group)
        queues = self._queues.by_topic.get(topic.encode())
        if topic not in self._catalog.topics or not queues:
            return DeadLetterCount(
                count=0, min_offset=0, max_offset=0, before_counts=[0] * len(before_ms), oldest_ms=0
            )
        [queue] = queues
        progress = self._consumer_offsets.find(LETTERS_GROUP, topic, 0)
        first = queue.min_offset  # of those that are there, but for gaps behind it
        if progress is not None:
            first = max(first, progress.consumer_offset)

        def there_below(end: int) -> int:
            gone = 0 if progress is None else progress.settled.count_in(first, end)
            return max(0, end - first) - gone

        count = there_below(queue.max_offset)
        oldest_ms = 0
        before = [0] * len(before_ms)
        if before_ms and count:
            before = [
                there_below(offset_at_time(self._commit_log, queue, each)) for each in before_ms
            ]
            oldest_ms = store_timestamp(self._commit_log, queue, first) or 0
        return DeadLetterCount(
            count=count,
            min_offset=queue.min_offset,
            max_offset=queue.max_offset,
            before_counts=before,
            oldest_ms=oldest_ms,
        )

    # Redrive --------------------------------------------------------------------------------

    def redrive(self, request: RedriveRequest, answer: Callable[[RedriveReply], None]) -> None:
        """Send dead letters to the topic they came from, or to ``request.topic``.

        ``answer`` comes when those that moved are durable in their new place. As many as one append
        takes are done; the others are ``LATER``, to be asked for again.

        Raises (then nothing was appended):
            BadRequest: no offset, or one too many.
            TopicNotFound: the group has no dead letters, or the target does not exist.
            DiskFull, StoreReadOnly: nothing can be appended now.
            NotLocal: only the bucket has the first of them.
        """
        topic, queue, progress = self._find(request.group, request.queue_offsets)
        if request.topic and request.topic not in self._catalog.topics:
            raise TopicNotFound(f"topic {request.topic} does not exist")
        outcomes: list[RedriveOutcome] = []
        moves: list[Move] = []
        room = self._mover.batch_bytes_max
        for queue_offset in request.queue_offsets:
            try:
                made = self._made(topic, queue, progress, queue_offset, request.topic)
            except NotLocal:
                if not moves:
                    raise
                made = RedriveOutcome.LATER
            if isinstance(made, RedriveOutcome):
                outcomes.append(made)
                continue
            if moves and len(made) > room:
                outcomes.append(RedriveOutcome.LATER)
                continue
            room -= len(made)
            outcomes.append(RedriveOutcome.MOVED)
            moves.append(Move(made, progress, queue_offset))
            self._moving.add((topic, queue_offset))
        reply = RedriveReply(outcomes=outcomes)
        if not moves:
            answer(reply)
            return
        places = {(topic, move.queue_offset) for move in moves}
        try:
            self._mover.move(moves, partial(self._moved, places, reply, answer))
        except BaseException:
            self._moving -= places
            raise

    def _moved(
        self,
        places: set[tuple[str, int]],
        reply: RedriveReply,
        answer: Callable[[RedriveReply], None],
    ) -> None:
        self._moving -= places
        self.redriven_count += len(places)
        answer(reply)

    def _made(
        self, topic: str, queue: ConsumeQueue, progress: Progress, queue_offset: int, target: str
    ) -> bytes | RedriveOutcome:
        """The record that takes a dead letter's place, or why there is none."""
        if (
            not queue.min_offset <= queue_offset < queue.max_offset
            or progress.is_settled(queue_offset)
            or (topic, queue_offset) in self._moving
        ):
            return RedriveOutcome.GONE
        place = queue.unit(queue_offset)[:2]
        if self._commit_log.damaged([place]):
            return RedriveOutcome.DAMAGED
        content = self._commit_log.read_many([place])
        (record,) = decode_records(content)
        found = find_dead_letter(record)
        name = target or (found.origin_topic if found else "")
        queues = self._queues.by_topic.get(name.encode(), [])
        known = self._catalog.topics.get(name)
        if known is None or not queues:
            return RedriveOutcome.NO_TOPIC
        settles = settles_for(progress, queue_offset)
        queue_id = self._queue_id(record, known.queue_count)
        try:
            return redrive_record(content, queue_id=queue_id, topic=name, settles=settles)
        except RecordRefused:
            return RedriveOutcome.NO_TOPIC

    def _queue_id(self, record: Record, queue_count: int) -> int:
        """As a producer's: the queue of its message group, else each in turn."""
        if record.message_group is not None:
            return zlib.crc32(record.message_group.encode()) % queue_count
        self._turn += 1
        return self._turn % queue_count

    # Purge ----------------------------------------------------------------------------------

    def purge(self, request: PurgeRequest) -> PurgeReply:
        """Drop dead letters; durable on return (one fdatasync).

        Raises as ``redrive``, and ``SyncFailed``.
        """
        topic, queue, progress = self._find(request.group, request.queue_offsets)
        dropped = [
            queue_offset
            for queue_offset in sorted(set(request.queue_offsets))
            if queue.min_offset <= queue_offset < queue.max_offset
            and not progress.is_settled(queue_offset)
            and (topic, queue_offset) not in self._moving
        ]
        if dropped:
            self._consumer_offsets.settle([(progress, runs_of(dropped))])
            self._consumer_offsets.sync()
        return PurgeReply(purged_count=len(dropped))

    def _find(self, group: str, queue_offsets: list[int]) -> tuple[str, ConsumeQueue, Progress]:
        if not 1 <= len(queue_offsets) <= _OFFSETS_MAX:
            raise BadRequest(
                f"the request has {len(queue_offsets)} offsets, it must have 1 to {_OFFSETS_MAX}"
            )
        topic = dlq_topic_of(group)
        if topic not in self._catalog.topics:
            raise TopicNotFound(f"group {group} has no dead letters")
        queue = self._queues.by_topic[topic.encode()][0]
        if self._consumer_offsets.find(LETTERS_GROUP, topic, 0) is None:
            self._consumer_offsets.start_group(LETTERS_GROUP, topic, {0: queue.min_offset})
        progress = self._consumer_offsets.find(LETTERS_GROUP, topic, 0)
        assert progress is not None
        expired_count = queue.min_offset - progress.consumer_offset
        if expired_count > 0:
            # Else all that is settled behind them would be kept one by one, for ever.
            self._consumer_offsets.settle_moved(
                progress, [(progress.consumer_offset, expired_count)]
            )
        return topic, queue, progress
