"""Makes appended records visible, in log order, once they may be seen.

    put_path ── follow(batch) ──▶ [Dispatcher] ── publish_to(durable offset) ──▶ queue.max_offset

In sync mode that is when the disk has them, so that nobody ever consumes what a power cut can take
back. The units themselves are written by ``CommitLog.append``; publishing only moves
``max_offset``, so it cannot fail. Loop thread only."""

from __future__ import annotations

from collections import deque

from storage_engine.commit_log import Entry
from storage_engine.consume_queue import ConsumeQueue


class Dispatcher:
    """See the module's docstring. ``dispatched_offset``: all records below are visible."""

    def __init__(self, dispatched_offset: int) -> None:
        self.dispatched_offset = dispatched_offset
        self._pending: deque[tuple[int, dict[ConsumeQueue, int]]] = deque()

    def follow(self, end_offset: int, entries: list[Entry]) -> None:
        """Remember a batch that was just appended and ends at ``end_offset`` of the log."""
        ends = {entry[2]: entry[2].append_offset for entry in entries}
        self._pending.append((end_offset, ends))

    @property
    def is_idle(self) -> bool:
        return not self._pending

    def publish_to(self, offset: int) -> set[ConsumeQueue]:
        """Make every batch that ends at or below ``offset`` visible; the queues that grew."""
        pending = self._pending
        grown: set[ConsumeQueue] = set()
        while pending and pending[0][0] <= offset:
            self.dispatched_offset, ends = pending.popleft()
            for queue, max_offset in ends.items():
                queue.max_offset = max_offset
            grown.update(ends)
        return grown
