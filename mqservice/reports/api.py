"""Reports over REST: the list, rows, files, and requested runs.

GET  /v1/ns/{ns}/reports                      all kinds, and what became of the last night
GET  /v1/ns/{ns}/reports/daily.html           a day as one page that needs nothing else
GET  /v1/ns/{ns}/reports/{name}, {name}.csv   rows of a range of days
POST /v1/ns/{ns}/reports:run                  make the reports of a range of days
GET  /v1/ns/{ns}/reports/runs, runs/{run}
GET, PUT /v1/ns/{ns}/reports/recipients       who gets the summary of each night
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Final

from django.conf import settings
from django.http import HttpResponse
from ninja import Query, Router, Status
from pydantic import Field

from mqservice.accounts.models import Namespace
from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Scope
from mqservice.lib.csv_cells import csv_response
from mqservice.lib.problem import Problem
from mqservice.reports.catalogue import REPORTS
from mqservice.reports.day import read_day
from mqservice.reports.emails import recipients_of
from mqservice.reports.limits import DATE_MAX, DATE_MIN, PAGE_MAX
from mqservice.reports.models import ReportRecipients, RunState
from mqservice.reports.page import page_of
from mqservice.reports.queries import (
    days_of,
    find_last_nightly_run,
    get_report,
    get_run,
    last_day,
    parts_of,
    runs_of,
    table_of,
)
from mqservice.reports.schemas import (
    DayOut,
    RecipientsIn,
    RecipientsOut,
    ReportDaysOut,
    ReportListOut,
    ReportOut,
    RunIn,
    RunListOut,
    RunOut,
)
from mqservice.reports.services import check_range, request_run, set_recipients

router = Router(tags=["reports"])

Limit = Annotated[int, Field(ge=1, le=PAGE_MAX)]
FromDate = Annotated[dt.date | None, Query(alias="from", ge=DATE_MIN, le=DATE_MAX)]
ToDate = Annotated[dt.date | None, Query(alias="to", ge=DATE_MIN, le=DATE_MAX)]
OneDate = Annotated[dt.date | None, Query(ge=DATE_MIN, le=DATE_MAX)]
_DAY: Final = dt.timedelta(days=1)
# The page holds texts of tenants: nothing in it may run or load anything.
PAGE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


@router.get("/ns/{ns}/reports", response=ReportListOut, by_alias=True)
def list_reports(request: AuthedRequest, ns: str) -> ReportListOut:
    """List reports with their days, and the result of the last night. Three queries."""
    namespace = get_namespace(request.auth, ns)
    found = days_of(namespace)
    night = find_last_nightly_run()
    at = settings.MQ_REPORTS_AT
    return ReportListOut(
        reports=[
            ReportOut.model_validate(
                {
                    "name": report.name,
                    "title": report.title,
                    "columns": ["date", *report.columns],
                    "from": found[report.name][0] if report.name in found else None,
                    "to": found[report.name][1] + _DAY if report.name in found else None,
                    "days": found[report.name][2] if report.name in found else 0,
                }
            )
            for report in REPORTS.values()
        ],
        at=None if at is None else at.strftime("%H:%M"),
        zone=settings.MQ_REPORTS_ZONE,
        last_night=None if night is None else RunOut.of(night),
        why_none=None
        if night is None or night.state != RunState.FAILED
        else RunOut.of(night).error,
    )


@router.post("/ns/{ns}/reports:run", response={202: RunOut}, by_alias=True)
def run(request: AuthedRequest, response: HttpResponse, ns: str, order: RunIn) -> Status[RunOut]:
    """Make the reports of a range of days, again if they exist."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    made = request_run(request.auth, namespace, order.from_date, order.to_date)
    response["Location"] = f"/v1/ns/{namespace.name}/reports/runs/{made.public_id}"
    return Status(202, RunOut.of(made))


