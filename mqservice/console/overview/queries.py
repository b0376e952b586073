"""The data of the overview page: rows from PostgreSQL and what the engine reports about them.

    figures ───────┐
    engine stats ──┤
    heartbeats ────┼──▶ one frozen object ──▶ template
    alerts, issues, quotas ┘

The engine may be away: then its numbers are None, which templates show as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.alerts.models import AlertRule, AlertState
from mqservice.console.shared.figures import (
    Figures,
    GroupFigures,
    TopicFigures,
    dead_in_a_day,
    figures_of,
)
from mqservice.issues.queries import open_count
from mqservice.lib.clock import SystemClock
from mqservice.monitoring.health import PartState, background_states
from mqservice.monitoring.sampling import engine_stats
from mqservice.quotas.queries import limits_of
from mqservice.quotas.usage import usage_of
from mqservice.store import StatsReply, blocking_client

TOP_ROWS: Final = 8
ALERTS_SHOWN: Final = 5
_HIGH_PERCENT: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """``name``: of the limit; ``used`` is None while nobody knows."""

    name: str
    used: int | None
    limit: int

    @property
    def percent(self) -> float:
        return min(100.0, 100 * (self.used or 0) / self.limit)

    @property
    def is_high(self) -> bool:
        return self.percent >= _HIGH_PERCENT


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewPage:
    engine: StatsReply | None
    worker: PartState
    beat: PartState
    figures: Figures
    dead_in_a_day: int | None
    top_topics: list[tuple[str, TopicFigures]]
    top_groups: list[tuple[str, GroupFigures]]
    firing: list[AlertRule]
    alert_count: int
    issue_count: int
    quotas: list[QuotaUse]


def overview_page(namespace: Namespace) -> OverviewPage:
    """Ten queries, and what ``figures_of`` asks the engine."""
    engine = engine_stats(namespace.shard)
    states = background_states(engine) or {}
    with blocking_client(namespace.shard) as client:
        figures = figures_of(namespace, None if engine is None else client, SystemClock().now_ms())
    rules = AlertRule.objects.filter(namespace=namespace)
    firing = list(rules.filter(state=AlertState.FIRING.value).order_by("name")[:ALERTS_SHOWN])
    return OverviewPage(
        engine=engine,
        worker=states.get("worker", PartState.UNKNOWN),
        beat=states.get("beat", PartState.UNKNOWN),
        figures=figures,
        dead_in_a_day=dead_in_a_day(namespace, figures),
        top_topics=top_topics(figures),
        top_groups=top_groups(figures),
        firing=firing,
        alert_count=rules.count(),
        issue_count=open_count(namespace),
        quotas=_quotas(namespace.tenant_id),
    )


def top_topics(figures: Figures) -> list[tuple[str, TopicFigures]]:
    """The busiest first, then the fullest."""
    rows = figures.topics.items()
    ordered = sorted(
        rows, key=lambda row: (-(row[1].in_per_s or 0), -(row[1].readable or 0), row[0])
    )
    return ordered[:TOP_ROWS]


def top_groups(figures: Figures) -> list[tuple[str, GroupFigures]]:
    """The furthest behind first."""
    rows = figures.groups.items()
    return sorted(rows, key=lambda row: (-(row[1].lag or 0), row[0]))[:TOP_ROWS]


def _quotas(tenant_id: int) -> list[QuotaUse]:
    limits, usage = limits_of(tenant_id), usage_of(tenant_id)
    pairs = (
        ("topics", usage.topic_count, limits.topic_count_max),
        ("groups", usage.group_count, limits.group_count_max),
        ("messages_in", usage.messages_in_per_second, limits.messages_in_per_second),
        ("messages_out", usage.messages_out_per_second, limits.messages_out_per_second),
        ("connections", usage.connection_count, limits.connection_count_max),
    )
    return [QuotaUse(name=name, used=used, limit=limit) for name, used, limit in pairs]
