"""Loads the rows of a run into PostgreSQL: each day of each report is replaced as a whole.

    rows.jsonl ──▶ [load_rows] ── one transaction ──▶ ReportPart by namespace, report and date

A tenant of the log is the namespace of that name; who came into being after the day does not get
what somebody else of that name did. What namespaces have whose shard was left out stays as it is.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from django.db import transaction

from mqservice.accounts.models import Namespace
from mqservice.lib.timestamps import datetime_ms
from mqservice.reports.due_days import Plan
from mqservice.reports.limits import INSERTED_PARTS, RETAINED_MS
from mqservice.reports.models import ReportPart, ReportRun
from mqservice.reports.spark import Outcome

_DAY = dt.timedelta(days=1)


class Line(msgspec.Struct, frozen=True):
    """Lines of one report, date and tenant stand together. Any: values of columns."""

    report: str
    date: dt.date
    tenant: str
    rows_left_out: int
    row: dict[str, Any]


@transaction.atomic
def load_rows(
    path: Path,
    run: ReportRun,
    outcome: Outcome,
    now_ms: int,
    *,
    left_out: Collection[str] = (),
) -> int:
    """How many rows there are now of the run's days. Two queries a namespace, and some inserts.

    ``left_out``: shards of which nothing was read.
    """
    old = ReportPart.objects.filter(
        report__in=list(outcome.report_rows), date__gte=run.from_date, date__lt=run.to_date
    )
    old.exclude(namespace__shard__in=left_out).delete()
    plan = Plan(dt.time(), run.zone)
    namespaces = _Namespaces(plan)
    incomplete = {
        shard: set(map(dt.date.fromisoformat, days))
        for shard, days in outcome.incomplete_days.items()
    }
    parts: list[ReportPart] = []
    row_count = 0
    for (report, date, tenant), lines in groupby(read_lines(path), key=_part_of):
        found = list(lines)
        place = namespaces.find(tenant, date)
        if place is None or place.shard in left_out:
            continue
        row_count += len(found)
        parts.append(
            ReportPart(
                namespace_id=place.namespace_id,
                report=report,
                date=date,
                zone=run.zone,
                rows=[line.row for line in found],
                rows_left_out=found[0].rows_left_out,
                is_complete=incomplete.get(place.shard, set()).isdisjoint(plan.utc_dates(date)),
                made_ms=now_ms,
            )
        )
        if len(parts) >= INSERTED_PARTS:
            ReportPart.objects.bulk_create(parts)
            parts = []
    ReportPart.objects.bulk_create(parts)
    return row_count


def delete_old(now_ms: int) -> None:
    """Forget what is older than it is kept."""
    oldest = dt.datetime.fromtimestamp((now_ms - RETAINED_MS) / 1_000, dt.UTC).date()
    ReportPart.objects.filter(date__lt=oldest).delete()


class _Place(NamedTuple):
    namespace_id: int
    shard: str
    created_ms: int


class _Namespaces:
    """By their names, each asked for once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._found: dict[str, _Place | None] = {}

    def find(self, name: str, date: dt.date) -> _Place | None:
        if name not in self._found:
            row = Namespace.objects.filter(name=name).first()
            place = None if row is None else _Place(row.pk, row.shard, datetime_ms(row.created_at))
            self._found[name] = place
        found = self._found[name]
        if found is None or found.created_ms >= self._plan.day_start_ms(date + _DAY):
            return None
        return found


def read_lines(path: Path) -> Iterator[Line]:
    decoder = msgspec.json.Decoder(Line)
    with path.open("rb") as file:
        for line in file:
            yield decoder.decode(line)


def _part_of(line: Line) -> tuple[str, dt.date, str]:
    return line.report, line.date, line.tenant
