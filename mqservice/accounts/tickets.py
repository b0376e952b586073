"""Tickets that open one socket: for pages, which cannot send a key in a handshake.

    issue(holder, origin) ──▶ Valkey, LIFE_MS ──▶ "mqt_…"      Sec-WebSocket-Protocol: ticket.mqt_…
    redeem(text, origin) ──▶ GETDEL: of all web processes one gets it ──▶ Holder.text

Valkey has a digest of the ticket, so that who reads it there can use none. A ticket is gone with
its first use, also by the wrong origin. Without Valkey there are no tickets (503); sockets that
are open and handshakes with keys need none.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from typing import Final

import msgspec
from redis.exceptions import RedisError

from mqservice.accounts.ticket_holders import Holder
from mqservice.lib.problem import Problem
from mqservice.lib.valkey import async_valkey_client, valkey_client

LIFE_MS: Final = 30_000
TICKET_SUBPROTOCOL: Final = "ticket."
_SECRET_BYTES: Final = 24
_FORM: Final = re.compile(r"mqt_[A-Za-z0-9_-]{32}", re.ASCII)
_PREFIX: Final = "mq:ticket:"
_SECONDS_MAX: Final = 1.0
_RETRY_MS: Final = 1_000


class _SavedTicket(msgspec.Struct, frozen=True, array_like=True):
    """What Valkey has: ``Holder.text``, and the origin of the page that asked, empty for none."""

    holder: str
    origin: str


class Tickets:
    """See the module's docstring. A connection is made for each call: sockets open seldom."""

    def __init__(self, url: str, *, life_ms: int = LIFE_MS) -> None:
        self._url = url
        self._life_ms = life_ms

    def issue(self, holder: Holder, origin: str) -> str:
        """A ticket's text, which exists nowhere else. Raises Problem TICKETS_UNAVAILABLE."""
        text = "mqt_" + secrets.token_urlsafe(_SECRET_BYTES)
        kept = msgspec.json.encode(_SavedTicket(holder.text.decode(), origin))
        try:
            with valkey_client(self._url, _SECONDS_MAX) as client:
                client.set(_name(text), kept, px=self._life_ms)
        except (RedisError, OSError) as exc:
            raise _unavailable() from exc
        return text

    async def redeem(self, text: str, origin: str) -> bytes:
        """Who holds the ticket, as ``find_holder`` reads it; the ticket is gone.

        Raises Problem: UNAUTHENTICATED, TICKETS_UNAVAILABLE.
        """
        kept = await self._take(_name(text)) if _FORM.fullmatch(text) else None
        if kept is None:
            raise _refused()
        found = msgspec.json.decode(kept, type=_SavedTicket)
        if found.origin and found.origin != origin:
            raise _refused()
        return found.holder.encode()

    async def _take(self, name: str) -> bytes | None:
        client = async_valkey_client(self._url, _SECONDS_MAX)
        try:
            async with asyncio.timeout(_SECONDS_MAX), client:
                kept = await client.getdel(name)
        except (RedisError, OSError, TimeoutError) as exc:
            raise _unavailable() from exc
        return kept.encode() if isinstance(kept, str) else kept


def _name(text: str) -> str:
    return _PREFIX + hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def _refused() -> Problem:
    """One answer for every kind of bad ticket."""
    return Problem.of(
        "UNAUTHENTICATED",
        "the ticket is unknown, was already used, has expired, or belongs to a page "
        "of another origin",
    )


def _unavailable() -> Problem:
    return Problem.of(
        "TICKETS_UNAVAILABLE",
        "tickets cannot be stored now; try again later",
        retry_after_ms=_RETRY_MS,
    )
