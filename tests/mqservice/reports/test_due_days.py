"""Which nights are due at a moment, whatever clocks do."""

from __future__ import annotations

import datetime as dt

import pytest

from mqservice.reports.due_days import Plan, missed_days
from mqservice.reports.limits import DUE_DAYS_MAX

UTC = Plan(dt.time(2, 30), "UTC")
BERLIN = Plan(dt.time(2, 30), "Europe/Berlin")


def ms(text: str) -> int:
    return round(dt.datetime.fromisoformat(text).timestamp() * 1_000)


def day(text: str) -> dt.date:
    return dt.date.fromisoformat(text)


@pytest.mark.parametrize(
    ("plan", "now", "last"),
    [
        (UTC, "2026-01-06T02:29:59+00:00", "2026-01-04"),
        (UTC, "2026-01-06T02:30:00+00:00", "2026-01-05"),
        (BERLIN, "2026-01-06T01:29:59+00:00", "2026-01-04"),
        (BERLIN, "2026-01-06T01:30:00+00:00", "2026-01-05"),
        # 02:30 is left out on 29 March, and comes when clocks have moved to 03:30.
        (BERLIN, "2026-03-29T01:29:59+00:00", "2026-03-27"),
        (BERLIN, "2026-03-29T01:30:00+00:00", "2026-03-28"),
        # It comes twice on 25 October; the first time counts.
        (BERLIN, "2026-10-25T00:29:59+00:00", "2026-10-23"),
        (BERLIN, "2026-10-25T00:30:00+00:00", "2026-10-24"),
        (BERLIN, "2026-10-25T01:30:00+00:00", "2026-10-24"),
    ],
)
def test_a_day_is_due_at_the_local_time_of_the_next(plan: Plan, now: str, last: str) -> None:
    assert plan.last_due(ms(now)) == day(last)


def test_a_first_start_reports_yesterday_only() -> None:
    assert missed_days(UTC, ms("2026-01-06T12:00+00:00"), None) == [day("2026-01-05")]


def test_nights_that_were_missed_are_made_the_oldest_first() -> None:
    now_ms = ms("2026-01-06T12:00+00:00")
    assert missed_days(UTC, now_ms, day("2026-01-02")) == [
        day("2026-01-03"), day("2026-01-04"), day("2026-01-05"),
    ]  # fmt: skip
    assert missed_days(UTC, now_ms, day("2026-01-05")) == []


def test_after_a_long_time_only_the_newest_are_made() -> None:
    missed = missed_days(UTC, ms("2026-06-01T12:00+00:00"), day("2026-01-02"))
    assert len(missed) == DUE_DAYS_MAX
    assert missed[-1] == day("2026-05-31")


@pytest.mark.parametrize(
    ("date", "dates"),
    [("2026-01-05", {"2026-01-04", "2026-01-05"}), ("2026-07-05", {"2026-07-04", "2026-07-05"})],
)
def test_a_local_day_lies_in_two_days_of_utc(date: str, dates: set[str]) -> None:
    assert BERLIN.utc_dates(day(date)) == set(map(day, dates))
    assert UTC.utc_dates(day(date)) == {day(date)}
