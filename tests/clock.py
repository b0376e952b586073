"""A clock that stands still until a test moves it."""

from __future__ import annotations

import time


class ManualClock:
    """Both clocks move together by ``advance``."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 1_000

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    @classmethod
    def ahead(cls) -> ManualClock:
        """An hour ahead of the machine's, by which the database dates its rows."""
        return cls(time.time_ns() // 1_000_000 + 3_600_000)

    def advance(self, ms: int) -> None:
        self._now_ms += ms
        self._monotonic_ms += ms
