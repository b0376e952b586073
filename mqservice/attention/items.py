"""What needs attention now, the most urgent first.

    health of groups ─┐
    firing alerts ────┤
    open issues ──────┼──▶ [attention_of] ──▶ AttentionItems, ranked
    schedules ────────┤
    notifications ────┤
    quotas ───────────┘

An alert about a group stands with the group, where that is in the list itself. Muted alerts,
acknowledged and ignored issues, paused groups and schedules are left out: somebody knows of them.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mqservice.accounts.access import Principal
from mqservice.accounts.models import Namespace
from mqservice.alerts.models import AlertRule, AlertState, Delivery, Notification
from mqservice.alerts.settings import AlertKind
from mqservice.attention import causes
from mqservice.delivery.reading.same_cause import NO_REASON
from mqservice.issues.models import Issue, IssueState
from mqservice.issues.schemas import may_read
from mqservice.lib.durations import DAY_MS, HOUR_MS, MINUTE_MS
from mqservice.quotas.levels import QuotaLevel, QuotaUse, quota_uses
from mqservice.sampling.group_health import GroupCondition, GroupHealth, conditions_of
from mqservice.sampling.models import GroupSample
from mqservice.schedules.models import ScheduleState
from mqservice.schedules.queries import error_of, missing_topics, schedules_of, state_of

ITEMS_MAX: Final = 50
ROWS_MAX: Final = 500  # of alerts, issues and notifications each
TREND_POINTS: Final = 60  # of lag, a minute each
TREND_HOURS: Final = 24  # of dead letters


class AttentionKind(enum.StrEnum):
    """What is wrong; the most urgent first."""

    QUOTA_FULL = "quota_full"
    GROUP_STALLED = "group_stalled"
    ALERT_FIRING = "alert_firing"
    GROUP_NO_MEMBERS = "group_no_members"
    DEAD_LETTERS = "dead_letters"
    SCHEDULE_FAILING = "schedule_failing"
    NOTIFICATION_FAILING = "notification_failing"
    GROUP_FALLING_BEHIND = "group_falling_behind"
    QUOTA_HIGH = "quota_high"


_RANKS: Final = {kind: rank for rank, kind in enumerate(AttentionKind)}
_OF_HEALTH: Final = {
    GroupHealth.STALLED: AttentionKind.GROUP_STALLED,
    GroupHealth.NO_MEMBERS: AttentionKind.GROUP_NO_MEMBERS,
    GroupHealth.FALLING_BEHIND: AttentionKind.GROUP_FALLING_BEHIND,
}
ITEMS_OF_GROUPS: Final = frozenset(_OF_HEALTH.values())


class ActionName(enum.StrEnum):
    """What can be done about an item."""

    INSPECT = "inspect"
    REDRIVE = "redrive"
    ACKNOWLEDGE = "acknowledge"
    MUTE = "mute"


@dataclass(frozen=True, slots=True)
class Action:
    """``target``: the issue to acknowledge or inspect, the alert to mute, the reason whose letters
    are redriven; empty: the item itself.
    """

    name: ActionName
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    """``name``: of the group, alert, schedule or limit. ``since_ms`` is None where nobody knows.

    ``trend``: lag by minute or dead letters by hour up to now, None where nothing was measured;
    empty where there is none. ``weight`` orders items of one kind, the greatest first.
    """

    kind: AttentionKind
    name: str
    cause: str
    since_ms: int | None = None
    trend: tuple[int | None, ...] = ()
    alerts: tuple[str, ...] = ()
    actions: tuple[Action, ...] = (Action(ActionName.INSPECT),)
    weight: int = 0

    @property
    def rank(self) -> int:
        firing = [_RANKS[AttentionKind.ALERT_FIRING]] if self.alerts else []
        return min(_RANKS[self.kind], *firing, len(_RANKS))


def attention_of(namespace: Namespace, principal: Principal, now_ms: int) -> list[AttentionItem]:
    """The most urgent first, at most ``ITEMS_MAX``. Twelve queries and a call to the engine.

    What ``principal`` may not read, such as words of dead letters, is left out of the causes.
    """
    items = [
        *_groups(conditions_of(namespace, now_ms), now_ms),
        *_dead_letters(namespace, principal, now_ms),
        *_schedules(namespace),
        *_notifications(namespace, now_ms),
        *_quotas(quota_uses(namespace.tenant_id)),
    ]
    items = _with_alerts(items, _firing(namespace, now_ms))
    items.sort(key=lambda item: (item.rank, -item.weight, item.name))
    return _with_lags(items[:ITEMS_MAX], namespace, now_ms)


def _groups(conditions: Iterable[GroupCondition], now_ms: int) -> Iterator[AttentionItem]:
    for condition in conditions:
        kind, now = _OF_HEALTH.get(condition.health), condition.now
        is_behind = condition.health is GroupHealth.FALLING_BEHIND
        if kind is None or now is None or not (condition.is_stuck or is_behind):
            continue
        yield AttentionItem(
            kind=kind,
            name=condition.name,
            cause=causes.of_group(condition.health, now),
            since_ms=None if now.lag_ms is None else now_ms - now.lag_ms,
            weight=now.lag_ms or 0,
        )


def _dead_letters(
    namespace: Namespace, principal: Principal, now_ms: int
) -> Iterator[AttentionItem]:
    """Of groups with an open issue that got a letter within a day. One query."""
    rows = Issue.objects.filter(
        namespace=namespace, state=IssueState.OPEN.value, last_ms__gte=now_ms - DAY_MS
    )
    by_group: dict[str, list[Issue]] = defaultdict(list)
    for issue in rows.order_by("-last_ms")[:ROWS_MAX]:
        by_group[issue.group_name].append(issue)
    last_hour = now_ms // HOUR_MS
    hours = range(last_hour - TREND_HOURS + 1, last_hour + 1)
    for group, issues in by_group.items():
        counts = {
            issue.pk: [int(issue.hours.get(str(hour), 0)) for hour in hours] for issue in issues
        }
        trend = tuple(map(sum, zip(*counts.values(), strict=True)))
        top = max(issues, key=lambda issue: sum(counts[issue.pk]))
        is_readable = may_read(principal, top)
        redrive = [Action(ActionName.REDRIVE, top.reason or NO_REASON)] if is_readable else []
        yield AttentionItem(
            kind=AttentionKind.DEAD_LETTERS,
            name=group,
            cause=causes.of_dead_letters(
                count=sum(trend),
                reason=top.reason if is_readable else None,
                reason_count=sum(counts[top.pk]),
                other_reasons=len(issues) - 1,
                newest_ms=now_ms - issues[0].last_ms,
            ),
            since_ms=min(issue.first_ms for issue in issues),
            trend=trend,
            actions=(
                Action(ActionName.INSPECT, top.public_id),
                *redrive,
                Action(ActionName.ACKNOWLEDGE, top.public_id),
            ),
            weight=sum(trend[-2:]) * ROWS_MAX + sum(trend),
        )


def _schedules(namespace: Namespace) -> Iterator[AttentionItem]:
    """Two queries."""
    schedules = schedules_of(namespace)
    gone = missing_topics(namespace, schedules)
    for schedule in schedules:
        if state_of(schedule, gone) is ScheduleState.FAILING:
            yield AttentionItem(
                kind=AttentionKind.SCHEDULE_FAILING,
                name=schedule.name,
                cause=causes.of_schedule(error_of(schedule, gone)),
                since_ms=schedule.last_ms,
            )


def _notifications(namespace: Namespace, now_ms: int) -> Iterator[AttentionItem]:
    """Rules of which the newest email or webhook of a day was not delivered. One query."""
    rows = Notification.objects.filter(
        event__rule__namespace=namespace, event__at_ms__gte=now_ms - DAY_MS
    ).select_related("event__rule")
    newest = rows.order_by("event__rule", "channel", "target", "-event__number").distinct(
        "event__rule", "channel", "target"
    )
    for each in newest[:ROWS_MAX]:
        is_failing = each.state == Delivery.FAILED.value or bool(
            each.state == Delivery.PENDING.value and each.error
        )
        if is_failing:
            yield AttentionItem(
                kind=AttentionKind.NOTIFICATION_FAILING,
                name=each.event.rule.name,
                cause=causes.of_notification(each.channel, each.error, each.attempt_count),
                since_ms=each.event.at_ms,
            )


def _quotas(uses: Iterable[QuotaUse]) -> Iterator[AttentionItem]:
    kinds = {
        QuotaLevel.FULL: AttentionKind.QUOTA_FULL,
        QuotaLevel.HIGH: AttentionKind.QUOTA_HIGH,
    }
    for use in uses:
        kind = kinds.get(use.level)
        if kind is not None and use.used is not None:
            yield AttentionItem(
                kind=kind, name=use.name, cause=causes.of_quota(use), weight=round(use.percent)
            )


def _firing(namespace: Namespace, now_ms: int) -> list[AlertRule]:
    """Those that nobody has muted, by name; rules for issues are told by their issues. One
    query.
    """
    rules = AlertRule.objects.filter(
        namespace=namespace,
        state=AlertState.FIRING.value,
        is_enabled=True,
        muted_until_ms__lte=now_ms,
    )
    return list(rules.exclude(kind=AlertKind.ISSUE.value).order_by("name")[:ROWS_MAX])


def _with_alerts(items: list[AttentionItem], rules: list[AlertRule]) -> list[AttentionItem]:
    """Each alert with the item of its group that it is about, or as an item of its own."""
    found = list(items)
    for rule in rules:
        is_of_letters = rule.kind == AlertKind.DLQ_GROWTH.value
        at = next(
            (
                place
                for place, item in enumerate(found)
                if rule.group_name
                and item.name == rule.group_name
                and (item.kind is AttentionKind.DEAD_LETTERS) == is_of_letters
                and (is_of_letters or item.kind in ITEMS_OF_GROUPS)
            ),
            None,
        )
        mute = Action(ActionName.MUTE, rule.name)
        if at is not None:
            item = found[at]
            found[at] = replace(
                item, alerts=(*item.alerts, rule.name), actions=(*item.actions, mute)
            )
            continue
        found.append(
            AttentionItem(
                kind=AttentionKind.ALERT_FIRING,
                name=rule.name,
                cause=causes.of_alert(rule),
                since_ms=rule.changed_ms or None,
                actions=(Action(ActionName.INSPECT), mute),
            )
        )
    return found


def _with_lags(
    items: list[AttentionItem], namespace: Namespace, now_ms: int
) -> list[AttentionItem]:
    """Groups that are behind with their lag of the last hour. One query."""
    names = [item.name for item in items if item.kind in ITEMS_OF_GROUPS]
    last_ms = now_ms - now_ms % MINUTE_MS
    moments = range(last_ms - (TREND_POINTS - 1) * MINUTE_MS, last_ms + 1, MINUTE_MS)
    rows = GroupSample.objects.filter(
        namespace=namespace,
        group_name__in=names,
        topic="",
        resolution_ms=MINUTE_MS,
        at_ms__in=list(moments),
    )
    lags = {
        (name, at_ms): lag
        for name, at_ms, lag in rows.values_list("group_name", "at_ms", "lag_last")
    }
    return [
        replace(item, trend=tuple(lags.get((item.name, at_ms)) for at_ms in moments))
        if item.kind in ITEMS_OF_GROUPS
        else item
        for item in items
    ]
