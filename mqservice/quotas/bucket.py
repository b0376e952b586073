"""Token buckets that may be overdrawn once: a request is admitted while anything is left.

    time ──rate──▶ [TokenBucket, at most ``capacity``] ──take──▶ a refusal
    time ──rates─▶ [TrafficBuckets] ──take──▶ a message, a batch, an answer: how many, how large

A batch larger than the bucket goes through too, and those behind it wait until what it took has
come back: so the rate holds over time whatever the sizes are, and no size is impossible. Times are
monotonic ms, and are given: a bucket has no clock of its own.
"""

from __future__ import annotations

from typing import Final

SECOND_MS: Final = 1_000
Pair = tuple[float, float]


class TokenBucket:
    """Of what is only counted."""

    __slots__ = ("_at_ms", "_capacity", "_left", "_rate_per_ms")

    def __init__(self, rate_per_second: float, capacity: float, now_ms: int) -> None:
        """Full at first."""
        self._rate_per_ms = rate_per_second / SECOND_MS
        self._capacity = self._left = capacity
        self._at_ms = now_ms

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
        return _wait_ms(self._left, self._rate_per_ms)


class TrafficBuckets:
    """Of what goes one way: a bucket of messages and one of bytes, where nothing passes unless both
    have something left, and everything takes from both.

    Pairs are of messages and bytes. One object, since each request asks several times.
    """

    __slots__ = ("_at_ms", "_bytes_left", "_capacities", "_messages_left", "_rates_per_ms")

    def __init__(self, rates_per_second: Pair, capacities: Pair, now_ms: int) -> None:
        """Full at first."""
        self._messages_left, self._bytes_left = capacities
        self._at_ms = now_ms
        self._set(rates_per_second, capacities)

    def _set(self, rates_per_second: Pair, capacities: Pair) -> None:
        messages, content = rates_per_second
        self._rates_per_ms = messages / SECOND_MS, content / SECOND_MS
        self._capacities = capacities

    def change(self, rates_per_second: Pair, capacities: Pair, now_ms: int) -> None:
        """Apply other rates from now on; what is above the new capacity is gone."""
        self.is_empty(now_ms)
        self._set(rates_per_second, capacities)
        self._messages_left = min(self._messages_left, capacities[0])
        self._bytes_left = min(self._bytes_left, capacities[1])

    def is_empty(self, now_ms: int) -> bool:
        """Whether nothing may pass now."""
        passed_ms = now_ms - self._at_ms
        if passed_ms > 0:
            self._at_ms = now_ms
            messages_max, bytes_max = self._capacities
            messages_rate, bytes_rate = self._rates_per_ms
            self._messages_left = min(messages_max, self._messages_left + passed_ms * messages_rate)
            self._bytes_left = min(bytes_max, self._bytes_left + passed_ms * bytes_rate)
        return self._messages_left <= 0 or self._bytes_left <= 0

    def take(self, message_count: int, byte_count: int) -> None:
        """Whether or not so much is left."""
        self._messages_left -= message_count
        self._bytes_left -= byte_count

    def waits_ms(self) -> tuple[int, int]:
        """How long until something is left of each, from the last ``is_empty`` on; or 0."""
        messages_rate, bytes_rate = self._rates_per_ms
        return _wait_ms(self._messages_left, messages_rate), _wait_ms(self._bytes_left, bytes_rate)

    def states(self) -> list[tuple[int, int]]:
        """What is left without what is less than one, and the seconds, rounded up, until the bucket
        is full again; as of the last ``is_empty``.
        """
        found = []
        lefts = self._messages_left, self._bytes_left
        for left, capacity, rate in zip(lefts, self._capacities, self._rates_per_ms, strict=True):
            missing = capacity - left
            full_seconds = int(min(missing / rate / SECOND_MS, 1e6)) + 1 if missing > 0 else 0
            found.append((int(left) if left > 0 else 0, full_seconds))
        return found


def _wait_ms(left: float, rate_per_ms: float) -> int:
    return 0 if left > 0 else int(min(-left / rate_per_ms, 1e9)) + 1
