"""A namespace's reports for one day, for any renderer: numbers, no drawing.

    parts of the day, of the weeks before ──▶ [read_day] ──▶ Day ──▶ page, mail, console

A part that is missing is None or empty, never 0.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from mqservice.accounts.models import Namespace
from mqservice.lib.durations import HOUR_MS
from mqservice.reports.due_days import Plan
from mqservice.reports.models import ReportPart
from mqservice.reports.queries import parts_of, totals_of

GROUPS_MAX: Final = 15
REASONS_MAX: Final = 10
TOPICS_MAX: Final = 10
DAYS_SHOWN: Final = 7
_DAY: Final = dt.timedelta(days=1)
_WEEK: Final = 7 * _DAY
Rows = list[dict[str, Any]]  # Any: values of columns


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure and what it was a week before; None: nobody knows."""

    now: float | None
    before: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHours:
    """Greatest lag of each hour, of all topics the worst; absent: not measured, None: unknown."""

    group: str
    lag_by_hour: dict[float, int | None]  # by instants, epoch s
    lag_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """``lag_last``: of the end of the day; ``drain_s``: how long that would have taken at the last
    hour's pace, None where it did not shrink.
    """

    group: str
    topic: str
    lag_max: int
    lag_last: int | None
    lag_ms_max: int
    over_threshold_ms: int
    drain_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """``reason`` is empty where none was given."""

    group: str
    reason: str
    count: int
    redriven_count: int
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """ms from stored to first delivered, and from born to settled; no further off than
    ``uncertain_ms``.
    """

    group: str
    topic: str
    outcome: str
    count: int
    wait_ms_p50: int | None
    wait_ms_p99: int | None
    total_ms_p50: int | None
    total_ms_p99: int | None
    uncertain_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStorage:
    """Bytes that a topic took with all that came of its messages."""

    topic: str
    stored_bytes: int
    stored_bytes_before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUsage:
    """Messages that were produced to a topic, and their bodies; ``before``: a week before."""

    topic: str
    message_count: int
    body_bytes: int | None
    before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """``hours`` are the day's own, 23 to 25; ``produced_by_hour`` has one figure for each."""

    namespace: str
    date: dt.date
    zone: str
    is_there: bool
    is_complete: bool
    rows_left_out: int
    made_ms: int
    produced: Compared
    stored_bytes: Compared
    dead_letters: Compared
    lag_max: Compared
    hours: list[dt.datetime]
    heat: list[GroupHours]
    behind: list[GroupLag]
    reasons: list[DeadLetters]
    latencies: list[Latency]
    storage: list[TopicStorage]
    usage: list[TopicUsage]
    produced_by_hour: list[Compared]
    produced_by_day: list[tuple[dt.date, Compared]]


def read_day(namespace: Namespace, date: dt.date) -> Day:
    """Everything of one day. Four queries, each bounded."""
    compared = ["usage_daily", "dlq_daily"]
    hourly = ["throughput_hourly", "consumer_lag_hourly"]
    daily = ["delivery_latency_daily", "storage_growth_daily"]
    parts = parts_of(namespace, compared + hourly + daily, date, date + _DAY)
    parts += parts_of(
        namespace, [*compared, "throughput_hourly"], date - _WEEK, date - _WEEK + _DAY
    )
    parts += totals_of(namespace, ["consumer_lag_hourly"], [date - _WEEK])
    # Of the other days of two weeks only totals are shown, which may be those of many topics.
    others = [date - back * _DAY for back in range(1, 14) if back != _WEEK.days]
    parts += totals_of(namespace, compared, others)
    return day_of(namespace.name, date, parts)


