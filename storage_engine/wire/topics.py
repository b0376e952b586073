"""Topics on the engine's socket."""

from __future__ import annotations

import enum
from typing import Final

from storage_engine.wire.struct import Wire

DURABILITY_ATTRIBUTE: Final = "mq.durability"  # of a topic's row in the store's table


class Durability(enum.StrEnum):
    """When a put to the topic is answered: after the disk has it, at once, or after the replicated
    log has it, which only an engine with one can do.
    """

    SYNC = "sync"
    ASYNC = "async"
    REPLICATED = "replicated"


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


class TopicPurgeRequest(Wire, frozen=True, kw_only=True):
    """``is_dry_run``: answer what would be dropped, and change nothing; ``has_scheduled``: drop
    what producers have scheduled for later too.
    """

    topic: str
    is_dry_run: bool = False
    has_scheduled: bool = False


class QueuePurge(Wire, frozen=True, kw_only=True):
    """Messages in [from_offset, to_offset) of one queue are gone."""

    queue_id: int
    from_offset: int
    to_offset: int


class TopicPurgeReply(Wire, frozen=True, kw_only=True):
    """``inflight_count``: deliveries of groups that were not settled yet; ``retry_count``: messages
    of the topic in the queues of their retry topics. Those that wait in the schedule for a retry
    are not counted, and are gone as well.
    """

    queues: list[QueuePurge]
    inflight_count: int
    retry_count: int
