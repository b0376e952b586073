"""Scheduled messages on the engine's socket: list, cancel, send now."""

from __future__ import annotations

import enum
from typing import Final

from storage_engine.wire.struct import Wire

DELIVER_AHEAD_MS_MAX: Final = 10_000


class DeliverDueRequest(Wire, frozen=True, kw_only=True):
    """What is due by now, and within the next ``ahead_ms`` too: each message at its time, none
    before.
    """

    ahead_ms: int = 0


class ScheduledListRequest(Wire, frozen=True, kw_only=True):
    """Messages of a topic that are still to come, from a place of the schedule on.

    They come in the order of the schedule's queues, and in each as they were stored.
    ``is_namespace``: ``topic`` is a namespace's name, and those of all its topics are asked for.
    """

    topic: str
    is_namespace: bool = False
    queue_id: int = 0
    queue_offset: int = 0
    messages_max: int
    bytes_max: int


class ScheduledListHead(Wire, frozen=True, kw_only=True):
    """``due_ms`` of each record. The next page begins at the place given, unless ``is_end``; before
    the end a page may be short, or empty.
    """

    due_ms: list[int]
    queue_id: int
    queue_offset: int
    is_end: bool


class ScheduledRef(Wire, frozen=True, kw_only=True):
    """One message for ``topic``: its id, and its place in the schedule when it was stored.

    It may stand elsewhere by now; ``queue_id`` -1 says that the place is not known.
    """

    topic: str
    message_id: str
    queue_id: int = -1
    queue_offset: int = 0


class ScheduledCancelRequest(ScheduledRef, frozen=True, kw_only=True):
    """Deliver it never."""


class ScheduledSendRequest(ScheduledRef, frozen=True, kw_only=True):
    """Deliver it now."""


class ScheduledMoveRequest(ScheduledRef, frozen=True, kw_only=True):
    """Deliver it at another time: ``delay_ms`` from now, or at ``deliver_at_ms``; one is 0."""

    delay_ms: int = 0
    deliver_at_ms: int = 0


class ScheduledOutcome(enum.StrEnum):
    """DONE: it was still to come, and now it is cancelled, delivered, or due at the other time.
    DELIVERED: it had been delivered before. GONE: nobody knows it, as when it was cancelled before.
    """

    DONE = "done"
    DELIVERED = "delivered"
    GONE = "gone"


class ScheduledReply(Wire, frozen=True, kw_only=True):
    """Of one that was to be moved, and is ``DONE``, also where it waits now, and until when by the
    wall clock.
    """

    outcome: ScheduledOutcome
    queue_id: int = 0
    queue_offset: int = 0
    due_ms: int = 0
