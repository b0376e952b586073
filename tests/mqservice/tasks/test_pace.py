"""How many messages a rate allows, at which time."""

from __future__ import annotations

import pytest

from mqservice.tasks.pace import allowance, first_pace_us, next_turn_ms, pace_after

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("rate", [1, 3, 7, 100, 999, 5_000, 100_000])
def test_rate_is_never_exceeded_however_small_the_steps_are(rate: int) -> None:
    paced_us, moved, now_ms = first_pace_us(NOW_MS), 0, NOW_MS
    for turn in range(2_000):
        now_ms = NOW_MS + 17 * turn
        count = min(100, allowance(paced_us, now_ms=now_ms, rate=rate))
        paced_us = pace_after(paced_us, now_ms=now_ms, rate=rate, moved_count=count)
        moved += count
    passed_ms = now_ms - NOW_MS
    assert moved * 1_000 <= rate * (passed_ms + 1_000)
    # 100 every 17 ms is the most that was asked for
    assert moved >= min(0.97 * rate * passed_ms / 1_000, 2_000 * 100)


def test_first_second_is_allowed_at_once_and_then_nothing() -> None:
    paced_us = first_pace_us(NOW_MS)
    assert allowance(paced_us, now_ms=NOW_MS, rate=50) == 50
    paced_us = pace_after(paced_us, now_ms=NOW_MS, rate=50, moved_count=50)
    assert allowance(paced_us, now_ms=NOW_MS, rate=50) == 0
    assert next_turn_ms(paced_us, now_ms=NOW_MS, rate=50) == NOW_MS + 1_000
    assert next_turn_ms(paced_us, now_ms=NOW_MS, rate=1_000) == NOW_MS + 100


def test_time_that_was_not_used_is_kept_for_two_seconds_only() -> None:
    paced_us = first_pace_us(NOW_MS)
    assert allowance(paced_us, now_ms=NOW_MS + 3_600_000, rate=10) == 20


def test_clock_that_was_set_back_stops_nothing_for_longer_than_a_second() -> None:
    paced_us = pace_after(first_pace_us(NOW_MS), now_ms=NOW_MS, rate=10, moved_count=10)
    earlier_ms = NOW_MS - 3_600_000
    assert allowance(paced_us, now_ms=earlier_ms, rate=10) == 0
    assert next_turn_ms(paced_us, now_ms=earlier_ms, rate=10) == earlier_ms + 1_000
    paced_us = pace_after(paced_us, now_ms=earlier_ms, rate=10, moved_count=0)
    assert allowance(paced_us, now_ms=earlier_ms + 1_000, rate=10) == 10
