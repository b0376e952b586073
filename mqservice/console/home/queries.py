"""The data of the home page: what needs attention, and the figures of the day.

    attention ─────┐
    figures ───────┤
    engine stats ──┼──▶ one frozen object ──▶ template
    heartbeats ────┤
    usage ─────────┘

The engine may be away: then its numbers are None, which templates show as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mqservice.accounts.access import Principal
from mqservice.accounts.models import Namespace
from mqservice.attention.items import AttentionItem, attention_of
from mqservice.console.shared.figures import Figures, dead_in_a_day, figures_of
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import DAY_MS
from mqservice.monitoring.health import PartState, background_states
from mqservice.monitoring.sampling import engine_stats
from mqservice.store import StatsReply, blocking_client
from mqservice.usage.queries import GroupBy, Interval, UsageQuery, usage_page

_USAGE_ROWS: Final = 2  # a day back is in two days at most


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePage:
    """``messages_in``, ``messages_out`` and ``dead_in_a_day``: of the last 24 hours."""

    engine: StatsReply | None
    worker: PartState
    beat: PartState
    figures: Figures
    items: list[AttentionItem]
    messages_in: int
    messages_out: int
    dead_in_a_day: int | None

    @property
    def is_untouched(self) -> bool:
        """Whether it is known that no message was ever sent."""
        stored = [topic.stored for topic in self.figures.topics.values()]
        return all(count == 0 for count in stored)


def home_page(namespace: Namespace, principal: Principal) -> HomePage:
    """Some twenty queries, and what ``figures_of`` and ``attention_of`` ask the engine."""
    engine = engine_stats(namespace.shard)
    states = background_states(engine) or {}
    now_ms = SystemClock().now_ms()
    with blocking_client(namespace.shard) as client:
        figures = figures_of(namespace, None if engine is None else client, now_ms)
    question = UsageQuery(
        from_ms=now_ms - DAY_MS,
        to_ms=now_ms + 1,
        per=Interval.DAY,
        by=GroupBy.NAMESPACE,
        namespace=namespace.name,
    )
    used = usage_page(principal, question, now_ms, cursor=None, limit=_USAGE_ROWS).rows
    return HomePage(
        engine=engine,
        worker=states.get("worker", PartState.UNKNOWN),
        beat=states.get("beat", PartState.UNKNOWN),
        figures=figures,
        items=attention_of(namespace, principal, now_ms),
        messages_in=sum(row.messages_in for row in used),
        messages_out=sum(row.messages_out for row in used),
        dead_in_a_day=dead_in_a_day(namespace, figures),
    )
