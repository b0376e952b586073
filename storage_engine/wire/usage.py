"""How much namespaces and topics store, for enforcing limits."""

from __future__ import annotations

from typing import Final

import msgspec

from storage_engine.wire.struct import Wire

NAMES_MAX: Final = 1_000  # of one request, namespaces and topics together


class UsageRequest(Wire, frozen=True, kw_only=True):
    """``topics`` are full names."""

    namespaces: list[str] = msgspec.field(default_factory=list)
    topics: list[str] = msgspec.field(default_factory=list)


class NamespaceUsage(msgspec.Struct, frozen=True, array_like=True):
    """``stored_bytes``: of all records that can be read in the namespace's topics, its groups'
    retry and dead-letter topics included, and of those that are scheduled and still to come; such
    a one counts for a while after it was delivered, too.
    ``inflight_count``: messages that are leased and not settled.
    """

    stored_bytes: int
    inflight_count: int


class UsageReply(Wire, frozen=True, kw_only=True):
    """In the order of the request; what does not exist holds nothing.

    ``is_complete``: False while the engine, after a start, has not looked at all there is: the
    bytes are then fewer than they will be, and asking again goes on from there.
    """

    namespaces: list[NamespaceUsage]
    topic_bytes: list[int]
    is_complete: bool