@router.get("/ns/{ns}/reports/runs", response=RunListOut, by_alias=True)
def list_runs(
    request: AuthedRequest, ns: str, before: str = "", limit: Limit = PAGE_MAX
) -> RunListOut:
    """List nightly runs and those that the namespace has requested, the newest first. Two or three
    queries."""
    runs = runs_of(get_namespace(request.auth, ns), before=before, limit=limit)
    return RunListOut(
        runs=[RunOut.of(each) for each in runs],
        next=runs[-1].public_id if len(runs) == limit else None,
    )


@router.get("/ns/{ns}/reports/runs/{run_id}", response=RunOut, by_alias=True)
def read_run(request: AuthedRequest, ns: str, run_id: str) -> RunOut:
    """Read the progress of a run. Two queries."""
    return RunOut.of(get_run(get_namespace(request.auth, ns), run_id))


@router.get("/ns/{ns}/reports/recipients", response=RecipientsOut)
def read_recipients(request: AuthedRequest, ns: str) -> RecipientsOut:
    """Read the recipients of the nightly summary. Three queries."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    return _recipients(namespace, recipients_of(namespace))


@router.put("/ns/{ns}/reports/recipients", response=RecipientsOut)
def put_recipients(request: AuthedRequest, ns: str, wanted: RecipientsIn) -> RecipientsOut:
    """Set the recipients of the nightly summary: addresses, none, or again the owners."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    return _recipients(namespace, set_recipients(request.auth, namespace, wanted.emails))


@router.get("/ns/{ns}/reports/daily.html")
def read_page(request: AuthedRequest, ns: str, date: OneDate = None) -> HttpResponse:
    """Read a day's report as a page; by default the newest. Four queries."""
    namespace = get_namespace(request.auth, ns)
    day = date or last_day(namespace)
    if day is None:
        raise Problem.of("REPORT_NOT_FOUND", "there are no reports yet; reports:run creates some")
    content = page_of(read_day(namespace, day))
    answer = HttpResponse(content, content_type="text/html; charset=utf-8")
    answer["Content-Security-Policy"] = PAGE_POLICY
    return answer


@router.get("/ns/{ns}/reports/{name}.csv")
def read_csv(
    request: AuthedRequest,
    ns: str,
    name: str,
    from_date: FromDate = None,
    to_date: ToDate = None,
) -> HttpResponse:
    """Read rows of a range of days as CSV; by default the newest day. Two or three queries."""
    report = get_report(name)
    namespace = get_namespace(request.auth, ns)
    first, end = _range(namespace, from_date, to_date)
    parts = parts_of(namespace, [name], first, end)
    file_name = f"{namespace.name}-{name}-{first}-{end}.csv"
    return csv_response(*table_of(report, parts), file_name=file_name)


@router.get("/ns/{ns}/reports/{name}", response=ReportDaysOut, by_alias=True)
def read_report(
    request: AuthedRequest,
    ns: str,
    name: str,
    from_date: FromDate = None,
    to_date: ToDate = None,
) -> ReportDaysOut:
    """Read rows of a range of days; by default the newest day. Two or three queries."""
    report = get_report(name)
    namespace = get_namespace(request.auth, ns)
    first, end = _range(namespace, from_date, to_date)
    parts = parts_of(namespace, [report.name], first, end)
    return ReportDaysOut(report=report.name, days=[DayOut.of(part) for part in parts])


def _recipients(namespace: Namespace, emails: list[str]) -> RecipientsOut:
    return RecipientsOut(
        emails=emails,
        are_owners=not ReportRecipients.objects.filter(namespace=namespace).exists(),
        is_mail_on=bool(settings.MQ_EMAIL_URL),
    )


def _range(
    namespace: Namespace, from_date: dt.date | None, to_date: dt.date | None
) -> tuple[dt.date, dt.date]:
    """Half-open; what is not given is the newest day, or one day. Raises Problem BAD_REQUEST."""
    if from_date is None and to_date is None:
        newest = last_day(namespace) or DATE_MIN
        return newest, newest + _DAY
    first = from_date if from_date is not None else (to_date or DATE_MAX) - _DAY
    end = to_date if to_date is not None else first + _DAY
    check_range(first, end)
    return first, end
