"""How far a group is: its lag, how old that is, and what waits for a retry; pure reading.

    consumption, offset_changes ── group ──▶ [GroupProgress] ──▶ GroupQueueStats

A call costs one look into the log for each queue, and into at most ``_SCHEDULED_COUNT_MAX``
scheduled messages; with more of them, how many are the group's is unknown. Loop thread only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.process_queue import ProcessQueue
from storage_engine.delivery.subscription import Subscription
from storage_engine.errors import StoreCorrupt
from storage_engine.groups.retry_record import scheduled_queue_of
from storage_engine.log.commit_log import CommitLog
from storage_engine.records.record import FIXED_BYTES, MAGIC_V1, MAGIC_V2, PEEK
from storage_engine.records.record_parts import store_timestamp_of
from storage_engine.schedule.schedule import Schedule
from storage_engine.topic_names import retry_topic_of
from storage_engine.wire.groups import GroupQueueStats

_SCHEDULED_COUNT_MAX: Final = 1_000  # a few ms
_SCHEDULED_BYTES_MAX: Final = 8 * 1024 * 1024


class GroupProgress:
    """See the module's docstring. ``is_orphan``: what a scheduled record was for was deleted."""

    def __init__(
        self,
        commit_log: CommitLog,
        delivery: Delivery,
        schedule: Schedule,
        is_orphan: Callable[[bytes], bool],
    ) -> None:
        self._commit_log = commit_log
        self._delivery = delivery
        self._schedule = schedule
        self._is_orphan = is_orphan

    def stats(self, group: str) -> list[GroupQueueStats]:
        """Progress of a group on every queue that it has read, by topic and queue id.

        The queue of its retry topic for a topic comes behind that topic's queues.
        """
        own = [each for each in self._delivery.subscriptions if each.group == group]
        has_retries = any(subscription.retry is not None for subscription in own)
        scheduled = self.scheduled_counts(group) if has_retries else Counter()
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

    def scheduled_counts(self, group: str) -> Counter[int] | None:
        """Messages in the schedule on their way to the group's retry topic, by queue of that.

        None when too many messages are in the schedule to look at.
        """
        sources = self._schedule.sources
        if sum(source.queue.max_offset - source.start for source in sources) > _SCHEDULED_COUNT_MAX:
            return None
        retry_topic = retry_topic_of(group)
        found: Counter[int] = Counter()
        bytes_left = _SCHEDULED_BYTES_MAX
        for source in sources:
            first = source.start
            for queue_offset, unit in enumerate(
                source.queue.units(first, source.queue.max_offset - first), start=first
            ):
                if source.progress.is_settled(queue_offset):
                    continue
                bytes_left -= unit[1]
                if bytes_left < 0:
                    return None
                try:
                    record = self._commit_log.read_many([unit[:2]])
                except StoreCorrupt:
                    continue
                queue_id = scheduled_queue_of(record, retry_topic)
                if queue_id is not None and not self._is_orphan(record):
                    found[queue_id] += 1
        return found


def unsettled_count(process_queue: ProcessQueue) -> int:
    """Messages that can be read and that the group has not settled."""
    queue, progress = process_queue.queue, process_queue.progress
    first = max(progress.consumer_offset, queue.min_offset)
    settled_count = progress.settled.count_in(first, queue.max_offset)
    skipped_count = progress.skipped.count - progress.skipped.count_below(first)
    # A queue that was emptied may begin behind what is visible of it.
    return max(queue.max_offset - first - settled_count - skipped_count, 0)
