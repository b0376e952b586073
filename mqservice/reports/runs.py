"""The row of a run: created, found due, claimed, renewed, finished. Conditional updates only.

create_due_runs, request_run ─▶ pending ─ claim ──▶ running ── renew* ──▶ finish, or fail
                              ▲                    │ no sign for CLAIM_MS     │
                              └────────────────────┴───── once more, later ◀──┘
"""

from __future__ import annotations

import datetime as dt
import logging
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from mqservice.accounts.models import Tenant
from mqservice.reports.due_days import Plan, missed_days
from mqservice.reports.limits import (
    ATTEMPTS_MAX,
    CLAIM_MS,
    QUEUED_MS,
    RETAINED_RUNS_MAX,
    RETRY_FACTOR,
    RETRY_MS,
)
from mqservice.reports.models import ACTIVE_STATES, ERROR_CHARS_MAX, ReportRun, RunState, Trigger
from mqservice.reports.programs import Failure
from mqservice.reports.spark import Outcome, Progress

log = logging.getLogger(__name__)

_DAY = dt.timedelta(days=1)


def plan_of_settings() -> Plan | None:
    """None: nightly reports are switched off."""
    at = settings.MQ_REPORTS_AT
    return None if at is None else Plan(at, settings.MQ_REPORTS_ZONE)


def create_due_runs(plan: Plan, now_ms: int) -> list[ReportRun]:
    """Rows for the nights that are due and have none. Two queries when there is nothing to do.

    The first one is that after the first day on which there was anybody: a service that was set up
    a minute ago has nothing to report.
    """
    nights = ReportRun.objects.filter(
        trigger=Trigger.NIGHTLY.value, from_date__lte=plan.last_due(now_ms)
    )
    last_made: dt.date | None = nights.aggregate(last=Max("from_date"))["last"]
    missed = missed_days(plan, now_ms, last_made)
    if last_made is None and not _had_traffic(plan, missed[-1]):
        return []
    made = []
    for date in missed:
        run, is_new = ReportRun.objects.get_or_create(
            trigger=Trigger.NIGHTLY.value,
            from_date=date,
            defaults={
                "to_date": date + _DAY,
                "zone": plan.zone,
                "created_by": "beat",
                "next_try_ms": now_ms,
            },
        )
        if is_new:
            made.append(run)
    return made


def _had_traffic(plan: Plan, date: dt.date) -> bool:
    end_ms = plan.day_start_ms(date + _DAY)
    end = dt.datetime.fromtimestamp(end_ms / 1_000, dt.UTC)
    return Tenant.objects.filter(created_at__lt=end).exists()


def find_due(now_ms: int) -> str | None:
    """The run whose turn it is, the oldest nights first; None while another one is running.

    It is not found again for a while.
    """
    if ReportRun.objects.filter(state=RunState.RUNNING.value, claimed_until_ms__gt=now_ms).exists():
        return None
    due = ReportRun.objects.filter(_is_free(now_ms), queued_until_ms__lte=now_ms)
    # A run whose worker is gone has the slot; "running" also sorts behind "pending".
    run = due.order_by("-state", "-trigger", "from_date", "pk").first()
    if run is None:
        return None
    noted = ReportRun.objects.filter(pk=run.pk, queued_until_ms=run.queued_until_ms)
    is_mine = noted.update(queued_until_ms=now_ms + QUEUED_MS) == 1
    return run.public_id if is_mine else None


def claim(public_id: str, now_ms: int) -> ReportRun | None:
    """The run, now this worker's own; None when it is not due, or another one is running."""
    try:
        with transaction.atomic():
            rows = ReportRun.objects.select_for_update(skip_locked=True)
            run = rows.filter(_is_free(now_ms), public_id=public_id).first()
            if run is None:
                return None
            if run.attempt_count >= ATTEMPTS_MAX:  # its workers died
                _fail(run, Failure.KILLED, "its worker died in each attempt", now_ms)
                return None
            run.claim += 1
            run.attempt_count += 1
            run.claimed_until_ms = now_ms + CLAIM_MS
            run.state = RunState.RUNNING.value
            run.started_at = timezone.now()
            run.step, run.done_count = "", 0
            run.save()
            return run
    except IntegrityError:  # the one slot is taken
        return None


def renew(run: ReportRun, now_ms: int, progress: Progress | None) -> bool:
    """Give a sign of life, and how far it has come. False: the run is ours no longer."""
    values: dict[str, Any] = {"claimed_until_ms": now_ms + CLAIM_MS}  # Any: columns
    if progress is not None:
        values |= {
            "step": progress.step,
            "done_count": progress.done,
            "total_count": progress.total,
        }
    return _claimed_by(run).update(**values) == 1


def finish(run: ReportRun, outcome: Outcome, row_count: int) -> bool:
    """In the transaction that has loaded the rows. False: the run is ours no longer."""
    return (
        _claimed_by(run).update(
            state=RunState.DONE.value,
            step="",
            done_count=outcome.step_count,
            total_count=outcome.step_count,
            row_count=row_count,
            is_complete=not any(outcome.incomplete_days.values()),
            error="",
            error_code="",
            finished_at=timezone.now(),
            claimed_until_ms=0,
        )
        == 1
    )


def fail(run: ReportRun, failure: Failure, said: str, now_ms: int) -> None:
    """For good, or until a while later. Nothing when the run is ours no longer."""
    with transaction.atomic():
        mine = _claimed_by(run).select_for_update().first()
        if mine is not None:
            _fail(mine, failure, said, now_ms)


def delete_old_runs() -> None:
    """Forget the oldest of too many that have ended; not those of a day, which are counted."""
    yesterday = timezone.now() - _DAY
    ended = ReportRun.objects.exclude(state__in=ACTIVE_STATES).filter(created_at__lt=yesterday)
    ended = ended.order_by("-pk")
    old = list(ended.values_list("pk", flat=True)[RETAINED_RUNS_MAX : RETAINED_RUNS_MAX + 1_000])
    ReportRun.objects.filter(pk__in=old).delete()


def _fail(run: ReportRun, failure: Failure, said: str, now_ms: int) -> None:
    run.error_code = failure.value
    run.error = said.replace("\x00", "")[:ERROR_CHARS_MAX]
    run.claimed_until_ms = 0
    run.queued_until_ms = 0
    is_last = run.attempt_count >= ATTEMPTS_MAX or not failure.is_worth_a_retry
    run.state = RunState.FAILED.value if is_last else RunState.PENDING.value
    if is_last:
        run.finished_at = timezone.now()
    else:
        run.next_try_ms = now_ms + RETRY_MS * RETRY_FACTOR ** (run.attempt_count - 1)
    run.save()


def _claimed_by(run: ReportRun) -> QuerySet[ReportRun]:
    return ReportRun.objects.filter(pk=run.pk, claim=run.claim, state=RunState.RUNNING.value)


def _is_free(now_ms: int) -> Q:
    return Q(state=RunState.PENDING.value, next_try_ms__lte=now_ms) | Q(
        state=RunState.RUNNING.value, claimed_until_ms__lte=now_ms
    )
