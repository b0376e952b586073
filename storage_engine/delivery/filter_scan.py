"""One look at a queue for messages that match a filter, so short that it does not block the loop.

    take ──▶ [SettlingScan] ─ tag hash of a unit, then properties in the log ──▶ wanted, or skipped
               └── spent ──▶ ``FilterScans`` goes on with it

One look passes over so many units, reads so many records and takes so long at most. What was looked
at is skipped for good, so the next look goes on behind it. A few records it reads however long they
take: each look gets on, and a process that was held up does not cut short a small receive. Loop
thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from storage_engine.clock import Clock
from storage_engine.delivery.progress import Progress
from storage_engine.errors import NotLocal
from storage_engine.filters.message_filter import Filter
from storage_engine.queues.consume_queue import Unit

# (physical_offset, record_bytes) of records ─▶ their bytes, positions of those that are damaged
ReadChecked = Callable[[list[tuple[int, int]]], tuple[bytes, list[int]]]

_UNITS_MAX: Final = 10_000  # about 1 ms when the tag hash decides
_RECORDS_MAX: Final = 1_000  # about 5 ms with a usual condition and small bodies
_RECORDS_MIN: Final = 16  # read before the time counts
SCAN_MS_MAX: Final = 5


class FilterScan:
    """One look through a filter. ``read`` gives the properties of a record, unverified, as are
    those of the last one found, ``properties``; None when they cannot be read.
    """

    __slots__ = (
        "_clock",
        "_end_ms",
        "_filter",
        "_records_left",
        "absent",
        "discarded_count",
        "found_count",
        "properties",
        "read",
        "started_ms",
        "units_left",
    )

    def __init__(
        self,
        wanted: Filter,
        clock: Clock,
        ms_left: float,
        read: Callable[[int, int], bytes | None],
    ) -> None:
        self._filter = wanted
        self._clock = clock
        self.read = read
        self.properties: bytes | None = None
        self.found_count = 0
        self.discarded_count = 0
        self.absent: NotLocal | None = None  # the look ended there
        self.started_ms = clock.monotonic_ms()
        self._end_ms = self.started_ms + min(ms_left, SCAN_MS_MAX)
        self.units_left = _UNITS_MAX if ms_left > 0 else 0
        self._records_left = _RECORDS_MAX

    @property
    def is_spent(self) -> bool:
        return self.units_left <= 0

    def discard_match(self) -> None:
        """The last one that was found is not delivered now."""
        self.found_count -= 1
        self.discarded_count += 1

    def end_at(self, absent: NotLocal) -> None:
        """The look is over until that is here."""
        self.absent = absent
        self.units_left = 0

    def next_match(self, units: Iterator[Unit]) -> tuple[int, Unit | None]:
        """(how many unwanted units came first, the wanted one); None when there is none, or the
        look is spent, as it also is at a record that only the bucket has: ``absent``.
        """
        matches_unit = self._filter.matches_unit
        count = 0
        found: Unit | None = None
        if self.units_left > 0:
            try:
                for unit in units:
                    if matches_unit(unit[2]) and self._is_match(unit[0], unit[1]):
                        found = unit
                        break
                    count += 1
                    if count >= self.units_left:
                        break
            except NotLocal as exc:
                self.end_at(exc)
        self.units_left -= count
        if found is not None:
            self.units_left -= 1
            self.found_count += 1
        return count, found

    def _is_match(self, physical_offset: int, record_bytes: int) -> bool:
        """Decided by the properties; a record without any that can be read is for others to
        judge.
        """
        properties = self.properties = self.read(physical_offset, record_bytes)
        is_wanted = properties is None or self._filter.matches(properties)
        self._records_left -= 1
        if self._records_left <= _RECORDS_MAX - _RECORDS_MIN and (
            self._records_left <= 0 or self._clock.monotonic_ms() >= self._end_ms
        ):
            self.units_left = 0
        return is_wanted


class SettlingScan(FilterScan):
    """One that settles what it passes over: ``skip`` does that for a run of messages.

    ``read_checked`` is ``CommitLog``'s. What a damaged record says of itself counts for nothing: it
    is taken, found damaged, and reported.
    """

    __slots__ = ("_read_checked", "skip")

    def __init__(
        self,
        wanted: Filter,
        clock: Clock,
        ms_left: float,
        read: Callable[[int, int], bytes | None],
        read_checked: ReadChecked,
        skip: Callable[[Progress, int, int], None],
    ) -> None:
        super().__init__(wanted, clock, ms_left, read)
        self._read_checked = read_checked
        self.skip = skip

    def _is_match(self, physical_offset: int, record_bytes: int) -> bool:
        is_wanted = super()._is_match(physical_offset, record_bytes)
        return is_wanted or bool(self._read_checked([(physical_offset, record_bytes)])[1])
