"""What tenants can change: request a run for chosen days, and set who gets the nightly summary."""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.models import Namespace, Tenant
from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.durations import DAY_MS
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import datetime_ms
from mqservice.lib.wire import refused
from mqservice.reports.emails import recipients_of
from mqservice.reports.limits import RANGE_DAYS_MAX, REQUESTED_DAYS_MAX, WAITING_RUNS_MAX
from mqservice.reports.models import ACTIVE_STATES, ReportRecipients, ReportRun, Trigger


def request_run(
    principal: Principal,
    namespace: Namespace,
    from_date: dt.date,
    to_date: dt.date,
    clock: Clock | None = None,
) -> ReportRun:
    """Note a run for the days ``[from_date, to_date)``, audited; a worker begins within seconds.

    It makes the reports of the whole installation again, from what is in the log and the lake, so
    that it changes nothing for others; what it costs is bounded for each tenant and in all, and
    nights come first. Raises Problem: BAD_REQUEST, or QUOTA_EXCEEDED.
    """
    now_ms = (clock or SystemClock()).now_ms()
    check_range(from_date, to_date, REQUESTED_DAYS_MAX)
    today = dt.datetime.fromtimestamp(now_ms / 1_000, dt.UTC).date()
    if from_date > today + dt.timedelta(days=1):
        raise refused("/from", f"{from_date} is in the future")
    with transaction.atomic():
        Tenant.objects.select_for_update().get(pk=namespace.tenant_id)  # two at once: in turn
        _check_room(namespace.tenant_id, now_ms)
        run = ReportRun.objects.create(
            trigger=Trigger.BY_HAND.value,
            namespace=namespace,
            created_by=principal.actor,
            from_date=from_date,
            to_date=to_date,
            zone=settings.MQ_REPORTS_ZONE,
            next_try_ms=now_ms,
        )
        days = {"from": from_date.isoformat(), "to": to_date.isoformat()}
        record(principal, namespace, "report.run", f"reports/runs/{run.public_id}", days)
    return run


@transaction.atomic
def set_recipients(
    principal: Principal, namespace: Namespace, emails: list[str] | None
) -> list[str]:
    """Who gets the summary of each night from now on, audited; None: the owners. Who that is.

    Raises Problem BAD_REQUEST.
    """
    for index, address in enumerate(emails or ()):
        try:
            validate_email(address)
        except ValidationError:
            raise refused(f"/emails/{index}", f"{address!r} is not an email address") from None
    if emails is None:
        ReportRecipients.objects.filter(namespace=namespace).delete()
    else:
        unique = list(dict.fromkeys(emails))
        ReportRecipients.objects.update_or_create(namespace=namespace, defaults={"emails": unique})
    found = recipients_of(namespace)
    record(principal, namespace, "report.recipients", "reports/recipients", {"emails": emails})
    return found


def _check_room(tenant_id: int, now_ms: int) -> None:
    """Raises Problem QUOTA_EXCEEDED. Three queries."""
    by_hand = ReportRun.objects.filter(trigger=Trigger.BY_HAND.value)
    mine = by_hand.filter(namespace__tenant_id=tenant_id)
    if mine.filter(state__in=ACTIVE_STATES).exists():
        raise Problem.of(
            "QUOTA_EXCEEDED",
            "a run requested by this tenant is in progress, and only one is allowed "
            "at a time; wait until it has finished",
            retryable=True,
        )
    if by_hand.filter(state__in=ACTIVE_STATES).count() >= WAITING_RUNS_MAX:
        raise Problem.of(
            "QUOTA_EXCEEDED",
            f"{WAITING_RUNS_MAX} requested runs are waiting already; try again when "
            "some have finished",
            retryable=True,
        )
    at_most = settings.MQ_REPORTS_BY_HAND_MAX
    if not at_most:
        raise Problem.of("QUOTA_EXCEEDED", "the operator has turned off requested runs")
    since = dt.datetime.fromtimestamp((now_ms - DAY_MS) / 1_000, dt.UTC)
    recent = mine.filter(created_at__gt=since).order_by("-created_at")[:at_most]
    made = list(recent.values_list("created_at", flat=True))
    if len(made) >= at_most:
        raise Problem.of(
            "QUOTA_EXCEEDED",
            f"a tenant may request {at_most} runs within 24 hours (MQ_REPORTS_BY_HAND_MAX)",
            retryable=True,
            retry_after_ms=max(0, datetime_ms(made[-1]) + DAY_MS - now_ms),
        )


def check_range(from_date: dt.date, to_date: dt.date, days_max: int = RANGE_DAYS_MAX) -> None:
    """Raises Problem BAD_REQUEST."""
    if to_date <= from_date:
        raise refused(
            "/to", f"{to_date} must be after {from_date}; it is the day after the last day"
        )
    if (to_date - from_date).days > days_max:
        raise refused("/from", f"at most {days_max} days can be requested at a time")
