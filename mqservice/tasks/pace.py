"""How many messages a task may move now, at its rate; pure functions.

    paced_us ────────── now      what has been moved has used the rate up until ``paced_us``
        └── allowance ──┘

Time that a task did not use, because nobody gave it a turn, is kept for two seconds at most: a task
that was held up catches up a little and does not flood anybody.
"""

from __future__ import annotations

from typing import Final

from mqservice.tasks.limits import BATCH_MESSAGES_MAX

SECOND_US: Final = 1_000_000
UNUSED_US_MAX: Final = 2 * SECOND_US


def first_pace_us(now_ms: int) -> int:
    """The pace of a new task: the messages of one second may go at once."""
    return now_ms * 1_000 - SECOND_US


def allowance(paced_us: int, *, now_ms: int, rate: int) -> int:
    """Messages that may be moved now."""
    return (now_ms * 1_000 - _bounded(paced_us, now_ms)) * rate // SECOND_US


def pace_after(paced_us: int, *, now_ms: int, rate: int, moved_count: int) -> int:
    """The pace when so many more were moved."""
    return _bounded(paced_us, now_ms) - (-moved_count * SECOND_US // rate)


def next_turn_ms(paced_us: int, *, now_ms: int, rate: int) -> int:
    """When a whole batch may be moved, or what a second allows if that is less."""
    wanted = min(BATCH_MESSAGES_MAX, rate)
    due_us = _bounded(paced_us, now_ms) - (-wanted * SECOND_US // rate)
    return -(-due_us // 1_000)


def _bounded(paced_us: int, now_ms: int) -> int:
    """Never ahead of the clock, which may have been set back."""
    now_us = now_ms * 1_000
    return min(max(paced_us, now_us - UNUSED_US_MAX), now_us)
