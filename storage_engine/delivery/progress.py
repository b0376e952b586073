"""How far one group is on one queue, and which messages above that it has settled already.

settle, skip ──▶ [Progress] ──▶ consumer_offset, moved over the contiguous settled prefix

In memory only: ``consumer_offsets.py`` journals what happens to it. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Iterable

from storage_engine.delivery.offset_runs import OffsetRuns, Run


class Progress:
    """One group on one queue. ``settled`` holds offsets above ``consumer_offset`` only, and so does
    ``skipped``, for those that a filter passed over; no offset is in both.

    ``reset_count``: how often the consumer offset was set to another place since it began.
    ``lease_floor``: leases of a lower generation ended with the last of these resets; their
    receipts are void, after a restart too. ``failures``: how often a message was delivered in vain
    and kept its place, by queue offset.
    """

    __slots__ = (
        "consumer_offset",
        "failures",
        "group",
        "lease_floor",
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
        self.settled: set[int] = set()
        self.skipped = OffsetRuns()
        self.failures: dict[int, int] = {}

    def is_settled(self, queue_offset: int) -> bool:
        return (
            queue_offset < self.consumer_offset
            or queue_offset in self.settled
            or queue_offset in self.skipped
        )

    def apply(self, runs: Iterable[Run]) -> None:
        """Settle runs of offsets; those settled before change nothing."""
        settled = self.settled
        for first, count in runs:
            end = first + count
            if first > self.consumer_offset:
                added: Iterable[int] = range(first, end)
                if self.skipped.count:
                    added = [offset for offset in added if offset not in self.skipped]
                settled.update(added)
            elif end > self.consumer_offset:
                # The smaller of the two: a commit may pass over millions of messages.
                if settled and len(settled) < end - self.consumer_offset:
                    settled = self.settled = {offset for offset in settled if offset >= end}
                elif settled:
                    settled.difference_update(range(self.consumer_offset, end))
                self.consumer_offset = end
        if settled or self.skipped.count:
            self._pass_settled()

    def skip(self, first: int, count: int) -> None:
        """Settle one run of offsets that a filter passed over."""
        end = first + count
        settled = self.settled
        if settled:
            run = range(first, end)
            is_short = count < len(settled)
            settled.difference_update(run if is_short else [at for at in settled if at in run])
        if first > self.consumer_offset:
            self.skipped.add(first, end)
        elif end > self.consumer_offset:
            self.consumer_offset = end
            if settled or self.skipped.count:
                self._pass_settled()

    def _pass_settled(self) -> None:
        settled, skipped, offset = self.settled, self.skipped, self.consumer_offset
        while True:
            while offset in settled:
                settled.remove(offset)
                offset += 1
            end = skipped.end_of(offset)
            if end == offset:
                break
            offset = end
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
            or any(offset >= max_offset for offset in self.settled)
            or self.skipped.count_below(max_offset) < self.skipped.count
        )
        if is_beyond:
            self.consumer_offset = min(self.consumer_offset, max_offset)
            self.settled = {offset for offset in self.settled if offset < max_offset}
            self.skipped.cut_from(max_offset)
        self.failures = {at: count for at, count in self.failures.items() if at < max_offset}
        return is_beyond
