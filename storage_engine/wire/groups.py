"""Consumer groups on the engine's socket: their policies and their progress."""

from __future__ import annotations

import enum

from storage_engine.groups.assignment import Strategy
from storage_engine.groups.assignment_policy import AssignmentPolicy
from storage_engine.groups.retry_policy import LevelDelays, RetryPolicy
from storage_engine.wire.struct import Wire


class StartFrom(enum.StrEnum):
    """Where a group begins on a topic it has never read."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"  # the first message stored at ``start_ms`` or later


class Dispatch(enum.StrEnum):
    """Who reads a queue: any member at any time, or the one that it is assigned to."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class GroupConfig(Wire, frozen=True, kw_only=True):
    """Consumer group as the engine knows it. ``group`` is the full name, ``namespace%name``.

    ``start_ms``: epoch ms, for ``StartFrom.TIMESTAMP``. A paused group gets no messages; what it
    has can be settled.
    """

    group: str
    start_from: StartFrom = StartFrom.EARLIEST
    start_ms: int = 0
    lease_ms: int = 60_000
    max_reconsume_times: int = 16  # -1: for ever
    retry: RetryPolicy = LevelDelays()
    dispatch: Dispatch = Dispatch.SHARED
    strategy: Strategy = Strategy.AVG  # of exclusive dispatch
    assignment: AssignmentPolicy = AssignmentPolicy()  # what the strategy needs more
    # One batch at a time, retried in place: of each queue, or with shared dispatch of each message
    # group in it, which then has ``batch_per_group`` messages at most.
    is_ordered: bool = False
    is_paused: bool = False
    batch_per_group: int = 1


class GroupList(Wire, frozen=True, kw_only=True):
    groups: list[GroupConfig]


class GroupRef(Wire, frozen=True, kw_only=True):
    group: str


class GroupQueueStats(Wire, frozen=True, kw_only=True):
    """Progress of a group on one queue. lag = max_offset - consumer_offset.

    ``ready_count``: neither settled nor in flight. ``oldest_stored_ms``: store time of the first
    message that is not settled; None when there is none, or it cannot be read. ``retry_of``: empty,
    or the topic whose failed messages wait in this queue; then ``scheduled_count`` are still in the
    schedule on their way here, None when nobody knows.
    """

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    consumer_offset: int
    inflight_count: int
    ready_count: int = 0
    oldest_stored_ms: int | None = None
    retry_of: str = ""
    scheduled_count: int | None = None


class GroupStats(Wire, frozen=True, kw_only=True):
    group: str
    queues: list[GroupQueueStats]
