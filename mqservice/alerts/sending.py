"""Sends notifications by email and webhook: claimed, sent, and retried later after a failure.

    sweep ── due, now claimed ──▶ send(notification id) ──▶ e-mail, webhook ──▶ sent
                 ▲                                               └─ failed: later, at most 8 times
                 └── a worker that died gives its claim up by time

A notification whose worker died while it sent is sent again, under the same event id.
"""

from __future__ import annotations

import logging
import smtplib
from typing import Final

import msgspec
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import Q

from mqservice.alerts.addresses import TargetRejected
from mqservice.alerts.limits import (
    ATTEMPTS_MAX,
    CLAIM_MS,
    ERROR_CHARS_MAX,
    PAUSE_MS_MAX,
    PAUSE_MS_MIN,
    SWEPT_MAX,
)
from mqservice.alerts.models import (
    AlertEvent,
    AlertRule,
    AlertState,
    Channel,
    Delivery,
    Notification,
)
from mqservice.alerts.settings import AlertKind
from mqservice.alerts.webhook import WebhookFailed, post, signature
from mqservice.lib.clock import Clock
from mqservice.lib.timestamps import rfc3339

log = logging.getLogger(__name__)

_NO_REASON: Final = "no reason given"
_MEASURES: Final = {
    AlertKind.LAG: "Lag",
    AlertKind.OLDEST_AGE: "Age of the oldest message",
    AlertKind.DLQ_GROWTH: "New dead letters",
    AlertKind.DISK: "Disk usage",
}
_UNITS: Final = {
    AlertKind.LAG: "messages",
    AlertKind.OLDEST_AGE: "ms",
    AlertKind.DLQ_GROWTH: "dead letters",
    AlertKind.DISK: "% used",
}


class IssueDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One issue that opened; ``reason`` is its cause, without the values of a message."""

    id: str
    group: str
    topic: str | None
    reason: str
    count: int
    is_reopened: bool
    url: str = ""


class EventDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a webhook. ``issues``: the first of ``issue_count``; only where some opened."""

    id: str
    namespace: str
    alert: str
    kind: str
    group: str | None
    topic: str | None
    state: str
    value: int | None
    threshold: int
    at: str
    issue_count: int | msgspec.UnsetType = msgspec.UNSET
    issues: list[IssueDocument] | msgspec.UnsetType = msgspec.UNSET


# Whether ``claim_due`` would find something, for one look at the database each second.
ANY_DUE: Final = f"""EXISTS (
    SELECT FROM alerts_notification WHERE state = '{Delivery.PENDING.value}'
    AND due_ms NOT BETWEEN %(now_ms)s + 1 AND %(now_ms)s + {PAUSE_MS_MAX + CLAIM_MS}
)"""


@transaction.atomic
def claim_due(now_ms: int) -> list[int]:
    """Ids of notifications to send now, those that wait longest first; claimed for a minute."""
    due = Notification.objects.select_for_update(skip_locked=True).filter(
        Q(due_ms__lte=now_ms) | Q(due_ms__gt=now_ms + PAUSE_MS_MAX + CLAIM_MS),  # clock set back
        state=Delivery.PENDING,
    )
    ids = list(due.order_by("due_ms").values_list("id", flat=True)[:SWEPT_MAX])
    Notification.objects.filter(pk__in=ids).update(due_ms=now_ms + CLAIM_MS)
    return ids


def send(notification_id: int, clock: Clock) -> None:
    """Send one notification, if it is pending, and note what became of it. Raises nothing of what
    goes wrong with the other side.
    """
    rows = Notification.objects.select_related("event__rule__namespace")
    found = rows.filter(pk=notification_id, state=Delivery.PENDING).first()
    if found is None:
        return
    error, is_final = _try(found, clock.now_ms())
    attempt_count = found.attempt_count + 1
    # Only the attempt that this row stood for counts: another worker may have been faster.
    mine = Notification.objects.filter(
        pk=found.pk, state=Delivery.PENDING, attempt_count=found.attempt_count
    )
    if error is None:
        mine.update(state=Delivery.SENT.value, attempt_count=attempt_count, error="")
        return
    is_over = is_final or attempt_count >= ATTEMPTS_MAX
    mine.update(
        state=(Delivery.FAILED if is_over else Delivery.PENDING).value,
        attempt_count=attempt_count,
        error=error[:ERROR_CHARS_MAX],
        due_ms=clock.now_ms() + pause_ms(attempt_count),
    )
    log.warning(
        "Could not send an alert notification",
        extra={
            "action": "notification_failed" if is_over else "notification_delayed",
            "event": found.event.public_id,
            "channel": found.channel,
            "attempt": attempt_count,
            "error": error,
        },
    )


def pause_ms(attempt_count: int) -> int:
    """How long to wait after so many attempts: doubled each time, up to a quarter of an hour."""
    return min(PAUSE_MS_MAX, PAUSE_MS_MIN << min(attempt_count - 1, 20))


