"""Those who wait until the replicated log has what they changed, in whichever files that is.

    add() ──▶ [LogWaits] ── begin() ── the files are read, and shipped ── shipped(number)
                  │                                                           │
                  └── too late, or the end ──▶ failed        arrived(number) ─┴─▶ done

In the order in which they came, which is that of the entries. Loop thread only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from storage_engine.errors import StoreError


class _Wait:
    """``number``: of the entry that the log must have; None: not given to the log yet."""

    __slots__ = ("done", "number", "since_ms")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.number: int | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self, error: StoreError | None) -> None:
        if self.done.done():  # whoever waited is gone
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class LogWaits:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._waits: deque[_Wait] = deque()

    def add(self, now_ms: int) -> asyncio.Future[None]:
        """For what was changed before now."""
        wait = _Wait(now_ms)
        self._waits.append(wait)
        return wait.done

    def begin(self) -> Sequence[_Wait]:
        """Those who have come before the files are read, which is next."""
        return [each for each in self._waits if each.number is None]

    def shipped(self, waits: Sequence[_Wait], number: int) -> None:
        """The log was given all that the files had, in entries up to ``number``."""
        for each in waits:
            each.number = number

    def arrived(self, number: int) -> None:
        """The log has the entries up to ``number``."""
        waits = self._waits
        while waits and (first := waits[0].number) is not None and first <= number:
            waits.popleft().end(None)

    def end_late(self, late_ms: int, error: StoreError) -> bool:
        """Fail those who have waited since ``late_ms`` or longer; whether there are any."""
        waits, is_late = self._waits, False
        while waits and waits[0].since_ms <= late_ms:
            waits.popleft().end(error)
            is_late = True
        return is_late

    def end(self, error: StoreError | None) -> None:
        """Of all: None, where the log has everything."""
        while self._waits:
            self._waits.popleft().end(error)
