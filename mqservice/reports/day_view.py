"""A day's report as every reader sees it: texts and drawings for the console, the page and the
email.

Day ──▶ [day_view] ── charts (SVG), units, texts of the reader's language ──▶ template

What is not known is said to be so, and drawn unlike a zero.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from mqservice.lib.units import count, size
from mqservice.reports.charts import LEVELS, UNKNOWN, bar, columns, strip
from mqservice.reports.day import Compared, Day, DeadLetters, GroupHours, GroupLag, Latency

_THRESHOLD: Final = 1_000  # of the job: lag from which on time is counted
_DURATIONS: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """``change``: against the same day a week before."""

    name: str
    value: str
    change: str
    is_worse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of a chart: its name, its drawing, and what stands beside and below it; ``cells``: what
    the drawing shows, as texts.
    """

    name: str
    drawing: SafeString
    value: str
    notes: str = ""
    is_new: bool = False
    cells: tuple[str, ...] = ()


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
    """``levels``: classes of the style sheets, and what they mean."""

    figures: list[Figure]
    hours: list[str]
    levels: list[tuple[str, str]]
    heat: list[Line]
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
    by_hour_top = count(_top(day))
    return DayView(
        figures=[
            _figure(_("Messages produced"), day.produced),
            _figure(_("Bytes stored"), day.stored_bytes, is_bytes=True),
            _figure(_("Dead letters"), day.dead_letters, is_bad=True),
            _figure(_("Maximum lag, messages"), day.lag_max, is_bad=True),
        ],
        hours=[hour.strftime("%H") for hour in day.hours],
        levels=[
            ("heat-0", _("none")),
            *(
                (f"heat-{index}", _("%(count)s or more") % {"count": count(level)})
                for index, level in enumerate(LEVELS, 1)
            ),
            ("heat-unknown", _("unknown")),
            ("heat-none", _("not measured")),
        ],
        heat=[_heat(line, day.hours) for line in day.heat],
        behind=[_behind(each, day.behind[0]) for each in day.behind],
        reasons=[_reason(each, day.reasons[0].count) for each in day.reasons],
        by_hour=_by_hour(day, by_hour_top),
        by_hour_top=by_hour_top,
        by_hour_table=[
            (hour.strftime("%H:%M"), _count(what.now), _count(what.before))
            for hour, what in zip(day.hours, day.produced_by_hour, strict=False)
        ],
        has_hours_before=any(what.before is not None for what in day.produced_by_hour),
        by_day=columns(
            [what.now for _date, what in day.produced_by_day],
            [what.before for _date, what in day.produced_by_day],
            [f"{date}: {_count(what.now)}" for date, what in day.produced_by_day],
            label=_("Messages produced per day over seven days; the table has the numbers"),
        ),
        days=[
            DayRow(
                date=date,
                now=_count(what.now),
                before=_count(what.before),
                change=_("unknown") if None in (what.now, what.before) else _percent(what) or "–",
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
        latencies=[_latency(each) for each in day.latencies],
    )


def _reason(each: DeadLetters, most_count: int) -> Line:
    return Line(
        name=each.reason or _("no reason given"),
        drawing=bar(each.count / max(1, most_count)),
        value=count(each.count),
        notes=_("%(group)s, %(count)s redriven")
        % {"group": each.group, "count": count(each.redriven_count)},
        is_new=each.is_new,
    )


def _latency(each: Latency) -> LatencyRow:
    return LatencyRow(
        group=each.group,
        topic=each.topic,
        outcome=each.outcome.replace("_", " "),
        count=each.count,
        wait=_pair(each.wait_ms_p50, each.wait_ms_p99),
        total=_pair(each.total_ms_p50, each.total_ms_p99),
        uncertain=_duration(each.uncertain_ms) if each.uncertain_ms else _("exact"),
    )


def _figure(name: str, what: Compared, *, is_bytes: bool = False, is_bad: bool = False) -> Figure:
    shown = size if is_bytes else count
    is_more = what.now is not None and what.before is not None and what.now > what.before
    return Figure(
        name=name,
        value=shown(None if what.now is None else round(what.now)),
        change=_change(what),
        is_worse=is_bad and is_more,
    )


def _heat(line: GroupHours, hours: list[dt.datetime]) -> Line:
    cells = list(_cells(line, hours))
    titled = [(lag, f"{hour:%H:%M} {text}") for hour, (lag, text) in zip(hours, cells, strict=True)]
    value = count(line.lag_max)
    label = _("Lag of %(group)s per hour, maximum %(lag)s messages") % {
        "group": line.group,
        "lag": value,
    }
    return Line(
        name=line.group,
        drawing=strip(titled, label=label),
        value=value,
        cells=tuple(text for _lag, text in cells),
    )


def _cells(line: GroupHours, hours: list[dt.datetime]) -> Iterator[tuple[int | None, str]]:
    """Lag of each hour as ``strip`` takes it, and as a text."""
    for hour in hours:
        at = hour.timestamp()
        if at not in line.lag_by_hour:
            yield None, _("not measured")
        else:
            lag = line.lag_by_hour[at]
            yield UNKNOWN if lag is None else lag, count(lag)


def _behind(each: GroupLag, worst: GroupLag) -> Line:
    notes = [
        _("oldest %(time)s") % {"time": _duration(each.lag_ms_max)},
        _("over %(count)s for %(time)s")
        % {"count": count(_THRESHOLD), "time": _duration(each.over_threshold_ms)},
    ]
    if each.lag_last is None:
        notes.append(_("unknown at the end of the day"))
    elif not each.lag_last:
        notes.append(_("caught up"))
    elif each.drain_s is None:
        notes.append(_("did not decrease"))
    else:
        notes.append(_("would drain in %(time)s") % {"time": _duration(each.drain_s * 1e3)})
    return Line(
        name=f"{each.group} · {each.topic}",
        drawing=bar(each.lag_max / max(1, worst.lag_max)),
        value=count(each.lag_max),
        notes=", ".join(notes),
    )


def _by_hour(day: Day, top: str) -> SafeString | None:
    if not day.produced_by_hour:
        return None
    return columns(
        [each.now for each in day.produced_by_hour],
        [each.before for each in day.produced_by_hour],
        [
            f"{hour:%H:%M} {_count(what.now)}"
            for hour, what in zip(day.hours, day.produced_by_hour, strict=True)
        ],
        label=_("Messages produced per hour, maximum %(count)s") % {"count": top},
    )


def _top(day: Day) -> int:
    """Messages of the fullest hour, of the day or of the one a week before: the chart's height."""
    both = (value for what in day.produced_by_hour for value in (what.now, what.before))
    return round(max((value for value in both if value is not None), default=0))


def _count(value: float | None) -> str:
    return count(None if value is None else round(value))


def _percent(what: Compared) -> str:
    """The change alone; empty where there is nothing to compare with."""
    if what.now is None or not what.before:
        return ""
    percent = round(100 * (what.now - what.before) / what.before)
    return f"{percent:+,d} %" if percent else "0 %"


def _change(what: Compared) -> str:
    """Against the same day a week before."""
    if what.now is None or what.before is None:
        return _("no data for the week before")
    if what.now == what.before:
        return _("same as a week before")
    if not what.before:
        return _("none a week before")
    return _("%(change)s in a week") % {"change": _percent(what)}


def _change_in_a_day(what: Compared) -> str:
    if what.now is None or what.before is None:
        return _("no data for the day before")
    if what.now == what.before:
        return _("same as the day before")
    if not what.before:
        return _("none the day before")
    return _("%(change)s in a day") % {"change": _percent(what)}


def _pair(p50: int | None, p99: int | None) -> str:
    if p50 is None or p99 is None:
        return _("unknown")
    return f"{_duration(p50)} / {_duration(p99)}"


def _duration(ms: float) -> str:
    seconds = ms / 1_000
    for unit, length in _DURATIONS:
        if seconds >= length:
            return f"{seconds / length:,.1f} {unit}"
    if seconds >= 10 or not ms:
        return f"{seconds:,.0f} s"
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{ms:,.0f} ms"
