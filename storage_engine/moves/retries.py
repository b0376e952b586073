"""What happens to a message whose delivery failed: redelivered later, or dead-lettered.

    delivery ── Failure ──▶ [Retries] ── moves ──┬─▶ SCHEDULE_TOPIC_XXXX, later %RETRY%group
                                                 ├─▶ %RETRY%group, at once
                                                 └─▶ %DLQ%group

The message stays in flight until the record that takes its place is durable. What cannot be moved
(a full disk) is tried again at each tick. From RocketMQ: a nack waits by the group's policy, a
lease that ends does not wait; after ``max_reconsume_times`` the group gives up. What a member that
vanished had comes again at once the first time, after that by the policy: else a message that kills
its consumers would use up all attempts in seconds. Loop thread only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Container
from functools import partial
from typing import Final, NamedTuple

from storage_engine.catalog.catalog import Catalog
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.subscription import Failure, ProcessQueue, Subscription
from storage_engine.errors import BadRequest, NotLocal, RecordRefused, StoreError
from storage_engine.moves.moves import Move, Mover, settles_for
from storage_engine.puts.delay_clock import DelayClock
from storage_engine.records.delay_levels import DELAY_LEVELS_MS, DELAY_MS_MAX
from storage_engine.records.record_parts import reconsume_times_of
from storage_engine.records.retry_record import dead_letter_record, retry_record
from storage_engine.records.schedule_topic import (
    DELAY_QUEUE,
    SCHEDULE_QUEUES,
    SCHEDULE_TOPIC,
)
from storage_engine.records.settles import Settles
from storage_engine.records.topic_names import LETTERS_GROUP, dlq_topic_of
from storage_engine.settings.retry_policy import is_exhausted
from storage_engine.wire.groups import GroupConfig

log = logging.getLogger(__name__)

# RocketMQ's bounds of how long an ordered queue is suspended after a failure.
SUSPEND_MS: Final = 1_000
SUSPEND_MS_MIN: Final = 10
SUSPEND_MS_MAX: Final = 30_000
_BATCH_COUNT_MAX: Final = 100  # about 2 ms
_BATCHES_A_STEP: Final = 10
_IN_PLACE_DELAY_MS: Final = 60_000
_FETCH_AGAIN_S: Final = 1.0  # after the bucket has not answered


class _Successor(NamedTuple):
    """The record that takes a message's place; ``is_ready`` to be delivered at once."""

    failure: Failure
    record: bytes
    is_dead: bool
    is_ready: bool

    @property
    def queue_offset(self) -> int:
        return self.failure.queue_offset


