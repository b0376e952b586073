"""Consumer groups on the wire of the control plane."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, create_model

from mqservice.groups.assignment import assignment_of, read_assignment, shown_assignment
from mqservice.groups.lag import lag_of
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.queries import offset_lag
from mqservice.groups.retry import policy_of, read_retry, shown_retry
from mqservice.groups.services import GroupChange
from mqservice.groups.settings import SETTINGS
from mqservice.lib.clock import SystemClock
from mqservice.lib.json_fields import Fields
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.settings_table import (
    Readers,
    answer_fields,
    read_body,
    read_values,
    shown_values,
)
from mqservice.lib.wire import moment
from mqservice.protocol.choices import AssignmentStrategy
from mqservice.store import GroupQueueStats, GroupStats, LagIs

_READERS: Final[Readers] = {"retry": read_retry, "assignment": read_assignment}


def read_change(body: bytes) -> GroupChange:
    """Settings of a group; what is left out stays as it is, or takes its default on a new group.
    Raises Problem with every fault of the body.
    """
    return GroupChange(**read_body(SETTINGS, body, _READERS))


def read_settings(fields: Fields) -> GroupChange:
    """The same of an object; its faults are in ``fields``."""
    return GroupChange(**read_values(SETTINGS, fields, _READERS))


def shown_settings(group: ConsumerGroup, *, all_of_assignment: bool = False) -> dict[str, Any]:
    """As the API writes them. ``all_of_assignment``: also what the strategy does not use."""
    assignment = assignment_of(group.assignment)
    strategy = AssignmentStrategy(group.strategy)
    return shown_values(
        SETTINGS,
        group,
        retry=shown_retry(policy_of(group.retry)),
        assignment=shown_assignment(assignment, strategy, is_whole=all_of_assignment),
    )


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


_Settings = create_model(
    "_Settings", name=(str, ...), namespace=(str, ...), **answer_fields(SETTINGS)
)


class GroupOut(_Settings):  # type: ignore[valid-type, misc]  # reason: made of the table
    """`lag` is null in lists, and if the engine cannot report it; `max_attempts` is null for no
    limit."""

    created_at: str
    updated_at: str
    lag: LagOut | None = None

    @classmethod
    def of(cls, group: ConsumerGroup, stats: GroupStats | None = None) -> GroupOut:
        return cls(
            name=group.name,
            namespace=group.namespace.name,
            **shown_settings(group),
            created_at=moment(group.created_at),
            updated_at=moment(group.updated_at),
            lag=None if stats is None else LagOut.of(stats, SystemClock().now_ms()),
        )


class GroupListOut(BaseModel):
    """A page, by name; ``next`` is the ``after`` of the following page, null on the last one."""

    groups: list[GroupOut]
    next: str | None