def day_of(namespace: str, date: dt.date, parts: list[ReportPart]) -> Day:
    """The same, of parts of the day and of the two weeks up to it that somebody has read."""
    today = [part for part in parts if part.date == date]
    zone = today[0].zone if today else "UTC"
    days = _DayRows({(part.report, part.date): part for part in parts}, zone)
    hours = hours_of(date, zone)
    lags = days.rows("consumer_lag_hourly", date)
    return Day(
        namespace=namespace,
        date=date,
        zone=zone,
        is_there=bool(today),
        is_complete=all(part.is_complete for part in today),
        rows_left_out=sum(part.rows_left_out for part in today),
        made_ms=max((part.made_ms for part in today), default=0),
        produced=days.totals("usage_daily", "message_count", date),
        stored_bytes=days.totals("usage_daily", "stored_bytes", date),
        dead_letters=days.totals("dlq_daily", "message_count", date),
        lag_max=Compared(days.greatest_lag(date), days.greatest_lag(date - _WEEK)),
        hours=hours,
        heat=_heat(lags),
        behind=_behind(lags),
        reasons=_reasons(days.rows("dlq_daily", date)),
        latencies=_latencies(days.rows("delivery_latency_daily", date)),
        storage=_storage(days.rows("storage_growth_daily", date)),
        usage=_usage(days, date),
        produced_by_hour=_by_hour(days, date, hours),
        produced_by_day=[
            (each, days.totals("usage_daily", "message_count", each))
            for each in (date - back * _DAY for back in reversed(range(DAYS_SHOWN)))
        ],
    )


def hours_of(date: dt.date, zone: str) -> list[dt.datetime]:
    """The hours of a day as its zone shows them; 23 to 25.

    Times of an hour that comes twice never equal those of another zone: compare instants.
    """
    plan = Plan(dt.time(), zone)
    first_ms = plan.day_start_ms(date) // HOUR_MS * HOUR_MS
    return [
        dt.datetime.fromtimestamp(ms / 1_000, ZoneInfo(zone))
        for ms in range(first_ms, plan.day_start_ms(date + _DAY), HOUR_MS)
    ]


class _DayRows:
    """Rows of reports by day."""

    def __init__(self, found: dict[tuple[str, dt.date], ReportPart], zone: str) -> None:
        self._found = found
        self._dates = {date for _, date in found}
        self.zone = zone

    def rows(self, report: str, date: dt.date) -> Rows:
        part = self._found.get((report, date))
        return [] if part is None else part.rows

    def has(self, date: dt.date) -> bool:
        """Whether there is any report of the day."""
        return date in self._dates

    def totals(self, report: str, column: str, date: dt.date) -> Compared:
        return Compared(
            self._total(report, column, date), self._total(report, column, date - _WEEK)
        )

    def greatest_lag(self, date: dt.date) -> int | None:
        lags = [row["lag_max"] for row in self.rows("consumer_lag_hourly", date)]
        return max((lag for lag in lags if lag is not None), default=None)

    def _total(self, report: str, column: str, date: dt.date) -> int | None:
        """A day with other reports and not this one had none of it."""
        if not self.has(date):
            return None
        return sum(row[column] or 0 for row in self.rows(report, date))


def _heat(rows: Rows) -> list[GroupHours]:
    """The groups that were furthest behind, the worst first."""
    cells: dict[str, dict[float, int | None]] = defaultdict(dict)
    for row in rows:
        hour = _instant(row["hour"]).timestamp()
        known = [lag for lag in (cells[row["group"]].get(hour), row["lag_max"]) if lag is not None]
        cells[row["group"]][hour] = max(known, default=None)
    found = [
        GroupHours(
            group=group,
            lag_by_hour=lags,
            lag_max=max((lag for lag in lags.values() if lag is not None), default=None),
        )
        for group, lags in cells.items()
    ]
    found.sort(key=lambda each: -1 if each.lag_max is None else each.lag_max, reverse=True)
    return found[:GROUPS_MAX]


def _behind(rows: Rows) -> list[GroupLag]:
    by_pair: dict[tuple[str, str], Rows] = defaultdict(list)
    for row in rows:
        if row["lag_max"] is not None:
            by_pair[row["group"], row["topic"]].append(row)
    ends = {pair: max(hours, key=_hour_of) for pair, hours in by_pair.items()}
    found = [
        GroupLag(
            group=group,
            topic=topic,
            lag_max=max(row["lag_max"] for row in hours),
            lag_last=ends[group, topic]["lag_last"],
            lag_ms_max=max(row["lag_ms_max"] or 0 for row in hours),
            over_threshold_ms=sum(row["over_threshold_ms"] or 0 for row in hours),
            drain_s=ends[group, topic]["drain_s"],
        )
        for (group, topic), hours in by_pair.items()
    ]
    found = sorted((each for each in found if each.lag_max), key=lambda each: -each.lag_max)
    return found[:GROUPS_MAX]


