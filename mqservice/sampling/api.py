"""Measurements over REST: histories of lag, rates and consumer offsets; how groups are doing;
current metrics.

GET /v1/ns/{ns}/groups/{group}/lag/history?topic=&from=&to=
GET /v1/ns/{ns}/groups/{group}/offsets/history?topic=&queue=
GET /v1/ns/{ns}/topics/{topic}/rate/history?from=&to=
GET /v1/ns/{ns}/health?group=&health=
GET /v1/ns/{ns}/metrics
"""

from __future__ import annotations

from typing import Annotated, Final

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import Field

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.groups.queries import get_group
from mqservice.lib.clock import SystemClock
from mqservice.sampling.group_health import GroupHealth, conditions_of
from mqservice.sampling.history import group_history, offset_steps, span_of, topic_history
from mqservice.sampling.metrics import METRICS_TYPE, namespace_metrics
from mqservice.sampling.schemas import (
    GroupConditionOut,
    GroupConditionsOut,
    LagHistoryOut,
    OffsetHistoryOut,
    OffsetStepOut,
    RateHistoryOut,
)
from mqservice.topics.queries import get_topic
from mqservice.topics.settings import QUEUES

router = Router(tags=["history"])

STEPS_MAX: Final = 300
From = Annotated[str, Query("", alias="from")]


@router.get("/ns/{ns}/groups/{group}/lag/history", response=LagHistoryOut)
def lag_history(
    request: AuthedRequest, ns: str, group: str, since: From, topic: str = "", to: str = ""
) -> LagHistoryOut:
    """Read the past lag of a group, in all or on one topic. Three queries at most."""
    namespace = get_namespace(request.auth, ns)
    row = get_group(namespace, group)
    if topic:
        get_topic(namespace, topic)
    span = span_of(since, to, SystemClock().now_ms())
    return LagHistoryOut.of(row.name, topic, span, group_history(row, topic, span))


@router.get("/ns/{ns}/groups/{group}/offsets/history", response=OffsetHistoryOut)
def offset_history(
    request: AuthedRequest,
    ns: str,
    group: str,
    topic: str,
    queue: Annotated[int, Field(ge=0, lt=QUEUES.high)] = 0,
    limit: Annotated[int, Field(ge=1, le=STEPS_MAX)] = STEPS_MAX,
) -> OffsetHistoryOut:
    """Read the past offsets of a group on a queue. Four queries."""
    namespace = get_namespace(request.auth, ns)
    row = get_group(namespace, group)
    name = get_topic(namespace, topic).name
    steps = offset_steps(row, name, queue, limit=limit)
    return OffsetHistoryOut(
        group=row.name, topic=name, queue=queue, steps=[OffsetStepOut.of(step) for step in steps]
    )


@router.get("/ns/{ns}/topics/{topic}/rate/history", response=RateHistoryOut)
def rate_history(
    request: AuthedRequest, ns: str, topic: str, since: From, to: str = ""
) -> RateHistoryOut:
    """Read the past rate of messages into a topic. Three queries."""
    row = get_topic(get_namespace(request.auth, ns), topic)
    span = span_of(since, to, SystemClock().now_ms())
    return RateHistoryOut.of(row.name, span, topic_history(row, span))


@router.get("/ns/{ns}/health", response=GroupConditionsOut)
def read_group_health(
    request: AuthedRequest, ns: str, group: str = "", health: GroupHealth | None = None
) -> GroupConditionsOut:
    """Read how the groups are doing: healthy, falling behind, stalled, without members or paused,
    from age and trend of their lag. With `group` only that one, with `health` only those. Four
    queries at most."""
    namespace = get_namespace(request.auth, ns)
    names = [get_group(namespace, group).name] if group else None
    found = conditions_of(namespace, SystemClock().now_ms(), names=names)
    return GroupConditionsOut(
        groups=[GroupConditionOut.of(each) for each in found if health in (None, each.health)]
    )


@router.get("/ns/{ns}/metrics")
def read_metrics(request: AuthedRequest, ns: str) -> HttpResponse:
    """Read lag, age, members and dead letters of all groups, and sizes of all topics, for
    Prometheus.

    The values are the newest samples, taken every ten seconds; unknown values are omitted.

    Three queries.
    """
    namespace = get_namespace(request.auth, ns)
    text = namespace_metrics(namespace, SystemClock().now_ms())
    return HttpResponse(text, content_type=METRICS_TYPE)
