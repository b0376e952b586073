"""Nightly reports: the list, a day's report, its files, and requested runs.

form ──▶ reports.services.request_run, as REST calls it ─▶ audit; a worker begins within seconds
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.reports.forms import RangeForm
from mqservice.console.reports.queries import report_days_page
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.frame import Frame, find_or_404, page
from mqservice.lib.csv_cells import csv_response
from mqservice.lib.problem import Problem
from mqservice.reports.catalogue import REPORTS
from mqservice.reports.day import read_day
from mqservice.reports.day_view import day_view
from mqservice.reports.limits import DATE_MAX, DATE_MIN, REQUESTED_DAYS_MAX
from mqservice.reports.page import page_of
from mqservice.reports.queries import get_report, parts_of, table_of
from mqservice.reports.services import request_run

_DAY: Final = dt.timedelta(days=1)
_WEEK: Final = 7 * _DAY


@page("reports")
def reports(frame: Frame) -> HttpResponse:
    """``?before=`` a date. Four queries."""
    return _list(frame, RangeForm() if frame.can_manage else None)


@page("reports", needs=Permission.SETTINGS_MANAGE, methods=("POST",))
def run(frame: Frame) -> HttpResponse:
    """Order a run for the days of the form."""
    form = RangeForm(frame.request.POST)
    if form.is_valid():
        try:
            request_run(frame.principal, frame.namespace, *form.days)
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(frame.request, _("The run was requested and starts within seconds."))
            return redirect("console:reports", frame.namespace.name)
    return _list(frame, form, status=422)


@page("reports")
def report(frame: Frame, date: str) -> HttpResponse:
    """A day, drawn. Four queries."""
    day = _date(date)
    found = read_day(frame.namespace, day)
    return frame.render(
        "console/report.html",
        crumbs=frame.crumbs(day.isoformat()),
        day=found,
        view=day_view(found) if found.is_there else None,
        files=list(REPORTS.values()),
        previous_date=day - _DAY,
        next_date=day + _DAY,
        week_before=day - _WEEK,
        curl=curl_of(
            "GET",
            f"{frame.api_root}/reports/usage_daily?from={day}&to={day + _DAY}",
        ),
    )


@page("reports")
def report_page(frame: Frame, date: str) -> HttpResponse:
    """The day as one HTML file that needs nothing else, as over REST. Four queries."""
    day = read_day(frame.namespace, _date(date))
    if not day.is_there:
        raise Http404
    response = HttpResponse(page_of(day), content_type="text/html; charset=utf-8")
    name = f"{frame.namespace.name}-{day.date}.html"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@page("reports")
def report_rows(frame: Frame, date: str, name: str) -> HttpResponse:
    """One report's rows of the day as CSV. One query."""
    day = _date(date)
    kind = find_or_404(get_report, name)
    parts = parts_of(frame.namespace, [kind.name], day, day + _DAY)
    file_name = f"{frame.namespace.name}-{kind.name}-{day}.csv"
    return csv_response(*table_of(kind, parts), file_name=file_name)


def _list(frame: Frame, form: RangeForm | None, status: int = 200) -> HttpResponse:
    before = frame.request.GET.get("before", "")
    return frame.render(
        "console/reports.html",
        status=status,
        page=report_days_page(frame.namespace, _date(before) if before else None),
        form=form,
        days_max=REQUESTED_DAYS_MAX,
        orders_max=settings.MQ_REPORTS_BY_HAND_MAX,
        curl=curl_of("GET", f"{frame.api_root}/reports"),
    )


def _date(text: str) -> dt.date:
    """Raises Http404 for what is no date, or one that no report can have."""
    try:
        date = dt.date.fromisoformat(text)
    except ValueError:
        raise Http404 from None
    if len(text) != len("2026-01-31") or not DATE_MIN + _WEEK < date < DATE_MAX - _WEEK:
        raise Http404
    return date
