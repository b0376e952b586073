"""The list of consumer groups: search, sort and paging over all of them, numbers for those shown.

    names, samples ──▶ filtered, sorted ──▶ one page ──▶ rows, progress from the engine

A page costs the same with a thousand groups as with fifty, but for their names; sorted by a number,
also for one look at the samples of all.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.console.shared.figures import (
    DIRECT_ROWS_MAX,
    GroupFigures,
    add_health,
    figures_of,
    measure_groups,
    sampled,
)
from mqservice.console.shared.listing import NAMES_MAX, ListQuery, NamedListing, in_order, page_of
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.monitoring.sampling import engine_stats
from mqservice.protocol.choices import Dispatch
from mqservice.store import blocking_client
from mqservice.topics.models import Topic


class Order(enum.StrEnum):
    NAME = "name"
    LAG = "lag"
    AGE = "age"
    RATE = "rate"


_NUMBERS: Final[dict[Order, Callable[[GroupFigures], float | None]]] = {
    Order.LAG: lambda group: group.lag,
    Order.AGE: lambda group: group.lag_ms,
    Order.RATE: lambda group: group.out_per_s,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    group: ConsumerGroup
    figures: GroupFigures

    @property
    def name(self) -> str:
        return self.group.name


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsPage(NamedListing):
    """``question``: which found these rows."""

    question: ListQuery[Order]
    rows: list[GroupRow]
    group_count: int
    is_engine_up: bool


def groups_page(namespace: Namespace, question: ListQuery[Order]) -> GroupsPage:
    """Seven to ten queries, and a question to the engine for each row."""
    now_ms = SystemClock().now_ms()
    rows = ConsumerGroup.objects.filter(namespace=namespace)
    group_count = rows.count()
    topic_count = Topic.objects.filter(namespace=namespace).count()
    if question.text:
        rows = rows.filter(name__icontains=question.text)
    if question.kind in set(Dispatch):
        rows = rows.filter(dispatch=question.kind)
    names = list(rows.order_by("name").values_list("name", flat=True)[:NAMES_MAX])
    is_up = engine_stats(namespace.shard) is not None
    with blocking_client(namespace.shard) as client:
        client_or_none = client if is_up else None
        first, shown = page_of(names, after=question.after, before=question.before)
        number_of = _NUMBERS.get(question.order)
        if topic_count + group_count <= DIRECT_ROWS_MAX:
            figures = figures_of(namespace, client_or_none, now_ms)
        else:
            figures = sampled(namespace, (), shown if number_of is None else names, now_ms)
        if number_of is not None:
            names = in_order(names, figures.groups, number_of)
            first, shown = page_of(names, after=question.after, before=question.before)
        by_name = {group.name: group for group in _groups(namespace, shown)}
        if not figures.is_direct:
            measure_groups(figures, client_or_none, list(by_name.values()))
        add_health(figures, namespace, names=shown)
    return GroupsPage(
        question=question,
        rows=[
            GroupRow(group=by_name[name], figures=figures.groups[name])
            for name in shown
            if name in by_name and name in figures.groups
        ],
        group_count=group_count,
        found_count=len(names),
        first=first + 1,
        is_engine_up=is_up,
    )


def _groups(namespace: Namespace, names: list[str]) -> list[ConsumerGroup]:
    rows = ConsumerGroup.objects.filter(namespace=namespace, name__in=names)
    return list(rows.select_related("namespace"))
