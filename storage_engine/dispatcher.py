"""Follows the commit log and makes its records visible: the only writer of consume queues.

    store.put ── appended batch ──▶ [Dispatcher] ── when durable ──▶ consume queues

Batches become visible in log order, and in sync mode only once the disk has them, so that nobody
ever consumes what a power cut can take back. A full disk stops it between two units;
``dispatch_to`` goes on there when it is called again. Loop thread only.
"""

from __future__ import annotations

from collections import deque

from storage_engine.commit_log import Entry
from storage_engine.consume_queue import ConsumeQueue


class Dispatcher:
    """See the module's docstring. ``dispatched_offset``: all records below are in consume
    queues.
    """

    def __init__(self, dispatched_offset: int) -> None:
        self.dispatched_offset = dispatched_offset
        self._pending: deque[tuple[int, list[Entry], list[tuple[int, int]]]] = deque()
        self._done_count = 0  # units of the first pending batch that are written already

    def follow(self, end_offset: int, entries: list[Entry], offsets: list[tuple[int, int]]) -> None:
        """Remember an appended batch that ends at ``end_offset`` of the log."""
        self._pending.append((end_offset, entries, offsets))

    @property
    def is_idle(self) -> bool:
        return not self._pending

    def dispatch_to(self, offset: int) -> list[ConsumeQueue]:
        """Make every batch that ends at or below ``offset`` visible; the queues that grew.

        Raises ``DiskFull`` when a consume queue cannot grow; nothing is lost and a later call goes
        on.
        """
        pending = self._pending
        grown: set[ConsumeQueue] = set()
        while pending and pending[0][0] <= offset:
            end_offset, entries, offsets = pending[0]
            for index in range(self._done_count, len(entries)):
                entry = entries[index]
                queue = entry.queue
                queue.put(offsets[index][1], entry.record_bytes, entry.tag_hash)
                self._done_count = index + 1
                grown.add(queue)
            pending.popleft()
            self._done_count = 0
            self.dispatched_offset = end_offset
        return list(grown)
