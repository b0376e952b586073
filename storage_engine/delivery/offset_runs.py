"""Sets of queue offsets as runs, for messages that a filter skips: one run may hold millions.

    add(first, end) ──▶ [OffsetRuns] ── offset in runs? where does its run end? ──▶ Progress

Runs are ascending, and none touches another. Adding at the end, which is the usual place, and
asking cost no more than a bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Run = tuple[int, int]  # (first queue offset, count)


class OffsetRuns:
    """See the module's docstring. ``count``: offsets in all runs."""

    __slots__ = ("_ends", "_firsts", "count")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self.count = 0

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __contains__(self, offset: int) -> bool:
        return self.end_of(offset) > offset

    def __iter__(self) -> Iterator[Run]:
        for first, end in zip(self._firsts, self._ends, strict=True):
            yield first, end - first

    def end_of(self, offset: int) -> int:
        """The end of the run that holds ``offset``; ``offset`` itself when none does."""
        at = bisect_right(self._firsts, offset) - 1
        return max(self._ends[at], offset) if at >= 0 else offset

    def first_from(self, offset: int, default: int) -> int:
        """Where the first run begins that does so at ``offset`` or later, at most ``default``."""
        at = bisect_left(self._firsts, offset)
        return min(self._firsts[at], default) if at < len(self._firsts) else default

    def count_below(self, offset: int) -> int:
        """How many offsets below ``offset`` the runs hold."""
        return sum([min(first + count, offset) - first for first, count in self if first < offset])

    def add(self, first: int, end: int) -> None:
        """Hold ``[first, end)`` too; parts of it may be held already."""
        low = bisect_left(self._ends, first)  # the first run that is not all before it
        high = bisect_right(self._firsts, end)  # the first run that is all behind it
        if low < high:
            first, end = min(first, self._firsts[low]), max(end, self._ends[high - 1])
            held = zip(self._firsts[low:high], self._ends[low:high], strict=True)
            self.count -= sum([old_end - old_first for old_first, old_end in held])
        self._firsts[low:high] = [first]
        self._ends[low:high] = [end]
        self.count += end - first

    def cut_below(self, offset: int) -> None:
        """Drop what is below ``offset``."""
        at = bisect_right(self._ends, offset)
        self.count -= sum(self._ends[:at]) - sum(self._firsts[:at])
        del self._firsts[:at], self._ends[:at]
        if self._firsts and self._firsts[0] < offset:
            self.count -= offset - self._firsts[0]
            self._firsts[0] = offset

    def cut_from(self, offset: int) -> None:
        """Drop what is at ``offset`` or above."""
        at = bisect_left(self._firsts, offset)
        self.count -= sum(self._ends[at:]) - sum(self._firsts[at:])
        del self._firsts[at:], self._ends[at:]
        if self._ends and self._ends[-1] > offset:
            self.count -= self._ends[-1] - offset
            self._ends[-1] = offset

    def clear(self) -> None:
        self.cut_from(0)


def runs_of(queue_offsets: Iterable[int]) -> list[Run]:
    """Offsets, in any order, as ascending (first, count) runs; ``[9, 3, 4, 5, 3]`` gives
    ``[(3, 3), (9, 1)]``.
    """
    offsets = sorted(set(queue_offsets))
    if not offsets or offsets[-1] - offsets[0] == len(offsets) - 1:
        return [(offsets[0], len(offsets))] if offsets else []
    runs: list[Run] = []
    first = end = offsets[0]
    for queue_offset in offsets:
        if queue_offset != end:
            runs.append((first, end - first))
            first = queue_offset
        end = queue_offset + 1
    runs.append((first, end - first))
    return runs
