"""The consumer offset of one group on one queue, and which messages above it are settled.

settle, skip ──▶ [Progress] ──▶ consumer_offset, moved over the contiguous settled prefix

In memory only: ``consumer_offsets.py`` journals what happens to it. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from storage_engine.delivery.offset_bits import OffsetBits, OffsetRuns, Run


class Progress:
    """One group on one queue. ``settled`` holds offsets above ``consumer_offset`` only, and so does
    ``skipped``, for those that a filter passed over; no offset is in both.

    ``reset_count``: how often the consumer offset was set to another place since it began.
    ``lease_floor``: leases of a lower generation ended with the last of these resets; their
    receipts are void, after a restart too. ``failures``: how often a message was delivered in vain
    and kept its place, by queue offset. ``on_settled`` is told of all that is settled, again or for
    the first time; of the schedule's progress only.
    """

    __slots__ = (
        "consumer_offset",
        "failures",
        "group",
        "lease_floor",
        "on_settled",
        "queue_id",
        "reset_count",
        "settled",
        "skipped",
        "topic",
    )

    def __init__(self, group: str, topic: str, queue_id: int, consumer_offset: int) -> None:
        self.group = group
        self.topic = topic
        self.queue_id = queue_id
        self.consumer_offset = consumer_offset
        self.reset_count = 0
        self.lease_floor = 0
        self.settled = OffsetBits()
        self.skipped = OffsetRuns()
        self.failures: dict[int, int] = {}
        self.on_settled: Callable[[Sequence[Run]], None] | None = None

    def is_settled(self, queue_offset: int) -> bool:
        return (
            queue_offset < self.consumer_offset
            or queue_offset in self.settled
            or queue_offset in self.skipped
        )

    def unsettled_below(self, offset: int) -> int:
        """How many offsets from ``consumer_offset`` on, below ``offset``, are not settled."""
        span = range(self.consumer_offset, offset)
        settled_count = self.settled.count_in(span.start, span.stop)
        return len(span) - settled_count - self.skipped.count_below(span.stop)

    def settled_count(self, first: int, end: int) -> int:
        """How many offsets in ``[first, end)``, above the consumer offset, are settled."""
        count = self.settled.count_in(first, end)
        skipped = self.skipped
        if skipped.count and first < end:
            count += skipped.count_below(end) - skipped.count_below(first)
        return count

    def first_unsettled(self, start: int, end: int) -> int:
        """The first offset in ``[start, end)`` that is not settled, or ``end``."""
        offset = max(start, self.consumer_offset)
        while offset < end:
            behind = self.skipped.end_of(self.settled.end_of(offset))
            if behind == offset:
                return offset
            offset = behind
        return end

    def apply(self, runs: Sequence[Run]) -> None:
        """Settle runs of offsets; those settled before change nothing."""
        has_moved = False
        for first, count in runs:
            end = first + count
            if first > self.consumer_offset:
                self._settle_above(first, end)
            elif end > self.consumer_offset:
                self.consumer_offset = end
                has_moved = True
        if has_moved and (self.settled.count or self.skipped.count):
            self._pass_settled()
        if self.on_settled is not None:
            self.on_settled(runs)

    def _settle_above(self, first: int, end: int) -> None:
        skipped = self.skipped
        if not skipped.count:
            self.settled.add(first, end)
            return
        while first < end:
            first = skipped.end_of(first)
            stop = skipped.first_from(first, end)
            self.settled.add(first, stop)
            first = max(first, stop)

    def skip(self, first: int, count: int) -> None:
        """Settle one run of offsets that a filter passed over."""
        end = first + count
        settled = self.settled
        if first > self.consumer_offset:
            if settled.count:
                settled.discard(first, end)
            self.skipped.add(first, end)
        elif end > self.consumer_offset:
            self.consumer_offset = end
            if settled.count or self.skipped.count:
                self._pass_settled()

    def _pass_settled(self) -> None:
        settled, skipped, offset = self.settled, self.skipped, self.consumer_offset
        while True:
            end = skipped.end_of(settled.end_of(offset))
            if end == offset:
                break
            offset = end
        settled.cut_below(offset)
        skipped.cut_below(offset)
        self.consumer_offset = offset

    def reset(self, consumer_offset: int, reset_count: int) -> None:
        """Go on from another place; what was settled above it is to be delivered again."""
        self.consumer_offset = consumer_offset
        self.reset_count = reset_count
        self.settled.clear()
        self.skipped.clear()
        self.failures.clear()

    def drop_failures(self) -> None:
        """Forget those of messages that are settled."""
        known = self.failures.items()
        self.failures = {at: count for at, count in known if not self.is_settled(at)}

    def clamp(self, max_offset: int) -> bool:
        """Forget everything at or above ``max_offset``; True when there was something."""
        is_beyond = (
            self.consumer_offset > max_offset
            or self.settled.has_from(max_offset)
            or self.skipped.count_below(max_offset) < self.skipped.count
        )
        if is_beyond:
            self.consumer_offset = min(self.consumer_offset, max_offset)
            self.settled.cut_from(max_offset)
            self.skipped.cut_from(max_offset)
        self.failures = {at: count for at, count in self.failures.items() if at < max_offset}
        return is_beyond
