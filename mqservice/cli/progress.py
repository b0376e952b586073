"""The progress of groups as the service reports it: their lag, and what a seek does."""

from __future__ import annotations

import msgspec


class Retries(msgspec.Struct):
    """Failed messages: to be delivered again now, and later; None: unknown."""

    waiting: int | None = None
    scheduled: int | None = None


class QueueSeekResult(msgspec.Struct, kw_only=True):
    queue: int
    min_offset: int
    max_offset: int
    from_offset: int | None
    to_offset: int
    skipped: int | None
    replayed: int | None
    inflight: int


class SeekResult(msgspec.Struct, kw_only=True):
    """What a seek did, or would do."""

    group: str
    topic: str
    skipped: int | None
    replayed: int | None
    retry: Retries
    queues: list[QueueSeekResult]


class QueueLag(msgspec.Struct, kw_only=True):
    queue: int
    consumer_offset: int
    max_offset: int
    offset_lag: int
    lag_ms: int | None
    ready: int
    inflight: int


class TopicLag(msgspec.Struct, kw_only=True):
    """``lag`` is ``ready`` + ``inflight`` + ``waiting_retry``; ``lag_is``: exact or estimated."""

    topic: str
    lag: int | None
    lag_is: str | None
    lag_ms: int | None
    ready: int | None
    inflight: int | None
    waiting_retry: int | None
    retry: Retries
    offset_lag: int | None
    queues: list[QueueLag]


class ClientLag(msgspec.Struct, kw_only=True):
    """A client of a group that broadcasts."""

    client_id: str
    lag: int | None
    ready: int
    inflight: int
    dropped: int
    seen_at: str


class ClientLags(msgspec.Struct, kw_only=True):
    """The first clients by id, and how many there are in all."""

    total: int
    clients: list[ClientLag]


class GroupLag(msgspec.Struct, kw_only=True):
    group: str
    topics: list[TopicLag]
    clients: ClientLags | None = None


class GroupCondition(msgspec.Struct, kw_only=True):
    """How a group is doing; what nobody knows is None."""

    group: str
    health: str
    at: str | None
    lag: int | None
    lag_ms: int | None
    inflight: int | None
    waiting_retry: int | None
    members: int | None


class GroupConditions(msgspec.Struct, kw_only=True):
    groups: list[GroupCondition]
