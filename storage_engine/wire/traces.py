"""The trace of one message on the engine's socket."""

from __future__ import annotations

import enum

import msgspec

from storage_engine.wire.struct import Wire


class TraceRequest(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Where the message with this id has been, in topics and for groups of one namespace.

    ``topic``, ``group``: only of that one, by its full name. ``after``: go on behind this topic, as
    the reply before said.
    """

    namespace: str
    message_id: str
    topic: str = ""
    group: str = ""
    after: str = ""


class TraceHop(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One record of the message. Full names; times in ms, 0 where the record does not say.

    ``origin_topic``: of one that was retried or given up, where its group had it from.
    ``target_topic``, ``due_ms``: of a scheduled one. ``member_id``, ``reason``, ``delivered_ms``:
    of the delivery that had failed before. ``from_…``: what it took the place of.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    born_ms: int
    stored_ms: int
    reconsume_times: int = 0
    origin_topic: str = ""
    target_topic: str = ""
    due_ms: int = 0
    member_id: str = ""
    reason: str = ""
    delivered_ms: int = 0
    from_group: str = ""
    from_topic: str = ""
    from_offset: int = 0


class TraceState(enum.StrEnum):
    """Where a message stands for one group.

    ready ─▶ in_flight ─▶ settled | skipped: by its filter | waiting: in its place | moving
    moving ─▶ scheduled ─▶ ready …    moving ─▶ dead ─▶ gone: redriven or dropped
    """

    READY = "ready"
    IN_FLIGHT = "in_flight"
    WAITING = "waiting"
    MOVING = "moving"
    SCHEDULED = "scheduled"
    SETTLED = "settled"
    SKIPPED = "skipped"
    DEAD = "dead"
    GONE = "gone"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class TracedGroup(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What has become of the message in ``topic`` for ``group``, at the place of its newest record.

    ``until_ms``: end of the lease, or when it is ready again. ``attempts``: deliveries so far.
    ``client_id``: which client of a broadcast group; each has a state of its own.
    """

    group: str
    topic: str
    state: TraceState
    place_topic: str
    queue_id: int
    queue_offset: int
    attempts: int = 0
    member_id: str = ""
    until_ms: int = 0
    client_id: str = ""


class TraceReply(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """``after``: topics behind this one were not looked through yet; empty after the last reply.

    ``is_complete`` is False when records or groups may be missing: there were too many for one
    reply, or the index lacks the newest messages.
    """

    hops: list[TraceHop] = msgspec.field(default_factory=list)
    groups: list[TracedGroup] = msgspec.field(default_factory=list)
    after: str = ""
    is_complete: bool = True
