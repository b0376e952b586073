"""Offsets, lag and seeks of consumer groups on the wire of the control plane."""

from __future__ import annotations

from typing import Annotated, Any, Final

from ninja import Schema
from pydantic import ConfigDict, Field

from mqservice.groups.broadcast_clients import BroadcastClientsOut
from mqservice.groups.lag import lag_of
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.offsets import SeekTarget
from mqservice.groups.queries import offset_lag
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.queue_numbers import QUEUE_NOT_FOUND, queue_fault
from mqservice.lib.timestamps import rfc3339
from mqservice.lib.wire import refused, time_ms
from mqservice.protocol.choices import Dispatch
from mqservice.store import (
    GroupQueueStats,
    GroupStats,
    LagIs,
    OffsetCommitReply,
    OffsetResetReply,
    ResetTo,
    TopicStats,
)

OFFSET_MAX: Final = (1 << 63) - 1
_ENDS: Final = {"earliest": ResetTo.EARLIEST, "latest": ResetTo.LATEST}
_FIELDS: Final = ({"time"}, {"offset", "queue"}, {"shift"})
_FORMS: Final = (
    'one of "earliest", "latest", {"time": "2026-12-01T08:00:00.000Z"}, '
    '{"offset": 10, "queue": 0}, {"shift": -100}'
)


class SeekIn(Schema):
    """``to``: "earliest", "latest", {"time": RFC 3339}, {"offset": number, "queue": number} or
    {"shift": number}.
    """

    model_config = ConfigDict(extra="forbid")

    topic: str
    to: Any  # reason: `target` reads it, so that each fault has its own pointer
    queues: list[Annotated[int, Field(strict=True)]] | None = None
    client_id: str | None = None
    dry_run: bool = Field(default=False, strict=True)

    def target(self, queue_count: int, client_id: str = "") -> SeekTarget:
        """Raises Problem BAD_REQUEST or QUEUE_NOT_FOUND with a pointer."""
        queue_ids = self._queue_ids(queue_count)
        if isinstance(self.to, str):
            if self.to not in _ENDS:
                raise refused("/to", _FORMS)
            return SeekTarget(to=_ENDS[self.to], queue_ids=queue_ids, client_id=client_id)
        if not isinstance(self.to, dict) or self.to.keys() not in _FIELDS:
            raise refused("/to", _FORMS)
        if "shift" in self.to:
            return SeekTarget(
                to=ResetTo.OFFSET,
                shift=_number("/to/shift", self.to["shift"], OFFSET_MAX, -OFFSET_MAX),
                queue_ids=queue_ids,
                client_id=client_id,
            )
        if "time" in self.to:
            time = self.to["time"]
            if not isinstance(time, str):
                raise refused("/to/time", "an RFC 3339 time such as 2026-12-01T08:00:00.000Z")
            value = time_ms("/to/time", time)
            return SeekTarget(
                to=ResetTo.TIMESTAMP, value=value, queue_ids=queue_ids, client_id=client_id
            )
        if self.queues is not None:
            raise refused("/queues", "must be left out: an offset belongs to the one queue in to")
        return SeekTarget(
            to=ResetTo.OFFSET,
            value=_number("/to/offset", self.to["offset"], OFFSET_MAX),
            queue_ids=(_queue("/to/queue", self.to["queue"], queue_count),),
            client_id=client_id,
        )

    def _queue_ids(self, queue_count: int) -> tuple[int, ...]:
        if self.queues is None:
            return ()
        if not 1 <= len(self.queues) <= queue_count:
            raise refused("/queues", f"must have 1 to {queue_count} queues; leave it out for all")
        return tuple(
            _queue(f"/queues/{at}", queue_id, queue_count)
            for at, queue_id in enumerate(self.queues)
        )


