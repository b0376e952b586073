"""Evaluates all rules, and records state changes and the notifications to send.

    rules (locked) ── values ──▶ next_status ────▶ rule, event, notifications: one transaction

Of a rule that is muted nobody is told; once it is not, whoever was told another state last. Rules
for issues have a look of their own (``issue_rules``).

Another worker at the same time passes over locked rules, and after it finds the new state: a change
is written once.
"""

from __future__ import annotations

import logging
from typing import Final

from django.db import transaction

from mqservice.alerts.events import next_event, notifications_of
from mqservice.alerts.issue_rules import evaluate_issue_rules
from mqservice.alerts.limits import EVALUATED_MAX, MUTE_MS_MAX
from mqservice.alerts.models import (
    AlertEvent,
    AlertRule,
    AlertState,
    EventState,
    Notification,
)
from mqservice.alerts.rule_status import RuleStatus, next_status
from mqservice.alerts.settings import AlertKind
from mqservice.alerts.values import read_values

log = logging.getLogger(__name__)

CHUNK_RULES: Final = 200
_EVALUATED_FIELDS: Final = ("breached_since_ms", "evaluated_ms", "value")
_MUTE_FIELDS: Final = ("told_state", "muted_until_ms", "muted_by", "mute_reason")
_CHANGED_FIELDS: Final = ("state", "changed_ms", "change_count")


def evaluate(now_ms: int) -> int:
    """Look at every rule once; the number of changes. A transaction for each ``CHUNK_RULES``."""
    change_count = 0
    for _ in range(-(-EVALUATED_MAX // CHUNK_RULES)):
        found_count, changed_count = _evaluate_chunk(now_ms)
        change_count += changed_count
        if found_count < CHUNK_RULES:
            break
    return change_count


@transaction.atomic
def _evaluate_chunk(now_ms: int) -> tuple[int, int]:
    rules_left = AlertRule.objects.select_for_update(skip_locked=True).filter(is_enabled=True)
    waiting = rules_left.exclude(evaluated_ms=now_ms)  # later ones too: the clock was set back
    rules = list(waiting.order_by("evaluated_ms", "id")[:CHUNK_RULES])
    of_issues = [rule for rule in rules if rule.kind == AlertKind.ISSUE]
    of_values = [rule for rule in rules if rule.kind != AlertKind.ISSUE]
    values = read_values(of_values, now_ms)
    events: list[AlertEvent] = []
    untold: dict[int, AlertRule] = {}
    for rule in of_values:
        events += _evaluate_rule(rule, values[rule.pk], now_ms)
        _clear_mute(rule, now_ms)
        if not rule.muted_until_ms and rule.told_state != rule.state:
            rule.told_state = rule.state
            untold[rule.pk] = rule
    for rule in of_issues:
        _clear_mute(rule, now_ms)
    looked = evaluate_issue_rules(of_issues, now_ms)
    events += (each.event for each in looked)
    AlertRule.objects.bulk_update(
        rules, [*_EVALUATED_FIELDS, *_CHANGED_FIELDS, *_MUTE_FIELDS, "told_opening"]
    )
    AlertEvent.objects.bulk_create(events)
    told = [(untold[event.rule_id], event) for event in _newest_of(untold)]
    told += ((each.event.rule, each.event) for each in looked if each.is_reported)
    Notification.objects.bulk_create(
        notification
        for rule, event in told
        for notification in notifications_of(rule, event, now_ms)
    )
    for event in events:
        log.info(
            "An alert changed its state",
            extra={"action": "alert_changed", "event": event.public_id, "state": event.state},
        )
    return len(rules), len(events)


def _evaluate_rule(rule: AlertRule, value: int | None, now_ms: int) -> list[AlertEvent]:
    """The rule as it stands now, and the event of its change, if it has changed."""
    before = RuleStatus(AlertState(rule.state), rule.breached_since_ms or None)
    standing = next_status(
        before,
        is_breached=None if value is None else value >= rule.threshold,
        for_ms=rule.for_ms,
        now_ms=now_ms,
    )
    rule.breached_since_ms = standing.breached_since_ms or 0
    rule.evaluated_ms = now_ms
    rule.value = value
    if standing.state is before.state:
        return []
    return [next_event(rule, standing.state, value, now_ms)]


def _clear_mute(rule: AlertRule, now_ms: int) -> None:
    is_over = rule.muted_until_ms <= now_ms
    is_absurd = rule.muted_until_ms > now_ms + MUTE_MS_MAX  # the clock was set back
    if rule.muted_until_ms and (is_over or is_absurd):
        rule.muted_until_ms, rule.muted_by, rule.mute_reason = 0, "", ""


def _newest_of(rules: dict[int, AlertRule]) -> list[AlertEvent]:
    """The event of each rule's last change, which may be of an earlier look. One query."""
    changes = AlertEvent.objects.filter(rule__in=rules).exclude(state=EventState.TEST.value)
    newest = changes.order_by("rule_id", "-number").distinct("rule_id")
    return list(newest) if rules else []