def document_of(event: AlertEvent) -> EventDocument:
    """Reads the rule and its namespace."""
    rule = event.rule
    return EventDocument(
        id=event.public_id,
        namespace=rule.namespace.name,
        alert=rule.name,
        kind=rule.kind,
        group=rule.group_name or None,
        topic=rule.topic or None,
        state=event.state,
        value=event.value,
        threshold=event.threshold,
        at=rfc3339(event.at_ms),
        issue_count=event.issue_count or msgspec.UNSET,
        issues=issues_of(event) or msgspec.UNSET,
    )


def issues_of(event: AlertEvent) -> list[IssueDocument]:
    """Those that it tells of. Reads the rule and its namespace."""
    root = f"{settings.MQ_BASE_URL}/console/{event.rule.namespace.name}/issues"
    found = msgspec.convert(event.issues, list[IssueDocument])
    return [msgspec.structs.replace(issue, url=f"{root}/{issue.id}") for issue in found]


def _try(notification: Notification, now_ms: int) -> tuple[str | None, bool]:
    """What went wrong, None for nothing, and whether it always will."""
    event = notification.event
    try:
        if notification.channel == Channel.EMAIL:
            _email(event, notification.target)
        else:
            _webhook(event, notification.target, now_ms)
    except TargetRejected as exc:
        return str(exc), True
    except WebhookFailed as exc:
        return str(exc), False
    except (smtplib.SMTPException, OSError) as exc:
        # The server's words may tell of our own network.
        return f"the mail server did not accept it: {type(exc).__name__}", False
    return None, False


def _webhook(event: AlertEvent, url: str, now_ms: int) -> None:
    body = msgspec.json.encode(document_of(event))
    timestamp_s = now_ms // 1_000
    post(
        url,
        body,
        {
            "X-MQ-Event": event.public_id,
            "X-MQ-Timestamp": str(timestamp_s),
            "X-MQ-Signature": signature(event.rule.webhook_secret, timestamp_s, body),
        },
        allowed=settings.MQ_WEBHOOK_NETWORKS,
    )


def _email(event: AlertEvent, address: str) -> None:
    rule = event.rule
    subject, text = mail_of(event, rule)
    message = EmailMessage(subject, text, to=[address], headers={"X-MQ-Event": event.public_id})
    try:
        message.send()
    except ValueError as exc:  # a header that Django refuses
        raise TargetRejected(str(exc)) from exc


def mail_of(event: AlertEvent, rule: AlertRule) -> tuple[str, str]:
    """Subject and text."""
    kind = AlertKind(rule.kind)
    if kind is AlertKind.ISSUE:
        return _issue_mail_of(event, rule)
    is_firing = event.state == AlertState.FIRING
    subject = f"[{'FIRING' if is_firing else 'OK'}] {rule.namespace.name}: {rule.name}"
    lines = [
        _measured(event, rule, kind),
        f"State: {event.state} since {rfc3339(event.at_ms)}.",
        f"Alert {rule.name} in namespace {rule.namespace.name}, event {event.public_id}.",
    ]
    return subject, "\n".join(lines) + "\n"


def _measured(event: AlertEvent, rule: AlertRule, kind: AlertKind) -> str:
    """The value that changed the state, as a sentence."""
    watched = " on ".join(part for part in (rule.group_name, rule.topic) if part)
    if kind is AlertKind.NO_CONSUMER:
        if event.value is None:
            return f"It is unknown whether group {watched} has consumers."
        return f"Group {watched} has {'no consumers' if event.value else 'consumers'}."
    value = "unknown" if event.value is None else f"{event.value} {_UNITS[kind]}"
    measure = f"{_MEASURES[kind]} of {watched or 'the storage engine'}"
    return f"{measure}: {value}. The threshold is {event.threshold}."


def _issue_mail_of(event: AlertEvent, rule: AlertRule) -> tuple[str, str]:
    issues = issues_of(event)
    first = f": {issues[0].reason or _NO_REASON}" if len(issues) == 1 else ""
    what = "1 new issue" if event.issue_count == 1 else f"{event.issue_count} new issues"
    subject = f"[ISSUE] {rule.namespace.name}: {rule.name}: {what}{first}"
    lines = [f"{what} in namespace {rule.namespace.name}; {event.value} open in total.", ""]
    for issue in issues:
        again = ", reopened" if issue.is_reopened else ""
        where = f"{issue.group} on {issue.topic}" if issue.topic else issue.group
        letters = "dead letter" if issue.count == 1 else "dead letters"
        lines += [
            f"* {issue.reason or _NO_REASON}",
            f"  {where}: {issue.count} {letters} so far{again}",
            f"  {issue.url}",
        ]
    more_count = event.issue_count - len(issues)
    if more_count:
        lines.append(f"* and {more_count} more")
    lines += ["", f"Alert {rule.name}, event {event.public_id}, {rfc3339(event.at_ms)}."]
    return subject, "\n".join(lines) + "\n"
