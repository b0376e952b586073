"""Time, injected: caches and key checks use a ``Clock``, tests set a manual one."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that people read and one that only ever moves forward."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch. May jump either way."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back."""


class SystemClock:
    """The clocks of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000
