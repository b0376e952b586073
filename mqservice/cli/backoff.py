"""How long to wait before trying again: doubling, capped, with jitter.

Used by ``sender`` and ``consumer``. Jitter keeps the clients of a restarted service from coming
back all in the same instant.
"""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

_DOUBLINGS_MAX: Final = 20


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the wait; the first failure waits about ``first_ms``, none more than ``cap_ms``."""

    first_ms: int = 200
    cap_ms: int = 10_000

    def wait_ms(self, attempt: int, random: Random, *, floor_ms: int = 0) -> int:
        """The wait after failure number ``attempt``, from 1; never below ``floor_ms``.

        Returns:
            milliseconds, evenly spread over the upper half of the doubling delay.
        """
        assert attempt >= 1
        delay = min(self.cap_ms, self.first_ms << min(attempt - 1, _DOUBLINGS_MAX))
        return max(floor_ms, round(delay * (0.5 + random.random() / 2)))
