"""Delivers scheduled messages when they are due: appends each to the topic that it names.

    SCHEDULE_TOPIC_XXXX ── units: due time of each ──▶ [Schedule] ── due ──▶ moves ──▶ its topic
    deliver_due, every second ─────────────────────────────┘

Queue ``level - 1`` holds the messages of a delay level of RocketMQ, the one after these those of
any other delay, the last those that wait for a moment. Delays and moments are measured on clocks
of their own (``delay_clock.py``). What has been delivered is settled by an internal group, like any
message by its own.

Celery beat says when to deliver, and how far ahead: what becomes due within that time is delivered
when it is due, so that nothing waits for the next word. While beat is silent for three seconds the
engine goes on by itself, and says that it is degraded. One turn delivers a batch; where more is
due, the next turn comes after whatever else waits for the loop. Loop thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from storage_engine.config import SECOND_MS
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.progress import Progress
from storage_engine.errors import BadRequest, StoreError, TopicNotFound
from storage_engine.moves.due_moves import DueMoves, Place
from storage_engine.moves.moves import Move, Mover
from storage_engine.puts.delay_clock import DelayClock
from storage_engine.queues.consume_queue import Unit
from storage_engine.records.schedule_topic import (
    MOMENT_QUEUE,
    SCHEDULE_TOPIC,
    SCHEDULE_TOPIC_BYTES,
)
from storage_engine.schedule.due_index import DueIndex, Key
from storage_engine.schedule.level_offsets import LevelOffsets
from storage_engine.schedule.source import Source
from storage_engine.wire.scheduled import DELIVER_AHEAD_MS_MAX

log = logging.getLogger(__name__)

SCHEDULE_GROUP: Final = "CID_RMQ_SYS_SCHEDULE"
SILENCE_MS_MAX: Final = 3 * SECOND_MS
_OWN_AHEAD_MS: Final = 500  # of the engine's own ticks
_WAKE_MS_MAX: Final = 200  # what is due later is met by a tick
_UNITS_A_TURN: Final = 200_000  # about 5 ms
_BATCH_COUNT_MAX: Final = 500  # about 5 ms
_GROWTH_BYTES: Final = 512  # at most, of a record that says what it settles
_MOVING_COUNT_MAX: Final = 50_000  # appended and not durable yet; then it waits for the disk


class _Waiting:
    """Messages that wait by the same clock; those due by ``until_ms`` are to be delivered, none
    before it is due.
    """

    __slots__ = ("index", "now_ms", "until_ms")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.index = DueIndex()
        self.now_ms = now_ms
        self.until_ms = 0


class Schedule:
    """See the module's docstring."""

    def __init__(
        self,
        parts: EngineParts,
        delay_clock: DelayClock,
        mover: Mover,
        due_moves: DueMoves,
        level_offsets: LevelOffsets,
    ) -> None:
        self._clock = parts.clock
        self._commit_log = parts.commit_log
        self._queues = parts.queues
        self._consumer_offsets = parts.consumer_offsets
        self._loop = parts.loop
        self._step_ms = parts.config.schedule_step_ms
        self.clock = delay_clock
        self.mover = mover
        self._due_moves = due_moves
        self._level_offsets = level_offsets
        self.sources: list[Source] = []
        self._delays = _Waiting(delay_clock.delay_ms)
        self._moments = _Waiting(delay_clock.time_ms)
        self._has_turn = False
        self._will_wake = False
        self._is_stalled = False  # what is due could not be appended: a tick tries again
        self.is_stopped = False
        self._asked_ms = self._clock.monotonic_ms()
        self._is_asked = False
        self.delivered_count = 0
        self.undeliverable_count = 0

    def follow(self) -> None:
        """Deliver what queues hold that the schedule topic has got since.

        Raises ``DiskFull``, ``SyncFailed``.
        """
        queues = self._queues.by_topic.get(SCHEDULE_TOPIC_BYTES, [])
        if len(queues) == len(self.sources):
            return
        self.clock.save()
        offsets = self._consumer_offsets
        fresh = queues[len(self.sources) :]
        positions = {
            queue.queue_id: self._level_offsets.first_of(queue)
            for queue in fresh
            if offsets.find(SCHEDULE_GROUP, SCHEDULE_TOPIC, queue.queue_id) is None
        }
        if positions:
            offsets.start_group(SCHEDULE_GROUP, SCHEDULE_TOPIC, positions)
        for queue in fresh:
            progress = offsets.find(SCHEDULE_GROUP, SCHEDULE_TOPIC, queue.queue_id)
            assert progress is not None
            first = self._level_offsets.first_of(queue)
            if first > progress.consumer_offset:  # RocketMQ has delivered what stands below
                progress.apply([(0, first)])
            source = Source(queue, progress)
            self.sources.append(source)
            index = self._waiting(queue.queue_id).index
            index.follow(queue.queue_id, source)
            queue.arrivals.append(partial(index.arrived, queue.queue_id))

    def _waiting(self, queue_id: int) -> _Waiting:
        return self._moments if queue_id == MOMENT_QUEUE else self._delays

    def shown_ms(self, queue_id: int, due_ms: int) -> int:
        """When a message of a queue is due, by the wall clock as it runs now."""
        return due_ms if queue_id == MOMENT_QUEUE else self.clock.shown_ms(due_ms)

    def now_ms(self, queue_id: int) -> int:
        """What time it is for the messages of a queue of the schedule."""
        return self._waiting(queue_id).now_ms()

    @property
    def pending_count(self) -> int:
        """Messages that are still to come; costs a look at every queue."""
        return sum([source.pending_count for source in self.sources])

    @property
    def near_count(self) -> int:
        """Messages that are held in memory because they are due soon."""
        return self._delays.index.near_count + self._moments.index.near_count

    # Time -----------------------------------------------------------------------------------

    @property
    def is_degraded(self) -> bool:
        """Whether no tick has arrived for too long, so that the engine delivers due messages by
        itself.
        """
        return self._clock.monotonic_ms() - self._asked_ms > SILENCE_MS_MAX

    def deliver_due(self, ahead_ms: int = 0) -> None:
        """Deliver what is due by now, and within ``ahead_ms`` at its time; Celery beat asks for it.

        Raises ``BadRequest``.
        """
        if not 0 <= ahead_ms <= DELIVER_AHEAD_MS_MAX:
            raise BadRequest(f"ahead_ms is {ahead_ms}, it must be 0 to {DELIVER_AHEAD_MS_MAX}")
        self._asked_ms = self._clock.monotonic_ms()
        self._is_asked = True
        self._start_delivery(ahead_ms)

    def tick(self) -> None:
        """Read ahead, and deliver due messages if no ticks arrive."""
        try:
            self.follow()
        except StoreError as exc:  # tried again at the next tick; the queues known go on
            log.warning(
                "Could not read new scheduled messages; trying again at the next tick",
                extra={"action": "schedule_read_failed", "reason": str(exc)},
            )
        self._pass_over_expired()
        if not self._is_asked or self.is_degraded:
            self._start_delivery(_OWN_AHEAD_MS if self._step_ms else 0)
        else:
            self._turn()

    def stop(self) -> None:
        """Deliver nothing any more."""
        self.is_stopped = True

    def _start_delivery(self, ahead_ms: int = 0) -> None:
        for waiting in (self._delays, self._moments):
            waiting.until_ms = max(waiting.until_ms, waiting.now_ms() + ahead_ms)
        self._turn()

    def _turn(self) -> None:
        """Deliver a batch; continue in the next turn of the loop if more is due by then."""
        if self.is_stopped:
            return
        has_more = self._is_stalled = False
        for waiting in (self._delays, self._moments):
            has_more |= waiting.index.look_ahead(waiting.now_ms(), _UNITS_A_TURN)
            has_more |= self._deliver_some(waiting)
        if has_more and not self._has_turn:
            self._has_turn = True
            self._loop.call_soon(self._next_turn)
        elif self._step_ms and not (has_more or self._will_wake or self._is_stalled):
            self._wake_for_next()

    def _next_turn(self) -> None:
        self._has_turn = False
        self._turn()

    def _wake_for_next(self) -> None:
        """Schedule a turn for when the next message is due, if requested and not done by a tick."""
        wait_ms = _WAKE_MS_MAX + 1
        for waiting in (self._delays, self._moments):
            first, now_ms = waiting.index.peek(), waiting.now_ms()
            if first is not None and first[0] <= waiting.until_ms:
                wait_ms = min(wait_ms, first[0] - now_ms)
        if wait_ms <= _WAKE_MS_MAX:
            self._will_wake = True
            self._loop.call_later(max(wait_ms, self._step_ms) / 1_000, self._wake)

    def _wake(self) -> None:
        self._will_wake = False
        self._turn()

    def _pass_over_expired(self) -> None:
        """Settle what retention could not append again, which is damaged.

        Else all that is settled behind it would be kept one by one, for ever.
        """
        for source in self.sources:
            first = source.progress.consumer_offset
            count = source.queue.min_offset - first
            if count > 0:
                self._consumer_offsets.settle_moved(source.progress, [(first, count)])

    def _deliver_some(self, waiting: _Waiting) -> bool:
        """One append of what is due; False when nothing more is, or it must be tried again."""
        index, until_ms = waiting.index, min(waiting.until_ms, waiting.now_ms())
        if sum([len(source.moving) for source in self.sources]) > _MOVING_COUNT_MAX:
            self._is_stalled = True  # ``_moved`` goes on
            return False
        keys, places, units = self._take_due(index, until_ms)
        if not keys:
            return False
        due = self._due_moves.batch(places, self._commit_log.read_whole(units))
        for progress, queue_offset, reason in due.failed:
            self._settle_undeliverable(progress, queue_offset, reason)
        sources = [(progress, taken) for progress, taken in due.sources.items() if taken]
        if sources:
            try:
                self.mover.move_batch(due.puts, sources, partial(self._moved, sources))
            except StoreError as exc:
                log.warning(
                    "Could not deliver scheduled messages that are due; trying again",
                    extra={"action": "schedule_stalled", "reason": str(exc)},
                )
                index.put_back(keys)  # those that were dropped are not pending any more
                self._is_stalled = True
                return False
            for progress, taken in sources:
                self.sources[progress.queue_id].moving.update(taken)
        first = index.peek()
        return first is not None and first[0] <= until_ms

    def _take_due(
        self, index: DueIndex, until_ms: int
    ) -> tuple[list[Key], list[Place], list[tuple[int, int]]]:
        """The first messages that are due, as many as one append takes, and where they stand."""
        keys: list[Key] = []
        places: list[Place] = []
        found: list[tuple[int, int]] = []
        room = self.mover.batch_bytes_max
        due = index.take(until_ms, _BATCH_COUNT_MAX)
        source_id = following = -1
        units: Iterator[Unit] | None = None
        for key in due:
            _, queue_id, queue_offset = key
            if queue_id != source_id:
                source_id, following = queue_id, -1
                source = self.sources[queue_id]
                queue, progress, is_pending = source.queue, source.progress, source.is_pending
            if not is_pending(queue_offset):
                continue
            if queue_offset != following:
                units = None
                physical_offset, record_bytes, _ = queue.unit(queue_offset)
            else:
                # Often they came in the order in which they are due.
                if units is None:
                    units = queue.units(queue_offset, _BATCH_COUNT_MAX)
                physical_offset, record_bytes, _ = next(units)
            following = queue_offset + 1
            room -= record_bytes + _GROWTH_BYTES
            if keys and room < 0:
                index.put_back(due[due.index(key) :])
                break
            keys.append(key)
            places.append((progress, queue_offset, physical_offset))
            found.append((physical_offset, record_bytes))
        return keys, places, found

    def due_move(self, source: Source, queue_offset: int, record: bytes) -> Move:
        """What a message becomes when it is delivered; raises ``StoreError``: it cannot be."""
        return self._due_moves.move(source.progress, queue_offset, record)

    def _settle_undeliverable(
        self, progress: Progress, queue_offset: int, reason: StoreError
    ) -> None:
        """Settle a message that has nowhere to go, as after its topic was deleted."""
        log.log(
            logging.INFO if isinstance(reason, TopicNotFound) else logging.ERROR,
            "Dropped a scheduled message that cannot be delivered",
            extra={"action": "undeliverable", "offset": queue_offset, "reason": str(reason)},
        )
        self.undeliverable_count += 1
        self._consumer_offsets.settle_moved(progress, [(queue_offset, 1)])

    def _moved(self, sources: list[tuple[Progress, list[int]]]) -> None:
        was_full = sum([len(source.moving) for source in self.sources]) > _MOVING_COUNT_MAX
        for progress, taken in sources:
            self.delivered_count += len(taken)
            self.sources[progress.queue_id].moving.difference_update(taken)
        if was_full and not self._has_turn:
            self._has_turn = True
            self._loop.call_soon(self._next_turn)
