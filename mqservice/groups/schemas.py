"""Consumer groups on the wire of the control plane."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from mqservice.groups.assignment import assignment_of, read_assignment, shown_assignment
from mqservice.groups.lag import lag_of
from mqservice.groups.models import (
    ATTEMPTS_MAX,
    BATCH_PER_GROUP_MAX,
    CONSUME_TIMEOUT_MS_MAX,
    CONSUME_TIMEOUT_MS_MIN,
    LEASE_MS_MAX,
    LEASE_MS_MIN,
    RECONSUME_FOR_EVER,
    ConsumerGroup,
)
from mqservice.groups.queries import offset_lag
from mqservice.groups.retry import policy_of, read_retry, shown_retry
from mqservice.groups.services import GroupChange
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import format_duration_ms
from mqservice.lib.json_fields import Fields, read_object
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.timestamps import rfc3339
from mqservice.lib.wire import moment
from mqservice.protocol.choices import AssignmentStrategy, Dispatch, StartFrom
from mqservice.store import GroupQueueStats, GroupStats, LagIs


def read_change(body: bytes) -> GroupChange:
    """Settings of a group; what is left out stays as it is, or takes its default on a new group.

    ``max_attempts`` counts the first delivery too: one more than RocketMQ's reconsume times. There,
    null is a value of its own: as often as it takes.

    Raises Problem with every fault of the body.
    """
    fields = read_object(body)
    change = read_settings(fields)
    fields.reject_unknown()
    fields.reject()
    return change


def read_settings(fields: Fields) -> GroupChange:
    """The same of an object; its faults are in ``fields``."""
    return GroupChange(
        start_from=fields.choice("start_from", StartFrom),
        start_ms=fields.time_ms("start_time"),
        lease_ms=fields.duration_ms("lease", LEASE_MS_MIN, LEASE_MS_MAX),
        consume_timeout_ms=fields.duration_ms(
            "consume_timeout", CONSUME_TIMEOUT_MS_MIN, CONSUME_TIMEOUT_MS_MAX
        ),
        max_reconsume_times=_read_reconsume_times(fields),
        retry=read_retry(fields),
        dispatch=fields.choice("dispatch", Dispatch),
        strategy=fields.choice("strategy", AssignmentStrategy),
        assignment=read_assignment(fields),
        is_ordered=fields.boolean("ordered"),
        batch_per_group=fields.integer("batch_per_group", 1, BATCH_PER_GROUP_MAX),
    )


def _read_reconsume_times(fields: Fields) -> int | None:
    if not fields.has("max_attempts"):
        return None
    if fields.find("max_attempts") is None:
        return RECONSUME_FOR_EVER
    attempts = fields.integer("max_attempts", 1, ATTEMPTS_MAX)
    return None if attempts is None else attempts - 1


class QueueLagOut(BaseModel):
    """Progress on one queue; ``offset_lag`` is max_offset - consumer_offset."""

    topic: str
    queue: int
    consumer_offset: int
    max_offset: int
    offset_lag: int
    inflight: int

    @classmethod
    def of(cls, queue: GroupQueueStats) -> QueueLagOut:
        return cls(
            topic=queue.topic.partition(ENGINE_SEPARATOR)[2],
            queue=queue.queue_id,
            consumer_offset=queue.consumer_offset,
            max_offset=queue.max_offset,
            offset_lag=offset_lag(queue),
            inflight=queue.inflight_count,
        )


class LagOut(BaseModel):
    """For the topics the group has read; all null before it has read one: unknown is never 0."""

    total: int | None
    lag_is: LagIs | None
    lag_ms: int | None
    ready: int | None
    inflight: int | None
    waiting_retry: int | None
    queues: list[QueueLagOut]

    @classmethod
    def of(cls, stats: GroupStats, now_ms: int) -> LagOut:
        lag = lag_of(stats.topics, now_ms)
        return cls(
            total=lag.count,
            lag_is=lag.lag_is,
            lag_ms=lag.age_ms,
            ready=lag.ready,
            inflight=lag.inflight,
            waiting_retry=lag.waiting_retry,
            queues=[QueueLagOut.of(queue) for queue in stats.queues if not queue.retry_of],
        )


class GroupOut(BaseModel):
    """`lag` is null in lists, and if the engine cannot report it; `max_attempts` is null for no
    limit."""

    name: str
    namespace: str
    start_from: StartFrom
    start_time: str | None
    lease: str
    lease_ms: int
    consume_timeout: str
    consume_timeout_ms: int
    max_attempts: int | None
    retry: dict[str, Any]  # reason: one of three forms, made by shown_retry
    paused: bool
    dispatch: Dispatch
    strategy: AssignmentStrategy
    assignment: dict[str, Any]  # reason: parts of some kinds, made by shown_assignment
    ordered: bool
    batch_per_group: int
    created_at: str
    updated_at: str
    lag: LagOut | None = None

    @classmethod
    def of(cls, group: ConsumerGroup, stats: GroupStats | None = None) -> GroupOut:
        return cls(
            name=group.name,
            namespace=group.namespace.name,
            start_from=StartFrom(group.start_from),
            start_time=rfc3339(group.start_ms) if group.start_from == StartFrom.TIMESTAMP else None,
            lease=format_duration_ms(group.lease_ms),
            lease_ms=group.lease_ms,
            consume_timeout=format_duration_ms(group.consume_timeout_ms),
            consume_timeout_ms=group.consume_timeout_ms,
            max_attempts=group.max_reconsume_times + 1 or None,
            retry=shown_retry(policy_of(group.retry)),
            paused=group.is_paused,
            dispatch=Dispatch(group.dispatch),
            strategy=AssignmentStrategy(group.strategy),
            assignment=shown_assignment(
                assignment_of(group.assignment), AssignmentStrategy(group.strategy)
            ),
            ordered=group.is_ordered,
            batch_per_group=group.batch_per_group,
            created_at=moment(group.created_at),
            updated_at=moment(group.updated_at),
            lag=None if stats is None else LagOut.of(stats, SystemClock().now_ms()),
        )


class GroupListOut(BaseModel):
    """A page, by name; ``next`` is the ``after`` of the following page, null on the last one."""

    groups: list[GroupOut]
    next: str | None
