"""What is known of an open socket: its client, its subscriptions, and what it was sent.

    session ──▶ [connection_of] ──▶ Connection ── JSON ──▶ whoever asked (``connection_calls``)

Only sockets are listed. A receive over REST is a request and over when it is answered: of those the
engine remembers the consumer (``groups/clients.py``), and of producers over REST nobody does.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

AGENT_CHARS_MAX: Final = 200


class ConnectedSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """``delivered``: messages pushed since it began, ``held``: not settled yet. ``credit_messages``
    and ``credit_bytes``: how much it still takes. ``flow``: why nothing is pushed, ``open`` when it
    may be.
    """

    sid: int
    topic: str
    group: str
    consumer: str
    filter: str
    delivered: int
    held: int
    credit_messages: int
    credit_bytes: int
    flow: str


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """``actor``: as the audit names it. ``user_agent``, ``client``: what it says of itself, in the
    handshake and in ``hello``; empty when it said nothing. ``published``: messages it has sent.
    """

    id: str
    namespace: str
    actor: str
    address: str
    protocol: str
    user_agent: str
    client: str
    connected_ms: int
    published: int
    subscriptions: list[ConnectedSubscription]


class Connected(Protocol):
    """What a session tells of itself, besides being a session."""

    session_id: str

    @property
    def tenant_id(self) -> int:
        """Whose it is."""

    @property
    def namespace(self) -> str:
        """Where it is."""

    def connection(self) -> Connection:
        """What is known of it now."""

    def disconnect(self) -> None:
        """End it soon; what it holds is given back."""