class CommitIn(Schema):
    """``offset`` is the next to be read: everything below it is settled."""

    model_config = ConfigDict(extra="forbid")

    topic: str
    queue: int = Field(strict=True)
    offset: int = Field(strict=True)
    client_id: str | None = None

    def check(self, queue_count: int) -> None:
        """Raises Problem BAD_REQUEST or QUEUE_NOT_FOUND with a pointer."""
        _queue("/queue", self.queue, queue_count)
        _number("/offset", self.offset, OFFSET_MAX)


class CommitOut(Schema):
    topic: str
    queue: int
    from_offset: int
    to_offset: int
    min_offset: int
    max_offset: int

    @classmethod
    def of(cls, committed: CommitIn, reply: OffsetCommitReply) -> CommitOut:
        return cls(
            topic=committed.topic,
            queue=committed.queue,
            from_offset=reply.from_offset,
            to_offset=committed.offset,
            min_offset=reply.min_offset,
            max_offset=reply.max_offset,
        )


class RetryOut(Schema):
    """Failed messages: `waiting` can be redelivered now, `scheduled` later."""

    waiting: int | None
    scheduled: int | None


class SeekQueueOut(Schema):
    """``from_offset``, ``skipped`` and ``replayed`` are null on a queue the group never read."""

    queue: int
    min_offset: int
    max_offset: int
    from_offset: int | None
    to_offset: int
    skipped: int | None
    replayed: int | None
    inflight: int


class SeekOut(Schema):
    """What a seek did, or would do. Messages of `retry` are not affected."""

    group: str
    topic: str
    clients: int | None
    dry_run: bool
    skipped: int | None
    replayed: int | None
    retry: RetryOut
    queues: list[SeekQueueOut]

    @classmethod
    def of(cls, group: ConsumerGroup, seek: SeekIn, reply: OffsetResetReply) -> SeekOut:
        return cls(
            group=group.name,
            clients=reply.client_count if group.dispatch == Dispatch.BROADCAST else None,
            topic=seek.topic,
            dry_run=seek.dry_run,
            skipped=_total([queue.skipped_count for queue in reply.queues]),
            replayed=_total([queue.replayed_count for queue in reply.queues]),
            retry=RetryOut(waiting=reply.retry_count, scheduled=reply.scheduled_count),
            queues=[
                SeekQueueOut(
                    queue=queue.queue_id,
                    min_offset=queue.min_offset,
                    max_offset=queue.max_offset,
                    from_offset=queue.from_offset,
                    to_offset=queue.to_offset,
                    skipped=queue.skipped_count,
                    replayed=queue.replayed_count,
                    inflight=queue.inflight_count,
                )
                for queue in reply.queues
            ],
        )


class QueueOffsetOut(Schema):
    """``consumer_offset`` is null on a queue that the group has never read."""

    topic: str
    queue: int
    min_offset: int
    max_offset: int
    consumer_offset: int | None


class OffsetsOut(Schema):
    """For the topics that the group has read, or for the requested one."""

    group: str
    offsets: list[QueueOffsetOut]

    @classmethod
    def of(
        cls, group: str, queues: list[GroupQueueStats], unread: TopicStats | None = None
    ) -> OffsetsOut:
        """``unread``: a topic of which the queues that are not among ``queues`` are shown too."""
        own = {queue.queue_id for queue in queues if unread and queue.topic == unread.topic}
        never_read = [] if unread is None else [
            QueueOffsetOut(
                topic=_name(unread.topic),
                queue=queue.queue_id,
                min_offset=queue.min_offset,
                max_offset=queue.max_offset,
                consumer_offset=None,
            )
            for queue in unread.queues
            if queue.queue_id not in own
        ]  # fmt: skip
        return cls(
            group=group,
            offsets=[
                QueueOffsetOut(
                    topic=_name(queue.topic),
                    queue=queue.queue_id,
                    min_offset=queue.min_offset,
                    max_offset=queue.max_offset,
                    consumer_offset=queue.consumer_offset,
                )
                for queue in queues
                if not queue.retry_of
            ]
            + never_read,
        )


