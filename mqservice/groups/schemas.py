"""Consumer groups on the wire of the control plane."""

from __future__ import annotations

from ninja import Schema
from pydantic import ConfigDict, Field

from mqservice.groups.models import ConsumerGroup, StartFrom
from mqservice.groups.queries import lag
from mqservice.groups.services import GroupChange
from mqservice.lib.durations import format_duration_ms
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.timestamps import rfc3339
from mqservice.lib.wire import moment, picked_duration_ms, time_ms
from mqservice.store import GroupQueueStats


class GroupIn(Schema):
    """Settings of a group; what is left out stays as it is, or takes its default on a new group.

    ``max_attempts`` counts the first delivery too: one more than RocketMQ's reconsume times.
    """

    model_config = ConfigDict(extra="forbid")

    start_from: StartFrom | None = None
    start_time: str | None = None
    lease: str | None = None
    lease_ms: int | None = Field(default=None, strict=True)
    max_attempts: int | None = Field(default=None, strict=True)

    def change(self) -> GroupChange:
        """Raises Problem when a duration or the time cannot be read."""
        return GroupChange(
            start_from=self.start_from,
            start_ms=None if self.start_time is None else time_ms("/start_time", self.start_time),
            lease_ms=picked_duration_ms("lease", self.lease, self.lease_ms),
            max_reconsume_times=None if self.max_attempts is None else self.max_attempts - 1,
        )


class QueueLagOut(Schema):
    """Progress on one queue; ``lag`` is max_offset - consumer_offset."""

    topic: str
    queue: int
    consumer_offset: int
    max_offset: int
    lag: int
    inflight: int

    @classmethod
    def of(cls, queue: GroupQueueStats) -> QueueLagOut:
        return cls(
            topic=queue.topic.partition(ENGINE_SEPARATOR)[2],
            queue=queue.queue_id,
            consumer_offset=queue.consumer_offset,
            max_offset=queue.max_offset,
            lag=lag(queue),
            inflight=queue.inflight_count,
        )


class LagOut(Schema):
    """Of the topics the group has read."""

    total: int | None  # None before the group has read a topic: unknown is never 0
    queues: list[QueueLagOut]


class GroupOut(Schema):
    """``lag`` is null in lists, and when the engine cannot tell."""

    name: str
    namespace: str
    start_from: StartFrom
    start_time: str | None
    lease: str
    lease_ms: int
    max_attempts: int
    created_at: str
    updated_at: str
    lag: LagOut | None = None

    @classmethod
    def of(cls, group: ConsumerGroup, queues: list[GroupQueueStats] | None = None) -> GroupOut:
        return cls(
            name=group.name,
            namespace=group.namespace.name,
            start_from=StartFrom(group.start_from),
            start_time=rfc3339(group.start_ms) if group.start_from == StartFrom.TIMESTAMP else None,
            lease=format_duration_ms(group.lease_ms),
            lease_ms=group.lease_ms,
            max_attempts=group.max_reconsume_times + 1,
            created_at=moment(group.created_at),
            updated_at=moment(group.updated_at),
            lag=None
            if queues is None
            else LagOut(
                total=sum(lag(queue) for queue in queues if not queue.retry_of) if queues else None,
                queues=[QueueLagOut.of(queue) for queue in queues if not queue.retry_of],
            ),
        )


class GroupListOut(Schema):
    """A page, by name; ``next`` is the ``after`` of the following page, null on the last one."""

    groups: list[GroupOut]
    next: str | None
