"""Consumer groups on the engine's socket: their policies and their progress."""

from __future__ import annotations

import enum
from typing import Final

from storage_engine.settings.assignment import Strategy
from storage_engine.settings.assignment_policy import AssignmentPolicy
from storage_engine.settings.retry_policy import LevelDelays, RetryPolicy
from storage_engine.wire.struct import Wire

CONSUME_TIMEOUT_MS: Final = 3 * 3_600_000
CONSUME_TIMEOUT_MS_MIN: Final = 10_000
CONSUME_TIMEOUT_MS_MAX: Final = 12 * 3_600_000
CLIENTS_PAGE_MAX: Final = 1_000


class StartFrom(enum.StrEnum):
    """Where a group begins on a topic it has never read."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"  # the first message stored at ``start_ms`` or later


class Dispatch(enum.StrEnum):
    """Who reads a queue: any member at any time, the one that it is assigned to, or each client for
    itself.
    """

    SHARED = "shared"
    EXCLUSIVE = "exclusive"
    BROADCAST = "broadcast"


class GroupConfig(Wire, frozen=True, kw_only=True):
    """Consumer group as the engine knows it. ``group`` is the full name, ``namespace%name``.

    ``start_ms``: epoch ms, for ``StartFrom.TIMESTAMP``. ``consume_timeout_ms``: one delivery of a
    message lasts no longer, whatever extends are asked for. A paused group gets no messages; what
    it has can be settled.
    """

    group: str
    start_from: StartFrom = StartFrom.EARLIEST
    start_ms: int = 0
    lease_ms: int = 60_000
    consume_timeout_ms: int = CONSUME_TIMEOUT_MS
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


class GroupStatsRequest(GroupRef, frozen=True, kw_only=True):
    """``client_id``: only of this client of a broadcast group."""

    client_id: str = ""


class LagIs(enum.StrEnum):
    """Whether each message was counted, or a sample of them."""

    EXACT = "exact"
    ESTIMATED = "estimated"


class GroupQueueStats(Wire, frozen=True, kw_only=True):
    """Progress of a group on one queue.

    ``ready_count``: neither settled nor in flight, and wanted by the group's filter, see
    ``lag_is``; ``undelivered_count``: wanted or not. ``oldest_stored_ms``: when the oldest message
    that is not settled, and wanted, was first stored in its topic; None when there is none, or it
    is not known. ``reset_count``: where it changes, the consumer offset was set, not reached.
    ``retry_of``: empty, or the topic whose failed messages wait in this queue; then
    ``scheduled_count`` are still in the schedule on their way here, None when nobody knows.
    """

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    consumer_offset: int
    inflight_count: int
    ready_count: int = 0
    undelivered_count: int = 0
    lag_is: LagIs = LagIs.EXACT
    oldest_stored_ms: int | None = None
    retry_of: str = ""
    scheduled_count: int | None = None
    reset_count: int = 0


class TopicLag(Wire, frozen=True, kw_only=True):
    """What a group has still to do of a topic that it reads.

    ``lag`` is ``ready_count`` (not delivered, and wanted by its filter) + ``inflight_count`` +
    ``retry_waiting_count`` (failed, to be delivered again now) + ``retry_scheduled_count`` (failed,
    waiting for their time); the last, and the sum, are None when nobody knows.
    ``oldest_stored_ms``: when the oldest of all these was first stored in the topic; None when
    there is none, or it is not known. ``offset_lag``: what RocketMQ calls lag, max_offset -
    consumer_offset of its queues.
    """

    topic: str
    lag: int | None
    lag_is: LagIs
    oldest_stored_ms: int | None
    ready_count: int
    inflight_count: int
    retry_waiting_count: int
    retry_scheduled_count: int | None
    offset_lag: int


class GroupStats(Wire, frozen=True, kw_only=True):
    """``topics``: its lag, by topic. Of a broadcast group each queue is that of the client furthest
    behind there, with what is in flight to all, which the lag leaves out. ``dropped_count``:
    messages that its clients could not consume, since the engine's start.
    """

    group: str
    queues: list[GroupQueueStats]
    topics: tuple[TopicLag, ...] = ()
    dropped_count: int = 0


class GroupClientsRequest(Wire, frozen=True, kw_only=True):
    """Clients of a broadcast group by id, from behind ``after`` on; ``topic``: their progress on
    this one only.
    """

    group: str
    topic: str = ""
    after: str = ""
    count_max: int = 100


class ClientStats(Wire, frozen=True, kw_only=True):
    """A client over all queues that it reads; ``lag``, of what its filter wants, is None when it
    reads none.

    ``dropped_count``: since the engine's start.
    """

    client_id: str
    seen_ms: int
    lag: int | None
    ready_count: int
    inflight_count: int
    dropped_count: int


class GroupClients(Wire, frozen=True, kw_only=True):
    """A page, and how many clients there are in all."""

    clients: list[ClientStats]
    count: int
    is_last: bool
