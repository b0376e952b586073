"""Which nightly runs are due: a day's report is written at a local time of the next day.

    now, plan, the newest night that was made ──▶ [missed_days] ────▶ dates, the oldest first

A local time that a clock change leaves out comes when the clocks have moved; one that comes twice
counts the first time. A wall clock that was wrong makes no night twice, and stops none for long.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from mqservice.lib.timestamps import datetime_ms
from mqservice.reports.limits import DUE_DAYS_MAX

_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Plan:
    """``at``: the local time of ``zone``, an IANA name, at which the day before is reported."""

    at: dt.time
    zone: str

    def due_ms(self, date: dt.date) -> int:
        """When the report of ``date`` is due, epoch ms."""
        return datetime_ms(dt.datetime.combine(date + _DAY, self.at, ZoneInfo(self.zone)))

    def day_start_ms(self, date: dt.date) -> int:
        return datetime_ms(dt.datetime.combine(date, dt.time(), ZoneInfo(self.zone)))

    def utc_dates(self, date: dt.date) -> set[dt.date]:
        """The one or two days of UTC that a day of the zone lies in; those are what is complete."""
        ends_ms = self.day_start_ms(date), self.day_start_ms(date + _DAY) - 1
        return {dt.datetime.fromtimestamp(ms / 1_000, dt.UTC).date() for ms in ends_ms}

    def last_due(self, now_ms: int) -> dt.date:
        """The newest day whose report is due by now."""
        date = dt.datetime.fromtimestamp(now_ms / 1_000, ZoneInfo(self.zone)).date()
        while self.due_ms(date) > now_ms:
            date -= _DAY
        return date


def missed_days(plan: Plan, now_ms: int, last_made: dt.date | None) -> list[dt.date]:
    """Days that are due and not made; ``DUE_DAYS_MAX`` of them at most, only the newest at first.

    ``last_made`` is the newest one up to ``plan.last_due``.
    """
    last = plan.last_due(now_ms)
    if last_made is None:
        return [last]
    first = max(last_made + _DAY, last - (DUE_DAYS_MAX - 1) * _DAY)
    return [first + day * _DAY for day in range((last - first).days + 1)]
