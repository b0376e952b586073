"""Rows of alerts.

    AlertRule ── changes ──▶ AlertEvent ── for each who is to be told ──▶ Notification

                 breached, for long enough
    rule:    ok ──────────────────────────▶ firing          notification:  pending ──▶ sent
              ▲                                │                              └─ too often ─▶ failed
              └───────── not breached ─────────┘

``breached_since_ms`` is 0 while the rule is not breached. What nobody knows changes nothing. Times
that decide anything are epoch ms of the worker's clock.

While a rule is muted it is looked at and its changes are written down, but nobody is told; at the
end of that whoever does not know how it stands is. ``told_state`` is what was told last.
"""

from __future__ import annotations

import enum
import secrets
from typing import Final

from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.alerts.limits import (
    ERROR_CHARS_MAX,
    MUTE_REASON_CHARS_MAX,
    ROUTING_KEY_CHARS_MAX,
    URL_CHARS_MAX,
)
from mqservice.alerts.settings import (
    EMAILS,
    ENABLED,
    FOR,
    WEBHOOK_FORMAT,
    WINDOW,
    AlertKind,
    WebhookFormat,
)
from mqservice.lib.names import NAME_CHARS_MAX

SECRET_PREFIX: Final = "whs_"
SECRET_RANDOM_BYTES: Final = 24
EVENT_PREFIX: Final = "evt_"
EVENT_RANDOM_BYTES: Final = 12


class AlertState(enum.StrEnum):
    """See the module's docstring."""

    OK = "ok"
    FIRING = "firing"


class EventState(enum.StrEnum):
    """What an event tells: the state that the rule is in from then on, or nothing but that it can
    be told (``TEST``).
    """

    OK = AlertState.OK.value
    FIRING = AlertState.FIRING.value
    TEST = "test"


class Channel(enum.StrEnum):
    """How somebody is told."""

    EMAIL = "email"
    WEBHOOK = "webhook"


class Delivery(enum.StrEnum):
    """What became of a notification."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


def new_webhook_secret() -> str:
    return SECRET_PREFIX + secrets.token_urlsafe(SECRET_RANDOM_BYTES)


def new_event_id() -> str:
    return EVENT_PREFIX + secrets.token_hex(EVENT_RANDOM_BYTES)


class AlertRule(models.Model):
    """``threshold`` is reached from below: at it the rule is breached. ``revision`` counts changes
    of the settings and becomes the ETag; the state is no setting.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="alert_rules")
    name = models.CharField(max_length=NAME_CHARS_MAX)
    kind = models.CharField(max_length=16, choices=[(kind.value, kind.value) for kind in AlertKind])
    group_name = models.CharField(max_length=NAME_CHARS_MAX, blank=True)
    topic = models.CharField(max_length=NAME_CHARS_MAX, blank=True)  # "": all that the group reads
    threshold = models.BigIntegerField()
    for_ms = models.BigIntegerField(default=FOR.default)
    window_ms = models.BigIntegerField(default=WINDOW.default)
    is_enabled = models.BooleanField(default=ENABLED.default)
    emails = models.JSONField(default=EMAILS.default)
    webhook_url = models.CharField(max_length=URL_CHARS_MAX, blank=True)
    webhook_secret = models.CharField(max_length=64, default=new_webhook_secret)
    webhook_format = models.CharField(
        max_length=16,
        choices=[(each.value, each.value) for each in WebhookFormat],
        default=WEBHOOK_FORMAT.default,
        db_default=WEBHOOK_FORMAT.default,
    )
    routing_key = models.CharField(
        max_length=ROUTING_KEY_CHARS_MAX, default="", db_default="", blank=True
    )
    revision = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    state = models.CharField(
        max_length=16,
        choices=[(state.value, state.value) for state in AlertState],
        default=AlertState.OK.value,
    )
    changed_ms = models.BigIntegerField(default=0)
    breached_since_ms = models.BigIntegerField(default=0)
    evaluated_ms = models.BigIntegerField(default=0)
    value = models.BigIntegerField(null=True)
    change_count = models.PositiveIntegerField(default=0)

    told_state = models.CharField(max_length=16, default=AlertState.OK.value)
    told_opening = models.BigIntegerField(default=0)  # of ISSUE: the number of the last one told
    muted_until_ms = models.BigIntegerField(default=0)  # 0: not muted
    muted_by = models.CharField(max_length=200, blank=True)
    mute_reason = models.CharField(max_length=MUTE_REASON_CHARS_MAX, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["namespace", "name"], name="alert_rule_name_unique"),
        )
        indexes = (models.Index(fields=["evaluated_ms"], name="alert_rule_waits"),)

    def __str__(self) -> str:
        return f"{self.name} is {self.state}"


class AlertEvent(models.Model):
    """One change of a rule's state, or a test of its notifications; ``number`` counts both.

    Of a rule for issues it is about ``issue_count`` of them that opened, the first of which are in
    ``issues`` as they are told.
    """

    public_id = models.CharField(max_length=40, unique=True, default=new_event_id)
    rule = models.ForeignKey(AlertRule, on_delete=models.CASCADE, related_name="events")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=16)
    at_ms = models.BigIntegerField()
    value = models.BigIntegerField(null=True)
    threshold = models.BigIntegerField()
    issue_count = models.PositiveIntegerField(default=0)
    issues = models.JSONField(default=list)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["rule", "number"], name="alert_event_once"),)
        indexes = (models.Index(fields=["at_ms"], name="alert_event_at"),)

    def __str__(self) -> str:
        return f"{self.public_id} {self.state}"


class Notification(models.Model):
    """Somebody who is to be told of an event. Sent once or, when a worker dies while it sends, more
    than once under the same event id.
    """

    event = models.ForeignKey(AlertEvent, on_delete=models.CASCADE, related_name="notifications")
    channel = models.CharField(max_length=16)
    target = models.CharField(max_length=URL_CHARS_MAX)
    state = models.CharField(max_length=16, default=Delivery.PENDING.value)
    attempt_count = models.PositiveSmallIntegerField(default=0)
    due_ms = models.BigIntegerField()
    error = models.CharField(max_length=ERROR_CHARS_MAX, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["event", "channel", "target"], name="notification_once"
            ),
        )
        indexes = (
            models.Index(
                fields=["due_ms"], condition=models.Q(state="pending"), name="notification_due"
            ),
        )

    def __str__(self) -> str:
        return f"{self.channel} {self.state}"
