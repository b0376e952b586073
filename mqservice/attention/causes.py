"""Why something needs attention, as one would say it to a colleague; in the active language."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from mqservice.alerts.models import AlertRule, Channel
from mqservice.alerts.settings import AlertKind
from mqservice.lib.durations import MINUTE_MS
from mqservice.lib.problem_words import in_words
from mqservice.lib.units import age, count, rate, size
from mqservice.quotas.levels import QuotaUse
from mqservice.sampling.group_health import STALLED_MS, GroupHealth, TrendPoint

_BYTES: Final = ("bytes_in_per_second", "bytes_out_per_second", "storage_bytes_max")


def of_group(health: GroupHealth, now: TrendPoint) -> str:
    """Of a group that is stalled, without members or falling behind."""
    waiting = now.waiting or 0
    wait = ngettext(
        "%(count)s message waits, the oldest for %(age)s",
        "%(count)s messages wait, the oldest for %(age)s",
        waiting,
    ) % {"count": count(waiting), "age": age(now.lag_ms)}
    if health is GroupHealth.NO_MEMBERS:
        return _("No consumer is reading: %(wait)s.") % {"wait": wait}
    if health is GroupHealth.FALLING_BEHIND:
        return _("More arrives than is settled: %(wait)s.") % {"wait": wait}
    minutes = STALLED_MS // MINUTE_MS
    if now.inflight:
        return _(
            "Nothing was settled for %(minutes)s minutes, though consumers hold %(held)s "
            "messages: %(wait)s."
        ) % {"minutes": minutes, "held": count(now.inflight), "wait": wait}
    return _(
        "Nothing was settled for %(minutes)s minutes, and consumers take no messages: %(wait)s."
    ) % {"minutes": minutes, "wait": wait}


def of_dead_letters(
    *,
    count: int,
    reason: str | None,
    reason_count: int,
    other_reasons: int,
    newest_ms: int,
) -> str:
    """``reason`` is None where it may not be shown, empty where none was given; ``count``: of the
    last 24 hours, ``reason_count`` of them with the most common reason.
    """
    text = ngettext(
        "%(count)s dead letter in 24 hours, the newest %(age)s ago.",
        "%(count)s dead letters in 24 hours, the newest %(age)s ago.",
        count,
    ) % {"count": f"{count:,}", "age": age(newest_ms)}
    if reason is None:
        return text
    shown = reason or _("no reason given")
    if not other_reasons:
        only = _("Reason: %(reason)s") % {"reason": shown}
        return f"{text} {only}"
    most = ngettext(
        "Most common of %(total)s reasons: %(reason)s (%(count)s)",
        "Most common of %(total)s reasons: %(reason)s (%(count)s)",
        other_reasons + 1,
    ) % {"total": other_reasons + 1, "reason": shown, "count": f"{reason_count:,}"}
    return f"{text} {most}"


def of_schedule(error: str) -> str:
    return _("The last run was not sent. %(error)s") % {"error": error}


def of_notification(channel: str, error: str, attempt_count: int) -> str:
    """Of an email or webhook that was not delivered."""
    facts = {"attempts": count(attempt_count), "error": in_words(error) or _("unknown")}
    if channel == Channel.WEBHOOK.value:
        return (
            _("Its webhook could not be delivered, after %(attempts)s attempts: %(error)s") % facts
        )
    return _("Its email could not be delivered, after %(attempts)s attempts: %(error)s") % facts


def of_alert(rule: AlertRule) -> str:
    """The value beside the threshold, in the unit of the rule's kind."""
    kind = AlertKind(rule.kind)
    if kind is AlertKind.NO_CONSUMER:
        return _("No consumer reads for the group %(group)s.") % {"group": rule.group_name}
    show = {AlertKind.OLDEST_AGE: age, AlertKind.DISK: _percent}.get(kind, count)
    values = {"group": rule.group_name, "now": show(rule.value), "threshold": show(rule.threshold)}
    if kind is AlertKind.DISK:
        return _("%(now)s of the disk is used; the threshold is %(threshold)s.") % values
    if kind is AlertKind.DLQ_GROWTH:
        return _("%(group)s has %(now)s new dead letters; the threshold is %(threshold)s.") % values
    if kind is AlertKind.OLDEST_AGE:
        return (
            _(
                "The oldest message of %(group)s has waited for %(now)s; the threshold is "
                "%(threshold)s."
            )
            % values
        )
    return _("%(group)s has a lag of %(now)s; the threshold is %(threshold)s.") % values


def _percent(value: int | None) -> str:
    return _("unknown") if value is None else f"{value} %"


def of_quota(use: QuotaUse) -> str:
    """How much of a limit is used."""
    show = size if use.name in _BYTES else rate if use.name.endswith("_per_second") else count
    return _("%(used)s of %(limit)s are used, %(percent)s %%.") % {
        "used": show(use.used), "limit": show(use.limit), "percent": f"{use.percent:.0f}",
    }  # fmt: skip