class Retries:
    """See the module's docstring. ``delay_clock`` tells the time by which delays are measured."""

    def __init__(
        self,
        parts: EngineParts,
        catalog: Catalog,
        delivery: Delivery,
        mover: Mover,
        delay_clock: DelayClock,
    ) -> None:
        self._clock = parts.clock
        self._commit_log = parts.commit_log
        self._consumer_offsets = parts.consumer_offsets
        self._catalog = catalog
        self._delivery = delivery
        self._mover = mover
        self._delay_ms = delay_clock.delay_ms
        self._waiting: deque[Failure] = deque()
        self._absent: list[Failure] = []  # only the bucket has the message: tried at each tick
        self._fetching: set[asyncio.Task[None]] = set()
        self._loop = parts.loop

    def fail(self, failure: Failure) -> None:
        """Take a message out of its lease; ``tick`` moves it.

        An ordered group retries in place, so that nothing overtakes the message; and so do dead
        letters that are received, which stay the group's that gave them up.
        """
        process_queue = failure.process_queue
        if process_queue.owner.group == LETTERS_GROUP:
            self._retry_in_place(failure, failure.delay_ms or 0)
            return
        if not failure.is_dead and process_queue.is_in_order(failure.queue_offset):
            failures = process_queue.attempts(failure.queue_offset)
            limit = process_queue.owner.config.max_reconsume_times
            if not is_exhausted(reconsume_times=failures, max_reconsume_times=limit):
                self._suspend(failure)
                return
            failure = failure._replace(is_dead=True)
        process_queue.start_move(failure.queue_offset)
        # The wall clock may jump while it waits; its delay shall not.
        self._waiting.append(failure._replace(failed_ms=self._delay_ms()))

    def forget(self, process_queues: Container[ProcessQueue]) -> None:
        """Their messages begin again: what has failed there and waits here is moved no more."""
        self._waiting = deque(
            [each for each in self._waiting if each.process_queue not in process_queues]
        )
        self._absent = [each for each in self._absent if each.process_queue not in process_queues]

    def _suspend(self, failure: Failure) -> None:
        delay_ms = SUSPEND_MS if failure.delay_ms is None else failure.delay_ms
        if failure.has_vanished and not failure.process_queue.attempts(failure.queue_offset):
            delay_ms = 0
        delay_ms = min(max(delay_ms, SUSPEND_MS_MIN), SUSPEND_MS_MAX)
        self._retry_in_place(failure, delay_ms)

    def _retry_in_place(self, failure: Failure, delay_ms: int) -> None:
        ready_ms = self._clock.monotonic_ms() + delay_ms
        failure.process_queue.release(failure.queue_offset, ready_ms)
        self._consumer_offsets.record_failure(failure.process_queue.progress, failure.queue_offset)
        self._delivery.ready_at(failure.process_queue, ready_ms)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting) + len(self._absent)

    def tick(self) -> None:
        """Move what has failed, as far as one step goes."""
        if self._absent and not self._fetching:
            self._waiting.extend(self._absent)
            self._absent.clear()
        for _ in range(_BATCHES_A_STEP):
            if not self._waiting or not self._move_some():
                return

    def _move_some(self) -> bool:
        """One append; False when it must be tried again later."""
        taken_count = 0
        successors: list[_Successor] = []
        room = self._mover.batch_bytes_max
        try:
            while self._waiting and room > 0 and taken_count < _BATCH_COUNT_MAX:
                failure = self._waiting[0]
                try:
                    successor = self._successor_or_retry_in_place(failure)
                except NotLocal as exc:
                    self._wait_for(self._waiting.popleft(), exc)
                    continue
                if successor is not None:
                    if successors and len(successor.record) > room:
                        break
                    room -= len(successor.record)
                    successors.append(successor)
                self._waiting.popleft()
                taken_count += 1
            if not successors:
                return True
            moves = [
                Move(each.record, each.failure.process_queue.progress, each.queue_offset)
                for each in successors
            ]
            reset_counts = [move.progress.reset_count for move in moves]
            places = self._mover.move(moves, partial(self._published, successors, reset_counts))
        except StoreError as exc:
            # Those without a successor are done with: settled, or back in their place.
            self._waiting.extendleft([each.failure for each in reversed(successors)])
            log.warning(
                "Could not move failed messages to the retry topic; trying again",
                extra={"action": "retries_stalled", "reason": str(exc)},
            )
            return False
        for successor, place in zip(successors, places, strict=True):
            failure = successor.failure
            failure.process_queue.moved(
                failure.queue_offset, failure.generation, place if successor.is_ready else -1
            )
        return True

    def _wait_for(self, failure: Failure, absent: NotLocal) -> None:
        """Others are moved meanwhile."""
        self._absent.append(failure)
        if not self._fetching:
            task = self._loop.create_task(_attempted(absent))
            self._fetching.add(task)
            task.add_done_callback(self._fetching.discard)

    def _published(self, successors: list[_Successor], reset_counts: list[int]) -> None:
        """The new places are durable. After a reset the old ones are another delivery's."""
        failures = [each.failure for each in successors]
        self._delivery.moved(
            [
                failure
                for failure, reset_count in zip(failures, reset_counts, strict=True)
                if failure.process_queue.progress.reset_count == reset_count
            ]
        )

    def _successor_or_retry_in_place(self, failure: Failure) -> _Successor | None:
        """Like ``_successor``; a message that cannot be moved stays in its own queue and blocks no
        others.

        So does one of an older store whose properties leave no room, one that fills a segment, and
        all of a group for which no topic more may be made.
        """
        try:
            successor = self._successor(failure)
            if successor is not None:
                self._mover.check(successor.record)
            return successor
        except (BadRequest, RecordRefused) as exc:
            log.warning(
                "A failed message cannot be moved to the retry topic; it is redelivered "
                "from its own queue",
                extra={"action": "retry_in_place", "reason": str(exc)},
            )
            self._retry_in_place(failure, _IN_PLACE_DELAY_MS)
            return None

    def _successor(self, failure: Failure) -> _Successor | None:
        """The record that replaces the message; None if it can never be consumed."""
        group = self._catalog.groups.get(failure.process_queue.owner.group)
        process_queue, queue_offset = failure.process_queue, failure.queue_offset
        is_expired = queue_offset < process_queue.queue.min_offset  # settled when there is room
        if is_expired or process_queue.progress.is_settled(queue_offset):
            return None  # while it waited
        place = process_queue.queue.unit(queue_offset)[:2]
        if group is None or self._commit_log.damaged([place]):
            self._consumer_offsets.settle_moved(process_queue.progress, [(queue_offset, 1)])
            self._delivery.moved([failure])
            return None
        record = self._commit_log.read_many([place])
        settles = settles_for(process_queue.progress, queue_offset)
        reconsume_times = reconsume_times_of(record)
        if failure.is_dead or is_exhausted(
            reconsume_times=reconsume_times, max_reconsume_times=group.max_reconsume_times
        ):
            self._catalog.own_topic(dlq_topic_of(group.group), 1)
            dead = dead_letter_record(
                record,
                group=group.group,
                reason=failure.reason,
                delivered_ms=failure.delivered_ms,
                attempts=reconsume_times + process_queue.attempts(queue_offset) + 1,
                settles=settles,
                member_id=failure.member_id,
            )
            return _Successor(failure, dead, is_dead=True, is_ready=False)
        delay_ms = failure.delay_ms
        if delay_ms is None:
            is_first = failure.has_vanished and not reconsume_times
            delay_ms = 0 if is_first else group.retry.delay_ms(reconsume_times)
        retried = self._retried(group, failure, record, settles, min(delay_ms, DELAY_MS_MAX))
        return _Successor(failure, retried, is_dead=False, is_ready=delay_ms <= 0)

    def _retried(
        self, group: GroupConfig, failure: Failure, record: bytes, settles: Settles, delay_ms: int
    ) -> bytes:
        schedule_queue_id: int | None = None
        level = 0
        if delay_ms > 0:
            self._catalog.own_topic(SCHEDULE_TOPIC, SCHEDULE_QUEUES)
            level = DELAY_LEVELS_MS.index(delay_ms) + 1 if delay_ms in DELAY_LEVELS_MS else 0
            schedule_queue_id = level - 1 if level else DELAY_QUEUE
        return retry_record(
            record,
            group=group.group,
            due_ms=failure.failed_ms + delay_ms,
            delivered_ms=failure.delivered_ms,
            schedule_queue_id=schedule_queue_id,
            retry_queue_id=self._retry_queue_id(group, failure.process_queue.owner),
            delay_level=level,
            settles=settles,
            member_id=failure.member_id,
            reason=failure.reason,
        )

    def _retry_queue_id(self, group: GroupConfig, owner: Subscription) -> int:
        if owner.retry is None:
            self._delivery.add_retry(owner, self._catalog.retry_queue(group, owner.topic))
        assert owner.retry is not None
        return owner.retry.queue.queue_id


async def _attempted(absent: NotLocal) -> None:
    """Fetch it, or let some time pass."""
    with contextlib.suppress(StoreError):
        await absent.fetch()
        return
    await asyncio.sleep(_FETCH_AGAIN_S)
