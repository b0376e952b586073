"""Delivers scheduled messages when they are due: appends each to the topic that it names.

    SCHEDULE_TOPIC_XXXX ── units: due time of each ──▶ [Schedule] ── due ──▶ moves ──▶ its topic

Queue ``level - 1`` holds the messages of a delay level of RocketMQ, the last queue those of any
other time. The consume queues are the index: their units say when each message is due. Only what is
due before the horizon is kept in memory; the rest is looked for again when the horizon moves, a
part of the units at each tick. What has been delivered is settled by an internal group, like any
message by its own. Loop thread only.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from storage_engine.clock import Clock
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.progress import Progress
from storage_engine.errors import StoreError, TopicNotFound
from storage_engine.log.commit_log import CommitLog
from storage_engine.moves import Move, Mover
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.consume_queues import ConsumeQueues
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC, SCHEDULE_TOPIC_BYTES

log = logging.getLogger(__name__)

SCHEDULE_GROUP: Final = "CID_RMQ_SYS_SCHEDULE"
_HORIZON_MS: Final = 10 * 60 * 1_000
# The horizon moves early, so that a look that takes some ticks is over before it matters.
_AHEAD_MS: Final = 60 * 1_000
_UNITS_A_STEP: Final = 200_000  # about 5 ms
_BATCH_COUNT_MAX: Final = 100
_BATCHES_A_STEP: Final = 50  # about 100 ms

# Makes of a scheduled message the one to deliver; ``StoreError`` when there is no such place.
Due = Callable[[Progress, int, bytes], bytes]


class _Pending(NamedTuple):
    """One message that is due before the horizon, in order of time."""

    due_ms: int
    queue_id: int
    queue_offset: int


class Source:
    """One queue of the schedule topic, by queue id.

    The units below ``seen`` have been looked at when they came; ``moving`` are on their way.
    """

    __slots__ = ("moving", "progress", "queue", "seen")

    def __init__(self, queue: ConsumeQueue, progress: Progress) -> None:
        self.queue = queue
        self.progress = progress
        self.seen = self.start
        self.moving: set[int] = set()

    @property
    def start(self) -> int:
        """The first message that may still be to come."""
        return max(self.progress.consumer_offset, self.queue.min_offset)

    @property
    def pending_count(self) -> int:
        """Messages that are still to come."""
        start, settled = self.start, self.progress.settled
        above = len(settled)
        if self.progress.consumer_offset < start:
            above = sum([queue_offset >= start for queue_offset in settled])
        return self.queue.max_offset - start - above

    def is_pending(self, queue_offset: int) -> bool:
        return (
            queue_offset >= self.start
            and queue_offset not in self.moving
            and not self.progress.is_settled(queue_offset)
        )


class _Look(NamedTuple):
    """Units of a source in which messages due in ``[low_ms, high_ms)`` are looked for."""

    source: Source
    start: int
    end: int
    low_ms: int
    high_ms: int


class Schedule:
    """See the module's docstring."""

    def __init__(
        self,
        clock: Clock,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        consumer_offsets: ConsumerOffsets,
        mover: Mover,
        due: Due,
    ) -> None:
        self._clock = clock
        self._commit_log = commit_log
        self._queues = queues
        self._consumer_offsets = consumer_offsets
        self._mover = mover
        self._due = due
        self.sources: list[Source] = []
        self._heap: list[_Pending] = []
        self._looks: deque[_Look] = deque()
        self._horizon_ms = 0
        self.delivered_count = 0
        self.undeliverable_count = 0

    def follow(self) -> None:
        """Deliver what queues hold that the schedule topic has got since.

        Raises ``DiskFull``, ``SyncFailed``.
        """
        queues = self._queues.by_topic.get(SCHEDULE_TOPIC_BYTES, [])
        if len(queues) == len(self.sources):
            return
        offsets = self._consumer_offsets
        fresh = queues[len(self.sources) :]
        positions = {
            queue.queue_id: queue.min_offset
            for queue in fresh
            if offsets.find(SCHEDULE_GROUP, SCHEDULE_TOPIC, queue.queue_id) is None
        }
        if positions:
            offsets.begin(SCHEDULE_GROUP, SCHEDULE_TOPIC, positions)
        for queue in fresh:
            progress = offsets.find(SCHEDULE_GROUP, SCHEDULE_TOPIC, queue.queue_id)
            assert progress is not None
            source = Source(queue, progress)
            self.sources.append(source)
            source.seen = queue.max_offset
            self._looks.append(_Look(source, source.start, source.seen, 0, self._horizon_ms))
            queue.arrivals.append(partial(self._arrived, source))

    @property
    def pending_count(self) -> int:
        """Messages that are still to come; costs a look at every queue."""
        return sum([source.pending_count for source in self.sources])

    def _arrived(self, source: Source) -> None:
        queue = source.queue
        for index, (_, _, due_ms) in enumerate(
            queue.units(source.seen, queue.max_offset - source.seen), start=source.seen
        ):
            if due_ms < self._horizon_ms:
                heapq.heappush(self._heap, _Pending(due_ms, queue.queue_id, index))
        source.seen = queue.max_offset

    # Time -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Deliver what is due, as far as one step goes; look further ahead when it is time."""
        try:
            self.follow()
        except StoreError as exc:  # tried again at the next tick; the queues known go on
            log.warning(
                "not followed yet", extra={"action": "schedule_put_off", "reason": str(exc)}
            )
        self._pass_over_expired()
        now_ms = self._clock.now_ms()
        if now_ms + _AHEAD_MS >= self._horizon_ms and not self._looks:
            self._move_horizon(now_ms + _HORIZON_MS)
        self._look()
        for _ in range(_BATCHES_A_STEP):
            if not self._deliver_some(now_ms):
                return

    def _pass_over_expired(self) -> None:
        """Settle what retention could not append again, which is damaged.

        Else all that is settled behind it would be kept one by one, for ever.
        """
        for source in self.sources:
            first = source.progress.consumer_offset
            count = source.queue.min_offset - first
            if count > 0:
                self._consumer_offsets.settle_moved(source.progress, [(first, count)])

    def _deliver_some(self, now_ms: int) -> bool:
        """One append of what is due by now; False when nothing is, or it must be tried again."""
        moves: list[Move] = []
        taken: list[_Pending] = []
        room = self._mover.batch_bytes_max
        heap = self._heap
        looked_count = 0
        while heap and heap[0].due_ms <= now_ms and looked_count < _BATCH_COUNT_MAX:
            entry = heap[0]
            looked_count += 1
            if self.sources[entry.queue_id].is_pending(entry.queue_offset):
                move = self._move_of(entry)
                if move is not None:
                    if moves and len(move.record) > room:
                        break
                    room -= len(move.record)
                    moves.append(move)
                    taken.append(entry)
            heapq.heappop(heap)
        if not moves:
            return looked_count > 0  # all of them have nowhere to go
        try:
            self._mover.move(moves, partial(self._moved, taken))
        except StoreError as exc:
            log.warning(
                "due messages wait", extra={"action": "schedule_stalled", "reason": str(exc)}
            )
            for entry in taken:
                heapq.heappush(self._heap, entry)
            return False
        for _, queue_id, queue_offset in taken:
            self.sources[queue_id].moving.add(queue_offset)
        return True

    def _move_horizon(self, horizon_ms: int) -> None:
        for source in self.sources:
            self._looks.append(
                _Look(source, source.start, source.seen, self._horizon_ms, horizon_ms)
            )
        self._horizon_ms = horizon_ms

    def _look(self) -> None:
        units_left = _UNITS_A_STEP
        while self._looks and units_left > 0:
            source, start, end, low_ms, high_ms = self._looks.popleft()
            start = max(start, source.start)
            stop = min(end, start + units_left)
            for first, due_times in source.queue.tag_fields(start, stop):
                found = np.flatnonzero((due_times >= low_ms) & (due_times < high_ms))
                for index in found.tolist():
                    due_ms, queue_offset = int(due_times[index]), first + index
                    heapq.heappush(
                        self._heap, _Pending(due_ms, source.queue.queue_id, queue_offset)
                    )
            units_left -= max(stop - start, 1)
            if stop < end:
                self._looks.appendleft(_Look(source, stop, end, low_ms, high_ms))

    def _move_of(self, entry: _Pending) -> Move | None:
        source = self.sources[entry.queue_id]
        progress, queue_offset = source.progress, entry.queue_offset
        place = source.queue.unit(queue_offset)[:2]
        if self._commit_log.damaged([place]):
            reason = "damaged"
        else:
            try:
                record = self._due(progress, queue_offset, self._commit_log.read_many([place]))
            except TopicNotFound as exc:
                self._drop(progress, queue_offset, str(exc), logging.INFO)
                return None
            except StoreError as exc:
                reason = str(exc)
            else:
                return Move(record, progress, queue_offset)
        self._drop(progress, queue_offset, reason, logging.ERROR)
        return None

    def _drop(self, progress: Progress, queue_offset: int, reason: str, level: int) -> None:
        """Settle a message that has nowhere to go, as after its topic was deleted."""
        log.log(
            level,
            "scheduled message cannot be delivered",
            extra={"action": "undeliverable", "offset": queue_offset, "reason": reason},
        )
        self.undeliverable_count += 1
        self._consumer_offsets.settle_moved(progress, [(queue_offset, 1)])

    def _moved(self, taken: list[_Pending]) -> None:
        self.delivered_count += len(taken)
        for _, queue_id, queue_offset in taken:
            self.sources[queue_id].moving.discard(queue_offset)
