"""Reads of alert rules and their events, each within one namespace."""

from __future__ import annotations

from mqservice.accounts.models import Namespace
from mqservice.alerts.limits import RULES_MAX
from mqservice.alerts.models import AlertEvent, AlertRule
from mqservice.alerts.settings import AlertKind
from mqservice.lib.problem import Problem


def rules_of(namespace: Namespace) -> list[AlertRule]:
    """All rules of a namespace, by name. One query."""
    return list(AlertRule.objects.filter(namespace=namespace).order_by("name")[:RULES_MAX])


def get_rule(namespace: Namespace, name: str) -> AlertRule:
    """Raises Problem ALERT_NOT_FOUND. One query."""
    rule = AlertRule.objects.filter(namespace=namespace, name=name).first()
    if rule is None:
        raise alert_not_found(namespace, name)
    return rule


def thresholds_of(
    namespace: Namespace, kind: AlertKind, *, group: str, topic: str
) -> list[tuple[str, int]]:
    """Names and thresholds of the rules of a kind that are on, of the group unless that is empty,
    and of the topic or of all. One query.
    """
    rules = AlertRule.objects.filter(namespace=namespace, kind=kind, topic=topic, is_enabled=True)
    if group:
        rules = rules.filter(group_name=group)
    return list(rules.order_by("name").values_list("name", "threshold")[:RULES_MAX])


def locked_rule(namespace: Namespace, name: str) -> AlertRule:
    """For a change of its state within a transaction. Raises Problem ALERT_NOT_FOUND. One query."""
    rule = AlertRule.objects.select_for_update().filter(namespace=namespace, name=name).first()
    if rule is None:
        raise alert_not_found(namespace, name)
    return rule


def events_of(rule: AlertRule, *, before: int | None, limit: int) -> list[AlertEvent]:
    """Events whose number is below ``before``, the newest first, with their notifications. Two
    queries.
    """
    events = AlertEvent.objects.filter(rule=rule).prefetch_related("notifications")
    if before is not None:
        events = events.filter(number__lt=before)
    return list(events.order_by("-number")[:limit])


def alert_not_found(namespace: Namespace, name: str) -> Problem:
    return Problem.of("ALERT_NOT_FOUND", f"{name} does not exist in {namespace.name}")