class QueueProgressOut(Schema):
    """`offset_lag`: max_offset - consumer_offset. `lag_ms`: age of the first unsettled message;
    null if there is none."""

    queue: int
    consumer_offset: int
    max_offset: int
    offset_lag: int
    lag_ms: int | None
    oldest_stored_at: str | None
    ready: int
    inflight: int

    @classmethod
    def of(cls, queue: GroupQueueStats, now_ms: int) -> QueueProgressOut:
        stored_ms = queue.oldest_stored_ms
        return cls(
            queue=queue.queue_id,
            consumer_offset=queue.consumer_offset,
            max_offset=queue.max_offset,
            offset_lag=offset_lag(queue),
            lag_ms=None if stored_ms is None else max(0, now_ms - stored_ms),
            oldest_stored_at=None if stored_ms is None else rfc3339(stored_ms),
            ready=queue.ready_count,
            inflight=queue.inflight_count,
        )


class TopicProgressOut(Schema):
    """`lag` is `ready` + `inflight` + `waiting_retry`, and `lag_ms` the age of the oldest of all
    these. All null if the group has no offset yet: unknown is never 0."""

    topic: str
    lag: int | None
    lag_is: LagIs | None
    lag_ms: int | None
    ready: int | None
    inflight: int | None
    waiting_retry: int | None
    retry: RetryOut
    offset_lag: int | None
    queues: list[QueueProgressOut]

    @classmethod
    def of(cls, topic: str, stats: GroupStats, now_ms: int) -> TopicProgressOut:
        """``topic`` is the full name."""
        lag = lag_of([each for each in stats.topics if each.topic == topic], now_ms)
        return cls(
            topic=_name(topic),
            lag=lag.count,
            lag_is=lag.lag_is,
            lag_ms=lag.age_ms,
            ready=lag.ready,
            inflight=lag.inflight,
            waiting_retry=lag.waiting_retry,
            retry=RetryOut(waiting=lag.retry_waiting, scheduled=lag.retry_scheduled),
            offset_lag=lag.offset_lag,
            queues=[QueueProgressOut.of(row, now_ms) for row in stats.queues if row.topic == topic],
        )


class GroupLagOut(Schema):
    """What the group still has to do of the topics below: `lag` is `ready` (not delivered) +
    `inflight` + `waiting_retry`."""

    group: str
    client_id: str | None = None
    dropped: int | None = None
    clients: BroadcastClientsOut | None = None
    lag: int | None
    lag_is: LagIs | None
    lag_ms: int | None
    ready: int | None
    inflight: int | None
    waiting_retry: int | None
    retry: RetryOut
    offset_lag: int | None
    topics: list[TopicProgressOut]

    @classmethod
    def of(cls, group: str, stats: GroupStats, topic_names: list[str], now_ms: int) -> GroupLagOut:
        lag = lag_of([each for each in stats.topics if each.topic in topic_names], now_ms)
        return cls(
            group=group,
            lag=lag.count,
            lag_is=lag.lag_is,
            lag_ms=lag.age_ms,
            ready=lag.ready,
            inflight=lag.inflight,
            waiting_retry=lag.waiting_retry,
            retry=RetryOut(waiting=lag.retry_waiting, scheduled=lag.retry_scheduled),
            offset_lag=lag.offset_lag,
            topics=[TopicProgressOut.of(name, stats, now_ms) for name in topic_names],
        )


def _total(counts: list[int | None]) -> int | None:
    """The sum; None when a part of it is unknown, or there is none."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _name(engine_topic: str) -> str:
    return engine_topic.partition(ENGINE_SEPARATOR)[2]


def _queue(pointer: str, value: object, queue_count: int) -> int:
    queue_id = _number(pointer, value, OFFSET_MAX, -OFFSET_MAX)
    if fault := queue_fault(queue_id, queue_count):
        raise refused(pointer, fault, QUEUE_NOT_FOUND)
    return queue_id


def _number(pointer: str, value: object, high: int, low: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise refused(pointer, f"must be a whole number from {low} to {high}")
    return value
