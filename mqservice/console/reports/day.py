"""A day's report as the console draws it: numbers, lines with their charts, tables.

Day ──▶ [day_view] ── reports.charts (SVG), units, texts of the reader's language ──▶ template

What is not known is said to be so, and drawn unlike a zero.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from mqservice.console.templatetags.units import count, size
from mqservice.reports.charts import LEVELS, UNKNOWN, bar, columns, level_of, strip
from mqservice.reports.day import Compared, Day, GroupHours, GroupLag
from mqservice.reports.formatting import duration_text, percent_text

_THRESHOLD: Final = 1_000  # of the job: lag from which on time is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    value: str
    change: str
    is_worse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of a chart: its name, its drawing, and what stands beside and below it."""

    name: str
    drawing: SafeString
    value: str
    notes: str = ""
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """``style``: a class of the style sheet."""

    style: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRow:
    group: str
    topic: str
    outcome: str
    count: int
    wait: str
    total: str
    uncertain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DayRow:
    date: dt.date
    now: str
    before: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DayView:
    """``heat_table``: the numbers of ``heat``, a row a group and a cell an hour."""

    figures: list[Figure]
    hours: list[str]
    levels: list[tuple[str, str]]
    heat: list[Line]
    heat_table: list[tuple[str, list[HeatCell]]]
    behind: list[Line]
    reasons: list[Line]
    by_hour: SafeString | None
    by_hour_top: str
    by_hour_table: list[tuple[str, str, str]]
    has_hours_before: bool
    by_day: SafeString
    days: list[DayRow]
    usage: list[Line]
    storage: list[Line]
    latencies: list[LatencyRow]


def day_view(day: Day) -> DayView:
    """Arithmetic only."""
    return DayView(
        figures=_figures(day),
        hours=[hour.strftime("%H") for hour in day.hours],
        levels=_levels(),
        heat=[_strip(line, day.hours) for line in day.heat],
        heat_table=[(line.group, _cells(line, day.hours)) for line in day.heat],
        behind=[_behind(each, day.behind[0]) for each in day.behind],
        reasons=[
            Line(
                name=each.reason or _("no reason given"),
                drawing=bar(each.count / max(1, day.reasons[0].count)),
                value=count(each.count),
                notes=_("%(group)s, %(count)s redriven")
                % {"group": each.group, "count": count(each.redriven_count)},
                is_new=each.is_new,
            )
            for each in day.reasons
        ],
        by_hour=_by_hour(day),
        by_hour_top=count(_top(day)),
        by_hour_table=[
            (hour.strftime("%H:%M"), _count(what.now), _count(what.before))
            for hour, what in zip(day.hours, day.produced_by_hour, strict=False)
        ],
        has_hours_before=any(what.before is not None for what in day.produced_by_hour),
        by_day=_by_day(day),
        days=[
            DayRow(
                date=date,
                now=_count(what.now),
                before=_count(what.before),
                change=_percent(what),
            )
            for date, what in day.produced_by_day
        ],
        usage=[
            Line(
                name=each.topic,
                drawing=bar(each.message_count / max(1, day.usage[0].message_count)),
                value=count(each.message_count),
                notes=f"{size(each.body_bytes)}, "
                + _change(Compared(each.message_count, each.before)),
            )
            for each in day.usage
        ],
        storage=[
            Line(
                name=each.topic,
                drawing=bar(each.stored_bytes / max(1, day.storage[0].stored_bytes)),
                value=size(each.stored_bytes),
                notes=_change_in_a_day(Compared(each.stored_bytes, each.stored_bytes_before)),
            )
            for each in day.storage
        ],
        latencies=[
            LatencyRow(
                group=each.group,
                topic=each.topic,
                outcome=each.outcome.replace("_", " "),
                count=each.count,
                wait=_pair(each.wait_ms_p50, each.wait_ms_p99),
                total=_pair(each.total_ms_p50, each.total_ms_p99),
                uncertain=duration_text(each.uncertain_ms) if each.uncertain_ms else _("exact"),
            )
            for each in day.latencies
        ],
    )


def _figures(day: Day) -> list[Figure]:
    def figure(name: str, what: Compared, *, is_bytes: bool = False, is_bad: bool) -> Figure:
        shown = size if is_bytes else count
        is_more = what.now is not None and what.before is not None and what.now > what.before
        return Figure(
            name=name,
            value=shown(None if what.now is None else round(what.now)),
            change=_change(what),
            is_worse=is_bad and is_more,
        )

    return [
        figure(_("Messages produced"), day.produced, is_bad=False),
        figure(_("Bytes stored"), day.stored_bytes, is_bytes=True, is_bad=False),
        figure(_("Dead letters"), day.dead_letters, is_bad=True),
        figure(_("Maximum lag, messages"), day.lag_max, is_bad=True),
    ]