def _hour_of(row: dict[str, Any]) -> dt.datetime:  # Any: values of columns
    return _instant(row["hour"])


def _reasons(rows: Rows) -> list[DeadLetters]:
    """Dead letters by group and reason, the most first."""
    counts: Counter[tuple[str, str]] = Counter()
    redriven: Counter[tuple[str, str]] = Counter()
    new = set()
    for row in rows:
        key = row["group"], row["reason"] or ""
        counts[key] += row["message_count"]
        redriven[key] += row["redriven_count"]
        if row["is_new_reason"]:
            new.add(key)
    return [
        DeadLetters(
            group=key[0],
            reason=key[1],
            count=count,
            redriven_count=redriven[key],
            is_new=key in new,
        )
        for key, count in counts.most_common(REASONS_MAX)
    ]


def _latencies(rows: Rows) -> list[Latency]:
    """The slowest first."""
    found = [
        Latency(
            group=row["group"],
            topic=row["topic"],
            outcome=row["outcome"],
            count=row["message_count"],
            wait_ms_p50=row["wait_ms_p50"],
            wait_ms_p99=row["wait_ms_p99"],
            total_ms_p50=row["total_ms_p50"],
            total_ms_p99=row["total_ms_p99"],
            uncertain_ms=row["uncertain_ms_max"] or 0,
        )
        for row in rows
    ]
    return sorted(found, key=lambda each: -(each.total_ms_p99 or 0))[:GROUPS_MAX]


def _storage(rows: Rows) -> list[TopicStorage]:
    """The largest topics, retries and dead letters with them."""
    now: Counter[str] = Counter()
    before: dict[str, int | None] = {}
    for row in rows:
        topic = row["topic"] or ""
        now[topic] += row["stored_bytes"]
        earlier = row["stored_bytes_before"]
        known = before.get(topic, 0)
        before[topic] = None if known is None or earlier is None else known + earlier
    return [
        TopicStorage(topic=topic, stored_bytes=count, stored_bytes_before=before[topic])
        for topic, count in now.most_common(TOPICS_MAX)
    ]


def _usage(days: _DayRows, date: dt.date) -> list[TopicUsage]:
    """The topics with the most messages."""
    is_known = days.has(date - _WEEK)
    before = {row["topic"]: row["message_count"] for row in days.rows("usage_daily", date - _WEEK)}
    found = [
        TopicUsage(
            topic=row["topic"],
            message_count=row["message_count"],
            body_bytes=row.get("body_bytes"),
            before=before.get(row["topic"], 0) if is_known else None,
        )
        for row in days.rows("usage_daily", date)
    ]
    return sorted(found, key=lambda each: -each.message_count)[:TOPICS_MAX]


def _by_hour(days: _DayRows, date: dt.date, hours: list[dt.datetime]) -> list[Compared]:
    """Produced messages of each hour beside those of the week before; empty without a report."""
    rows = days.rows("throughput_hourly", date)
    if not rows:
        return []
    now = _by_clock(rows, days.zone)
    before_rows = days.rows("throughput_hourly", date - _WEEK)
    before = _by_clock(before_rows, days.zone)
    return [
        Compared(now[_clock_of(hour)], before[_clock_of(hour)] if before_rows else None)
        for hour in hours
    ]


def _by_clock(rows: Rows, zone: str) -> Counter[tuple[int, int]]:
    """By what the clock shows; an hour that comes twice is two."""
    found: Counter[tuple[int, int]] = Counter()
    for row in rows:
        found[_clock_of(_instant(row["hour"]).astimezone(ZoneInfo(zone)))] += row["produced_count"]
    return found


def _clock_of(hour: dt.datetime) -> tuple[int, int]:
    return hour.hour, hour.fold


@functools.lru_cache(maxsize=1_000)  # many rows of one hour
def _instant(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)
