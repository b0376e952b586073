"""Searches queues for messages that match a filter, in small steps that do not block the loop.

    take ──▶ [FilterScan] ─ tag hash of a unit, then properties in the log ──▶ wanted, or skipped
               │ spent, nothing found, somebody waits
               └──▶ [FilterScans] ─ next turn of the loop, in turn with others ──▶ serve ──▶ take

One look passes over so many units, reads so many records and takes so long at most; all looks
between two ticks together take a part of the time, whatever the filters are. What was looked at is
skipped for good, so the next look goes on behind it. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from storage_engine.clock import Clock
from storage_engine.delivery.progress import Progress
from storage_engine.filters.message_filter import Filter
from storage_engine.queues.consume_queue import Unit

if TYPE_CHECKING:
    from storage_engine.delivery.subscription import Subscription

# (physical_offset, record_bytes) of records ─▶ their bytes, positions of those that are damaged
ReadChecked = Callable[[list[tuple[int, int]]], tuple[bytes, list[int]]]

_UNITS_MAX: Final = 10_000  # about 1 ms when the tag hash decides
_RECORDS_MAX: Final = 1_000  # about 5 ms with a usual condition and small bodies
SCAN_MS_MAX: Final = 5
# Of the 100 ms between two ticks: a hostile filter leaves two thirds of the loop to everybody else.
_TICK_SHARE_MS: Final = 30
# What a message costs that is delivered without a filter; finding one is no waste of time.
_FOUND_MS: Final = 0.02


class FilterScan:
    """One look through a filter. ``read`` gives the properties of a record, unverified, as are
    those of the last one found, ``properties``; None when they cannot be read.
    """

    __slots__ = (
        "_clock",
        "_end_ms",
        "_filter",
        "_records_left",
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

    def next_match(self, units: Iterator[Unit]) -> tuple[int, Unit | None]:
        """(how many unwanted units came first, the wanted one); None when there is none, or the
        look is spent.
        """
        matches_unit = self._filter.matches_unit
        count = 0
        found: Unit | None = None
        if self.units_left > 0:
            for unit in units:
                if matches_unit(unit[2]) and self._is_match(unit[0], unit[1]):
                    found = unit
                    break
                count += 1
                if count >= self.units_left:
                    break
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
        if self._records_left <= 0 or self._clock.monotonic_ms() >= self._end_ms:
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


class FilterScans:
    """See the module's docstring; ``SettlingScan`` says what the first functions are.

    ``later`` has something done in the next turn of the loop; ``serve`` gives what is ready to
    those who wait.
    """

    def __init__(
        self,
        clock: Clock,
        properties: Callable[[int, int], bytes | None],
        read_checked: ReadChecked,
        skip: Callable[[Progress, int, int], None],
        later: Callable[[Callable[[], None]], object],
        serve: Callable[[Subscription], None],
    ) -> None:
        self._clock = clock
        self._settle = skip
        self._reading = properties, read_checked, self._skip
        self._call_soon = later
        self._serve = serve
        self._ms_left: float = _TICK_SHARE_MS
        self._waiting: dict[Subscription, None] = {}  # those that were not looked through, in turn
        self._is_turn_scheduled = False
        self._is_stopped = False
        self.skipped_count = 0

    def start_scan(self, subscription: Subscription) -> SettlingScan:
        """A look for one take, or for some that follow each other."""
        return SettlingScan(subscription.filter, self._clock, self._ms_left, *self._reading)

    def finish_scan(self, subscription: Subscription, look: FilterScan) -> None:
        """Record the time spent, and continue later if a receive still waits for messages after the
        skipped ones.
        """
        spent_ms = self._clock.monotonic_ms() - look.started_ms - look.found_count * _FOUND_MS
        if subscription.filter.is_all:
            # It looks for no message, but whether each may come yet: what may is no cost of that.
            seen_count = look.found_count + look.discarded_count
            spent_ms *= look.discarded_count / max(seen_count, 1)
        self._ms_left = min(self._ms_left - spent_ms, _TICK_SHARE_MS)
        if look.is_spent and subscription.waiting_receives and not self._is_stopped:
            self._waiting[subscription] = None
            self._schedule_turn()

    def tick(self) -> None:
        """A new share of time; every tick."""
        self._ms_left = _TICK_SHARE_MS
        if self._waiting and not self._is_turn_scheduled:
            # At once: those who have waited come before the receives of this tick.
            self._turn()

    def stop(self) -> None:
        """Look no more: the files are about to be closed."""
        self._is_stopped = True
        self._waiting.clear()

    def _skip(self, progress: Progress, first: int, count: int) -> None:
        self._settle(progress, first, count)
        self.skipped_count += count

    def _schedule_turn(self) -> None:
        if not self._is_turn_scheduled and self._ms_left > 0:
            self._is_turn_scheduled = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_scheduled = False
        if self._waiting:
            subscription = next(iter(self._waiting))
            del self._waiting[subscription]
            try:
                self._serve(subscription)
            finally:
                if self._waiting:
                    self._schedule_turn()
