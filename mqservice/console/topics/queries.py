"""The list of topics: search, sort and paging over all of them, numbers for those shown.

    names, samples ──▶ filtered, sorted ──▶ one page ──▶ rows, counts from the engine, groups

A page costs the same with a thousand topics as with fifty, but for their names; sorted by a number,
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
    TopicFigures,
    figures_of,
    measure_topics,
    sampled,
)
from mqservice.console.shared.listing import NAMES_MAX, ListQuery, NamedListing, in_order, page_of
from mqservice.console.topics.sizes import stored_bytes
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.monitoring.sampling import engine_stats
from mqservice.store import blocking_client
from mqservice.topics.models import Topic
from mqservice.topics.settings import MessageType

GROUPS_SHOWN: Final = 3


class Order(enum.StrEnum):
    NAME = "name"
    MESSAGES = "messages"
    RATE = "rate"
    LAG = "lag"


_NUMBERS: Final[dict[Order, Callable[[TopicFigures], float | None]]] = {
    Order.MESSAGES: lambda topic: topic.readable,
    Order.RATE: lambda topic: topic.in_per_s,
    Order.LAG: lambda topic: topic.lag,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """``stored_bytes`` is None where the engine cannot tell, or not yet."""

    topic: Topic
    figures: TopicFigures
    stored_bytes: int | None = None

    @property
    def name(self) -> str:
        return self.topic.name

    @property
    def groups(self) -> list[tuple[str, int | None]]:
        """The furthest behind first."""
        return sorted(
            self.figures.lag_by_group.items(), key=lambda item: (-(item[1] or 0), item[0])
        )

    @property
    def shown_groups(self) -> list[tuple[str, int | None]]:
        return self.groups[:GROUPS_SHOWN]

    @property
    def more_count(self) -> int:
        return max(0, len(self.figures.lag_by_group) - GROUPS_SHOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsPage(NamedListing):
    """``question``: which found these rows."""

    question: ListQuery[Order]
    rows: list[TopicRow]
    topic_count: int
    is_engine_up: bool


def topics_page(namespace: Namespace, question: ListQuery[Order]) -> TopicsPage:
    """Six or seven queries, a question to the engine for each row, and one for the sizes of all."""
    now_ms = SystemClock().now_ms()
    rows = Topic.objects.filter(namespace=namespace)
    topic_count = rows.count()
    group_names = list(
        ConsumerGroup.objects.filter(namespace=namespace).values_list("name", flat=True)[:NAMES_MAX]
    )
    if question.text:
        rows = rows.filter(name__icontains=question.text)
    if question.kind in set(MessageType):
        rows = rows.filter(message_type=question.kind)
    names = list(rows.order_by("name").values_list("name", flat=True)[:NAMES_MAX])
    is_up = engine_stats(namespace.shard) is not None
    with blocking_client(namespace.shard) as client:
        client_or_none = client if is_up else None
        first, shown = page_of(names, after=question.after, before=question.before)
        number_of = _NUMBERS.get(question.order)
        if topic_count + len(group_names) <= DIRECT_ROWS_MAX:
            figures = figures_of(namespace, client_or_none, now_ms)
        elif number_of is None:
            figures = sampled(namespace, shown, group_names, now_ms, lag_on=shown)
        else:
            figures = sampled(namespace, names, group_names, now_ms)
        if number_of is not None:
            names = in_order(names, figures.topics, number_of)
            first, shown = page_of(names, after=question.after, before=question.before)
        by_name = {topic.name: topic for topic in _topics(namespace, shown)}
        if not figures.is_direct:
            measure_topics(figures, client_or_none, list(by_name.values()))
        sizes = stored_bytes(client_or_none, list(by_name.values()))
    return TopicsPage(
        question=question,
        rows=[
            TopicRow(
                topic=by_name[name], figures=figures.topics[name], stored_bytes=sizes.get(name)
            )
            for name in shown
            if name in by_name and name in figures.topics
        ],
        topic_count=topic_count,
        found_count=len(names),
        first=first + 1,
        is_engine_up=is_up,
    )


def _topics(namespace: Namespace, names: list[str]) -> list[Topic]:
    rows = Topic.objects.filter(namespace=namespace, name__in=names)
    return list(rows.select_related("namespace"))
