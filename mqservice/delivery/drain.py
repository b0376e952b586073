"""The shutdown of a web process, announced to long polls and open sockets.

    SIGTERM ──▶ Drain.begin ──▶ parked polls answer with what they have
                            └─▶ sessions: goaway, last acks, close 1012

Nothing new parks once it has begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Drain:
    """One per process. One event loop uses it."""

    def __init__(self) -> None:
        self.has_begun = False
        self._listeners: set[Callable[[], None]] = set()
        self._idle: asyncio.Event | None = None  # while somebody waits for it

    def join(self, on_begin: Callable[[], None]) -> None:
        """Have ``on_begin`` called once the end begins; leave when it does not matter any more."""
        if self.has_begun:
            on_begin()
        self._listeners.add(on_begin)

    def leave(self, on_begin: Callable[[], None]) -> None:
        self._listeners.discard(on_begin)
        if self._idle is not None and not self._listeners:
            self._idle.set()

    @property
    def listener_count(self) -> int:
        return len(self._listeners)

    def start(self) -> None:
        """Idempotent."""
        if self.has_begun:
            return
        self.has_begun = True
        for on_begin in list(self._listeners):
            on_begin()

    async def wait_until_idle(self, timeout_ms: int) -> bool:
        """Whether everybody has left within ``timeout_ms``."""
        if not self._listeners:
            return True
        self._idle = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True
