"""A token bucket that may be overdrawn once: a request is admitted while anything is left.

    time ──rate──▶ [TokenBucket, at most ``capacity``] ──take──▶ a message, a batch, an answer

A batch larger than the bucket goes through too, and those behind it wait until what it took has
come back: so the rate holds over time whatever the sizes are, and no size is impossible.
"""

from __future__ import annotations

from typing import Final

SECOND_MS: Final = 1_000


class TokenBucket:
    """Times are monotonic ms, and are given: a bucket has no clock of its own."""

    __slots__ = ("_at_ms", "_capacity", "_left", "_rate_per_ms")

    def __init__(self, rate_per_second: float, capacity: float, now_ms: int) -> None:
        """Full at first."""
        self._rate_per_ms = rate_per_second / SECOND_MS
        self._capacity = self._left = capacity
        self._at_ms = now_ms

    def change(self, rate_per_second: float, capacity: float, now_ms: int) -> None:
        """Go on with another rate; what is above the new capacity is gone."""
        self.left(now_ms)
        self._rate_per_ms = rate_per_second / SECOND_MS
        self._capacity = capacity
        self._left = min(self._left, capacity)

    def left(self, now_ms: int) -> float:
        """What may be taken now; at or below zero there is nothing."""
        passed_ms = now_ms - self._at_ms
        if passed_ms > 0:
            self._at_ms = now_ms
            self._left = min(self._capacity, self._left + passed_ms * self._rate_per_ms)
        return self._left

    def take(self, count: float) -> None:
        """Whether or not so much is left."""
        self._left -= count

    def wait_ms(self) -> int:
        """How long until something is left, from the last ``left`` on; 0 if there is something."""
        if self._left > 0:
            return 0
        return int(min(-self._left / self._rate_per_ms, 1e9)) + 1

    def state(self) -> tuple[int, int]:
        """What is left without what is less than one, and the seconds, rounded up, until the bucket
        is full again; as of the last ``left``.
        """
        left = self._left
        missing = self._capacity - left
        full_seconds = (
            int(min(missing / self._rate_per_ms / SECOND_MS, 1e6)) + 1 if missing > 0 else 0
        )
        return int(left) if left > 0 else 0, full_seconds
