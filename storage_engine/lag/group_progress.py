"""How far a group is on each queue, and its lag on each topic; pure reading.

    consumption, offset_changes ── group ──▶ [GroupProgress] ──▶ GroupQueueStats, TopicLag
                                                  ├── unread: what its filter wants
                                                  ├── retry_ages, ScheduledRetries: what failed
                                                  └── the log: when the oldest was stored

``lag`` of a topic is all that the group has still to do of it: what was not delivered, what is in
flight, and what waits for a retry, in the queue of its retry topic or in the schedule. What the
group's filter does not want is no lag. Its age is counted from when a message was first stored in
its topic, however often it has failed since.

A call costs one look into the log for each queue, and what is new since the last call. Loop thread
only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.subscription import ProcessQueue, Subscription
from storage_engine.errors import StoreCorrupt
from storage_engine.lag.retry_ages import RetryAges
from storage_engine.lag.unread import EXACT_UNITS_MAX, SAMPLE_RECORDS_MAX, UnreadCounter
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.record import FIXED_BYTES, MAGIC_V1, MAGIC_V2, PEEK
from storage_engine.records.record_parts import store_timestamp_of
from storage_engine.schedule.scheduled_retries import ScheduledRetries, Waiting
from storage_engine.wire.groups import GroupQueueStats, LagIs, TopicLag

KnownT = TypeVar("KnownT")

_RECORDS_A_QUEUE_MIN: Final = 8
_KNOWN_MIN: Final = 1_000  # queues with a filter or retries before any is forgotten


@dataclass(frozen=True, slots=True)
class QueueLag:
    """``count``: messages that are not settled and that the filter wants. ``first``: offset of the
    first of them; None without any.
    """

    count: int
    first: int | None
    is_exact: bool


class GroupProgress:
    """See the module's docstring."""

    def __init__(self, parts: EngineParts, delivery: Delivery, scheduled: ScheduledRetries) -> None:
        self._parts = parts
        self._commit_log = parts.commit_log
        self._subscriptions = delivery.subscriptions
        self._scheduled = scheduled
        self._unread: dict[ProcessQueue, UnreadCounter] = {}
        self._retry_ages: dict[ProcessQueue, RetryAges] = {}

    def stats(self, group: str) -> tuple[list[GroupQueueStats], list[TopicLag]]:
        """Progress of a group on every queue that it has read, by topic and queue id, and its lag
        of each topic.

        The queue of its retry topic for a topic comes behind that topic's queues.
        """
        rows: list[GroupQueueStats] = []
        topics: list[TopicLag] = []
        own = self._subscriptions.of_group(group)
        for subscription in sorted(own, key=lambda each: each.topic):
            of_topic = [
                self.row(each, lag)
                for each, lag in zip(
                    subscription.queues, self.lags(subscription.queues), strict=True
                )
            ]
            waiting: Waiting | None = Waiting(0, None)
            retry_row: GroupQueueStats | None = None
            if (retry := subscription.retry) is not None:
                waiting = self._scheduled.of(retry.queue.topic, retry.queue.queue_id)
                retry_row = self._retry_row(retry, subscription, waiting)
            rows += of_topic if retry_row is None else [*of_topic, retry_row]
            topics.append(topic_lag(subscription.topic, of_topic, retry_row, waiting))
        return rows, topics

    def lags(self, queues: list[ProcessQueue]) -> list[QueueLag]:
        """Of queues of one topic that one group, or client, reads; not of its retry queue."""
        wanted = queues[0].owner.filter if queues else None
        if wanted is None or wanted.is_all:
            return [self._whole_lag(each) for each in queues]
        unread = [self._unread_of(each) for each in queues]
        is_exact = sum([each.unit_count for each in unread]) <= EXACT_UNITS_MAX
        records_max = max(SAMPLE_RECORDS_MAX // len(queues), _RECORDS_A_QUEUE_MIN)
        found = []
        for process_queue, each in zip(queues, unread, strict=True):
            behind = each.count_from(wanted, is_exact=is_exact, records_max=records_max)
            held_count, first = _matched_unsettled(process_queue)
            if first is None:
                first = behind.first
            elif behind.first is not None:
                first = min(first, behind.first)
            found.append(QueueLag(held_count + behind.count, first, behind.is_exact))
        return found

    def _whole_lag(self, process_queue: ProcessQueue) -> QueueLag:
        end = process_queue.queue.max_offset
        first = process_queue.progress.first_unsettled(process_queue.first_readable, end)
        return QueueLag(
            process_queue.unsettled_count(), first if first < end else None, is_exact=True
        )

    def row(self, process_queue: ProcessQueue, lag: QueueLag) -> GroupQueueStats:
        """Progress on one queue of a topic."""
        queue, inflight_count = process_queue.queue, len(process_queue.inflight)
        return GroupQueueStats(
            topic=queue.topic,
            queue_id=queue.queue_id,
            min_offset=queue.min_offset,
            max_offset=queue.max_offset,
            consumer_offset=process_queue.progress.consumer_offset,
            reset_count=process_queue.progress.reset_count,
            inflight_count=inflight_count,
            ready_count=max(lag.count - inflight_count, 0),
            undelivered_count=max(process_queue.unsettled_count() - inflight_count, 0),
            lag_is=LagIs.EXACT if lag.is_exact else LagIs.ESTIMATED,
            oldest_stored_ms=None if lag.first is None else self._stored_ms(queue, lag.first),
        )

    def _retry_row(
        self, retry: ProcessQueue, subscription: Subscription, waiting: Waiting | None
    ) -> GroupQueueStats:
        lag = self._whole_lag(retry)
        ages = _cached(self._retry_ages, retry, lambda: RetryAges(retry, self._parts))
        return GroupQueueStats(
            topic=retry.queue.topic,
            queue_id=retry.queue.queue_id,
            min_offset=retry.queue.min_offset,
            max_offset=retry.queue.max_offset,
            consumer_offset=retry.progress.consumer_offset,
            reset_count=retry.progress.reset_count,
            inflight_count=len(retry.inflight),
            ready_count=max(lag.count - len(retry.inflight), 0),
            undelivered_count=max(lag.count - len(retry.inflight), 0),
            oldest_stored_ms=ages.oldest_ms() if lag.count else None,
            retry_of=subscription.topic,
            scheduled_count=None if waiting is None else waiting.count,
        )

    def _unread_of(self, process_queue: ProcessQueue) -> UnreadCounter:
        return _cached(
            self._unread, process_queue, lambda: UnreadCounter(process_queue, self._parts)
        )

    def _stored_ms(self, queue: ConsumeQueue, queue_offset: int) -> int | None:
        physical_offset, record_bytes, _ = queue.unit(queue_offset)
        if record_bytes < FIXED_BYTES:
            return None
        known = self._commit_log.times_in_bucket(physical_offset)
        if known is not None:
            return known[0] or None  # nobody waits for the bucket to learn an age
        try:
            head = self._commit_log.read_many([(physical_offset, FIXED_BYTES)])
        except StoreCorrupt:
            return None
        # Not the whole record, which may be large: its CRC is for those who deliver it.
        if len(head) < FIXED_BYTES or PEEK.unpack_from(head)[1] not in (MAGIC_V1, MAGIC_V2):
            return None
        return store_timestamp_of(head)


def topic_lag(
    topic: str,
    rows: list[GroupQueueStats],
    retry: GroupQueueStats | None,
    scheduled: Waiting | None,
) -> TopicLag:
    """What a group has still to do of a topic, from its queues there, the queue of its retry topic,
    and what waits in the schedule; the latter is None when it is not known.
    """
    retry_rows = [] if retry is None else [retry]
    ready_count = sum([row.ready_count for row in rows])
    inflight_count = sum([row.inflight_count for row in (*rows, *retry_rows)])
    waiting_count = sum([row.ready_count for row in retry_rows])
    known_count = ready_count + inflight_count + waiting_count
    is_exact = all(row.lag_is is LagIs.EXACT for row in rows)
    return TopicLag(
        topic=topic,
        lag=None if scheduled is None else known_count + scheduled.count,
        lag_is=LagIs.EXACT if is_exact else LagIs.ESTIMATED,
        oldest_stored_ms=None if scheduled is None else _oldest([*rows, *retry_rows], scheduled),
        ready_count=ready_count,
        inflight_count=inflight_count,
        retry_waiting_count=waiting_count,
        retry_scheduled_count=None if scheduled is None else scheduled.count,
        offset_lag=sum([max(row.max_offset - row.consumer_offset, 0) for row in rows]),
    )


def _oldest(rows: list[GroupQueueStats], scheduled: Waiting) -> int | None:
    """None when there is nothing, or the age of some of it is not known."""
    held = [row.oldest_stored_ms for row in rows if row.ready_count + row.inflight_count]
    if scheduled.count:
        held.append(scheduled.oldest_stored_ms)
    known = [stored_ms for stored_ms in held if stored_ms is not None]
    return min(known) if known and len(known) == len(held) else None


def _matched_unsettled(process_queue: ProcessQueue) -> tuple[int, int | None]:
    """How many messages a filter has wanted already that are not settled, and the first of them."""
    first = process_queue.first_readable
    position = max(process_queue.position, first)
    count = process_queue.unsettled_count(position)
    lowest = process_queue.progress.first_unsettled(first, position) if count else None
    if process_queue.has_gone_back:
        beyond = [at for at in (*process_queue.inflight, *process_queue.released) if at >= position]
        count += len(beyond)
        lowest = min([*beyond, *([] if lowest is None else [lowest])], default=None)
    return count, lowest


def _cached(
    known: dict[ProcessQueue, KnownT], process_queue: ProcessQueue, make: Callable[[], KnownT]
) -> KnownT:
    """What is known of a queue; that of queues which are read no more is forgotten in time."""
    found = known.get(process_queue)
    if found is None:
        if len(known) >= _KNOWN_MIN and len(known) & (len(known) - 1) == 0:
            for gone in [each for each in known if each not in each.owner.sources]:
                del known[gone]
        found = known[process_queue] = make()
    return found
