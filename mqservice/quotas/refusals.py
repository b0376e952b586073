"""Refusals wait for their turn: a flood of them is answered no faster than this.

    refusal of a tenant, or of an address ──▶ [Refusals] ── 100 a second ──▶ at once, after a
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

# Of one tenant or address by one process: so many a second, and that many at once before.
REFUSALS_PER_SECOND: Final = 100
REFUSALS_AT_ONCE: Final = 100
REFUSALS_WAITING_MAX: Final = 128  # each with what was read of its body, up to 320 KiB
_WAIT_MS_MAX: Final = 1_000
KEYS_MAX: Final = 10_000  # remembered at once; the oldest begin anew


class Refusals:
    """Those of one tenant or address; see the module's docstring."""

    __slots__ = ("_bucket", "_waiting_count")

    def __init__(self, now_ms: int) -> None:
        self._bucket = TokenBucket(REFUSALS_PER_SECOND, REFUSALS_AT_ONCE, now_ms)
        self._waiting_count = 0

    def begin(self, now_ms: int) -> int | None:
        """How long a refusal is to wait; unless it is 0, ``end`` follows. None: too many wait, and
        this one should not.
        """
        left = self._bucket.left(now_ms)
        if left > 0:
            self._bucket.take(1)
            return 0
        if self._waiting_count >= REFUSALS_WAITING_MAX:
            return None
        if left > -REFUSALS_PER_SECOND:  # no debt that lasts longer than the longest wait
            self._bucket.take(1)
        self._waiting_count += 1
        return min(self._bucket.wait_ms(), _WAIT_MS_MAX)

    def end(self) -> None:
        self._waiting_count -= 1

    async def turn(self, now_ms: int, sleep: Callable[[float], Awaitable[None]]) -> bool:
        """Wait for the turn of a refusal; False when too many wait already."""
        wait_ms = self.begin(now_ms)
        if wait_ms == 0:
            return True
        if wait_ms is None:
            return False
        try:
            await sleep(wait_ms / 1_000)
        finally:
            self.end()
        return True


class RefusalPaces:
    """Of all tenants and addresses that are refused something by this process."""

    def __init__(
        self, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._by_key: dict[str, Refusals] = {}

    async def turn(self, key: str) -> bool:
        """Wait for the turn of a refusal of ``key``; False when too many of it wait already."""
        now_ms = self._clock.monotonic_ms()
        refusals = self._by_key.get(key)
        if refusals is None:
            if len(self._by_key) >= KEYS_MAX:
                del self._by_key[next(iter(self._by_key))]
            refusals = self._by_key[key] = Refusals(now_ms)
        return await refusals.turn(now_ms, self._sleep)
