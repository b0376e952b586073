"""Turns of an event loop: the current one, and one waiting worker served in each of them.

    worker has used up its part of a turn ──▶ wait(go_on) ──▶ [LoopTurns] ──▶ go_on(), later
                                                                  └ one worker a turn, in order

Between two turns the loop reads its connections and runs everything that is ready. So however many
workers have much to do, everybody else waits for one part of a turn only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary


class LoopTurns:
    """See the module's docstring. One for each loop: see ``turns_of``."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._create_future = loop.create_future
        self._number = 0
        self._is_scheduled = False
        self._waiting: deque[Callable[[], None]] = deque()

    def number(self) -> int:
        """Of this turn. A caller that has given way to the loop finds another one afterwards."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._start_next)
        return self._number

    def wait(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` in a later turn, after those who wait already."""
        self._waiting.append(go_on)
        self.number()

    async def next_turn(self) -> None:
        """Return in a later turn, after those who wait already."""
        turn: asyncio.Future[None] = self._create_future()

        def go_on() -> None:
            if not turn.done():  # whoever waited may have been cancelled
                turn.set_result(None)

        self.wait(go_on)
        await turn

    def _start_next(self) -> None:
        self._number += 1
        self._is_scheduled = False
        if not self._waiting:
            return
        go_on = self._waiting.popleft()
        if self._waiting:
            self.number()
        go_on()


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTurns] = WeakKeyDictionary()


def turns_of(loop: asyncio.AbstractEventLoop) -> LoopTurns:
    """The turns of ``loop``."""
    found = _turns.get(loop)
    if found is None:
        found = _turns[loop] = LoopTurns(loop)
    return found
