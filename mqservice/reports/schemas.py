"""Reports on the wire of the control plane. Dates are days of ``zone``; ``to`` is the day after."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from ninja import Schema
from pydantic import ConfigDict, Field

from mqservice.lib.wire import moment
from mqservice.reports.limits import DATE_MAX, DATE_MIN, EMAIL_CHARS_MAX, RECIPIENTS_MAX
from mqservice.reports.models import ReportPart, ReportRun
from mqservice.reports.programs import Failure

# What others may be told of a failure; only these say nothing of other tenants.
_TOLD = (
    Failure.NO_SPARK.value,
    Failure.TIME_LIMIT.value,
    Failure.SNAPSHOT_LOST.value,
    Failure.SHARDS_LEFT_OUT.value,
)


class RunIn(Schema):
    """Days to report."""

    model_config = ConfigDict(extra="forbid")

    from_date: dt.date = Field(alias="from", ge=DATE_MIN, le=DATE_MAX)
    to_date: dt.date = Field(alias="to", ge=DATE_MIN, le=DATE_MAX)


class RecipientsIn(Schema):
    """`emails`: recipients of the nightly summary; [] none, null the owners."""

    model_config = ConfigDict(extra="forbid")

    emails: list[Annotated[str, Field(max_length=EMAIL_CHARS_MAX)]] | None = Field(
        max_length=RECIPIENTS_MAX
    )


class RecipientsOut(Schema):
    """`is_mail_on`: whether this service sends email at all (`MQ_EMAIL_URL`)."""

    emails: list[str]
    are_owners: bool
    is_mail_on: bool


class RunOut(Schema):
    """`done` of `total` steps; `step` is in progress. `complete`: every day had ended."""

    model_config = ConfigDict(populate_by_name=True)

    id: str
    trigger: str
    state: str
    from_date: dt.date = Field(alias="from")
    to_date: dt.date = Field(alias="to")
    zone: str
    step: str
    done: int
    total: int
    complete: bool
    attempts: int
    error_code: str | None
    error: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None

    @staticmethod
    def of(run: ReportRun) -> RunOut:
        shown = run.error if run.error_code in _TOLD else run.error_code
        return RunOut.model_validate(
            {
                "id": run.public_id,
                "trigger": run.trigger,
                "state": run.state,
                "from": run.from_date,
                "to": run.to_date,
                "zone": run.zone,
                "step": run.step,
                "done": run.done_count,
                "total": run.total_count,
                "complete": run.is_complete,
                "attempts": run.attempt_count,
                "error_code": run.error_code or None,
                "error": shown or None,
                "created_at": moment(run.created_at),
                "started_at": moment(run.started_at) if run.started_at else None,
                "finished_at": moment(run.finished_at) if run.finished_at else None,
            }
        )


class RunListOut(Schema):
    runs: list[RunOut]
    next: str | None


class ReportOut(Schema):
    """`from` and `to` span the available days; None if there are none."""

    model_config = ConfigDict(populate_by_name=True)

    name: str
    title: str
    columns: list[str]
    from_date: dt.date | None = Field(alias="from")
    to_date: dt.date | None = Field(alias="to")
    days: int


class ReportListOut(Schema):
    """`at`: when the day before is reported; None if reports are off. `why_none`: why the last
    night has no reports."""

    reports: list[ReportOut]
    at: str | None
    zone: str
    last_night: RunOut | None
    why_none: str | None


class DayOut(Schema):
    """Rows of a day as the report's columns name them. Any: texts and numbers."""

    date: dt.date
    zone: str
    complete: bool
    rows: list[dict[str, Any]]
    rows_left_out: int

    @staticmethod
    def of(part: ReportPart) -> DayOut:
        return DayOut(
            date=part.date,
            zone=part.zone,
            complete=part.is_complete,
            rows=part.rows,
            rows_left_out=part.rows_left_out,
        )


class ReportDaysOut(Schema):
    report: str
    days: list[DayOut]
