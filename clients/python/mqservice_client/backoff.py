"""How long to wait before trying again: a random time up to a limit that doubles.

Full jitter: the clients of a service that restarts come back spread over the whole time.
"""

from __future__ import annotations

from random import Random
from typing import Final

import msgspec

_DOUBLINGS_MAX: Final = 20


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """The first failure waits up to ``first_ms``, each further one twice that, up to ``cap_ms``."""

    first_ms: int = 200
    cap_ms: int = 10_000

    def wait_ms(self, attempt: int, random: Random, *, floor_ms: int = 0) -> int:
        """The wait after failure number ``attempt``, from 1, on top of ``floor_ms``."""
        limit = min(self.cap_ms, self.first_ms << min(attempt - 1, _DOUBLINGS_MAX))
        return floor_ms + round(limit * random.random())
