"""A day of a namespace as one HTML page that needs nothing else: no script, no file, no network.

parts of the day, of the weeks before ──▶ figures, charts ──▶ frontend/templates/reports/daily.html
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from mqservice.accounts.models import Namespace
from mqservice.lib.timestamps import rfc3339
from mqservice.reports.charts import LEVELS, UNKNOWN, bar, columns, strip
from mqservice.reports.models import ReportPart
from mqservice.reports.nights import Plan
from mqservice.reports.queries import parts_of

GROUPS_MAX: Final = 15
REASONS_MAX: Final = 10
_DAY: Final = dt.timedelta(days=1)
_WEEK: Final = 7 * _DAY
_HOUR_MS: Final = 3_600_000
# Classes of the style sheet, and what they mean; levels as in ``charts.LEVELS``.
_LEVELS: Final = (
    ("l0", "none"),
    *((f"l{index}", f"{level:,d} or more") for index, level in enumerate(LEVELS, 1)),
    ("unknown", "unknown"),
    ("none", "not measured"),
)
Rows = list[dict[str, Any]]  # Any: values of columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """``change``: what it is beside the same day a week before, as a text; empty if unknown."""

    name: str
    value: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of a chart: its name, its drawing, and what stands beside it."""

    name: str
    drawing: SafeString
    value: str
    notes: str = ""
    is_new: bool = False


def daily_page(namespace: Namespace, date: dt.date) -> str:
    """Two queries. A part that is missing is said to be so, never drawn as 0."""
    two_weeks = parts_of(
        namespace, ["usage_daily", "dlq_daily"], date - 2 * _WEEK + _DAY, date + _DAY
    )
    hourly = ["throughput_hourly", "consumer_lag_hourly"]
    parts = two_weeks + parts_of(namespace, hourly, date, date + _DAY)
    parts += parts_of(namespace, hourly, date - _WEEK, date - _WEEK + _DAY)
    found = {(part.report, part.date): part for part in parts}
    today = [part for part in parts if part.date == date]
    zone = today[0].zone if today else "UTC"
    days = _Days(found, zone)
    hours = _hours(date, zone)
    context = {
        "namespace": namespace.name,
        "date": date,
        "zone": zone,
        "is_there": bool(today),
        "is_complete": all(part.is_complete for part in today),
        "left_out": sum(part.rows_left_out for part in today),
        "made_at": rfc3339(max((part.made_ms for part in today), default=0)),
        "figures": _figures(days, date),
        "heat": _heat(days.rows("consumer_lag_hourly", date), hours),
        "levels": _LEVELS,
        "worst": _worst(days.rows("consumer_lag_hourly", date)),
        "reasons": _reasons(days.rows("dlq_daily", date)),
        "hour_marks": [hour.strftime("%H") for hour in hours],
        "by_hour": _by_hour(days, date, hours),
        "by_day": _by_day(days, date),
    }
    return render_to_string("reports/daily.html", context)


class _Days:
    """Rows of reports by day; None where there is no report of the day at all."""

    def __init__(self, found: dict[tuple[str, dt.date], ReportPart], zone: str) -> None:
        self._found = found
        self._dates = {date for _, date in found}
        self.zone = zone

    def rows(self, report: str, date: dt.date) -> Rows:
        part = self._found.get((report, date))
        return [] if part is None else part.rows

    def total(self, report: str, column: str, date: dt.date) -> int | None:
        """A day with other reports and not this one had none of it."""
        if date not in self._dates:
            return None
        return sum(row[column] or 0 for row in self.rows(report, date))

    def greatest(self, report: str, column: str, date: dt.date) -> int | None:
        values = [row[column] for row in self.rows(report, date) if row[column] is not None]
        return max(values, default=None)


def _hours(date: dt.date, zone: str) -> list[dt.datetime]:
    """The hours of a day as its zone shows them; 23 to 25.

    Times of an hour that comes twice never equal those of another zone: compare instants.
    """
    plan = Plan(dt.time(), zone)
    first_ms = plan.day_start_ms(date) // _HOUR_MS * _HOUR_MS
    return [
        dt.datetime.fromtimestamp(ms / 1_000, ZoneInfo(zone))
        for ms in range(first_ms, plan.day_start_ms(date + _DAY), _HOUR_MS)
    ]


def _figures(days: _Days, date: dt.date) -> list[Figure]:
    def figure(name: str, now: int | None, before: int | None, *, is_bytes: bool = False) -> Figure:
        shown = "unknown" if now is None else (_bytes(now) if is_bytes else _count(now))
        return Figure(name=name, value=shown, change=_change(now, before))

    week = date - _WEEK
    return [
        figure(
            "messages produced",
            days.total("usage_daily", "message_count", date),
            days.total("usage_daily", "message_count", week),
        ),
        figure(
            "bytes stored",
            days.total("usage_daily", "stored_bytes", date),
            days.total("usage_daily", "stored_bytes", week),
            is_bytes=True,
        ),
        figure(
            "dead letters",
            days.total("dlq_daily", "message_count", date),
            days.total("dlq_daily", "message_count", week),
        ),
        figure(
            "greatest lag",
            days.greatest("consumer_lag_hourly", "lag_max", date),
            days.greatest("consumer_lag_hourly", "lag_max", week),
        ),
    ]


