"""Alert rules and their events on the wire of the control plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from ninja import Schema
from pydantic import create_model

from mqservice.alerts.addresses import TargetRejected, parse_target, reject_private_literal
from mqservice.alerts.models import AlertEvent, AlertRule, AlertState, EventState, Notification
from mqservice.alerts.services import RuleChange
from mqservice.alerts.settings import BODY, EMAILS, MUTE, SETTINGS, WEBHOOK
from mqservice.lib.json_fields import Fields
from mqservice.lib.settings_table import answer_fields, read_body, shown_values
from mqservice.lib.timestamps import rfc3339
from mqservice.lib.wire import moment


def read_change(body: bytes) -> RuleChange:
    """What a request wants to set. Raises Problem that names every fault."""
    readers = {EMAILS.name: _read_emails, WEBHOOK.name: _read_webhook}
    return RuleChange(**read_body(BODY, body, readers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """How long a rule is to be muted, by one of both."""

    for_ms: int | None
    until_ms: int | None
    reason: str | None


def read_mute(body: bytes) -> Mute:
    """The same of ``:mute``. Raises Problem that names every fault."""
    return Mute(**read_body(MUTE, body))


def _read_emails(fields: Fields) -> list[str] | None:
    emails: list[str] | None = EMAILS.read(fields)
    if emails and not settings.MQ_EMAIL_URL:
        fields.out_of_range("emails", "this service cannot send email: MQ_EMAIL_URL is not set")
    return emails and list(dict.fromkeys(emails))


def _read_webhook(fields: Fields) -> str | None:
    url: str | None = WEBHOOK.read(fields)
    if not url:
        return url
    allowed = settings.MQ_WEBHOOK_NETWORKS
    try:
        target = parse_target(url)
        reject_private_literal(target, allowed)
        if target.scheme != "https" and not allowed:
            raise TargetRejected("must start with https://")
    except TargetRejected as exc:
        fields.out_of_range("webhook", str(exc))
    return url


def shown_settings(rule: AlertRule) -> dict[str, Any]:
    """As the API writes them."""
    return shown_values(SETTINGS, rule)


_Settings = create_model(
    "_Settings", name=(str, ...), namespace=(str, ...), **answer_fields(SETTINGS)
)


class AlertOut(_Settings):  # type: ignore[valid-type, misc]  # reason: made of the table
    """`value`: at the last check, null if unknown. `webhook_secret` is present only in the response
    to the request that created it. While `muted_until` is present no notifications are sent."""

    webhook_secret: str | None = None
    state: AlertState
    pending: bool
    value: int | None
    muted_until: str | None
    muted_by: str | None
    mute_reason: str | None
    changed_at: str | None
    evaluated_at: str | None
    created_at: str
    updated_at: str

    @classmethod
    def of(cls, rule: AlertRule, namespace: str, secret: str | None = None) -> AlertOut:
        return cls(
            name=rule.name,
            namespace=namespace,
            **shown_settings(rule),
            webhook_secret=secret,
            state=AlertState(rule.state),
            pending=rule.state == AlertState.OK and bool(rule.breached_since_ms),
            value=rule.value,
            muted_until=rfc3339(rule.muted_until_ms) if rule.muted_until_ms else None,
            muted_by=rule.muted_by or None,
            mute_reason=rule.mute_reason or None,
            changed_at=rfc3339(rule.changed_ms) if rule.changed_ms else None,
            evaluated_at=rfc3339(rule.evaluated_ms) if rule.evaluated_ms else None,
            created_at=moment(rule.created_at),
            updated_at=moment(rule.updated_at),
        )


class AlertListOut(Schema):
    alerts: list[AlertOut]


class NotificationOut(Schema):
    """A notification that was sent or is to be sent."""

    channel: str
    target: str
    state: str
    attempts: int
    error: str | None

    @classmethod
    def of(cls, notification: Notification) -> NotificationOut:
        return cls(
            channel=notification.channel,
            target=notification.target,
            state=notification.state,
            attempts=notification.attempt_count,
            error=notification.error or None,
        )


class AlertEventOut(Schema):
    """A change of state, or a test of the notifications. `issues`: ids of the reported issues, the
    first of `issue_count`."""

    id: str
    number: int
    state: EventState
    at: str
    value: int | None
    threshold: int
    issue_count: int
    issues: list[str]
    notifications: list[NotificationOut]

    @classmethod
    def of(cls, event: AlertEvent) -> AlertEventOut:
        return cls(
            id=event.public_id,
            number=event.number,
            state=EventState(event.state),
            at=rfc3339(event.at_ms),
            value=event.value,
            threshold=event.threshold,
            issue_count=event.issue_count,
            issues=[str(issue["id"]) for issue in event.issues],
            notifications=[NotificationOut.of(each) for each in event.notifications.all()],
        )


class AlertHistoryOut(Schema):
    """The newest first; ``next`` is the ``before`` of the following page, null on the last one."""

    events: list[AlertEventOut]
    next: int | None
