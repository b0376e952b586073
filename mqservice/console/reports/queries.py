"""The list of nightly reports of a namespace: which days have one, and what happened to the others.

parts by day ─────┐
nightly runs ─────┼──▶ one row a day, the newest first ──▶ page
runs by hand ─────┘    totals of messages and dead letters (summed up by the database)
"""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.db.models import Count, Max, Q
from django.utils.translation import gettext as _

from mqservice.accounts.models import Namespace
from mqservice.reports.limits import DATE_MAX
from mqservice.reports.models import ACTIVE_STATES, ReportPart, ReportRun, RunState, Trigger
from mqservice.reports.programs import Failure
from mqservice.reports.queries import totals_of
from mqservice.reports.schemas import RunOut

DAYS_PAGE: Final = 14
RUNS_SHOWN: Final = 5


class DayState(enum.StrEnum):
    """EMPTY: made, and nothing of this namespace was in it. BY_HAND: there was no such night."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    EMPTY = "empty"
    BY_HAND = "by_hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run with what may be told of its failure."""

    run: ReportRun

    @property
    def is_active(self) -> bool:
        return self.run.state in ACTIVE_STATES

    @property
    def last_date(self) -> dt.date:
        return self.run.to_date - dt.timedelta(days=1)

    @property
    def step(self) -> str:
        """Which of its steps is under way, from 1; empty before the first."""
        if not self.run.total_count:
            return ""
        shown = min(self.run.done_count + 1, self.run.total_count)
        return f"{shown}/{self.run.total_count}"

    @property
    def why(self) -> str:
        """Why it failed, or what its last attempt failed of; empty when it did not."""
        return failure_text(self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDayRow:
    """``produced``, ``dead``: None where nobody knows. ``made_ms``: None without reports."""

    date: dt.date
    night: RunRow | None
    made_ms: int | None
    is_complete: bool
    produced: int | None
    dead: int | None

    @property
    def has_report(self) -> bool:
        return self.made_ms is not None

    @property
    def state(self) -> DayState:
        if self.night is None:
            return DayState.BY_HAND
        if self.night.run.state == RunState.DONE and not self.has_report:
            return DayState.EMPTY
        return DayState(self.night.run.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDaysPage:
    """``at``: when nights are reported, None when that is off; ``ordered``: by hand, the newest
    first. ``next_before``: the page behind this one; ``is_first``: it is the one with the newest.
    """

    rows: list[ReportDayRow]
    ordered: list[RunRow]
    at: dt.time | None
    zone: str
    is_first: bool
    next_before: dt.date | None

    @property
    def is_active(self) -> bool:
        """Whether something is under way, so that looking again is worth it."""
        nights = (row.night for row in self.rows if row.night is not None)
        return any(each.is_active for each in (*self.ordered, *nights))

    @property
    def why_none(self) -> str:
        """What keeps the newest night from having reports; empty when nothing does."""
        if not self.is_first:
            return ""
        newest = next((row for row in self.rows if row.night is not None), None)
        if newest is None or newest.night is None or newest.state is not DayState.FAILED:
            return ""
        return newest.night.why


def report_days_page(namespace: Namespace, before: dt.date | None) -> ReportDaysPage:
    """Days before ``before``, the newest first. Four queries."""
    end = before or DATE_MAX
    parts = ReportPart.objects.filter(namespace=namespace, date__lt=end).values("date")
    counted = parts.annotate(
        made=Max("made_ms"), open_count=Count("pk", filter=Q(is_complete=False))
    )
    made = {row["date"]: row for row in counted.order_by("-date")[: DAYS_PAGE + 1]}
    nightly = ReportRun.objects.filter(trigger=Trigger.NIGHTLY.value, from_date__lt=end)
    nights = {run.from_date: run for run in nightly.order_by("-from_date")[: DAYS_PAGE + 1]}
    dates = sorted({*made, *nights}, reverse=True)
    shown = dates[:DAYS_PAGE]
    reports = ["usage_daily", "dlq_daily"]
    totals = {
        (part.date, part.report): part.rows[0]["message_count"]
        for part in totals_of(namespace, reports, [date for date in shown if date in made])
    }
    ordered = ReportRun.objects.filter(namespace=namespace, trigger=Trigger.BY_HAND.value)
    return ReportDaysPage(
        rows=[
            ReportDayRow(
                date=date,
                night=RunRow(run=nights[date]) if date in nights else None,
                made_ms=made[date]["made"] if date in made else None,
                is_complete=date in made and not made[date]["open_count"],
                # A day with other reports and not this one had none of it.
                produced=totals.get((date, "usage_daily"), 0) if date in made else None,
                dead=totals.get((date, "dlq_daily"), 0) if date in made else None,
            )
            for date in shown
        ],
        ordered=[RunRow(run=run) for run in ordered.order_by("-pk")[:RUNS_SHOWN]],
        at=settings.MQ_REPORTS_AT,
        zone=settings.MQ_REPORTS_ZONE,
        is_first=before is None,
        next_before=shown[-1] if len(dates) > DAYS_PAGE else None,
    )


def failure_text(run: ReportRun) -> str:
    """In the reader's language; what a failure says of others stays with the operator."""
    if not run.error_code:
        return ""
    texts = {
        Failure.NO_SPARK.value: _(
            "Reports need Java 17 and Spark, which are not installed on this server:"
        ),
        Failure.TIME_LIMIT.value: _("The run timed out:"),
        Failure.SNAPSHOT_LOST.value: _(
            "The disk was too full to keep the log while it was being read:"
        ),
        Failure.SHARDS_LEFT_OUT.value: _("Not everything could be read:"),
    }
    told = RunOut.of(run).error or ""
    if run.error_code in texts:
        return f"{texts[run.error_code]} {told}"
    return _("Internal error (%(code)s); the log of the service has the details.") % {"code": told}