def _levels() -> list[tuple[str, str]]:
    """Classes of the style sheet, and what they mean."""
    return [
        ("heat-0", _("none")),
        *(
            (f"heat-{index}", _("%(count)s or more") % {"count": count(level)})
            for index, level in enumerate(LEVELS, 1)
        ),
        ("heat-unknown", _("unknown")),
        ("heat-none", _("not measured")),
    ]


def _strip(line: GroupHours, hours: list[dt.datetime]) -> Line:
    cells: list[tuple[int | None, str]] = []
    for hour, cell in zip(hours, _cells(line, hours), strict=True):
        at = hour.timestamp()
        lag = line.lag_by_hour.get(at)
        known = UNKNOWN if lag is None and at in line.lag_by_hour else lag
        cells.append((known, f"{hour:%H:%M} {cell.text}"))
    value = count(line.lag_max)
    label = _("Lag of %(group)s per hour, maximum %(lag)s messages") % {
        "group": line.group,
        "lag": value,
    }
    return Line(name=line.group, drawing=strip(cells, label=label), value=value)


def _cells(line: GroupHours, hours: list[dt.datetime]) -> list[HeatCell]:
    cells = []
    for hour in hours:
        at = hour.timestamp()
        lag = line.lag_by_hour.get(at)
        if at not in line.lag_by_hour:
            cells.append(HeatCell(style="heat-none", text=_("not measured")))
        elif lag is None:
            cells.append(HeatCell(style="heat-unknown", text=_("unknown")))
        else:
            cells.append(HeatCell(style=f"heat-{level_of(lag)}", text=count(lag)))
    return cells


def _behind(each: GroupLag, worst: GroupLag) -> Line:
    notes = [
        _("oldest %(time)s") % {"time": duration_text(each.lag_ms_max)},
        _("over %(count)s for %(time)s")
        % {"count": count(_THRESHOLD), "time": duration_text(each.over_threshold_ms)},
    ]
    if each.lag_last is None:
        notes.append(_("unknown at the end of the day"))
    elif not each.lag_last:
        notes.append(_("caught up"))
    elif each.drain_s is None:
        notes.append(_("did not decrease"))
    else:
        notes.append(_("would drain in %(time)s") % {"time": duration_text(each.drain_s * 1e3)})
    return Line(
        name=f"{each.group} · {each.topic}",
        drawing=bar(each.lag_max / max(1, worst.lag_max)),
        value=count(each.lag_max),
        notes=", ".join(notes),
    )


def _by_hour(day: Day) -> SafeString | None:
    if not day.produced_by_hour:
        return None
    values = [each.now for each in day.produced_by_hour]
    titles = [
        f"{hour:%H:%M} {_count(what.now)}"
        for hour, what in zip(day.hours, day.produced_by_hour, strict=True)
    ]
    label = _("Messages produced per hour, maximum %(count)s") % {"count": count(_top(day))}
    return columns(values, [each.before for each in day.produced_by_hour], titles, label=label)


def _top(day: Day) -> int:
    """Messages of the fullest hour, of the day or of the one a week before: the chart's height."""
    both = (value for what in day.produced_by_hour for value in (what.now, what.before))
    return round(max((value for value in both if value is not None), default=0))


def _by_day(day: Day) -> SafeString:
    titles = [f"{date}: {_count(what.now)}" for date, what in day.produced_by_day]
    return columns(
        [what.now for _date, what in day.produced_by_day],
        [what.before for _date, what in day.produced_by_day],
        titles,
        label=_("Messages produced per day over seven days; the table has the numbers"),
    )


def _count(value: float | None) -> str:
    return count(None if value is None else round(value))


def _percent(what: Compared) -> str:
    if what.now is None or what.before is None:
        return _("unknown")
    return percent_text(what) if what.before else "–"


def _change(what: Compared) -> str:
    """Against the same day a week before."""
    if what.now is None or what.before is None:
        return _("no data for the week before")
    if what.now == what.before:
        return _("same as a week before")
    if not what.before:
        return _("none a week before")
    return _("%(change)s in a week") % {"change": percent_text(what)}


def _change_in_a_day(what: Compared) -> str:
    if what.now is None or what.before is None:
        return _("no data for the day before")
    if what.now == what.before:
        return _("same as the day before")
    if not what.before:
        return _("none the day before")
    return _("%(change)s in a day") % {"change": percent_text(what)}


def _pair(p50: int | None, p99: int | None) -> str:
    if p50 is None or p99 is None:
        return _("unknown")
    return f"{duration_text(p50)} / {duration_text(p99)}"
