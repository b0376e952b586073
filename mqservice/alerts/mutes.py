"""Mutes a rule that is still evaluated, until a time or until it is unmuted.

mute, unmute ──▶ rule (locked) ──▶ audit entry: one transaction
evaluation ── the time is over ──▶ ended there, and told what was missed
"""

from __future__ import annotations

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.models import Namespace
from mqservice.alerts.limits import MUTE_MS_MAX, MUTE_MS_MIN
from mqservice.alerts.models import AlertRule
from mqservice.alerts.queries import locked_rule
from mqservice.lib.clock import Clock
from mqservice.lib.durations import format_duration_ms
from mqservice.lib.timestamps import rfc3339
from mqservice.lib.wire import refused

_FIELDS = ["muted_until_ms", "muted_by", "mute_reason"]


@transaction.atomic
def mute_rule(
    principal: Principal,
    namespace: Namespace,
    name: str,
    clock: Clock,
    *,
    for_ms: int | None,
    until_ms: int | None,
    reason: str = "",
) -> AlertRule:
    """Tell nobody of a rule for so long, or until then; in place of a mute that there is.

    Raises Problem: ALERT_NOT_FOUND, BAD_REQUEST unless one of both is given, ILLEGAL_SETTING out of
    range.
    """
    if (for_ms is None) == (until_ms is None):
        raise refused("", "give either for or until")
    now_ms = clock.now_ms()
    until_ms = now_ms + (for_ms or 0) if until_ms is None else until_ms
    if not now_ms + MUTE_MS_MIN <= until_ms <= now_ms + MUTE_MS_MAX:
        low, high = format_duration_ms(MUTE_MS_MIN), format_duration_ms(MUTE_MS_MAX)
        pointer = "/until" if for_ms is None else "/for"
        raise refused(pointer, f"must end {low} to {high} from now", "ILLEGAL_SETTING")
    rule = locked_rule(namespace, name)
    rule.muted_until_ms, rule.muted_by, rule.mute_reason = until_ms, principal.actor, reason
    rule.save(update_fields=_FIELDS)
    details = {"until": rfc3339(until_ms), "reason": reason}
    record(principal, namespace, "alert.mute", f"alerts/{name}", details)
    return rule


@transaction.atomic
def unmute_rule(principal: Principal, namespace: Namespace, name: str) -> AlertRule:
    """End a mute; the next look tells what was missed. Does nothing where there is none.

    Raises Problem ALERT_NOT_FOUND.
    """
    rule = locked_rule(namespace, name)
    if rule.muted_until_ms:
        rule.muted_until_ms, rule.muted_by, rule.mute_reason = 0, "", ""
        rule.save(update_fields=_FIELDS)
        record(principal, namespace, "alert.unmute", f"alerts/{name}")
    return rule
