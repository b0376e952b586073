"""What is said of an event: the document of a webhook, and the subject and text of an email.

event, its rule ──▶ [document_of] ──▶ JSON, signed        [mail_of] ──▶ subject, text
                ──▶ [webhook_body]: either of them in the form that the receiver takes
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from django.conf import settings

from mqservice.alerts.models import AlertEvent, AlertRule, EventState
from mqservice.alerts.settings import AlertKind, WebhookFormat
from mqservice.lib.timestamps import rfc3339

_SLACK_ESCAPES: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))
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
    """The body of a webhook in our own format. ``issues``: the first of ``issue_count``; only where
    some opened.
    """

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


def webhook_body(event: AlertEvent) -> bytes:
    """JSON as the rule's webhook takes it. Reads the rule and its namespace."""
    rule = event.rule
    if rule.webhook_format == WebhookFormat.SLACK:
        return msgspec.json.encode(_slack_message(event, rule))
    if rule.webhook_format == WebhookFormat.PAGERDUTY:
        return msgspec.json.encode(_pagerduty_event(event, rule))
    return msgspec.json.encode(document_of(event))


def _slack_message(event: AlertEvent, rule: AlertRule) -> dict[str, str]:
    """Of an incoming webhook, as Mattermost and Discord take it too."""
    subject, text = mail_of(event, rule)
    return {"text": f"*{_in_slack(subject)}*\n{_in_slack(text)}<{_page_of(rule)}|{rule.name}>"}


def _in_slack(text: str) -> str:
    for sign, escape in _SLACK_ESCAPES:
        text = text.replace(sign, escape)
    return text


def _pagerduty_event(event: AlertEvent, rule: AlertRule) -> dict[str, Any]:  # Any: JSON
    """Of the Events API v2: an incident for each time that the rule fires, resolved with it; one
    for each notification of issues, and for each test.
    """
    subject, _text = mail_of(event, rule)
    is_change = rule.kind != AlertKind.ISSUE and event.state != EventState.TEST
    return {
        "routing_key": rule.routing_key,
        "event_action": "resolve" if event.state == EventState.OK else "trigger",
        "dedup_key": f"{rule.namespace.name}/{rule.name}" if is_change else event.public_id,
        "client": "mqservice",
        "client_url": _page_of(rule),
        "payload": {
            "summary": subject,
            "source": rule.group_name or rule.namespace.name,
            "severity": "info" if event.state == EventState.TEST else "error",
            "timestamp": rfc3339(event.at_ms),
            "custom_details": document_of(event),
        },
    }


def _page_of(rule: AlertRule) -> str:
    return f"{settings.MQ_BASE_URL}/console/{rule.namespace.name}/alerts/{rule.name}"


def mail_of(event: AlertEvent, rule: AlertRule) -> tuple[str, str]:
    """Subject and text."""
    kind = AlertKind(rule.kind)
    if event.state == EventState.TEST:
        return _test_mail_of(event, rule)
    if kind is AlertKind.ISSUE:
        return _issue_mail_of(event, rule)
    subject = f"[{event.state.upper()}] {rule.namespace.name}: {rule.name}"
    lines = [
        _measured(event, rule, kind),
        f"State: {event.state} since {rfc3339(event.at_ms)}.",
        f"Alert {rule.name} in namespace {rule.namespace.name}, event {event.public_id}.",
    ]
    return subject, "\n".join(lines) + "\n"


def _test_mail_of(event: AlertEvent, rule: AlertRule) -> tuple[str, str]:
    lines = [
        "This is a test: nothing has happened. Notifications of this alert arrive here.",
        f"Alert {rule.name} in namespace {rule.namespace.name}, event {event.public_id}.",
    ]
    return f"[TEST] {rule.namespace.name}: {rule.name}", "\n".join(lines) + "\n"


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
