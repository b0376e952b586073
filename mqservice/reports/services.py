"""Verbs of tenants: to order a run for days of their choice."""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.models import Namespace
from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.problem import Problem
from mqservice.lib.wire import refused
from mqservice.reports.limits import RANGE_DAYS_MAX
from mqservice.reports.models import ACTIVE_STATES, ReportRun, Trigger


def order_run(
    principal: Principal,
    namespace: Namespace,
    from_date: dt.date,
    to_date: dt.date,
    clock: Clock | None = None,
) -> ReportRun:
    """Note a run for the days ``[from_date, to_date)``, audited; a worker begins within seconds.

    It makes the reports of the whole installation again, from what is in the log and the lake, so
    that it changes nothing for others. Raises Problem: BAD_REQUEST, or QUOTA_EXCEEDED while one
    that this tenant has ordered is under way.
    """
    now_ms = (clock or SystemClock()).now_ms()
    check_range(from_date, to_date)
    today = dt.datetime.fromtimestamp(now_ms / 1_000, dt.UTC).date()
    if from_date > today + dt.timedelta(days=1):
        raise refused("/from", f"{from_date} has not begun")
    with transaction.atomic():
        Namespace.objects.select_for_update().get(pk=namespace.pk)  # two at once: in turn
        mine = ReportRun.objects.filter(namespace__tenant_id=namespace.tenant_id)
        if mine.filter(state__in=ACTIVE_STATES).exists():
            raise Problem.of(
                "QUOTA_EXCEEDED",
                "a run that this tenant has ordered is under way, which is the most at a time; "
                "wait until it has ended",
                retryable=True,
            )
        run = ReportRun.objects.create(
            trigger=Trigger.BY_HAND.value,
            namespace=namespace,
            created_by=f"key:{principal.key_id}",
            from_date=from_date,
            to_date=to_date,
            zone=settings.MQ_REPORTS_ZONE,
            next_try_ms=now_ms,
        )
        days = {"from": from_date.isoformat(), "to": to_date.isoformat()}
        record(principal, namespace, "report.run", f"reports/runs/{run.public_id}", days)
    return run


def check_range(from_date: dt.date, to_date: dt.date) -> None:
    """Raises Problem BAD_REQUEST."""
    if to_date <= from_date:
        raise refused("/to", f"{to_date} is not after {from_date}; it is the day after the last")
    if (to_date - from_date).days > RANGE_DAYS_MAX:
        raise refused("/from", f"at most {RANGE_DAYS_MAX} days can be asked for at a time")
