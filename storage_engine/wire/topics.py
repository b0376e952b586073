"""Topics on the engine's socket."""

from __future__ import annotations

import enum

from storage_engine.wire.struct import Wire


class Durability(enum.StrEnum):
    """When a put to the topic is answered: after the disk has it, or at once."""

    SYNC = "sync"
    ASYNC = "async"


class TopicConfig(Wire, frozen=True, kw_only=True):
    """A topic as the engine knows it. ``topic`` is the full name, ``namespace%name``.

    ``retention_ms``: how long its messages can be read after they were stored; 0: the store's own.
    """

    topic: str
    queue_count: int
    durability: Durability = Durability.SYNC
    retention_ms: int = 0


class TopicList(Wire, frozen=True, kw_only=True):
    topics: list[TopicConfig]


class TopicRef(Wire, frozen=True, kw_only=True):
    topic: str


class QueueStats(Wire, frozen=True, kw_only=True):
    """Readable range [min_offset, max_offset) of one queue."""

    queue_id: int
    min_offset: int
    max_offset: int


class TopicStats(Wire, frozen=True, kw_only=True):
    topic: str
    queues: list[QueueStats]
