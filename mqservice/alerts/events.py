"""The next event of a rule, and whom to notify. Nothing is saved here."""

from __future__ import annotations

from collections.abc import Iterator

from mqservice.alerts.models import (
    AlertEvent,
    AlertRule,
    AlertState,
    Channel,
    EventState,
    Notification,
)


def next_event(rule: AlertRule, state: AlertState, value: int | None, now_ms: int) -> AlertEvent:
    """The rule is in ``state`` now, and has one event more."""
    rule.state = state.value
    rule.changed_ms = now_ms
    rule.change_count += 1
    return AlertEvent(
        rule=rule,
        number=rule.change_count,
        state=rule.state,
        at_ms=now_ms,
        value=value,
        threshold=rule.threshold,
    )


def event_of_test(rule: AlertRule, now_ms: int) -> AlertEvent:
    """The rule has one event more, and stays as it is."""
    rule.change_count += 1
    return AlertEvent(
        rule=rule,
        number=rule.change_count,
        state=EventState.TEST.value,
        at_ms=now_ms,
        value=rule.value,
        threshold=rule.threshold,
    )


def notifications_of(rule: AlertRule, event: AlertEvent, now_ms: int) -> Iterator[Notification]:
    """One for each address and for the webhook."""
    for email in rule.emails:
        yield Notification(event=event, channel=Channel.EMAIL.value, target=email, due_ms=now_ms)
    if rule.webhook_url:
        yield Notification(
            event=event, channel=Channel.WEBHOOK.value, target=rule.webhook_url, due_ms=now_ms
        )
