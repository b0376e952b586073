"""Reports over REST: rows, files, the page, runs by hand, and each way to be refused."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.reports.limits import WAITING_RUNS_MAX
from mqservice.reports.models import ReportPart, ReportRun, RunState, Trigger
from mqservice.reports.runs import delete_old_runs
from tests.mqservice.reports.conftest import DATE, DAY, MakeRun
from tests.people import People

Api = Callable[[str], Client]
ROOT = "/v1/ns/acme/reports"
JSON = "application/json"


def part(
    namespace: Namespace,
    report: str,
    *rows: dict[str, Any],  # Any: values of columns
    date: dt.date = DATE,
    is_complete: bool = True,
) -> ReportPart:
    return ReportPart.objects.create(
        namespace=namespace, report=report, date=date, zone="Europe/Berlin",
        made_ms=1_800_000_000_000, is_complete=is_complete, rows=list(rows),
    )  # fmt: skip


def usage(count: int, topic: str = "orders") -> dict[str, Any]:  # Any: values of columns
    return {
        "topic": topic, "message_count": count, "body_bytes": 10 * count,
        "record_bytes": 20 * count, "stored_bytes": 30 * count,
    }  # fmt: skip


def letter(reason: str, group: str = "billing") -> dict[str, Any]:  # Any: values of columns
    return {
        "group": group, "topic": "orders", "reason": reason, "message_count": 12,
        "attempts_max": 3, "age_ms_p50": 1, "age_ms_p95": 2, "age_ms_max": 3,
        "redriven_count": 4, "is_new_reason": True, "top_keys": [{"key": "k", "count": 2}],
    }  # fmt: skip


def lag(hour: int, lag_max: int | None, group: str = "billing") -> dict[str, Any]:  # Any: likewise
    return {
        "group": group, "topic": "orders", "hour": f"2026-01-05T{hour:02}:00:00.000Z",
        "sample_count": 60, "unknown_count": 0, "lag_max": lag_max, "lag_p95": lag_max,
        "lag_last": lag_max, "lag_ms_max": 61_000, "over_threshold_ms": 120_000,
        "trend_per_s": -1.0, "drain_s": 90.0,
    }  # fmt: skip


def test_reports_are_listed_with_their_days_and_the_last_night(
    acme: Client, people: People, make_run: MakeRun
) -> None:
    part(people.acme, "usage_daily", usage(1))
    part(people.acme, "usage_daily", usage(1), date=DATE + DAY)
    make_run(state=RunState.FAILED.value, error_code="no_spark", error="there is no java")
    answer = acme.get(ROOT).json()
    days = {each["name"]: (each["from"], each["to"], each["days"]) for each in answer["reports"]}
    assert days["usage_daily"] == ("2026-01-05", "2026-01-07", 2)
    assert days["dlq_daily"] == (None, None, 0)
    assert (answer["at"], answer["zone"]) == ("02:30", "UTC")
    assert answer["why_none"] == "there is no java"


def test_what_failed_for_others_is_not_reported(acme: Client, make_run: MakeRun) -> None:
    make_run(
        state=RunState.FAILED.value, error_code="job_failed", error="rival%secret-topic is odd"
    )
    assert acme.get(ROOT).json()["why_none"] == "job_failed"
    assert "secret" not in acme.get(f"{ROOT}/runs").content.decode()


def test_rows_of_a_range_are_read_and_those_of_others_are_not(
    acme: Client, people: People, api: Api
) -> None:
    part(people.acme, "usage_daily", usage(3))
    part(people.rival, "usage_daily", usage(99, "theirs"))
    days = acme.get(f"{ROOT}/usage_daily?from=2026-01-01&to=2026-01-06").json()["days"]
    assert [(day["date"], day["rows"]) for day in days] == [("2026-01-05", [usage(3)])]
    assert acme.get(f"{ROOT}/usage_daily").json()["days"] == days  # the newest day
    assert acme.get("/v1/ns/rival/reports/usage_daily").status_code == 404
    assert api(people.rival_key).get(f"{ROOT}/usage_daily.csv").status_code == 404
    assert Client().get(f"{ROOT}/daily.html").status_code == 401


def test_a_file_has_a_column_each_and_no_formulas(acme: Client, people: People) -> None:
    part(people.acme, "dlq_daily", letter('=HYPERLINK("x"),\n"y"'), letter("plain"))
    answer = acme.get(f"{ROOT}/dlq_daily.csv")
    assert answer["Content-Type"].startswith("text/csv")
    assert 'filename="acme-dlq_daily-2026-01-05-2026-01-06.csv"' in answer["Content-Disposition"]
    first, second = csv.DictReader(io.StringIO(answer.content.decode(), newline=""))
    assert first["reason"] == '\'=HYPERLINK("x"),\n"y"'
    assert (second["date"], second["reason"], second["message_count"]) == (
        "2026-01-05", "plain", "12",
    )  # fmt: skip
    assert second["top_keys"] == '[{"key": "k", "count": 2}]'


def test_the_page_needs_nothing_and_runs_nothing_of_what_tenants_wrote(
    acme: Client, people: People
) -> None:
    part(people.acme, "usage_daily", usage(1_500))
    part(people.acme, "usage_daily", usage(1_000), date=DATE - 7 * DAY)
    part(people.acme, "dlq_daily", letter("<script>alert(1)</script>"))
    part(people.acme, "consumer_lag_hourly", lag(3, 5_000), lag(4, None), lag(5, 0, "fine"))
    answer = acme.get(f"{ROOT}/daily.html")
    page = answer.content.decode()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "://" not in page
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert "+50 % in a week" in page
    assert '<rect x="80" width="18" height="20" class="l3"><title>04:00 5,000</title>' in page
    assert '<rect x="100" width="18" height="20" class="unknown"><title>05:00 unknown' in page
    assert page.count('class="none"><title>') == 24 - 2 + 24 - 1
    assert "over 1,000 for 2.0 min" in page
    assert "4 redriven" in page


def test_a_day_of_25_hours_has_as_many_cells(acme: Client, people: People) -> None:
    date = dt.date(2026, 10, 25)
    row = {**lag(0, 1), "hour": "2026-10-25T01:00:00.000Z"}  # 02:00 for the second time
    part(people.acme, "consumer_lag_hourly", row, date=date)
    page = acme.get(f"{ROOT}/daily.html?date={date}").content.decode()
    assert page.count("<title>02:00") == 2
    assert '<rect x="60" width="18" height="20" class="l1"><title>02:00 1<' in page
    assert page.count('class="none"><title>') == 24


def test_a_day_without_reports_says_so(acme: Client, people: People) -> None:
    assert acme.get(f"{ROOT}/daily.html").json()["code"] == "REPORT_NOT_FOUND"
    answer = acme.get(f"{ROOT}/daily.html?date=2026-01-05")
    assert (answer.status_code, "There is no report" in answer.content.decode()) == (200, True)


def test_a_run_by_hand_is_noted_audited_and_one_at_a_time(
    acme: Client, people: People, settings: Settings
) -> None:
    settings.MQ_REPORTS_ZONE = "Europe/Berlin"
    order = {"from": "2026-01-05", "to": "2026-01-07"}
    answer = acme.post(f"{ROOT}:run", data=order, content_type="application/json")
    assert answer.status_code == 202, answer.content
    found = acme.get(answer["Location"]).json()
    assert (found["state"], found["trigger"], found["zone"]) == (
        "pending", "by_hand", "Europe/Berlin",
    )  # fmt: skip
    assert (found["from"], found["to"]) == ("2026-01-05", "2026-01-07")
    assert AuditEntry.objects.get().action == "report.run"
    again = acme.post(f"{ROOT}:run", data=order, content_type="application/json").json()
    assert (again["code"], again["retryable"]) == ("QUOTA_EXCEEDED", True)


def test_runs_by_hand_are_so_many_a_day_for_a_tenant_and_so_many_in_all(
    acme: Client, people: People, api: Api, settings: Settings, make_run: MakeRun
) -> None:
    settings.MQ_REPORTS_BY_HAND_MAX = 2
    order = {"from": "2026-01-05", "to": "2026-01-12"}

    def ordered(client: Client, name: str = "acme") -> Any:  # Any: an answer of the test client
        return client.post(f"/v1/ns/{name}/reports:run", data=order, content_type=JSON)

    for _ in range(2):
        assert ordered(acme).status_code == 202
        ReportRun.objects.update(state=RunState.FAILED.value)
    refusal = ordered(acme)
    problem = refusal.json()
    assert (refusal.status_code, problem["code"]) == (403, "QUOTA_EXCEEDED")
    assert "2 runs within 24 hours" in problem["detail"]
    assert 23 * 3_600_000 < problem["retry_after_ms"] <= 24 * 3_600_000
    rival = api(people.rival_key)  # whom others' orders do not concern
    assert ordered(rival, "rival").status_code == 202
    ReportRun.objects.update(created_at=timezone.now() - DAY, state=RunState.DONE.value)
    assert ordered(acme).status_code == 202
    ReportRun.objects.update(state=RunState.DONE.value)
    for _ in range(WAITING_RUNS_MAX):
        make_run(trigger=Trigger.BY_HAND.value, namespace=people.acme)
    assert f"{WAITING_RUNS_MAX} requested runs" in ordered(rival, "rival").json()["detail"]
    settings.MQ_REPORTS_BY_HAND_MAX = 0
    ReportRun.objects.all().delete()
    assert "turned off requested runs" in ordered(rival, "rival").json()["detail"]
    assert not ReportRun.objects.exists()


def test_runs_of_a_day_are_not_forgotten_while_they_count(make_run: MakeRun) -> None:
    old, new = make_run(), make_run(DATE + DAY)
    ReportRun.objects.update(state=RunState.DONE.value)
    ReportRun.objects.filter(pk=old.pk).update(created_at=timezone.now() - 2 * DAY)
    with mock.patch("mqservice.reports.runs.RETAINED_RUNS_MAX", 0):
        delete_old_runs()
    assert ReportRun.objects.get() == new


@pytest.mark.parametrize(
    ("order", "pointer"),
    [
        ({"from": "2026-01-05", "to": "2026-01-05"}, "/to"),
        ({"from": "2026-01-05", "to": "2026-01-13"}, "/from"),
        ({"from": "2150-01-05", "to": "2150-01-06"}, "/from"),
        ({"from": "9999-12-31", "to": "9999-12-31"}, "/from"),
        ({"from": "yesterday", "to": "2026-01-06"}, "/from"),
        ({"from": "2026-01-05", "to": "2026-01-06", "master": "local"}, "/master"),
    ],
)
def test_orders_that_make_no_sense_are_refused(
    acme: Client, order: dict[str, str], pointer: str
) -> None:
    answer = acme.post(f"{ROOT}:run", data=order, content_type="application/json")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert not ReportRun.objects.exists()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nonsense", 404),
        ("/nonsense.csv", 404),
        ("/usage_daily?from=2026-01-05&to=2026-01-01", 400),
        ("/usage_daily?from=2026-01-05&to=2027-01-01", 400),
        ("/usage_daily?from=9999-12-31", 400),
        ("/usage_daily?to=0001-01-01", 400),
        ("/daily.html?date=0001-01-02", 400),
        ("/runs/run_of_nobody", 404),
        ("/runs?limit=0", 400),
    ],
)
def test_questions_that_make_no_sense_are_refused(acme: Client, path: str, status: int) -> None:
    assert acme.get(ROOT + path).status_code == status


def test_who_may_only_read_orders_nothing(people: People, api: Api) -> None:
    order = {"from": "2026-01-05", "to": "2026-01-06"}
    reader = api(people.acme_reader_key)
    answer = reader.post(f"{ROOT}:run", data=order, content_type="application/json")
    assert answer.status_code == 403


def test_runs_that_others_ordered_are_not_shown(
    acme: Client, people: People, make_run: MakeRun
) -> None:
    theirs = make_run(trigger=Trigger.BY_HAND.value, namespace=people.rival)
    night = make_run()
    listed = acme.get(f"{ROOT}/runs?limit=1").json()
    assert [run["id"] for run in listed["runs"]] == [night.public_id]
    assert acme.get(f"{ROOT}/runs?before={listed['next']}").json()["runs"] == []
    assert acme.get(f"{ROOT}/runs/{theirs.public_id}").status_code == 404
