"""Days and hours of a range of dates in a zone, as instants; a day has 23, 24 or 25 hours."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql import Column
from pyspark.sql import functions as F

_MS = 1_000
HOUR_MS = 3_600 * _MS


@dataclass(frozen=True)
class Scope:
    """The days ``[from_date, to_date)`` of ``zone``, which is an IANA name."""

    from_date: dt.date
    to_date: dt.date
    zone: str = "UTC"

    def check(self) -> Scope:
        """Itself. Raises ValueError with what is wrong."""
        if self.to_date <= self.from_date:
            raise ValueError(f"there are no days from {self.from_date} to {self.to_date}")
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError) as exc:
            raise ValueError(f"{self.zone!r} is not a time zone, such as Europe/Berlin") from exc
        return self

    @property
    def from_ms(self) -> int:
        return start_ms(self.from_date, self.zone)

    @property
    def to_ms(self) -> int:
        return start_ms(self.to_date, self.zone)

    def dates(self) -> list[dt.date]:
        return dates_between(self.from_date, self.to_date)

    def utc_dates(self) -> list[dt.date]:
        """The days of the lake, which are UTC's, that hold some of it."""
        last = dt.datetime.fromtimestamp((self.to_ms - 1) / _MS, dt.UTC).date()
        first = dt.datetime.fromtimestamp(self.from_ms / _MS, dt.UTC).date()
        return dates_between(first, last + dt.timedelta(days=1))

    def covers(self, ms: Column) -> Column:
        return (ms >= self.from_ms) & (ms < self.to_ms)

    def date_of(self, ms: Column) -> Column:
        """The zone's date at an instant."""
        return F.to_date(F.from_utc_timestamp(F.timestamp_millis(ms), self.zone))


def start_ms(date: dt.date, zone: str = "UTC") -> int:
    """When a date begins in a zone, epoch ms."""
    return round(dt.datetime.combine(date, dt.time(), ZoneInfo(zone)).timestamp()) * _MS


def dates_between(first: dt.date, end: dt.date) -> list[dt.date]:
    return [first + dt.timedelta(days=day) for day in range((end - first).days)]


def hour_of(ms: Column) -> Column:
    """The hour of UTC that an instant lies in, as its first instant: never ambiguous."""
    return F.timestamp_millis(F.floor(ms / HOUR_MS) * HOUR_MS)
