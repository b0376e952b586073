"""How a consumer group is doing, in one word, from the age and the trend of its lag.

    samples of the last ten minutes ──▶ Trend ──▶ [health_of] ──▶ GroupHealth

Decided here for REST, the command line, the console and the list of what needs attention. "Waits"
leaves out what waits for a retry: no consumer could get that now. The first that fits:

    paused          somebody has paused the group
    unknown         no sample is younger than a minute, or the lag cannot be told
    new             it has read no topic yet
    no_members      messages wait, and nobody reads
    stalled         messages wait, the oldest for 5 minutes or longer, and none was settled in the
                    last 5 minutes; where leases last longer than that, only while none is in flight
    falling_behind  the oldest has waited for a minute or longer, and both its age and the number of
                    messages have grown in the last 5 minutes; or it has waited for 15 minutes or
                    longer, and neither has become smaller; not where all of them are in flight
    healthy         nothing waits, or what waits is young or becoming less

A group whose offsets were moved back within the last 10 minutes has no trend yet.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqservice.accounts.models import Namespace
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.queries import GROUPS_PAGE_MAX
from mqservice.lib.durations import MINUTE_MS
from mqservice.lib.timestamps import datetime_ms
from mqservice.sampling.limits import FRESH_MS, SAMPLE_MS
from mqservice.sampling.models import GroupSample

STALLED_MS: Final = 5 * MINUTE_MS
BEHIND_MS: Final = MINUTE_MS
STANDING_MS: Final = 15 * MINUTE_MS  # old enough to tell of a lag that only stays as it is
GROWTH: Final = 0.05  # of the messages, and of the time that has passed: less is noise
# A sample may be late or missing, so that more than one could show how it was 5 minutes ago.
_BACK_MS: Final = tuple(
    STALLED_MS + later_ms
    for later_ms in (0, SAMPLE_MS, 3 * SAMPLE_MS, MINUTE_MS, 3 * MINUTE_MS, 5 * MINUTE_MS)
)


class GroupHealth(enum.StrEnum):
    """See the module's docstring."""

    PAUSED = "paused"
    UNKNOWN = "unknown"
    NEW = "new"
    NO_MEMBERS = "no_members"
    STALLED = "stalled"
    FALLING_BEHIND = "falling_behind"
    HEALTHY = "healthy"


class TrendPoint(NamedTuple):
    """The whole group in one sample, as ``GroupSample`` has it."""

    at_ms: int
    lag: int | None
    lag_ms: int | None
    inflight: int | None
    waiting_retry: int | None
    settled: int | None
    member_count: int | None

    @property
    def waiting(self) -> int | None:
        """Messages that a consumer could get or has got; None when nobody knows."""
        return None if self.lag is None else max(0, self.lag - (self.waiting_retry or 0))


@dataclass(frozen=True, slots=True)
class Trend:
    """``now``: the newest sample of the last minute, ``before``: one of 5 to 10 minutes ago."""

    now: TrendPoint | None = None
    before: TrendPoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCondition:
    """A group with its health and the sample that tells of it."""

    name: str
    health: GroupHealth
    now: TrendPoint | None

    @property
    def is_stuck(self) -> bool:
        """Whether messages wait in vain: consumers that are restarted are back within a minute."""
        if self.health is GroupHealth.NO_MEMBERS:
            assert self.now is not None, "a sample has said so"
            return (self.now.lag_ms or 0) >= BEHIND_MS
        return self.health is GroupHealth.STALLED


def health_of(trend: Trend, *, is_paused: bool, lease_ms: int) -> GroupHealth:
    """See the module's docstring; pure."""
    if is_paused:
        return GroupHealth.PAUSED
    now, before = trend.now, trend.before
    if now is None:
        return GroupHealth.UNKNOWN
    if now.settled is None and now.lag is None:
        return GroupHealth.NEW
    waiting = now.waiting
    if waiting is None:
        return GroupHealth.UNKNOWN
    if not waiting:
        return GroupHealth.HEALTHY
    if now.member_count == 0:
        return GroupHealth.NO_MEMBERS
    if before is None or now.settled is None or before.settled is None:
        return GroupHealth.HEALTHY
    if now.settled < before.settled:
        return GroupHealth.HEALTHY
    if _is_stalled(now, before, lease_ms):
        return GroupHealth.STALLED
    return GroupHealth.FALLING_BEHIND if _is_behind(now, before) else GroupHealth.HEALTHY


def _is_stalled(now: TrendPoint, before: TrendPoint, lease_ms: int) -> bool:
    if now.settled != before.settled or (now.lag_ms or 0) < STALLED_MS:
        return False
    return lease_ms <= STALLED_MS or not now.inflight


def _is_behind(now: TrendPoint, before: TrendPoint) -> bool:
    if now.lag_ms is None or before.lag_ms is None or before.waiting is None:
        return False
    waiting = now.waiting or 0
    if waiting <= (now.inflight or 0):
        return False
    more, older_ms = waiting - before.waiting, now.lag_ms - before.lag_ms
    noise, noise_ms = GROWTH * before.waiting, GROWTH * (now.at_ms - before.at_ms)
    has_grown = more > noise and older_ms > noise_ms
    has_shrunk = more < -noise or older_ms < -noise_ms
    if has_grown:
        return now.lag_ms >= BEHIND_MS
    return now.lag_ms >= STANDING_MS and not has_shrunk


def conditions_of(
    namespace: Namespace, now_ms: int, *, names: Sequence[str] | None = None
) -> list[GroupCondition]:
    """Of all groups of a namespace, at most ``GROUPS_PAGE_MAX``, or of these; by name. Two queries,
    ten rows of samples a group.
    """
    groups = ConsumerGroup.objects.filter(namespace=namespace)
    if names is not None:
        groups = groups.filter(name__in=names)
    rows = groups.order_by("name").values_list("name", "is_paused", "lease_ms", "created_at")
    trends = trends_of(namespace, now_ms, names=names)
    conditions = []
    for name, is_paused, lease_ms, created_at in rows[:GROUPS_PAGE_MAX]:
        trend = trends.get(name, Trend())
        if trend.before is not None and trend.before.at_ms < datetime_ms(created_at):
            trend = Trend(trend.now)  # another group had the name then
        health = health_of(trend, is_paused=is_paused, lease_ms=lease_ms)
        conditions.append(GroupCondition(name=name, health=health, now=trend.now))
    return conditions


def trends_of(
    namespace: Namespace, now_ms: int, *, names: Sequence[str] | None = None
) -> dict[str, Trend]:
    """By name; groups without a sample are left out. One query."""
    last_ms = now_ms - now_ms % SAMPLE_MS
    moments = [*range(last_ms, now_ms - FRESH_MS, -SAMPLE_MS), *(last_ms - ms for ms in _BACK_MS)]
    samples = GroupSample.objects.filter(
        namespace=namespace, topic="", resolution_ms=SAMPLE_MS, at_ms__in=moments
    )
    if names is not None:
        samples = samples.filter(group_name__in=names)
    found: dict[str, Trend] = {}
    for name, at_ms, *values in samples.order_by("-at_ms").values_list(
        "group_name", "at_ms", "lag_last", "lag_ms_max", "inflight_max", "waiting_retry_last",
        "settled_last", "member_last",
    ):  # fmt: skip
        point, trend = TrendPoint(at_ms, *values), found.get(name, Trend())
        if point.at_ms > now_ms - FRESH_MS:
            if trend.now is None:
                found[name] = Trend(point, trend.before)
        elif trend.before is None:
            found[name] = Trend(trend.now, point)
    return found
