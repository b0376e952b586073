"""Applies retention to groups: settles what is below a queue's min_offset.

retention ── queues begin later ──▶ [settle_expired] ── settled ──▶ consumer_offsets
retention ◀── what must stay ── [lowest_leased]
"""

from __future__ import annotations

from collections.abc import Iterable

from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.offset_runs import Run
from storage_engine.delivery.progress import Progress
from storage_engine.delivery.subscription import ProcessQueue, Subscription
from storage_engine.queues.consume_queue import ConsumeQueue


def settle_expired(subscriptions: Iterable[Subscription], consumer_offsets: ConsumerOffsets) -> int:
    """Settle what is below the min_offset of its queue; how many messages were not settled yet.

    One journal write. Raises ``DiskFull``, with nothing settled.
    """
    settled: list[tuple[Progress, list[Run]]] = []
    behind: list[ProcessQueue] = []
    for subscription in subscriptions:
        for process_queue in subscription.sources:
            first = process_queue.progress.consumer_offset
            count = process_queue.queue.min_offset - first
            if count > 0:
                settled.append((process_queue.progress, [(first, count)]))
                behind.append(process_queue)
    if not settled:
        return 0
    lost_count = sum([each.progress.unsettled_below(each.queue.min_offset) for each in behind])
    consumer_offsets.settle(settled)
    for process_queue in behind:
        process_queue.forget_below_min()
    return lost_count


def lowest_leased(subscriptions: Iterable[Subscription]) -> dict[ConsumeQueue, int]:
    """The lowest queue offset under a lease, of every queue that has leases."""
    lowest: dict[ConsumeQueue, int] = {}
    for subscription in subscriptions:
        for process_queue in subscription.sources:
            if process_queue.inflight:
                queue, offset = process_queue.queue, min(process_queue.inflight)
                lowest[queue] = min(offset, lowest.get(queue, offset))
    return lowest
