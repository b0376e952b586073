"""Limits concurrent work fairly: callers take turns, however much one of them requests.

    begin(asker) ──▶ [FairTurns] ── free, and the asker has fewer than its part ──▶ now
                        └─ waits in the asker's own line ──▶ when ``end`` reaches it, line by line

When all lines together are full, who came last in the longest one makes room. Used on one event
loop.
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
        self._at_work: dict[str, int] = {}
        self._lines: dict[str, deque[asyncio.Future[bool]]] = {}  # the next one's line first

    async def begin(self, asker: str) -> bool:
        """Wait for a turn; ``end`` follows. False: too many wait already, and no turn comes."""
        if self._free > 0 and self._has_part(asker):
            self._take(asker)
            return True
        if self._waiting_count >= self._waiting_max and not self._make_room(asker):
            return False
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(asker, deque()).append(turn)
        self._waiting_count += 1
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(asker, turn)
            elif turn.result():
                self.end(asker)  # it was given all the same
            raise

    def end(self, asker: str) -> None:
        """A turn is over: the next line whose asker has less than its part moves up."""
        self._free += 1
        if self._at_work[asker] == 1:
            del self._at_work[asker]
        else:
            self._at_work[asker] -= 1
        while (name := next(filter(self._has_part, self._lines), None)) is not None:
            if self._move_up(name):
                return

    def _move_up(self, asker: str) -> bool:
        """False: all of the line have just left."""
        line = self._lines.pop(asker)
        while line:
            turn = line.popleft()
            self._waiting_count -= 1
            if turn.cancelled():  # its task has not come to leave the line yet
                continue
            if line:
                self._lines[asker] = line  # behind the lines of all others
            self._take(asker)
            turn.set_result(True)
            return True
        return False

    def _make_room(self, asker: str) -> bool:
        """Send one away, unless the asker's own line would be as long as the longest then."""
        longest = max(self._lines.values(), key=len, default=deque())
        if len(longest) <= len(self._lines.get(asker, ())) + 1:
            return False
        turn = longest.pop()
        self._waiting_count -= 1
        if not turn.cancelled():
            turn.set_result(False)
        return True

    def _leave(self, asker: str, turn: asyncio.Future[bool]) -> None:
        """Nothing where its turn or its place was given to another one before it could."""
        line = self._lines.get(asker, deque())
        if turn not in line:
            return
        line.remove(turn)
        self._waiting_count -= 1
        if not line:
            del self._lines[asker]

    def _has_part(self, asker: str) -> bool:
        return self._at_work.get(asker, 0) < self._each_max

    def _take(self, asker: str) -> None:
        self._free -= 1
        self._at_work[asker] = self._at_work.get(asker, 0) + 1
