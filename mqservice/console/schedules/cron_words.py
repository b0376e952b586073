"""A cron expression in words, for the common forms.

"30 9 * * mon-fri" ──▶ describe_cron ─▶ "on workdays at 09:30"; "" for what has no simple words
"""

from __future__ import annotations

import re
from typing import Final

from django.utils.dates import WEEKDAYS
from django.utils.translation import gettext as _

from mqservice.schedules.cron import ALIASES

_STEP: Final = re.compile(r"\*/([0-9]{1,2})")
_NUMBER: Final = re.compile(r"[0-9]{1,2}")
_DAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WORKDAYS: Final = ("1-5", "mon-fri")
_WEEKEND: Final = ("0,6", "6,0", "6-7", "sat,sun", "sun,sat")
_MINUTES: Final = 60
_HOURS: Final = 24


def describe_cron(text: str) -> str:
    """Of an expression that is right. In the language of the page."""
    expression = ALIASES.get(text.strip().lower(), text).lower()
    minute, hour, day, month, weekday = expression.split()
    if month != "*":
        return ""
    if (hour, day, weekday) == ("*", "*", "*"):
        return _within_the_hour(minute)
    if not _NUMBER.fullmatch(minute):
        return ""
    if (step := _step_of(hour, _HOURS)) and (day, weekday) == ("*", "*"):
        told = {"n": step, "minute": f"{int(minute):02}"}
        return _("every %(n)s hours at :%(minute)s") % told
    if not _NUMBER.fullmatch(hour):
        return ""
    return _on_days(f"{int(hour):02}:{int(minute):02}", day, weekday)


def _within_the_hour(minute: str) -> str:
    if minute == "*":
        return _("every minute")
    if step := _step_of(minute, _MINUTES):
        return _("every %(n)s minutes") % {"n": step}
    if _NUMBER.fullmatch(minute):
        return _("every hour at :%(minute)s") % {"minute": f"{int(minute):02}"}
    return ""


def _on_days(time: str, day: str, weekday: str) -> str:
    told = {"time": time}
    if (day, weekday) == ("*", "*"):
        return _("every day at %(time)s") % told
    if day == "*":
        if weekday in _WORKDAYS:
            return _("on weekdays at %(time)s") % told
        if weekday in _WEEKEND:
            return _("on weekends at %(time)s") % told
        number = _weekday_of(weekday)
        if number is None:
            return ""
        name = str(WEEKDAYS[(number - 1) % 7])  # Django counts from Monday, cron from Sunday
        return _("every %(weekday)s at %(time)s") % (told | {"weekday": name})
    if weekday == "*":
        if day == "l":
            return _("on the last day of the month at %(time)s") % told
        if _NUMBER.fullmatch(day):
            return _("on day %(day)s of the month at %(time)s") % (told | {"day": int(day)})
    return ""


def _step_of(field: str, size: int) -> int | None:
    """Of ``*/n`` that divides its range, so that the steps are of one length; more than one."""
    match = _STEP.fullmatch(field)
    step = int(match[1]) if match else 0
    return step if 1 < step < size and size % step == 0 else None


def _weekday_of(field: str) -> int | None:
    if field in _DAY_NAMES:
        return _DAY_NAMES.index(field)
    return int(field) % 7 if len(field) == 1 and field in "01234567" else None
