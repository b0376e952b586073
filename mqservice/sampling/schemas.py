"""Histories on the wire of the control plane. Unknown values are null, never 0."""

from __future__ import annotations

from ninja import Schema

from mqservice.lib.timestamps import rfc3339
from mqservice.sampling.group_health import GroupCondition, GroupHealth
from mqservice.sampling.history import Point, Span
from mqservice.sampling.models import ConsumerOffsetStep, GroupSample, TopicSample
from mqservice.store import LagIs


class LagPointOut(Schema):
    """A time span that starts at `at`. `inflight` and `waiting_retry` are parts of `lag`. `members`
    and `dead_letters` are of the whole group, and null for a single topic; `dead_letters` is the
    all-time count. `lag_is` is estimated if any lag of the span is."""

    at: str
    lag: int | None
    lag_is: LagIs | None
    lag_average: float | None
    lag_max: int | None
    lag_ms: int | None
    inflight: int | None
    waiting_retry: int | None
    settled_per_s: float | None
    members: int | None
    dead_letters: int | None

    @classmethod
    def of(cls, point: Point[GroupSample]) -> LagPointOut:
        sample = point.sample
        average = None
        if sample.lag_sum is not None and sample.known_count:
            average = round(sample.lag_sum / sample.known_count, 3)
        return cls(
            at=rfc3339(sample.at_ms),
            lag=sample.lag_last,
            lag_is=_lag_is(sample),
            lag_average=average,
            lag_max=sample.lag_max,
            lag_ms=sample.lag_ms_max,
            inflight=sample.inflight_max,
            waiting_retry=sample.waiting_retry_last,
            settled_per_s=point.per_s,
            members=sample.member_last,
            dead_letters=sample.dead_last,
        )


class GroupConditionOut(Schema):
    """How a group is doing, by age and trend of its lag. `lag`, of which `inflight` and
    `waiting_retry` are parts, `lag_ms` and `members` are those of the sample taken `at`, at most a
    minute ago; null without one."""

    group: str
    health: GroupHealth
    at: str | None
    lag: int | None
    lag_ms: int | None
    inflight: int | None
    waiting_retry: int | None
    members: int | None

    @classmethod
    def of(cls, condition: GroupCondition) -> GroupConditionOut:
        now = condition.now
        return cls(
            group=condition.name,
            health=condition.health,
            at=None if now is None else rfc3339(now.at_ms),
            lag=now and now.lag,
            lag_ms=now and now.lag_ms,
            inflight=now and now.inflight,
            waiting_retry=now and now.waiting_retry,
            members=now and now.member_count,
        )


class GroupConditionsOut(Schema):
    """By name."""

    groups: list[GroupConditionOut]


def _lag_is(sample: GroupSample) -> LagIs | None:
    """None when no lag of the span is known."""
    if not sample.known_count:
        return None
    return LagIs.ESTIMATED if sample.estimated_count else LagIs.EXACT


class LagHistoryOut(Schema):
    group: str
    topic: str | None
    resolution_ms: int
    points: list[LagPointOut]

    @classmethod
    def of(
        cls, group: str, topic: str, span: Span, points: list[Point[GroupSample]]
    ) -> LagHistoryOut:
        return cls(
            group=group,
            topic=topic or None,
            resolution_ms=span.resolution_ms,
            points=[LagPointOut.of(point) for point in points],
        )


class RatePointOut(Schema):
    """`stored`: all messages stored so far, `readable`: those that could still be read."""

    at: str
    stored: int | None
    readable: int | None
    stored_per_s: float | None

    @classmethod
    def of(cls, point: Point[TopicSample]) -> RatePointOut:
        return cls(
            at=rfc3339(point.sample.at_ms),
            stored=point.sample.stored_last,
            readable=point.sample.readable_last,
            stored_per_s=point.per_s,
        )


class RateHistoryOut(Schema):
    topic: str
    resolution_ms: int
    points: list[RatePointOut]

    @classmethod
    def of(cls, topic: str, span: Span, points: list[Point[TopicSample]]) -> RateHistoryOut:
        return cls(
            topic=topic,
            resolution_ms=span.resolution_ms,
            points=[RatePointOut.of(point) for point in points],
        )


class OffsetStepOut(Schema):
    at: str
    consumer_offset: int
    resets: int

    @classmethod
    def of(cls, step: ConsumerOffsetStep) -> OffsetStepOut:
        return cls(
            at=rfc3339(step.at_ms), consumer_offset=step.consumer_offset, resets=step.reset_count
        )


class OffsetHistoryOut(Schema):
    """The newest first; moments at which the offset had not changed are omitted."""

    group: str
    topic: str
    queue: int
    steps: list[OffsetStepOut]
