"""Requests for a namespace that is just going to another shard wait here until it is there.

    handler ── route of a moving namespace ──▶ [MovingWaits] ── asked again, settled ──▶ handler
                                                   └── held too long ──▶ 503, nothing was done

Calls to a shard that is taken over are held by the client of that shard
(``storage_engine/wire/held_calls.py``), which its next engine answers. A namespace that goes to
another shard will be answered by another client, which its route names: so it is the route that is
waited for, under the same limits. Requests that waited continue in the order in which they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from mqservice.lib.clock import Clock
from mqservice.lib.problem import Problem
from mqservice.store import ClientConfig

# Without a notification, as while nobody listens for them.
LOOK_MS: Final = 250
_LIMITS: Final = ClientConfig()


class _Route(Protocol):
    @property
    def is_moving(self) -> bool: ...


RouteT = TypeVar("RouteT", bound=_Route)


class MovingWaits:
    """See the module's docstring. One event loop uses it."""

    def __init__(self, clock: Clock, count_max: int | None = None) -> None:
        """``count_max``: who may wait at a time; None: as many as calls of a client."""
        self._clock = clock
        self._count_max = _LIMITS.hold_count_max if count_max is None else count_max
        self._count = 0
        self._changed: asyncio.Future[None] | None = None  # what they wait for

    async def settled(self, load: Callable[[], Awaitable[RouteT | None]]) -> RouteT | None:
        """What ``load`` finds once it does not move. Raises Problem: 503, after 5 s, or at once
        when too many wait.
        """
        route = await load()
        if route is None or not route.is_moving:
            return route
        if self._count >= self._count_max:
            raise _still_moving()
        self._count += 1
        try:
            until_ms = self._clock.monotonic_ms() + _LIMITS.hold_ms_max
            while route is not None and route.is_moving:
                if self._clock.monotonic_ms() >= until_ms:
                    raise _still_moving()
                await self._change()
                route = await load()
            return route
        finally:
            self._count -= 1

    @property
    def count(self) -> int:
        """Who waits just now."""
        return self._count

    def look_again(self) -> None:
        """Something has changed."""
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set_result(None)

    async def _change(self) -> None:
        """Until something has, or for a moment."""
        changed = self._changed
        if changed is None:
            changed = self._changed = asyncio.get_running_loop().create_future()
        await asyncio.wait({changed}, timeout=LOOK_MS / 1_000)


def _still_moving() -> Problem:
    return Problem.of(
        "ENGINE_UNAVAILABLE",
        "the namespace is being moved to another shard",
        retry_after_ms=1_000,
        stored=False,
    )
