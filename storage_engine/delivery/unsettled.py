"""How many messages of a queue a group has not settled, whether its filter matches or not; pure."""

from __future__ import annotations

from storage_engine.delivery.progress import Progress
from storage_engine.delivery.subscription import ProcessQueue


def first_readable(process_queue: ProcessQueue) -> int:
    """Where the messages begin that the group may not have settled."""
    return max(process_queue.progress.consumer_offset, process_queue.queue.min_offset)


def unsettled_count(process_queue: ProcessQueue, end: int | None = None) -> int:
    """Messages that can be read, below ``end`` or all, and that the group has not settled."""
    first = first_readable(process_queue)
    end = process_queue.queue.max_offset if end is None else end
    # A queue that was emptied may begin behind what is visible of it.
    return max(end - first - settled_count(process_queue.progress, first, end), 0)


def settled_count(progress: Progress, first: int, end: int) -> int:
    """How many offsets in ``[first, end)``, above the consumer offset, are settled."""
    count = progress.settled.count_in(first, end)
    skipped = progress.skipped
    if skipped.count and first < end:
        count += skipped.count_below(end) - skipped.count_below(first)
    return count


def first_unsettled(process_queue: ProcessQueue, start: int, end: int) -> int:
    """The first offset in ``[start, end)`` that is not settled, or ``end``."""
    progress = process_queue.progress
    offset = max(start, progress.consumer_offset)
    while offset < end:
        behind = progress.skipped.end_of(progress.settled.end_of(offset))
        if behind == offset:
            return offset
        offset = behind
    return end
