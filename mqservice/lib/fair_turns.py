"""Who may work next, where only so many can at once: askers by turns, however much one asks.

    begin(asker) ──▶ [FairTurns] ── free, and the asker has fewer than its part ──▶ now
                        └─ waits in the asker's own line ──▶ when ``end`` reaches it, line by line

Used on one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

WAITING_MAX: Final = 2_000  # in all lines together


class FairTurns:
    """See the module's docstring. ``each_max`` of the ``at_once`` turns are one asker's at most."""

    def __init__(self, *, at_once: int, each_max: int, waiting_max: int = WAITING_MAX) -> None:
        assert 0 < each_max <= at_once, "a part of the turns"
        self._free = at_once
        self._each_max = each_max
        self._waiting_max = waiting_max
        self._waiting_count = 0
        self._at_work: dict[bytes, int] = {}
        self._lines: dict[bytes, deque[asyncio.Future[None]]] = {}  # the next one's line first

    async def begin(self, asker: bytes) -> bool:
        """Wait for a turn; ``end`` follows. False: too many wait already, and no turn comes."""
        if self._free > 0 and self._has_part(asker):
            self._take(asker)
            return True
        if self._waiting_count >= self._waiting_max:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(asker, deque()).append(turn)
        self._waiting_count += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(asker)  # it was given all the same
            else:
                self._leave(asker, turn)
            raise
        return True

    def end(self, asker: bytes) -> None:
        """A turn is over: the next line whose asker has less than its part moves up."""
        self._free += 1
        if self._at_work[asker] == 1:
            del self._at_work[asker]
        else:
            self._at_work[asker] -= 1
        for name in self._lines:
            if self._has_part(name):
                self._move_up(name)
                return

    def _move_up(self, asker: bytes) -> None:
        line = self._lines.pop(asker)
        turn = line.popleft()
        self._waiting_count -= 1
        if line:
            self._lines[asker] = line  # behind the lines of all others
        self._take(asker)
        turn.set_result(None)

    def _leave(self, asker: bytes, turn: asyncio.Future[None]) -> None:
        line = self._lines[asker]
        line.remove(turn)
        self._waiting_count -= 1
        if not line:
            del self._lines[asker]

    def _has_part(self, asker: bytes) -> bool:
        return self._at_work.get(asker, 0) < self._each_max

    def _take(self, asker: bytes) -> None:
        self._free -= 1
        self._at_work[asker] = self._at_work.get(asker, 0) + 1
