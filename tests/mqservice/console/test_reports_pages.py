"""Reports in the console: nights and what became of them, a day drawn, files, runs by hand."""

from __future__ import annotations

import datetime as dt
from typing import Any  # values of columns

import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.reports.models import ReportPart, ReportRun, RunState, Trigger
from tests.mqservice.console.reading import text_of, why_not
from tests.people import People

REPORTS = "/console/acme/reports"
DATE = dt.date(2026, 1, 14)
DAY = dt.timedelta(days=1)
SCRIPT = "<script>alert(1)</script>"


def part(namespace: Namespace, report: str, *rows: dict[str, Any], date: dt.date = DATE) -> None:
    ReportPart.objects.create(
        namespace=namespace, report=report, date=date, zone="UTC", made_ms=1_800_000_000_000,
        is_complete=True, rows=list(rows),
    )  # fmt: skip


def usage(count: int, topic: str = "orders") -> dict[str, Any]:
    return {
        "topic": topic, "message_count": count, "body_bytes": 10 * count,
        "record_bytes": 20 * count, "stored_bytes": 30 * count,
    }  # fmt: skip


def lag(hour: int, lag_max: int | None, group: str = "billing") -> dict[str, Any]:
    return {
        "group": group, "topic": "orders", "hour": f"{DATE}T{hour:02}:00:00.000Z",
        "sample_count": 60, "unknown_count": 0, "lag_max": lag_max, "lag_p95": lag_max,
        "lag_last": lag_max, "lag_ms_max": 61_000, "over_threshold_ms": 120_000,
        "trend_per_s": -1.0, "drain_s": 90.0,
    }  # fmt: skip


def letter(reason: str) -> dict[str, Any]:
    return {
        "group": "billing", "topic": "orders", "reason": reason, "message_count": 12,
        "attempts_max": 3, "age_ms_p50": 1, "age_ms_p95": 2, "age_ms_max": 3,
        "redriven_count": 4, "is_new_reason": True, "top_keys": [],
    }  # fmt: skip


def night(date: dt.date, state: RunState, **values: object) -> ReportRun:
    given = {
        "trigger": Trigger.NIGHTLY.value, "from_date": date, "to_date": date + DAY, "zone": "UTC",
        "created_by": "beat", "next_try_ms": 0, "state": state.value, **values,
    }  # fmt: skip
    return ReportRun.objects.create(**given)


def row_of(text: str, date: dt.date) -> str:
    """The row of a day, as text with its marks."""
    return text[text.index(f">{date}") :].partition("</tr>")[0]


def test_nights_are_listed_with_what_became_of_each(people: People, alice: Client) -> None:
    part(people.acme, "usage_daily", usage(1_200), usage(34, "payments"))
    part(people.acme, "dlq_daily", letter("bad"))
    part(people.acme, "usage_daily", usage(5), date=DATE - 4 * DAY)
    part(people.rival, "usage_daily", usage(99_999), date=DATE - DAY)
    night(DATE, RunState.DONE)
    night(DATE - DAY, RunState.DONE)
    night(DATE - 2 * DAY, RunState.FAILED, error_code="job_failed", error="rival%secret is odd")
    night(DATE + DAY, RunState.RUNNING, done_count=2, total_count=9, step="dlq_daily")
    night(DATE + 2 * DAY, RunState.FAILED, error_code="no_spark", error="there is no java")
    text = text_of(alice, REPORTS)
    assert "1,234" in row_of(text, DATE)
    assert ">12<" in row_of(text, DATE)
    assert "no data" in row_of(text, DATE - DAY)
    assert ">–<" in row_of(text, DATE - DAY)  # unknown is no 0
    assert "failed" in row_of(text, DATE - 2 * DAY)
    assert "requested" in row_of(text, DATE - 4 * DAY)
    running = row_of(text, DATE + DAY)
    assert 'max="9" value="2"' in running
    assert "3/9 dlq_daily" in running
    assert "There are no reports for last night. Reports need Java 17" in text
    assert "job_failed" in text
    assert "secret" not in text
    assert "99,999" not in text
    assert 'hx-trigger="every 3s"' in text  # while something runs
    ReportRun.objects.filter(state=RunState.RUNNING.value).update(state=RunState.DONE.value)
    assert "every 3s" not in text_of(alice, REPORTS)


def test_many_nights_are_paged_and_cost_the_same(
    people: People, alice: Client, django_assert_max_num_queries: object
) -> None:
    for back in range(40):
        rows = [usage(1, f"topic-{index}") for index in range(20)]
        part(people.acme, "usage_daily", *rows, date=DATE - back * DAY)
    alice.get("/console/acme/topics")  # the counts of the navigation are remembered after it
    with django_assert_max_num_queries(9):  # type: ignore[operator]  # pytest-django's
        first = text_of(alice, REPORTS)
    assert f">{DATE}<" in first
    assert f">{DATE - 14 * DAY}<" not in first
    behind = text_of(alice, f"{REPORTS}?before={DATE - 13 * DAY}")
    assert f">{DATE - 14 * DAY}<" in behind
    assert alice.get(f"{REPORTS}?before=yesterday").status_code == 404


