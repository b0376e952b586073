"""Reads samples as points in time, with the rates between them.

from, to ──▶ the finest resolution that still has it all ──▶ rows ──▶ points, the oldest first
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mqservice.groups.models import ConsumerGroup
from mqservice.lib.durations import HOUR_MS, SECOND_MS
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.lib.timestamps import datetime_ms, parse_rfc3339
from mqservice.sampling.limits import POINTS_MAX, RESOLUTIONS_MS, RETAINED_MS
from mqservice.sampling.models import ConsumerOffsetStep, GroupSample, TopicSample
from mqservice.topics.models import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """[from_ms, to_ms) at a resolution."""

    from_ms: int
    to_ms: int
    resolution_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPoint:
    """``settled_per_s``: since the point before; None after a gap or a reset."""

    sample: GroupSample
    settled_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPoint:
    sample: TopicSample
    stored_per_s: float | None


def span_of(from_text: str, to_text: str, now_ms: int) -> Span:
    """The span of two RFC 3339 times; the last hour where they are empty.

    Raises Problem BAD_REQUEST: they are no times, in the wrong order, or too far apart.
    """
    to_ms = _time_ms("?to", to_text) if to_text else now_ms
    from_ms = _time_ms("?from", from_text) if from_text else to_ms - HOUR_MS
    if from_ms >= to_ms:
        raise _fault("?from", "must be before `to`")
    for resolution_ms in RESOLUTIONS_MS:
        is_kept = from_ms >= now_ms - RETAINED_MS[resolution_ms] - resolution_ms
        if is_kept and (to_ms - from_ms) // resolution_ms < POINTS_MAX:
            return Span(from_ms=from_ms, to_ms=to_ms, resolution_ms=resolution_ms)
    coarsest_ms = RESOLUTIONS_MS[-1]
    if (to_ms - from_ms) // coarsest_ms >= POINTS_MAX:
        days = POINTS_MAX * coarsest_ms // (24 * HOUR_MS)
        raise _fault("?from", f"at most {days} days can be requested at a time")
    return Span(from_ms=from_ms, to_ms=to_ms, resolution_ms=coarsest_ms)


def group_history(group: ConsumerGroup, topic: str, span: Span) -> list[GroupPoint]:
    """Of the group on a topic, or of all of it where that is empty. One query."""
    rows = list(
        GroupSample.objects.filter(
            namespace_id=group.namespace_id,
            group_name=group.name,
            topic=topic,
            resolution_ms=span.resolution_ms,
            at_ms__gte=max(span.from_ms, _born_ms(group, span)),
            at_ms__lt=span.to_ms,
        ).order_by("at_ms")[:POINTS_MAX]
    )
    rates = rates_of([(row.at_ms, row.settled_last) for row in rows], span.resolution_ms)
    return [
        GroupPoint(sample=row, settled_per_s=rate) for row, rate in zip(rows, rates, strict=True)
    ]


def topic_history(topic: Topic, span: Span) -> list[TopicPoint]:
    """One query."""
    rows = list(
        TopicSample.objects.filter(
            namespace_id=topic.namespace_id,
            topic=topic.name,
            resolution_ms=span.resolution_ms,
            at_ms__gte=max(span.from_ms, _born_ms(topic, span)),
            at_ms__lt=span.to_ms,
        ).order_by("at_ms")[:POINTS_MAX]
    )
    rates = rates_of([(row.at_ms, row.stored_last) for row in rows], span.resolution_ms)
    return [
        TopicPoint(sample=row, stored_per_s=rate) for row, rate in zip(rows, rates, strict=True)
    ]


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


def _born_ms(thing: ConsumerGroup | Topic, span: Span) -> int:
    """What was measured before was another one of the same name."""
    born_ms = datetime_ms(thing.created_at)
    return born_ms - born_ms % span.resolution_ms


def _time_ms(place: str, text: str) -> int:
    try:
        return max(0, parse_rfc3339(text))
    except (ValueError, OverflowError):
        raise _fault(place, "not an RFC 3339 time such as 2026-12-01T08:00:00.000Z") from None


def _fault(place: str, detail: str) -> Problem:
    item = ProblemItem(place, "BAD_REQUEST", detail)
    return Problem.of("BAD_REQUEST", f"{place}: {detail}", errors=[item])
