"""Reads samples as points in time, with the rates between them.

from, to ──▶ the finest resolution that still has it all ──▶ rows ──▶ points, the oldest first
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from django.db.models import QuerySet

from mqservice.groups.models import ConsumerGroup
from mqservice.lib.durations import HOUR_MS, SECOND_MS
from mqservice.lib.timestamps import datetime_ms
from mqservice.lib.wire import refused, time_ms
from mqservice.sampling.limits import POINTS_MAX, RESOLUTIONS_MS, RETAINED_MS
from mqservice.sampling.models import ConsumerOffsetStep, GroupSample, TopicSample
from mqservice.topics.models import Topic

S = TypeVar("S", GroupSample, TopicSample)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """[from_ms, to_ms) at a resolution."""

    from_ms: int
    to_ms: int
    resolution_ms: int


class Point(NamedTuple, Generic[S]):
    """``per_s``: settled or stored since the point before; None after a gap or a reset."""

    sample: S
    per_s: float | None


def span_of(from_text: str, to_text: str, now_ms: int) -> Span:
    """The span of two RFC 3339 times; the last hour where they are empty.

    Raises Problem BAD_REQUEST: they are no times, in the wrong order, or too far apart.
    """
    to_ms = time_ms("?to", to_text) if to_text else now_ms
    from_ms = time_ms("?from", from_text) if from_text else to_ms - HOUR_MS
    if from_ms >= to_ms:
        raise refused("?from", "must be before `to`")
    for resolution_ms in RESOLUTIONS_MS:
        is_kept = from_ms >= now_ms - RETAINED_MS[resolution_ms] - resolution_ms
        if is_kept and (to_ms - from_ms) // resolution_ms < POINTS_MAX:
            return Span(from_ms=from_ms, to_ms=to_ms, resolution_ms=resolution_ms)
    coarsest_ms = RESOLUTIONS_MS[-1]
    if (to_ms - from_ms) // coarsest_ms >= POINTS_MAX:
        days = POINTS_MAX * coarsest_ms // (24 * HOUR_MS)
        raise refused("?from", f"at most {days} days can be requested at a time")
    return Span(from_ms=from_ms, to_ms=to_ms, resolution_ms=coarsest_ms)


def group_history(group: ConsumerGroup, topic: str, span: Span) -> list[Point[GroupSample]]:
    """Of the group on a topic, or of all of it where that is empty. One query."""
    rows = GroupSample.objects.filter(
        namespace_id=group.namespace_id, group_name=group.name, topic=topic
    )
    return _points(rows, group, span, lambda row: row.settled_last)


def topic_history(topic: Topic, span: Span) -> list[Point[TopicSample]]:
    """One query."""
    rows = TopicSample.objects.filter(namespace_id=topic.namespace_id, topic=topic.name)
    return _points(rows, topic, span, lambda row: row.stored_last)


def _points(
    samples: QuerySet[S],
    measured: ConsumerGroup | Topic,
    span: Span,
    total_of: Callable[[S], int | None],
) -> list[Point[S]]:
    born_ms = datetime_ms(measured.created_at)
    # What was measured before was another one of the same name.
    from_ms = max(span.from_ms, born_ms - born_ms % span.resolution_ms)
    found = samples.filter(
        resolution_ms=span.resolution_ms, at_ms__gte=from_ms, at_ms__lt=span.to_ms
    )
    rows = list(found.order_by("at_ms")[:POINTS_MAX])
    rates = rates_of([(row.at_ms, total_of(row)) for row in rows], span.resolution_ms)
    return [Point(row, rate) for row, rate in zip(rows, rates, strict=True)]


def offset_steps(
    group: ConsumerGroup, topic: str, queue_id: int, *, limit: int
) -> list[ConsumerOffsetStep]:
    """Where a group stood on a queue, the newest first. One query."""
    steps = ConsumerOffsetStep.objects.filter(
        namespace_id=group.namespace_id,
        group_name=group.name,
        topic=topic,
        queue_id=queue_id,
        at_ms__gte=datetime_ms(group.created_at),
    )
    return list(steps.order_by("-at_ms")[:limit])


def rates_of(totals: Sequence[tuple[int, int | None]], resolution_ms: int) -> list[float | None]:
    """Per second, between each total and the one right before it; None where that says nothing.

    A total that went down was reset; one that is missing leaves a gap.
    """
    rates: list[float | None] = [None] * min(1, len(totals))
    for (before_ms, before), (at_ms, total) in pairwise(totals):
        is_known = before is not None and total is not None and total >= before
        if not is_known or at_ms - before_ms != resolution_ms:
            rates.append(None)
        else:
            assert before is not None
            assert total is not None
            rates.append((total - before) * SECOND_MS / resolution_ms)
    return rates
