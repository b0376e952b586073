"""A namespace's day as one self-contained HTML page: no script, no other file, no network.

Day ──▶ [daily_page] ── figures, charts ──▶ frontend/templates/reports/daily.html
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Final

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from mqservice.accounts.models import Namespace
from mqservice.lib.timestamps import rfc3339
from mqservice.reports.charts import LEVELS, UNKNOWN, bar, columns, strip
from mqservice.reports.day import Compared, Day, GroupHours, GroupLag, read_day
from mqservice.reports.formatting import (
    bytes_text,
    change_text,
    count_text,
    duration_text,
    percent_text,
)

# Classes of the style sheet, and what they mean; levels as in ``charts.LEVELS``.
_LEVELS: Final = (
    ("l0", "none"),
    *((f"l{index}", f"{level:,d} or more") for index, level in enumerate(LEVELS, 1)),
    ("unknown", "unknown"),
    ("none", "not measured"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """``change``: what it is beside the same day a week before, as a text; empty if unknown."""

    name: str
    value: str
    change: str
    is_worse: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of a chart: its name, its drawing, and what stands beside it."""

    name: str
    drawing: SafeString
    value: str
    notes: str = ""
    is_new: bool = False


def daily_page(namespace: Namespace, date: dt.date) -> str:
    """Three queries. A part that is missing is said to be so, never drawn as 0."""
    return page_of(read_day(namespace, date))


def page_of(day: Day) -> str:
    context = {
        "day": day,
        "made_at": rfc3339(day.made_ms),
        "figures": figures_of(day),
        "heat": [_strip(line, day.hours) for line in day.heat],
        "levels": _LEVELS,
        "behind": _behind(day.behind),
        "reasons": _reasons(day),
        "latencies": [
            {
                "group": each.group,
                "topic": each.topic,
                "outcome": each.outcome.replace("_", " "),
                "count": count_text(each.count),
                "wait": _pair(each.wait_ms_p50, each.wait_ms_p99),
                "total": _pair(each.total_ms_p50, each.total_ms_p99),
                "uncertain": duration_text(each.uncertain_ms) if each.uncertain_ms else "exact",
            }
            for each in day.latencies
        ],
        "storage": [
            Line(
                name=each.topic,
                drawing=bar(each.stored_bytes / max(1, day.storage[0].stored_bytes)),
                value=bytes_text(each.stored_bytes),
                notes=change_text(Compared(each.stored_bytes, each.stored_bytes_before), "a day"),
            )
            for each in day.storage
        ],
        "hour_marks": [hour.strftime("%H") for hour in day.hours],
        "by_hour": _by_hour(day),
        "by_day": _by_day(day),
    }
    return render_to_string("reports/daily.html", context)


def figures_of(day: Day) -> list[Figure]:
    """The four that stand on top; also what a mail tells."""

    def figure(name: str, what: Compared, *, is_bytes: bool = False, is_bad: bool) -> Figure:
        shown = bytes_text if is_bytes else count_text
        value = "unknown" if what.now is None else shown(what.now)
        is_more = what.now is not None and what.before is not None and what.now > what.before
        return Figure(name=name, value=value, change=change_text(what), is_worse=is_bad and is_more)

    return [
        figure("Messages produced", day.produced, is_bad=False),
        figure("Bytes stored", day.stored_bytes, is_bytes=True, is_bad=False),
        figure("Dead letters", day.dead_letters, is_bad=True),
        figure("Maximum lag, messages", day.lag_max, is_bad=True),
    ]


def behind_text(each: GroupLag) -> str:
    """How bad it was, in words."""
    notes = [
        f"oldest {duration_text(each.lag_ms_max)}",
        f"over 1,000 for {duration_text(each.over_threshold_ms)}",
    ]
    if each.lag_last == 0:
        notes.append("caught up")
    elif each.drain_s is None:
        notes.append("did not decrease")
    else:
        notes.append(f"would drain in {duration_text(each.drain_s * 1e3)}")
    return ", ".join(notes)


def _strip(line: GroupHours, hours: list[dt.datetime]) -> Line:
    cells: list[tuple[int | None, str]] = []
    for hour in hours:
        at = hour.timestamp()
        lag = line.lag_by_hour.get(at)
        if at not in line.lag_by_hour:
            cells.append((None, f"{hour:%H:%M} not measured"))
        elif lag is None:
            cells.append((UNKNOWN, f"{hour:%H:%M} unknown"))
        else:
            cells.append((lag, f"{hour:%H:%M} lag {count_text(lag)}"))
    value = "unknown" if line.lag_max is None else count_text(line.lag_max)
    label = f"Lag of {line.group} per hour, maximum {value}"
    return Line(name=line.group, drawing=strip(cells, label=label), value=value)


def _behind(found: list[GroupLag]) -> list[Line]:
    return [
        Line(
            name=f"{each.group} · {each.topic}",
            drawing=bar(each.lag_max / found[0].lag_max),
            value=count_text(each.lag_max),
            notes=behind_text(each),
        )
        for each in found
    ]


def _reasons(day: Day) -> list[Line]:
    return [
        Line(
            name=each.reason or "no reason given",
            drawing=bar(each.count / max(1, day.reasons[0].count)),
            value=count_text(each.count),
            notes=f"{each.group}, {count_text(each.redriven_count)} redriven",
            is_new=each.is_new,
        )
        for each in day.reasons
    ]


def _pair(p50: int | None, p99: int | None) -> str:
    if p50 is None or p99 is None:
        return "unknown"
    return f"{duration_text(p50)} / {duration_text(p99)}"


def _by_hour(day: Day) -> dict[str, Any] | None:
    """Any: what a template takes."""
    if not day.produced_by_hour:
        return None
    values = [each.now or 0 for each in day.produced_by_hour]
    before = [each.before for each in day.produced_by_hour]
    titles = [
        f"{hour:%H:%M} {count_text(value)}" for hour, value in zip(day.hours, values, strict=True)
    ]
    top = count_text(max([*values, *(each or 0 for each in before)]))
    return {
        "drawing": columns(
            values, before, titles, label=f"Messages produced per hour, maximum {top}"
        ),
        "top": top,
        "has_before": any(each is not None for each in before),
    }


def _by_day(day: Day) -> dict[str, Any]:
    """The week up to the day, beside the one before; Any: what a template takes."""
    rows = [
        {
            "date": date,
            "now": "-" if what.now is None else count_text(what.now),
            "before": "-" if what.before is None else count_text(what.before),
            "change": percent_text(what),
        }
        for date, what in day.produced_by_day
    ]
    values = [what.now for _, what in day.produced_by_day]
    before = [what.before for _, what in day.produced_by_day]
    return {
        "drawing": columns(
            values,
            before,
            [f"{row['date']}: {row['now']}" for row in rows],
            label="Messages produced per day over seven days; the table has the numbers",
        ),
        "marks": [date.strftime("%a") for date, _ in day.produced_by_day],
        "rows": rows,
    }
