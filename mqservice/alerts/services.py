"""Changes alert rules; the only writers of their settings. One transaction each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import difference, record, settings_of
from mqservice.accounts.models import Namespace
from mqservice.alerts.events import next_event
from mqservice.alerts.limits import RULES_MAX
from mqservice.alerts.models import AlertRule, AlertState, new_webhook_secret
from mqservice.alerts.queries import get_rule
from mqservice.alerts.settings import (
    GROUPLESS_KINDS,
    KIND,
    PAGERDUTY_URL,
    SETTINGS,
    THRESHOLDLESS_KINDS,
    TOPIC_KINDS,
    AlertKind,
    WebhookFormat,
)
from mqservice.issues.queries import book_of
from mqservice.lib.clock import Clock
from mqservice.lib.etags import require_revision
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.settings_table import Change, columns_of
from mqservice.lib.wire import refused

_SUBJECT = ("kind", "group_name", "topic")


class RuleChange(Change):
    """What to set, in range. An empty topic means all topics, an empty URL no webhook.
    ``is_secret_new``: the webhook gets another secret.
    """

    settings = SETTINGS

    def __init__(self, *, is_secret_new: bool | None = None, **values: object) -> None:
        super().__init__(**values)
        self.is_secret_new = bool(is_secret_new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """``secret``: of the webhook, when it has just been made; it is shown nowhere else."""

    rule: AlertRule
    is_new: bool
    secret: str | None


@transaction.atomic
def put_rule(
    principal: Principal,
    namespace: Namespace,
    name: str,
    change: RuleChange,
    clock: Clock,
    *,
    revision: int | None = None,
) -> Put:
    """Create or change a rule. A rule that is switched off while it fires is ok from then on.

    Args:
        revision: refuse with PRECONDITION_FAILED unless the rule exists in this revision.

    Raises Problem: ILLEGAL_ALERT, ILLEGAL_SETTING, QUOTA_EXCEEDED or PRECONDITION_FAILED.
    """
    fault = name_fault(name)
    if fault is not None:
        raise Problem.of("ILLEGAL_ALERT", fault)
    Namespace.objects.select_for_update().get(pk=namespace.pk)  # two creators of one name: in turn
    rule = AlertRule.objects.select_for_update().filter(namespace=namespace, name=name).first()
    is_new = rule is None
    require_revision(rule, revision, "alert")
    if rule is None:
        if AlertRule.objects.filter(namespace=namespace).count() >= RULES_MAX:
            raise Problem.of(
                "QUOTA_EXCEEDED", f"a namespace has at most {RULES_MAX} alerts; delete one first"
            )
        _require_fields(change)
        rule = AlertRule(namespace=namespace, name=name)
    had_webhook = bool(rule.webhook_url)
    before = None if is_new else _audited(rule)
    changed = change.apply(rule)
    _reject_unfit(rule)
    is_secret_new = bool(rule.webhook_url) and (change.is_secret_new or not had_webhook)
    if is_secret_new:
        rule.webhook_secret = new_webhook_secret()
    if changed & set(_SUBJECT):
        rule.breached_since_ms, rule.value = 0, None
    if changed & {*_SUBJECT, "is_enabled"} and rule.kind == AlertKind.ISSUE:
        rule.told_opening = book_of(namespace).opening_count  # what opened before is no news
    if is_new or changed or is_secret_new:
        rule.revision = 1 if is_new else rule.revision + 1
        if not rule.is_enabled:
            rule.breached_since_ms = 0
        rule.save()
        if not rule.is_enabled and rule.state == AlertState.FIRING:
            _resolve(rule, clock.now_ms())
        old, new = difference(before, _audited(rule))
        details = {"kind": rule.kind, "changed": sorted(changed), "secret": is_secret_new}
        record(principal, namespace, "alert.put", f"alerts/{name}", details, before=old, after=new)
    rule.namespace = namespace
    return Put(rule=rule, is_new=is_new, secret=rule.webhook_secret if is_secret_new else None)


@transaction.atomic
def delete_rule(
    principal: Principal, namespace: Namespace, name: str, *, revision: int | None = None
) -> None:
    """Delete a rule with its events; what is still to be sent is not sent.

    Raises Problem: ALERT_NOT_FOUND or PRECONDITION_FAILED.
    """
    Namespace.objects.select_for_update().get(pk=namespace.pk)
    rule = get_rule(namespace, name)
    require_revision(rule, revision, "alert")
    before = _audited(rule)
    rule.delete()
    details = {"kind": rule.kind}
    record(principal, namespace, "alert.delete", f"alerts/{name}", details, before=before)


def _audited(rule: AlertRule) -> dict[str, object]:
    """Its settings without the secrets of a webhook: path and query of its URL, its routing key."""
    url = urlsplit(rule.webhook_url)
    shown = f"{url.scheme}://{url.netloc}/…" if rule.webhook_url else ""
    hidden = {"webhook_url": shown, "routing_key": "…" if rule.routing_key else ""}
    return settings_of(rule, columns_of(SETTINGS)) | hidden


def _require_fields(change: RuleChange) -> None:
    kind = change.find("kind")
    if kind is None:
        raise _illegal("/kind", KIND.missing)
    if change.find("threshold") is None and kind not in THRESHOLDLESS_KINDS:
        raise _illegal("/threshold", "is missing")


def _reject_unfit(rule: AlertRule) -> None:
    """Raises Problem unless the settings fit together; sets what follows from others."""
    kind = AlertKind(rule.kind)
    is_pagerduty = rule.webhook_format == WebhookFormat.PAGERDUTY
    rules: list[tuple[Callable[[], bool], str, str]] = [
        (
            lambda: kind is AlertKind.DISK and bool(rule.group_name),
            "/group",
            "is not allowed with kind: disk",
        ),
        (
            lambda: kind not in GROUPLESS_KINDS and not rule.group_name,
            "/group",
            f"is missing; kind: {kind} watches a group",
        ),
        (
            lambda: bool(rule.topic) and kind not in TOPIC_KINDS,
            "/topic",
            f"is only for kind: {', '.join(TOPIC_KINDS[:-1])} or {TOPIC_KINDS[-1]}",
        ),
        (
            lambda: kind is AlertKind.DISK and not 1 <= rule.threshold <= 100,
            "/threshold",
            f"must be in [1, 100] percent for kind: disk, found {rule.threshold}",
        ),
        (
            lambda: is_pagerduty and not rule.routing_key,
            "/routing_key",
            "is missing; webhook_format: pagerduty needs an integration key",
        ),
        (
            lambda: bool(rule.routing_key) and not is_pagerduty,
            "/routing_key",
            "is only for webhook_format: pagerduty",
        ),
    ]
    if kind in THRESHOLDLESS_KINDS:
        rule.threshold = 1
    if is_pagerduty and not rule.webhook_url:
        rule.webhook_url = PAGERDUTY_URL
    for is_wrong, pointer, detail in rules:
        if is_wrong():
            raise _illegal(pointer, detail)


def _resolve(rule: AlertRule, now_ms: int) -> None:
    event = next_event(rule, AlertState.OK, None, now_ms)
    rule.told_state = rule.state
    rule.save(update_fields=["state", "told_state", "changed_ms", "change_count"])
    event.save(force_insert=True)


def _illegal(pointer: str, detail: str) -> Problem:
    return refused(pointer, detail, "ILLEGAL_SETTING")
