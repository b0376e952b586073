"""Delays quota errors, so that a flood of rejected requests gets no faster responses.

    refusal of a tenant, or of an address ──▶ [PacedRejections] ─ 100 a second ──▶ at once, after a
                                                                             while, or too many wait

On a connection whose refusal waits nothing more is read, so a client that does not heed a 429 or a
401 keeps no process from its neighbours. Used on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from mqservice.lib.clock import Clock
from mqservice.quotas.bucket import TokenBucket
from mqservice.quotas.limits import KIB, MIB

# Of one tenant or address by one process: so many a second, and that many at once before.
REJECTIONS_PER_SECOND: Final = 100
REJECTIONS_AT_ONCE: Final = 100
# Who is not made to wait comes again at once, on a new connection even, and costs more than one who
# waits does: so as many wait as there is room for, each with what was read of its body.
WAITING_BYTES_MAX: Final = 40 * MIB
CONNECTION_BYTES: Final = 16 * KIB
BODY_BYTES_MAX: Final = 320 * KIB  # that the server reads before anybody asks for it
_WAIT_MS_MAX: Final = 5_000  # less than an ending process waits for its requests
_LENGTH_DIGITS_MAX: Final = 19
KEYS_MAX: Final = 10_000  # remembered at once; the oldest begin anew


class PacedRejections:
    """Those of one tenant or address; see the module's docstring."""

    __slots__ = ("_bucket", "_waiting_bytes")

    def __init__(self, now_ms: int) -> None:
        self._bucket = TokenBucket(REJECTIONS_PER_SECOND, REJECTIONS_AT_ONCE, now_ms)
        self._waiting_bytes = 0

    def begin(self, now_ms: int, body_bytes: int = 0) -> int | None:
        """How long a refusal is to wait; unless it is 0, ``end`` follows. None: too many wait, and
        this one should not.

        Args:
            body_bytes: of the request's body, which may be here.
        """
        left = self._bucket.left(now_ms)
        if left > 0:
            self._bucket.take(1)
            return 0
        held_bytes = _held_bytes(body_bytes)
        if self._waiting_bytes + held_bytes > WAITING_BYTES_MAX:
            return None
        if left * 1_000 > -REJECTIONS_PER_SECOND * _WAIT_MS_MAX:  # no debt beyond the longest wait
            self._bucket.take(1)
        self._waiting_bytes += held_bytes
        return min(self._bucket.wait_ms(), _WAIT_MS_MAX)

    def end(self, body_bytes: int = 0) -> None:
        self._waiting_bytes -= _held_bytes(body_bytes)

    async def turn(
        self, now_ms: int, sleep: Callable[[float], Awaitable[None]], body_bytes: int = 0
    ) -> bool:
        """Wait for the turn of a refusal; False when too many wait already."""
        wait_ms = self.begin(now_ms, body_bytes)
        if wait_ms == 0:
            return True
        if wait_ms is None:
            return False
        try:
            await sleep(wait_ms / 1_000)
        finally:
            self.end(body_bytes)
        return True


def _held_bytes(body_bytes: int) -> int:
    return CONNECTION_BYTES + min(body_bytes, BODY_BYTES_MAX)


def body_bytes_of(headers: dict[bytes, bytes]) -> int:
    """As many bytes as a request says that its body has; all that may be here when it does not."""
    declared = headers.get(b"content-length")
    if declared is None:
        return BODY_BYTES_MAX if b"transfer-encoding" in headers else 0
    short = declared[:_LENGTH_DIGITS_MAX]
    return int(short) if short.isdigit() else BODY_BYTES_MAX


class RejectionPacer:
    """Of all tenants and addresses that are refused something by this process."""

    def __init__(
        self, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._by_key: dict[str, PacedRejections] = {}

    async def turn(self, key: str, body_bytes: int = 0) -> bool:
        """Wait for the turn of a refusal of ``key``; False when too many of it wait already."""
        now_ms = self._clock.monotonic_ms()
        refusals = self._by_key.get(key)
        if refusals is None:
            if len(self._by_key) >= KEYS_MAX:
                del self._by_key[next(iter(self._by_key))]
            refusals = self._by_key[key] = PacedRejections(now_ms)
        return await refusals.turn(now_ms, self._sleep, body_bytes)
