"""A heap of things due at a time, most of which are removed before: leases, waits, delays.

    push(due_ms, item) ──▶ [DueHeap] ── pop_due(now_ms) ──▶ items still alive, in order of time

Items that died early are dropped when the heap has doubled since it was last cleaned, so memory
stays within twice the living, at amortised O(log n) a push.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

ItemT = TypeVar("ItemT")
_CLEAN_FROM_COUNT: Final = 1_024


class DueHeap(Generic[ItemT]):
    """See the module's docstring."""

    __slots__ = ("_clean_at", "_heap", "_is_live", "_order")

    def __init__(self, is_live: Callable[[ItemT], bool]) -> None:
        self._is_live = is_live
        self._heap: list[tuple[int, int, ItemT]] = []
        self._order = itertools.count()
        self._clean_at = _CLEAN_FROM_COUNT

    def push(self, due_ms: int, item: ItemT) -> None:
        heapq.heappush(self._heap, (due_ms, next(self._order), item))
        if len(self._heap) > self._clean_at:
            self._heap = [entry for entry in self._heap if self._is_live(entry[2])]
            heapq.heapify(self._heap)
            self._clean_at = max(_CLEAN_FROM_COUNT, 2 * len(self._heap))

    def pop_due(self, now_ms: int) -> Iterator[ItemT]:
        """Remove and yield the live items due at or before ``now_ms``."""
        while self._heap and self._heap[0][0] <= now_ms:
            item = heapq.heappop(self._heap)[2]
            if self._is_live(item):
                yield item

    def __len__(self) -> int:
        return len(self._heap)
