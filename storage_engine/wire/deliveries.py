"""Receives and settles on the engine's socket."""

from __future__ import annotations

import msgspec

from storage_engine.filters.message_filter import FilterKind
from storage_engine.wire.struct import Wire


class SubscribeRequest(Wire, frozen=True, kw_only=True):
    """A member of ``group`` that is about to read ``topic`` through a filter.

    Refused as its receives would be; those need none of this before them.
    """

    group: str
    topic: str
    member_id: str
    filter: str = ""
    filter_kind: FilterKind = FilterKind.TAG
    client_id: str = ""


class SubscribeReply(Wire, frozen=True, kw_only=True):
    """``is_paused``: the group gets nothing until it is resumed."""

    is_paused: bool


class ReceiveRequest(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Lease up to ``messages_max`` messages of ``topic`` to ``member_id`` of ``group``.

    Parks for ``wait_ms`` when nothing is ready. ``bytes_max`` counts whole records; the first one
    is delivered whatever its size. ``filter``: only what matches, the rest counts as settled; an
    empty one lets everything through. All members of a group bring the same. ``attempt_id``: when
    the member has asked with the same one before, what it got then and still has, once more.
    ``auto_extend_ms``: so long from now the leases last while the member is heard of; 0: no longer
    than ``lease_ms``. ``zone``: where the member is, for strategies of assignment that ask.
    ``client_id``: which client of a broadcast group the member belongs to, else empty; here and in
    all that follows. ``is_unnamed``: the member is of this receive alone, so that it keeps others
    from another filter only while it waits. ``ignores_queues``: what has waited longest in any
    queue comes first, in the order of the log, but for retries, which get their turn; of message
    groups as much of one as there is, then of the next. Otherwise all queues get their turn, so
    that a long one holds up no other.
    """

    group: str
    topic: str
    member_id: str
    messages_max: int
    bytes_max: int
    wait_ms: int
    lease_ms: int
    filter: str = ""
    filter_kind: FilterKind = FilterKind.TAG
    attempt_id: str = ""
    auto_extend_ms: int = 0
    zone: str = ""
    client_id: str = ""
    is_unnamed: bool = False
    ignores_queues: bool = False


class ReceiveHead(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What comes before the records of a RECEIVE reply.

    ``attempts[i]`` is the delivery count of record i, from 1. All records of a reply share one
    ``lease_generation``; it makes a receipt of an older delivery recognisable. ``first_until_ms``:
    end of the lease as it was first told, when the receive was repeated; else 0.
    """

    lease_generation: int
    lease_until_ms: int
    attempts: list[int]
    first_until_ms: int = 0


class LeaveRequest(Wire, frozen=True, kw_only=True):
    """A member reads the topic no more: in an exclusive group others get its queues at once, in any
    they may have another filter. Its leases stay as they are.
    """

    group: str
    topic: str
    member_id: str
    client_id: str = ""


class LeaseRef(Wire, frozen=True, kw_only=True):
    """Leased messages of one queue: which delivery, and their queue offsets."""

    topic: str
    queue_id: int
    lease_generation: int
    queue_offsets: list[int]


class Nack(Wire, frozen=True, kw_only=True):
    """Give one message back, to be delivered again after ``delay_ms``; None: by the group's policy.

    ``is_dead``: never again, to the dead letters. ``is_release``: at once, in its place and without
    an attempt counted: its member never had it, or leaves in order. ``has_vanished``: its member
    has gone without a word, and the message may be why; at once the first time, after that by the
    group's policy.
    """

    topic: str
    queue_id: int
    lease_generation: int
    queue_offset: int
    delay_ms: int | None = None
    reason: str = ""
    is_dead: bool = False
    is_release: bool = False
    has_vanished: bool = False


class Extend(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Let the lease of one message end ``lease_ms`` from now, or at the group's consume timeout.

    ``may_be_over``: its lease may have ended, as long as nobody has had the message since. Not
    where messages have an order: others may have gone by.
    """

    topic: str
    queue_id: int
    lease_generation: int
    queue_offset: int
    lease_ms: int
    may_be_over: bool = False


class AckUpTo(Wire, frozen=True, kw_only=True):
    """A message, and all that were given out before it in the same reply."""

    topic: str
    queue_id: int
    lease_generation: int
    queue_offset: int


class SettleRequest(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """``ack_up_tos`` leave out what the request names otherwise. ``member_id``: who is heard of."""

    group: str
    acks: list[LeaseRef] = msgspec.field(default_factory=list)
    nacks: list[Nack] = msgspec.field(default_factory=list)
    extends: list[Extend] = msgspec.field(default_factory=list)
    ack_up_tos: list[AckUpTo] = msgspec.field(default_factory=list)
    member_id: str = ""
    client_id: str = ""


class SettleFailure(Wire, frozen=True, kw_only=True):
    """A message whose settle had no effect; ``code`` is a ``StoreError.code``."""

    topic: str
    queue_id: int
    lease_generation: int
    queue_offset: int
    code: int


class SettleReply(Wire, frozen=True, kw_only=True):
    """``extended_until_ms`` is in the order of the request; 0 where the extend failed."""

    acked_count: int
    nacked_count: int
    dead_lettered_count: int
    extended_until_ms: list[int]
    failures: list[SettleFailure]
