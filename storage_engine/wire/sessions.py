"""Consumer sessions that the engine saves between two connections, and how they are taken over.

    process A ── KEEP: content, leases ──▶ engine ── TAKE ──▶ process B
                                             └─ nobody came in time: the leases end at once

What a session is, only the processes know; the engine keeps their bytes and its leases together.
"""

from __future__ import annotations

from storage_engine.wire.deliveries import LeaseRef
from storage_engine.wire.struct import Wire


class SessionLeases(Wire, frozen=True, kw_only=True):
    """Messages that a session holds of one group, or of one client of a broadcast group."""

    group: str
    leases: list[LeaseRef]
    client_id: str = ""


class SessionSaveRequest(Wire, frozen=True, kw_only=True):
    """Keep ``content`` for ``keep_ms``; if nobody takes it, give ``held`` back.

    ``has_vanished``: the client went without a word, so the deliveries have failed, for
    ``reason``; else it left in order, and no attempt is counted.
    """

    session_id: str
    keep_ms: int
    content: bytes
    held: list[SessionLeases]
    reason: str
    has_vanished: bool = False


class SessionTakeRequest(Wire, frozen=True, kw_only=True):
    """Take a session over. One that a listening client has open is asked for with a notice; it is
    waited for ``wait_ms`` at most.
    """

    session_id: str
    wait_ms: int


class LostLease(Wire, frozen=True, kw_only=True):
    """Leases of a kept session that have ended since; ``why``: lease_expired, reset, deleted."""

    group: str
    lease: LeaseRef
    why: str
    client_id: str = ""


class SessionTakeReply(Wire, frozen=True, kw_only=True):
    """``content`` is None when nobody has the session. It is kept no more."""

    content: bytes | None
    gone: list[LostLease]


class SessionAbsentRequest(Wire, frozen=True, kw_only=True):
    """The answer to a notice that a session is wanted: this client does not have it."""

    session_id: str
