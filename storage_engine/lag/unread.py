"""How many messages of a queue match a filter, among those not checked yet.

       consumer offset        position                     max_offset
             │  in flight, again │   units that no take has seen │
    ─────────┴───────────────────┴───────────────────────────────┴──
               all wanted: a filter  [UnreadCounter]: by tag hash, or a sample of them
               has looked at them

Tag hashes are counted in the units themselves, with numpy, and what was counted is remembered: a
look reads only the units that came since, and those that were passed. Beyond ``EXACT_UNITS_MAX``
the share of 4,096 units, spread evenly, stands for all. A condition on properties is asked of so
many records as a sample may have; of all where there are no more. Two tags with one hash count as
one, as the hash is all that a unit has. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.subscription import ProcessQueue
from storage_engine.errors import NotLocal
from storage_engine.filters.message_filter import Filter

EXACT_UNITS_MAX: Final = 100_000  # of a group on a topic; some 0.5 ms the first time
SAMPLE_RECORDS_MAX: Final = 128  # of a group on a topic, through a condition; some 1 ms
_ASK_MS_MAX: Final = 5  # a hostile condition is asked of fewer records
_SAMPLE_PARTS: Final = 64
_SAMPLE_PART_UNITS: Final = 64
_SAMPLE_UNITS: Final = _SAMPLE_PARTS * _SAMPLE_PART_UNITS
_SEARCH_UNITS: Final = 4_096
_STALE_PARTS: Final = 16  # a sample stands for a queue until it has moved by one of so many parts

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MatchCount:
    """``first``: offset of the first of them, or, not exact, where none comes before; None when
    there is none.
    """

    count: int
    first: int | None
    is_exact: bool


class _Sample(NamedTuple):
    low: int
    high: int
    share: float

    def is_usable_for(self, low: int, high: int) -> bool:
        moved = abs(low - self.low) + abs(high - self.high)
        return moved * _STALE_PARTS <= high - low


class UnreadCounter:
    """See the module's docstring. One for each process queue with a filter."""

    __slots__ = (
        "_asked",
        "_clock",
        "_count",
        "_filter",
        "_first",
        "_hashes",
        "_high",
        "_low",
        "_process_queue",
        "_properties",
        "_sample",
        "_searched",
        "_searched_from",
    )

    def __init__(self, process_queue: ProcessQueue, parts: EngineParts) -> None:
        self._process_queue = process_queue
        self._properties = parts.commit_log.properties
        self._clock = parts.clock
        self._filter: Filter | None = None
        self._hashes = np.zeros(0, np.int64)
        self._low = self._high = self._count = 0  # so many are wanted of the units [low, high)
        # Of the units in between none is wanted, but the first one that is.
        self._searched_from = self._searched = 0
        self._first: int | None = None
        self._sample: _Sample | None = None
        self._asked: tuple[int, int, int, MatchCount] | None = None  # of [low, high), so many known

    @property
    def unit_count(self) -> int:
        """Units from ``position`` on."""
        low, high = self._span()
        return max(high - low, 0)

    def _span(self) -> tuple[int, int]:
        queue, progress = self._process_queue.queue, self._process_queue.progress
        low = max(self._process_queue.position, progress.consumer_offset, queue.min_offset)
        return low, queue.max_offset

    def count_from(self, wanted: Filter, *, is_exact: bool, records_max: int) -> MatchCount:
        """What the filter wants from ``position`` on, of what is not settled, in flight or given
        back there.

        Args:
            is_exact: count all units, not a sample of them.
            records_max: how many records may be read for a condition, 2 or more.
        """
        if self._filter is not wanted:
            self._start(wanted)
        low, high = self._span()
        if low >= high:
            return MatchCount(0, None, is_exact=True)
        if wanted.tag_hashes is None:
            return self._search(wanted, low, high, records_max)
        if not is_exact and high - low > _SAMPLE_UNITS:
            return self._sampled(low, high)
        known = _known(self._process_queue, low, high)
        self._follow(low, high)
        count = self._count - self._count_at(known)
        return MatchCount(
            count, self._first_match(low, high, known) if count else None, is_exact=True
        )

    def _start(self, wanted: Filter) -> None:
        self._filter = wanted
        self._hashes = np.array(sorted(wanted.tag_hashes or ()), np.int64)
        self._low = self._high = self._count = 0
        self._searched_from = self._searched = 0
        self._first = self._sample = self._asked = None

    # By tag hash ----------------------------------------------------------------------------

    def _follow(self, low: int, high: int) -> None:
        """Count what came since the last look, and take away what was passed."""
        if low < self._low or high < self._high or low - self._low > self._high - low:
            self._low = self._high = low
            self._count = 0
        self._count -= self._count_in(self._low, low)
        self._count += self._count_in(self._high, high)
        self._low, self._high = low, high

    def _first_match(self, low: int, high: int, known: Ints) -> int | None:
        """The first that is wanted, and not ``known``, as far as one search goes."""
        if len(known):
            stop = min(high, low + EXACT_UNITS_MAX)
            return next(self._matches(low, stop, known), None)
        if low < self._searched_from:
            self._searched, self._first = low, None
        self._searched_from = low
        if self._first is None or self._first < low:
            start = max(low, self._searched)
            stop = min(high, start + EXACT_UNITS_MAX)
            self._first = next(self._matches(start, stop, known), None)
            self._searched = stop if self._first is None else self._first + 1
        return self._first

    def _sampled(self, low: int, high: int) -> MatchCount:
        sample = self._sample
        if sample is None or not sample.is_usable_for(low, high):
            step = (high - low - _SAMPLE_PART_UNITS) / (_SAMPLE_PARTS - 1)
            starts = [low + int(part * step) for part in range(_SAMPLE_PARTS)]
            found = sum([self._count_in(at, at + _SAMPLE_PART_UNITS) for at in starts])
            sample = self._sample = _Sample(low, high, found / _SAMPLE_UNITS)
        known_count = _known_count(self._process_queue, low, high)
        count = round(sample.share * (high - low - known_count))
        if not count:
            return MatchCount(0, None, is_exact=False)
        if known_count:
            first = self._process_queue.progress.first_unsettled(low, high)
        else:
            found_at = self._first_match(low, high, np.zeros(0, np.int64))
            first = self._searched if found_at is None else found_at
        return MatchCount(count, min(first, high - 1), is_exact=False)

    def _count_in(self, start: int, stop: int) -> int:
        pieces = self._process_queue.queue.tag_fields(start, stop)
        return sum([int(np.count_nonzero(self._are_matches(tags))) for _, tags in pieces])

    def _count_at(self, offsets: Ints) -> int:
        """How many of these offsets, ascending, are wanted."""
        if not len(offsets):
            return 0
        count = 0
        pieces = self._process_queue.queue.tag_fields(int(offsets[0]), int(offsets[-1]) + 1)
        for first, tags in pieces:
            here = offsets[(offsets >= first) & (offsets < first + len(tags))]
            count += int(np.count_nonzero(self._are_matches(tags[here - first])))
        return count

    def _matches(self, start: int, stop: int, known: Ints) -> Iterator[int]:
        """Offsets that are wanted and not known, ascending; reads some thousand units at a time."""
        while start < stop:
            end = min(start + _SEARCH_UNITS, stop)
            for first, tags in self._process_queue.queue.tag_fields(start, end):
                found = np.flatnonzero(self._are_matches(tags)) + first
                yield from (np.setdiff1d(found, known) if len(known) else found).tolist()
            start = end

    def _are_matches(self, tags: Ints) -> NDArray[np.bool_]:
        hashes = self._hashes
        found: NDArray[np.bool_] = tags == hashes[0] if len(hashes) == 1 else np.isin(tags, hashes)
        return found

    # By properties --------------------------------------------------------------------------

    def _search(self, wanted: Filter, low: int, high: int, records_max: int) -> MatchCount:
        """Of a condition: every record where they are few, else some of them."""
        known_count = _known_count(self._process_queue, low, high)
        asked = self._asked
        if high - low <= records_max:
            if asked is None or asked[:3] != (low, high, known_count):
                known = set(_known(self._process_queue, low, high).tolist())
                offsets = [at for at in range(low, high) if at not in known]
                found, count, is_all = self._matching(wanted, offsets)
                share = len(found) / max(count, 1)
                first = found[0] if found else None
                result = MatchCount(round(share * len(offsets)), first, is_exact=is_all)
                asked = self._asked = low, high, known_count, result
            return asked[3]
        sample = self._sample
        if sample is None or not sample.is_usable_for(low, high):
            step = (high - low - 1) / (records_max - 1)
            spread = [low + int(part * step) for part in range(records_max)]
            found, count, _ = self._matching(wanted, spread)
            sample = self._sample = _Sample(low, high, len(found) / max(count, 1))
        count = round(sample.share * (high - low - known_count))
        first = self._process_queue.progress.first_unsettled(low, high) if count else None
        return MatchCount(count, first, is_exact=False)

    def _matching(self, wanted: Filter, offsets: Iterable[int]) -> tuple[list[int], int, bool]:
        """Which of these match, how many were asked before that took too long, and whether that
        was all, with none that only the bucket has: nobody waits for it to count.
        """
        until_ms = self._clock.monotonic_ms() + _ASK_MS_MAX
        queue, found, count, is_exact = self._process_queue.queue, [], 0, True
        for queue_offset in offsets:
            physical_offset, record_bytes, _ = queue.unit(queue_offset)
            content: bytes | None = None
            try:
                content = self._properties(physical_offset, record_bytes)
            except NotLocal:
                is_exact = False
            # As a take does: what cannot be read is for others to judge.
            if content is None or wanted.matches(content):
                found.append(queue_offset)
            count += 1
            if self._clock.monotonic_ms() > until_ms:
                return found, count, False
        return found, count, is_exact


def _known(process_queue: ProcessQueue, low: int, high: int) -> Ints:
    """Offsets in ``[low, high)`` that are settled, in flight or given back, ascending; mostly none.

    There are such after a restart, and when the filter has changed.
    """
    progress = process_queue.progress
    runs = [*progress.settled.runs()] if progress.settled.has_from(low) else []
    if progress.skipped.end_of(low) > low or progress.skipped.first_from(low, high) < high:
        runs += progress.skipped
    spans = [(max(first, low), min(first + count, high)) for first, count in runs]
    parts = [np.arange(first, end) for first, end in spans if first < end]
    if process_queue.has_gone_back:
        parts.append(np.array(_matched_unsettled(process_queue, low, high), np.int64))
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def _known_count(process_queue: ProcessQueue, low: int, high: int) -> int:
    held = _matched_unsettled(process_queue, low, high) if process_queue.has_gone_back else []
    return process_queue.progress.settled_count(low, high) + len(held)


def _matched_unsettled(process_queue: ProcessQueue, low: int, high: int) -> list[int]:
    return [at for at in (*process_queue.inflight, *process_queue.released) if low <= at < high]
