"""Histories on the wire of the control plane. Unknown values are null, never 0."""

from __future__ import annotations

from ninja import Schema

from mqservice.lib.timestamps import rfc3339
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