def _heat(rows: Rows, hours: list[dt.datetime]) -> list[Line]:
    """The groups that were furthest behind, the worst first; of their topics the worst counts."""
    cells: dict[str, dict[float, int]] = defaultdict(dict)  # by instants: see _hours
    for row in rows:
        lag = UNKNOWN if row["lag_max"] is None else row["lag_max"]
        hour = _instant(row["hour"]).timestamp()
        cells[row["group"]][hour] = max(lag, cells[row["group"]].get(hour, UNKNOWN))
    worst = sorted(cells, key=lambda group: (-max(cells[group].values()), group))
    lines = []
    for group in worst[:GROUPS_MAX]:
        greatest = max(cells[group].values())
        strips = [_cell(hour, cells[group].get(hour.timestamp())) for hour in hours]
        lines.append(
            Line(
                name=group,
                drawing=strip(strips),
                value="unknown" if greatest == UNKNOWN else _count(greatest),
            )
        )
    return lines


def _cell(hour: dt.datetime, lag: int | None) -> tuple[int | None, str]:
    said = "not measured" if lag is None else "unknown" if lag == UNKNOWN else f"lag {_count(lag)}"
    return lag, f"{hour:%H:%M} {said}"


def _worst(rows: Rows) -> list[Line]:
    greatest: Counter[str] = Counter()
    over_ms: Counter[str] = Counter()
    age_ms: Counter[str] = Counter()
    last: dict[str, tuple[str, float | None]] = {}
    for row in rows:
        if row["lag_max"] is None:
            continue
        name = f"{row['group']} · {row['topic']}"
        greatest[name] = max(greatest[name], row["lag_max"])
        over_ms[name] += row["over_threshold_ms"] or 0
        age_ms[name] = max(age_ms[name], row["lag_ms_max"] or 0)
        last[name] = max(last.get(name, ("", None)), (row["hour"], row["drain_s"]), key=_first)
    lines = []
    for name, lag in greatest.most_common(GROUPS_MAX):
        if not lag:
            continue
        drain_s = last[name][1]
        notes = [f"oldest {_duration(age_ms[name])}", f"over 1,000 for {_duration(over_ms[name])}"]
        notes.append(
            "did not shrink" if drain_s is None else f"would drain in {_duration(drain_s * 1e3)}"
        )
        share = lag / max(greatest.values())
        line = Line(name=name, drawing=bar(share), value=_count(lag), notes=", ".join(notes))
        lines.append(line)
    return lines


def _first(pair: tuple[str, float | None]) -> str:
    return pair[0]


def _reasons(rows: Rows) -> list[Line]:
    """Dead letters by group and reason, the most first."""
    counts: Counter[tuple[str, str]] = Counter()
    redriven: Counter[tuple[str, str]] = Counter()
    new = set()
    for row in rows:
        key = row["group"], row["reason"] or "no reason given"
        counts[key] += row["message_count"]
        redriven[key] += row["redriven_count"]
        if row["is_new_reason"]:
            new.add(key)
    most = max(counts.values(), default=1)
    return [
        Line(
            name=key[1],
            drawing=bar(count / most),
            value=_count(count),
            notes=f"{key[0]}, {_count(redriven[key])} redriven",
            is_new=key in new,
        )
        for key, count in counts.most_common(REASONS_MAX)
    ]


def _by_hour(days: _Days, date: dt.date, hours: list[dt.datetime]) -> dict[str, Any] | None:
    """Produced messages of each hour; Any: what a template takes."""
    rows = days.rows("throughput_hourly", date)
    if not rows:
        return None
    now = _by_clock(rows, days.zone)
    before_rows = days.rows("throughput_hourly", date - _WEEK)
    before = _by_clock(before_rows, days.zone)
    values = [now[_clock_of(hour)] for hour in hours]
    earlier = [before[_clock_of(hour)] if before_rows else None for hour in hours]
    titles = [f"{hour:%H:%M} {_count(value)}" for hour, value in zip(hours, values, strict=True)]
    return {
        "drawing": columns(values, earlier, titles),
        "top": _count(max([*values, *(each or 0 for each in earlier)])),
        "has_before": bool(before_rows),
    }


def _by_clock(rows: Rows, zone: str) -> Counter[tuple[int, int]]:
    """By what the clock shows; an hour that comes twice is two."""
    found: Counter[tuple[int, int]] = Counter()
    for row in rows:
        found[_clock_of(_instant(row["hour"]).astimezone(ZoneInfo(zone)))] += row["produced_count"]
    return found


def _clock_of(hour: dt.datetime) -> tuple[int, int]:
    return hour.hour, hour.fold


def _by_day(days: _Days, date: dt.date) -> dict[str, Any]:
    """The week up to the day, beside the one before; Any: what a template takes."""
    dates = [date - 6 * _DAY + day * _DAY for day in range(7)]
    now = [days.total("usage_daily", "message_count", each) for each in dates]
    before = [days.total("usage_daily", "message_count", each - _WEEK) for each in dates]
    rows = [
        {
            "date": each,
            "now": "-" if value is None else _count(value),
            "before": "-" if old is None else _count(old),
            "change": _change(value, old),
        }
        for each, value, old in zip(dates, now, before, strict=True)
    ]
    titles = [f"{row['date']}: {row['now']}" for row in rows]
    return {
        "drawing": columns([value or 0 for value in now], before, titles),
        "marks": [each.strftime("%a") for each in dates],
        "rows": rows,
    }


def _instant(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _change(now: int | None, before: int | None) -> str:
    if now is None or before is None:
        return ""
    if before == 0:
        return "none a week before" if now else "as a week before"
    percent = round(100 * (now - before) / before)
    return f"{percent:+,d} % in a week" if percent else "as a week before"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _bytes(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def _duration(ms: float) -> str:
    seconds = ms / 1_000
    pairs: Iterable[tuple[str, int]] = (("d", 86_400), ("h", 3_600), ("min", 60))
    for unit, length in pairs:
        if seconds >= length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:,.0f} s"
