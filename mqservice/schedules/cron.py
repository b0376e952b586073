"""When a cron expression fires in a time zone. Pure functions; times are epoch ms, whole minutes.

    "0 9 * * mon-fri", "Europe/Berlin" ──▶ parse_cron ──▶ [Cron] ──▶ next_ms, times_from, last_ms

Five fields as Debian's cron reads them, names of months and days, ``L``, ``LW``, ``MON#2`` and
``5L`` besides, and ``@hourly`` … ``@yearly``. ``cronsim`` reads them and finds the days. Celery's
own parser has no rule for clocks that are set, and ``croniter`` none that depends on the kind of
expression; what happens then is decided here, as Debian's cron does it:

    fixed times (neither minute nor hour begins with a *)
        in the hour that is left out  ──▶ once, as soon as the clock was set
        in the hour that comes twice  ──▶ once, the first time
    everything else (*/15 * * * *)    ──▶ whenever the clock shows such a minute, twice if it does

``cronsim`` is asked without a zone, on the clock as it hangs on the wall: with one it may name a
time before the one it was asked about, and passes over some where clocks are set by half an hour.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from mqservice.lib.durations import DAY_MS, HOUR_MS
from mqservice.schedules.limits import CRON_CHARS_MAX

FIELD_COUNT: Final = 5
ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FORM: Final = "minute hour day month weekday, such as 0 9 * * mon-fri"
_FIELD_NAMES: Final = {
    "minute": "the minute (0 to 59)",
    "hour": "the hour (0 to 23)",
    "day-of-month": "the day (1 to 31, L or LW)",
    "month": "the month (1 to 12, or jan to dec)",
    "day-of-week": "the weekday (0 to 7, or sun to sat)",
}
_NEVER: Final = "never fires: no such day comes within fifty years"
_SOME_DAY: Final = datetime(2024, 1, 1)  # noqa: DTZ001  # see the docstring
_MINUTE: Final = timedelta(minutes=1)
_DAY: Final = timedelta(days=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# How far back the last time is looked for before going further.
_BACK_MS: Final = (HOUR_MS, DAY_MS, 32 * DAY_MS, 367 * DAY_MS, 50 * 366 * DAY_MS)


class CronFault(ValueError):
    """What is wrong with an expression or a zone, as the end of a sentence about the field."""


@dataclass(frozen=True, slots=True)
class Cron:
    """``expression`` has its five fields, without an alias."""

    expression: str
    zone: ZoneInfo

    @property
    def is_fixed(self) -> bool:
        """Whether it says certain times of the day; see the module's docstring."""
        minute, hour, *_ = self.expression.split()
        return not minute.startswith("*") and not hour.startswith("*")

    def next_ms(self, after_ms: int) -> int | None:
        """The first time after ``after_ms``; None when there is none within fifty years."""
        after = _EPOCH + timedelta(milliseconds=after_ms)
        here = after.astimezone(self.zone)
        on_wall = here.replace(tzinfo=None)
        later = (after + _DAY).astimezone(self.zone)
        set_back = (here.utcoffset() or timedelta()) - (later.utcoffset() or timedelta())
        # What the wall shows now may come again within a day.
        start = on_wall - max(set_back, timedelta())
        found: datetime | None = None
        for wall in CronSim(self.expression, start.replace(microsecond=0) - timedelta(seconds=1)):
            for moment in self._moments(wall):
                if moment > after and (found is None or moment < found):
                    found = moment
            if found is not None and wall > on_wall:
                break
        return None if found is None else _ms_of(found)

    def times_from(self, after_ms: int) -> Iterator[int]:
        """All times after ``after_ms``, in their order."""
        at_ms = self.next_ms(after_ms)
        while at_ms is not None:
            yield at_ms
            at_ms = self.next_ms(at_ms)

    def last_ms(self, until_ms: int, *, first_ms: int) -> int:
        """The last time at or before ``until_ms``, of which ``first_ms`` is one."""
        last = first_ms
        for back_ms in _BACK_MS:
            begin = max(first_ms, until_ms - back_ms - 1)
            for at_ms in self.times_from(begin):
                if at_ms > until_ms:
                    break
                last = at_ms
            if last > begin or begin == first_ms:
                break
        return last

    def _moments(self, wall: datetime) -> list[datetime]:
        """When the clock on the wall shows a time, or what stands for it; in UTC."""
        first, second = (self._of_wall(wall, fold) for fold in (0, 1))
        if self.is_fixed:
            while first is None:  # at the end of what is left out, a day at the very most
                wall += _MINUTE
                first = self._of_wall(wall, 0)
            return [first]
        return [one for one in dict.fromkeys((first, second)) if one is not None]

    def _of_wall(self, wall: datetime, fold: int) -> datetime | None:
        """None for a time that no clock shows."""
        moment = wall.replace(tzinfo=self.zone, fold=fold).astimezone(UTC)
        is_real = moment.astimezone(self.zone).replace(tzinfo=None) == wall
        return moment if is_real else None


def parse_cron(text: str, zone_name: str = "UTC") -> Cron:
    """Raises CronFault: it is no expression, it fires too often, or never."""
    return Cron(_checked(text), find_zone(zone_name))


def find_zone(name: str) -> ZoneInfo:
    """Raises CronFault."""
    if name not in _zone_names():
        raise CronFault("must be an IANA time zone, such as UTC or Europe/Berlin")
    return ZoneInfo(name)


@functools.cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())


def _checked(text: str) -> str:
    if len(text) > CRON_CHARS_MAX:
        raise CronFault(f"must have at most {CRON_CHARS_MAX} characters, found {len(text)}")
    expression = " ".join(text.split())
    if expression.startswith("@"):
        if expression.lower() not in ALIASES:
            raise CronFault(f"must be one of {', '.join(ALIASES)}")
        return ALIASES[expression.lower()]
    if expression.upper().startswith(("TZ=", "CRON_TZ=")):
        raise CronFault("must not contain a time zone: set it in time_zone")
    fields = expression.split()
    if len(fields) == FIELD_COUNT + 1:
        raise CronFault(
            f"must not have a field for seconds, at most once a minute is possible: {_FORM}"
        )
    if len(fields) != FIELD_COUNT:
        raise CronFault(f"must have five fields, found {len(fields)}: {_FORM}")
    try:
        sim = CronSim(expression, _SOME_DAY)
        next(sim)
    except CronSimError as exc:
        if _is_only_never(fields):
            raise CronFault(_NEVER) from None
        name = str(exc).removeprefix("Bad ")
        raise CronFault(f"is invalid in {_FIELD_NAMES.get(name, name)}: {_FORM}") from None
    except StopIteration:
        raise CronFault(_NEVER) from None
    return expression


def _is_only_never(fields: list[str]) -> bool:
    """Whether each field is right, and only that day is in none of those months."""
    minute, hour, day, month, weekday = fields
    try:
        for expression in (f"{minute} {hour} {day} * {weekday}", f"0 0 * {month} *"):
            CronSim(expression, _SOME_DAY)
    except CronSimError:
        return False
    return True


def _ms_of(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
