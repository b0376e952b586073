"""Evaluates rules for issues: they fire while an issue is open, and notify once for each that
opens.

    rules ── open issues, one query ──▶ [evaluate_issue_rules] ─ opened since ──▶ events
                                                            told_opening

Issues that open between two looks are one event and so one notification, however many they are.
While a rule is muted nothing is told; after that what is open still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db import connection

from mqservice.alerts.events import next_event
from mqservice.alerts.limits import ISSUES_LISTED_MAX
from mqservice.alerts.models import AlertEvent, AlertRule, AlertState
from mqservice.issues.models import Issue
from mqservice.issues.queries import openings_after

_OPEN: Final = """
SELECT rule.id, count(issue.id), coalesce(max(issue.opening_number), 0)
FROM alerts_alertrule AS rule
LEFT JOIN issues_issue AS issue ON issue.namespace_id = rule.namespace_id
    AND issue.state = 'open'
    AND (rule.group_name = '' OR issue.group_name = rule.group_name)
    AND (rule.topic = '' OR issue.topic = rule.topic)
WHERE rule.id = ANY(%s)
GROUP BY rule.id
"""


@dataclass(frozen=True, slots=True)
class IssueRuleResult:
    """An event, not yet saved, and whether anybody is to be told of it."""

    event: AlertEvent
    is_reported: bool


def evaluate_issue_rules(rules: Sequence[AlertRule], now_ms: int) -> list[IssueRuleResult]:
    """How rules for issues stand, mutes that are over already ended. One query, and one for each
    rule with something to tell.
    """
    if not rules:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, ([rule.pk for rule in rules],))
        found = {pk: (count, number) for pk, count, number in cursor.fetchall()}
    looked = []
    for rule in rules:
        rule.evaluated_ms = now_ms
        rule.value, newest = found.get(rule.pk, (0, 0))
        state = AlertState.FIRING if rule.value else AlertState.OK
        openings: list[Issue] = []
        if not rule.muted_until_ms and newest > rule.told_opening:
            openings = openings_after(
                rule.namespace_id, rule.told_opening, group=rule.group_name, topic=rule.topic
            )
        if openings:
            event = next_event(rule, AlertState.FIRING, rule.value, now_ms)
            event.issue_count = len(openings)
            event.issues = [issue_reference(issue) for issue in openings[:ISSUES_LISTED_MAX]]
            rule.told_opening = openings[-1].opening_number
            looked.append(IssueRuleResult(event, is_reported=True))
        elif rule.state != state:
            looked.append(
                IssueRuleResult(next_event(rule, state, rule.value, now_ms), is_reported=False)
            )
        rule.told_state = rule.state
    return looked


def issue_reference(issue: Issue) -> dict[str, object]:
    """What is told of an issue: its cause, in which no value of a message is, never the message."""
    return {
        "id": issue.public_id,
        "group": issue.group_name,
        "topic": issue.topic or None,
        "reason": issue.reason,
        "count": issue.count,
        "is_reopened": issue.reopen_count > 0,
    }
