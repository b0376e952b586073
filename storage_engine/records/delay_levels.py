"""RocketMQ's 18 delay levels, ``1s 5s 10s 30s 1m 2m … 10m 20m 30m 1h 2h``; pure functions.

    level 1 … 18 ── [level_delay_ms] ──▶ ms     in RocketMQ level n waits in schedule queue n - 1

A level above the last one counts as the last, as in RocketMQ; 0, which there means no delay, and
less are no levels.
"""

from __future__ import annotations

from typing import Final

from storage_engine.errors import BadRequest

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

DELAY_LEVELS_MS: Final = (
    1 * SECOND_MS,
    5 * SECOND_MS,
    10 * SECOND_MS,
    30 * SECOND_MS,
    *(minutes * MINUTE_MS for minutes in range(1, 11)),
    20 * MINUTE_MS,
    30 * MINUTE_MS,
    1 * HOUR_MS,
    2 * HOUR_MS,
)
DELAY_LEVEL_MAX: Final = len(DELAY_LEVELS_MS)
DELAY_MS_MAX: Final = 365 * DAY_MS  # the longest delay of any message, by level or not
assert DELAY_LEVEL_MAX == 18


def clamped_level(level: int) -> int:
    """The level that counts: at most ``DELAY_LEVEL_MAX``. Raises ``BadRequest`` below 1."""
    if level < 1:
        raise BadRequest(f"delay level is {level}, it must be 1 or more")
    return min(level, DELAY_LEVEL_MAX)


def level_delay_ms(level: int) -> int:
    """How long a message of the level waits, ms. Raises ``BadRequest`` below 1."""
    return DELAY_LEVELS_MS[clamped_level(level) - 1]
