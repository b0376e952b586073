"""Tests the notifications of a rule: its addresses and its webhook get an event that says so.

    send_test ──▶ event, notifications, audit entry ──▶ sent as any others, but once only

Whoever asks finds in the history what became of it.
"""

from __future__ import annotations

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.models import Namespace
from mqservice.alerts.events import event_of_test, notifications_of
from mqservice.alerts.limits import TEST_PAUSE_MS
from mqservice.alerts.models import AlertEvent, EventState, Notification
from mqservice.alerts.queries import locked_rule
from mqservice.lib.clock import Clock
from mqservice.lib.problem import Problem


@transaction.atomic
def send_test(principal: Principal, namespace: Namespace, name: str, clock: Clock) -> AlertEvent:
    """Send a test to whom the rule would notify, muted or not.

    Raises Problem: ALERT_NOT_FOUND; ILLEGAL_ALERT for a rule that notifies nobody; QUOTA_EXCEEDED
    within ``TEST_PAUSE_MS`` of the test before.
    """
    rule = locked_rule(namespace, name)
    now_ms = clock.now_ms()
    recent = AlertEvent.objects.filter(rule=rule, state=EventState.TEST.value)
    if recent.filter(at_ms__range=(now_ms - TEST_PAUSE_MS + 1, now_ms)).exists():
        raise Problem.of("QUOTA_EXCEEDED", "this alert was tested a moment ago; wait ten seconds")
    rule.namespace = namespace
    event = event_of_test(rule, now_ms)
    notifications = list(notifications_of(rule, event, now_ms))
    if not notifications:
        raise Problem.of("ILLEGAL_ALERT", "this alert notifies nobody: give it emails or a webhook")
    rule.save(update_fields=["change_count"])
    event.save(force_insert=True)
    Notification.objects.bulk_create(notifications)
    record(principal, namespace, "alert.test", f"alerts/{name}", {"event": event.public_id})
    return event
