"""Sets of queue offsets as bitmaps, for messages settled out of order above a consumer offset.

    add(first, end) ──▶ [OffsetBits] ── offset in bits? where does its run end? ──▶ Progress
                             └── parts() ──▶ offset_journal

      page        0            1            7          of 1,024 offsets each; one without any
      bits     1101…0011    1111…1111    0000…0001     is not there; bit 0 is its first offset

A set would take some 80 bytes for each offset, and the schedule settles millions in the order in
which they come due. A page is one integer, so that a run of any length costs no more than one
operation for each page that it touches. Loop thread only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

PAGE_OFFSETS: Final = 1_024
_SHIFT: Final = 10
_LOW: Final = PAGE_OFFSETS - 1
_FULL: Final = (1 << PAGE_OFFSETS) - 1
assert PAGE_OFFSETS == 1 << _SHIFT


Run = tuple[int, int]  # (first queue offset, count)


class OffsetRuns:
    """Sets of queue offsets as runs, for messages that a filter skips: one run may hold millions.

        add(first, end) ──▶ [OffsetRuns] ── offset in runs? where does its run end? ──▶ Progress

    Runs are ascending, and none touches another. Adding at the end, which is the usual place,
    and asking cost no more than a bisection.

    ``count``: offsets in all runs."""

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


class OffsetBits:
    """See the module's docstring."""

    __slots__ = ("_first_page", "_pages", "count")

    def __init__(self) -> None:
        self._pages: dict[int, int] = {}  # page → its bits, never 0
        self._first_page = 0  # none is below
        self.count = 0

    def __bool__(self) -> bool:
        return self.count > 0

    def __len__(self) -> int:
        return self.count

    def __contains__(self, offset: int) -> bool:
        return self._pages.get(offset >> _SHIFT, 0) >> (offset & _LOW) & 1 == 1

    def __iter__(self) -> Iterator[int]:
        """All offsets, ascending."""
        for first, count in self.runs():
            yield from range(first, first + count)

    def runs(self) -> Iterator[Run]:
        """(first, count) of each run of offsets, ascending; none is longer than a page."""
        for page in sorted(self._pages):
            yield from runs_in(page << _SHIFT, self._pages[page])

    def parts(self) -> Iterator[tuple[int, int]]:
        """(offset of bit 0, bits) of each page, ascending."""
        for page in sorted(self._pages):
            yield page << _SHIFT, self._pages[page]

    def end_of(self, offset: int) -> int:
        """The end of the run that holds ``offset``; ``offset`` itself when none does."""
        pages = self._pages
        while bits := pages.get(offset >> _SHIFT, 0) >> (offset & _LOW):
            length = (~bits & (bits + 1)).bit_length() - 1
            offset += length
            if not length or offset & _LOW:
                break
        return offset

    def first_from(self, offset: int, default: int) -> int:
        """The first offset held at ``offset`` or above and below ``default``, else ``default``."""
        pages = self._pages
        for page in range(offset >> _SHIFT, -(-default >> _SHIFT) if pages else 0):
            bits = pages.get(page, 0)
            base = page << _SHIFT
            bits = bits >> (offset - base) << (offset - base) if offset > base else bits
            if bits:
                return min(base + (bits & -bits).bit_length() - 1, default)
        return default

    def count_in(self, first: int, end: int) -> int:
        """How many of the offsets in ``[first, end)`` are held."""
        if first >= end:
            return 0
        low, high = first >> _SHIFT, (end - 1) >> _SHIFT
        counted = 0
        for page, bits in self._pages.items():
            if low <= page <= high:
                counted += (bits & _mask(page, first, end)).bit_count()
        return counted

    def has_from(self, offset: int) -> bool:
        """Whether any offset is held at ``offset`` or above."""
        low = offset >> _SHIFT
        above = self._pages.get(low, 0) >> (offset & _LOW)
        return above != 0 or any(page > low for page in self._pages)

    def add(self, first: int, end: int) -> None:
        """Hold ``[first, end)`` too; parts of it may be held already."""
        pages = self._pages
        page = first >> _SHIFT
        if not pages or page < self._first_page:
            self._first_page = page
        while first < end:
            stop = min(end, (page + 1) << _SHIFT)
            held = pages.get(page, 0)
            added = ((1 << (stop - first)) - 1) << (first & _LOW) & ~held
            if added:
                pages[page] = held | added
                self.count += added.bit_count()
            first = stop
            page += 1

    def discard(self, first: int, end: int) -> None:
        """Hold ``[first, end)`` no more; the cost is that of the pages held."""
        if first >= end:
            return
        low, high = first >> _SHIFT, (end - 1) >> _SHIFT
        for page in [page for page in self._pages if low <= page <= high]:
            self._drop(page, _mask(page, first, end))

    def cut_below(self, offset: int) -> None:
        """Drop what is below ``offset``."""
        last = offset >> _SHIFT
        passed = last - self._first_page
        if passed > 0:
            pages = self._pages
            below = range(self._first_page, last)
            for page in below if passed < len(pages) else [page for page in pages if page < last]:
                self.count -= pages.pop(page, 0).bit_count()
            self._first_page = last
        if offset & _LOW and last in self._pages:
            self._drop(last, (1 << (offset & _LOW)) - 1)

    def cut_from(self, offset: int) -> None:
        """Drop what is at ``offset`` or above."""
        for page in [page for page in self._pages if page >= offset >> _SHIFT]:
            self._drop(page, _mask(page, offset, (page + 1) << _SHIFT))

    def clear(self) -> None:
        self._pages.clear()
        self.count = 0

    def _drop(self, page: int, mask: int) -> None:
        held = self._pages[page]
        left = held & ~mask
        self.count -= held.bit_count() - left.bit_count()
        if left:
            self._pages[page] = left
        else:
            del self._pages[page]


def run_count(bits: int) -> int:
    """How many runs of set bits there are."""
    return (bits & ~(bits << 1)).bit_count()


def runs_in(first: int, bits: int) -> Iterator[Run]:
    """(first, count) of each run of set bits, ascending; bit 0 is the offset ``first``."""
    while bits:
        gap = (bits & -bits).bit_length() - 1
        bits >>= gap
        count = (~bits & (bits + 1)).bit_length() - 1
        first += gap
        yield first, count
        first += count
        bits >>= count


def _mask(page: int, first: int, end: int) -> int:
    """The bits of ``[first, end)`` in a page that it touches."""
    base = page << _SHIFT
    low, high = max(first - base, 0), min(end - base, PAGE_OFFSETS)
    return _FULL if high - low == PAGE_OFFSETS else ((1 << (high - low)) - 1) << low
