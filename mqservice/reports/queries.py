"""Reads of reports and runs, each limited to a namespace."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from django.db import connection
from django.db.models import Count, Max, Min, Q, TextField
from django.db.models.functions import Cast

from mqservice.accounts.models import Namespace
from mqservice.lib.problem import Problem
from mqservice.reports.catalogue import REPORTS, Report
from mqservice.reports.limits import CSV_ROWS_MAX
from mqservice.reports.models import ReportPart, ReportRun, RunState, Trigger

_TOTALS: Final = """
    SELECT report, date, zone, is_complete, rows_left_out, made_ms, message_count, stored_bytes,
           lag_max
    FROM reports_reportpart, LATERAL (
        SELECT sum((row ->> 'message_count')::bigint) AS message_count,
               sum((row ->> 'stored_bytes')::bigint) AS stored_bytes,
               max((row ->> 'lag_max')::bigint) AS lag_max
        FROM jsonb_array_elements(rows) AS row
    ) AS total
    WHERE namespace_id = %s AND report = ANY(%s) AND date = ANY(%s)
"""


def get_report(name: str) -> Report:
    """Raises Problem REPORT_NOT_FOUND."""
    report = REPORTS.get(name)
    if report is None:
        raise Problem.of(
            "REPORT_NOT_FOUND", f"there is no report {name}; the reports are {_names()}"
        )
    return report


def days_of(namespace: Namespace) -> dict[str, tuple[dt.date, dt.date, int]]:
    """Of each report that has any: its first and last day, and how many there are. One query."""
    rows = ReportPart.objects.filter(namespace=namespace).values("report")
    counted = rows.annotate(first=Min("date"), last=Max("date"), count=Count("pk"))
    return {row["report"]: (row["first"], row["last"], row["count"]) for row in counted}


def parts_of(
    namespace: Namespace, reports: list[str], from_date: dt.date, to_date: dt.date
) -> list[ReportPart]:
    """The days ``[from_date, to_date)``, by report and date. One query."""
    found = ReportPart.objects.filter(
        namespace=namespace, report__in=reports, date__gte=from_date, date__lt=to_date
    )
    # As text: Django's own way to read thousands of rows takes three times as long.
    found = found.annotate(rows_text=Cast("rows", TextField())).defer("rows")
    parts: list[ReportPart] = []
    for part in found.order_by("report", "date"):
        part.rows = msgspec.json.decode(part.rows_text)
        parts.append(part)
    return parts


def totals_of(namespace: Namespace, reports: list[str], dates: list[dt.date]) -> list[ReportPart]:
    """Parts of these days that are not saved, with one row for all of theirs: ``message_count`` and
    ``stored_bytes`` (0 where the report has none), and the greatest ``lag_max`` (None where none is
    known). One query, which adds up in the database.
    """
    found = []
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS, [namespace.pk, reports, dates])
        for report, date, zone, is_complete, left_out, made_ms, count, size, lag in cursor:
            row = {
                "topic": "", "message_count": int(count or 0), "stored_bytes": int(size or 0),
                "lag_max": lag,
            }  # fmt: skip
            found.append(
                ReportPart(
                    namespace=namespace, report=report, date=date, zone=zone, rows=[row],
                    is_complete=is_complete, rows_left_out=left_out, made_ms=made_ms,
                )
            )  # fmt: skip
    return found


def last_day(namespace: Namespace) -> dt.date | None:
    """The newest day of which there is any report. One query."""
    rows = ReportPart.objects.filter(namespace=namespace)
    found: dt.date | None = rows.aggregate(last=Max("date"))["last"]
    return found


def runs_of(namespace: Namespace, *, before: str, limit: int) -> list[ReportRun]:
    """A page of nightly runs and of those the namespace has ordered, the newest first."""
    rows = ReportRun.objects.filter(_visible_to(namespace))
    if before:
        rows = rows.filter(pk__lt=get_run(namespace, before).pk)
    return list(rows.order_by("-pk")[:limit])


def get_run(namespace: Namespace, public_id: str) -> ReportRun:
    """Raises Problem TASK_NOT_FOUND for absent and foreign alike. One query."""
    run = ReportRun.objects.filter(_visible_to(namespace), public_id=public_id).first()
    if run is None:
        raise Problem.of("TASK_NOT_FOUND", f"{public_id} does not exist in {namespace.name}")
    return run


def find_last_nightly_run() -> ReportRun | None:
    """The newest nightly run that has ended, well or not. One query."""
    ended = ReportRun.objects.filter(
        trigger=Trigger.NIGHTLY.value, state__in=[RunState.DONE.value, RunState.FAILED.value]
    )
    return ended.order_by("-from_date").first()


def table_of(report: Report, parts: list[ReportPart]) -> tuple[Sequence[str], Iterator[list[Any]]]:
    """Columns, and ``CSV_ROWS_MAX`` rows at most. Any: what JSON has."""
    rows = (
        [part.date.isoformat(), *map(row.get, report.columns)]
        for part in parts
        for row in part.rows
    )
    return ("date", *report.columns), islice(rows, CSV_ROWS_MAX)


def _visible_to(namespace: Namespace) -> Q:
    return Q(namespace=namespace) | Q(trigger=Trigger.NIGHTLY.value)


def _names() -> str:
    return ", ".join(REPORTS)
