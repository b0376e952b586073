"""How far a group is: its lag, how old that is, and what waits for a retry; pure reading.

    consumption, offset_changes ── group ──▶ [GroupProgress] ──▶ GroupQueueStats

A call costs one look into the log for each queue; what waits for a retry ``ScheduledRetries``
knows, or not yet. Loop thread only.
"""

from __future__ import annotations

from collections import Counter

from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.process_queue import ProcessQueue
from storage_engine.delivery.subscription import Subscription
from storage_engine.errors import StoreCorrupt
from storage_engine.log.commit_log import CommitLog
from storage_engine.records.record import FIXED_BYTES, MAGIC_V1, MAGIC_V2, PEEK
from storage_engine.records.record_parts import store_timestamp_of
from storage_engine.schedule.scheduled_retries import ScheduledRetries
from storage_engine.wire.groups import GroupQueueStats


class GroupProgress:
    """See the module's docstring."""

    def __init__(
        self, commit_log: CommitLog, delivery: Delivery, retries: ScheduledRetries
    ) -> None:
        self._commit_log = commit_log
        self._delivery = delivery
        self._retries = retries

    def stats(self, group: str) -> list[GroupQueueStats]:
        """Progress of a group on every queue that it has read, by topic and queue id.

        The queue of its retry topic for a topic comes behind that topic's queues.
        """
        own = [each for each in self._delivery.subscriptions if each.group == group]
        has_retries = any(subscription.retry is not None for subscription in own)
        scheduled = self._retries.counts(group) if has_retries else Counter()
        return [
            self.row(process_queue, subscription, scheduled)
            for subscription in sorted(own, key=lambda each: each.topic)
            for process_queue in subscription.sources
        ]

    def row(
        self,
        process_queue: ProcessQueue,
        subscription: Subscription,
        scheduled: Counter[int] | None = None,
    ) -> GroupQueueStats:
        """Progress on one queue of the subscription; ``scheduled`` counts for a retry queue."""
        queue = process_queue.queue
        is_retry = process_queue is subscription.retry
        inflight_count = len(process_queue.inflight)
        return GroupQueueStats(
            topic=queue.topic,
            queue_id=queue.queue_id,
            min_offset=queue.min_offset,
            max_offset=queue.max_offset,
            consumer_offset=process_queue.progress.consumer_offset,
            reset_count=process_queue.progress.reset_count,
            inflight_count=inflight_count,
            ready_count=max(unsettled_count(process_queue) - inflight_count, 0),
            oldest_stored_ms=self._oldest_stored_ms(process_queue),
            retry_of=subscription.topic if is_retry else "",
            scheduled_count=None
            if scheduled is None or not is_retry
            else scheduled[queue.queue_id],
        )

    def _oldest_stored_ms(self, process_queue: ProcessQueue) -> int | None:
        queue = process_queue.queue
        first = max(process_queue.progress.consumer_offset, queue.min_offset)
        if first >= queue.max_offset:
            return None
        physical_offset, record_bytes, _ = queue.unit(first)
        if record_bytes < FIXED_BYTES:
            return None
        try:
            head = self._commit_log.read_many([(physical_offset, FIXED_BYTES)])
        except StoreCorrupt:
            return None
        # Not the whole record, which may be large: its CRC is for those who deliver it.
        if len(head) < FIXED_BYTES or PEEK.unpack_from(head)[1] not in (MAGIC_V1, MAGIC_V2):
            return None
        return store_timestamp_of(head)


def unsettled_count(process_queue: ProcessQueue) -> int:
    """Messages that can be read and that the group has not settled."""
    queue, progress = process_queue.queue, process_queue.progress
    first = max(progress.consumer_offset, queue.min_offset)
    settled_count = progress.settled.count_in(first, queue.max_offset)
    skipped_count = progress.skipped.count - progress.skipped.count_below(first)
    # A queue that was emptied may begin behind what is visible of it.
    return max(queue.max_offset - first - settled_count - skipped_count, 0)
