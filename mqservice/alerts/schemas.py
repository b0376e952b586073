"""Alert rules and their events on the wire of the control plane."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from ninja import Schema
from pydantic import Field

from mqservice.alerts.addresses import TargetRejected, parse_target, reject_private_literal
from mqservice.alerts.limits import (
    EMAIL_CHARS_MAX,
    EMAILS_MAX,
    FOR_MS_MAX,
    MUTE_MS_MAX,
    MUTE_MS_MIN,
    MUTE_REASON_CHARS_MAX,
    THRESHOLD_MAX,
    WINDOW_MS_MAX,
    WINDOW_MS_MIN,
)
from mqservice.alerts.models import AlertEvent, AlertKind, AlertRule, AlertState, Notification
from mqservice.alerts.services import RuleChange
from mqservice.lib.durations import format_duration_ms
from mqservice.lib.json_fields import Fields, read_object, shown
from mqservice.lib.names import name_fault
from mqservice.lib.timestamps import rfc3339
from mqservice.lib.wire import moment


def read_change(body: bytes) -> RuleChange:
    """What a request wants to set. Raises Problem that names every fault.

    ``topic`` and ``webhook`` may be null, which takes them away.
    """
    fields = read_object(body)
    change = RuleChange(
        kind=fields.choice("kind", AlertKind),
        group_name=_name(fields, "group"),
        topic=_name(fields, "topic", is_nullable=True),
        threshold=fields.integer("threshold", 1, THRESHOLD_MAX),
        for_ms=fields.duration_ms("for", 0, FOR_MS_MAX),
        window_ms=fields.duration_ms("window", WINDOW_MS_MIN, WINDOW_MS_MAX),
        is_enabled=fields.boolean("enabled"),
        emails=_emails(fields),
        webhook_url=_webhook(fields),
        is_secret_new=fields.boolean("new_secret") or False,
    )
    fields.reject_unknown()
    fields.reject()
    return change


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """How long a rule is to be muted, by one of both."""

    for_ms: int | None
    until_ms: int | None
    reason: str


def read_mute(body: bytes) -> Mute:
    """The same of ``:mute``. Raises Problem that names every fault."""
    fields = read_object(body)
    mute = Mute(
        for_ms=fields.duration_ms("for", MUTE_MS_MIN, MUTE_MS_MAX),
        until_ms=fields.time_ms("until"),
        reason=_reason(fields),
    )
    fields.reject_unknown()
    fields.reject()
    return mute


def _reason(fields: Fields) -> str:
    value = fields.find("reason")
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > MUTE_REASON_CHARS_MAX or "\0" in value:
        fields.fault("reason", f"must be a string of at most {MUTE_REASON_CHARS_MAX} characters")
        return ""
    return value


def _name(fields: Fields, field: str, *, is_nullable: bool = False) -> str | None:
    value = fields.find(field)
    if value is None:
        return "" if is_nullable and fields.has(field) else None
    fault = name_fault(value) if isinstance(value, str) else f"must be a name, found {shown(value)}"
    if fault is not None:
        fields.fault(field, fault)
        return None
    assert isinstance(value, str)
    return value


def _emails(fields: Fields) -> list[str] | None:
    value = fields.find("emails")
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > EMAILS_MAX:
        fields.fault("emails", f"must be a list of at most {EMAILS_MAX} addresses")
        return None
    for index, address in enumerate(value):
        try:
            if not isinstance(address, str) or len(address) > EMAIL_CHARS_MAX:
                raise ValidationError("")
            validate_email(address)
        except ValidationError:
            fields.fault(f"emails/{index}", f"must be an email address, found {shown(address)}")
            return None
    if value and not settings.MQ_EMAIL_URL:
        fields.out_of_range("emails", "this service cannot send email: MQ_EMAIL_URL is not set")
        return None
    return list(dict.fromkeys(value))


def _webhook(fields: Fields) -> str | None:
    value = fields.find("webhook")
    if value is None:
        return "" if fields.has("webhook") else None
    if not isinstance(value, str):
        fields.fault("webhook", f"must be a URL, found {shown(value)}")
        return None
    allowed = settings.MQ_WEBHOOK_NETWORKS
    try:
        target = parse_target(value)
        reject_private_literal(target, allowed)
        if target.scheme != "https" and not allowed:
            raise TargetRejected("must start with https://")
    except TargetRejected as exc:
        fields.out_of_range("webhook", str(exc))
        return None
    return value


class AlertOut(Schema):
    """`value`: at the last check, null if unknown. `webhook_secret` is present only in the response
    to the request that created it. While `muted_until` is present no notifications are sent."""

    name: str
    namespace: str
    kind: AlertKind
    group: str | None
    topic: str | None
    threshold: int
    for_: str = Field(serialization_alias="for")
    for_ms: int
    window: str
    window_ms: int
    enabled: bool
    emails: list[str]
    webhook: str | None
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
            kind=AlertKind(rule.kind),
            group=rule.group_name or None,
            topic=rule.topic or None,
            threshold=rule.threshold,
            for_=format_duration_ms(rule.for_ms),
            for_ms=rule.for_ms,
            window=format_duration_ms(rule.window_ms),
            window_ms=rule.window_ms,
            enabled=rule.is_enabled,
            emails=rule.emails,
            webhook=rule.webhook_url or None,
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
    """A change of state. `issues`: ids of the reported issues, the first of `issue_count`."""

    id: str
    number: int
    state: AlertState
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
            state=AlertState(event.state),
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