def test_day_is_drawn_with_a_week_before_and_unknown_is_not_zero(
    people: People, alice: Client
) -> None:
    part(people.acme, "usage_daily", usage(300), usage(7, "new"))
    part(people.acme, "usage_daily", usage(200), date=DATE - 7 * DAY)
    part(people.acme, "consumer_lag_hourly", lag(3, 12_000), lag(4, None), lag(5, 0))
    earlier = (lag(3, 1_000), lag(4, None), lag(5, 10_000))
    part(people.acme, "consumer_lag_hourly", *earlier, date=DATE - 7 * DAY)
    part(people.acme, "dlq_daily", letter(SCRIPT))
    text = text_of(alice, f"{REPORTS}/{DATE}")
    assert "+54 % in a week" in text
    assert "+20 % in a week" in text  # of the greatest lag
    assert "none a week before" in text  # dead letters, and the topic that is new
    assert "no data for the day before" not in text
    assert "Lag of billing per hour, maximum 12,000 messages" in text
    assert "03:00 12,000" in text
    assert "04:00 unknown" in text
    assert "05:00 0" in text
    assert "06:00 not measured" in text
    assert "2026-01-13: unknown" in text  # a day without a report, in the chart of seven
    assert SCRIPT not in text
    assert "&lt;script&gt;" in text
    assert "style=" not in text


@pytest.mark.parametrize(
    "date", ["2026-02-30", "yesterday", "20260114", "0001-01-01", "9999-12-31"]
)
def test_what_is_no_day_is_not_found(people: People, alice: Client, date: str) -> None:
    for path in (date, f"{date}/page.html", f"{date}/usage_daily.csv"):
        assert alice.get(f"{REPORTS}/{path}").status_code == 404


def test_day_without_a_report_says_so(people: People, alice: Client) -> None:
    assert "There is no report for this day" in text_of(alice, f"{REPORTS}/{DATE}")
    assert alice.get(f"{REPORTS}/{DATE}/page.html").status_code == 404
    assert "No reports yet" in text_of(alice, REPORTS)


def test_files_are_kept_and_need_nothing(people: People, alice: Client) -> None:
    part(people.acme, "dlq_daily", letter("=1+1"), letter(SCRIPT))
    alice.cookies["mq_language"] = "zh-hans"
    answer = alice.get(f"{REPORTS}/{DATE}/page.html")
    assert answer["Content-Disposition"] == f'attachment; filename="acme-{DATE}.html"'
    page = answer.content.decode()
    assert SCRIPT not in page
    assert "<script" not in page
    assert "Wednesday" in page
    answer = alice.get(f"{REPORTS}/{DATE}/dlq_daily.csv")
    assert answer["Content-Disposition"] == f'attachment; filename="acme-dlq_daily-{DATE}.csv"'
    assert "'=1+1" in answer.content.decode()
    assert alice.get(f"{REPORTS}/{DATE}/nothing.csv").status_code == 404


def test_run_is_ordered_by_the_days_of_the_form_under_the_limits_of_rest(
    people: People, alice: Client, settings: Settings
) -> None:
    settings.MQ_REPORTS_BY_HAND_MAX = 1
    days = {"first": "2026-01-10", "last": "2026-01-12"}
    answer = alice.post(f"{REPORTS}/run", days, follow=True)
    assert "The run was requested" in answer.content.decode()
    run = ReportRun.objects.get()
    assert (run.from_date, run.to_date) == (dt.date(2026, 1, 10), dt.date(2026, 1, 13))
    assert (run.created_by, run.trigger) == ("user:alice", "by_hand")
    assert "2026-01-10 to 2026-01-12" in text_of(alice, REPORTS)
    entry = AuditEntry.objects.get(action="report.run")
    assert entry.actor == "user:alice"

    again = alice.post(f"{REPORTS}/run", days)
    assert again.status_code == 422
    assert "is in progress" in again.content.decode()
    run.state = RunState.DONE.value
    run.save()
    assert (
        "may request 1 runs within 24 hours" in alice.post(f"{REPORTS}/run", days).content.decode()
    )


@pytest.mark.parametrize(
    ("days", "told"),
    [
        ({"first": "2026-01-10", "last": "2026-01-09"}, "must be after"),
        ({"first": "2026-01-01", "last": "2026-01-08"}, "at most 7 days"),
        ({"first": "2190-01-01", "last": "2190-01-01"}, "is in the future"),
        ({"first": "soon", "last": ""}, "Enter a valid date"),
        ({"first": "0001-01-01", "last": "9999-12-31"}, "greater than or equal"),
    ],
)
def test_days_that_cannot_be_reported_are_refused_at_their_field(
    people: People, alice: Client, days: dict[str, str], told: str
) -> None:
    answer = alice.post(f"{REPORTS}/run", days)
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert not ReportRun.objects.exists()


def test_viewer_reads_and_orders_nothing_and_a_stranger_finds_nothing(
    people: People, client: Client
) -> None:
    part(people.acme, "usage_daily", usage(1))
    days = {"first": "2026-01-10", "last": "2026-01-12"}
    paths = (REPORTS, f"{REPORTS}/{DATE}", f"{REPORTS}/{DATE}/page.html",
             f"{REPORTS}/{DATE}/usage_daily.csv")  # fmt: skip
    client.force_login(people.bob)
    assert {client.get(path).status_code for path in paths} == {200}
    page = text_of(client, REPORTS)
    assert "<form class" not in page.partition("<main")[2]
    assert "Generate reports" in why_not(page)
    assert client.post(f"{REPORTS}/run", days).status_code == 403
    client.force_login(people.charlie)
    assert {client.get(path).status_code for path in paths} == {404}
    assert client.post(f"{REPORTS}/run", days).status_code == 404
    assert not ReportRun.objects.exists()
