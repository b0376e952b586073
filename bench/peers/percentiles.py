"""Latencies in few buckets and exact to a thousandth, as HDR histograms keep them.

microseconds ─▶ [Histogram.record] ─▶ buckets that double in width ─▶ percentile, largest
"""

from __future__ import annotations

from typing import Final

# Values below it are kept exactly; above, the top 11 bits are: an error of at most one in 1,024.
EXACT_US: Final = 2_048
HALF_BITS: Final = 10


class Histogram:
    """Counts of latencies in whole microseconds."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0
        self.max_us = 0

    def record(self, late_us: int) -> None:
        """Count one latency; below zero is a mistake of the caller's clock."""
        assert late_us >= 0, late_us
        bucket = _bucket(late_us)
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self.count += 1
        self.max_us = max(self.max_us, late_us)

    def percentile_us(self, percent: float) -> int:
        """The smallest latency that ``percent`` of all do not pass, rounded up to its bucket.

        Raises ValueError when nothing was recorded.
        """
        if not self.count:
            raise ValueError("no latency was recorded")
        wanted = max(1, -(-round(self.count * percent * 1_000) // 100_000))
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return min(bucket, self.max_us)
        raise AssertionError("counts do not add up")


def _bucket(value: int) -> int:
    """The largest value that is counted with this one."""
    if value < EXACT_US:
        return value
    shift = value.bit_length() - HALF_BITS - 1
    return (((value >> shift) + 1) << shift) - 1
