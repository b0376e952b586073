"""How long to wait before trying again: doubling, capped, with jitter.

Called by ``sender`` and ``consumer``. Jitter keeps the clients of a restarted service from coming
back all in the same instant.
"""

from __future__ import annotations

from random import Random
from typing import Final

FIRST_MS: Final = 200
CAP_MS: Final = 10_000
DOUBLINGS_MAX: Final = 16


def backoff_ms(attempt: int, random: Random, *, floor_ms: int = 0) -> int:
    """The wait after failure number ``attempt``, from 1; never below ``floor_ms``.

    Returns:
        milliseconds, evenly spread over the upper half of the doubling delay.
    """
    assert attempt >= 1
    delay = min(CAP_MS, FIRST_MS * (1 << min(attempt - 1, DOUBLINGS_MAX)))
    return max(floor_ms, round(delay * (0.5 + random.random() / 2)))
