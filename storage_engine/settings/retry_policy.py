"""When a message whose delivery failed is delivered again; pure functions.

    reconsume_times of the delivery that failed ── [policy.delay_ms] ──▶ ms until the next one

    kind         delay after failure 0, 1, 2, …
    levels       RocketMQ's delay level 3 + reconsume_times: 10 s, 30 s, 1 m, 2 m … 2 h, then 2 h
    list         the entries one by one, then the last one again and again
    exponential  start, start × factor, start × factor², … up to cap

With ``levels`` and 16 retries there are 17 deliveries in 17,140 s. ``kind`` tells the structs apart
on the wire, so that ``RetryPolicy`` can be a field of a group's configuration. A nack's own delay
wins over the policy; that is the caller's to decide.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from storage_engine.errors import BadRequest
from storage_engine.records.delay_levels import (
    DELAY_MS_MAX,
    HOUR_MS,
    SECOND_MS,
    level_delay_ms,
)

FIRST_LEVEL: Final = 3
LIST_COUNT_MAX: Final = 1_000  # a group has at most as many attempts
RECONSUME_TIMES_MAX: Final = 16  # of a group that says nothing else
RECONSUME_FOR_EVER: Final = -1


class _Policy(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """Base of the policies. Made from bytes or by hand: ``check`` comes before ``delay_ms``."""

    def check(self) -> None:
        """Raises ``BadRequest`` when a value is out of range."""

    def delay_ms(self, reconsume_times: int) -> int:
        """How long a message waits after the delivery with that ``reconsume_times`` failed, ms."""
        raise NotImplementedError


class LevelDelays(_Policy, frozen=True, kw_only=True, tag="levels"):
    """RocketMQ's table; the default."""

    def delay_ms(self, reconsume_times: int) -> int:
        assert reconsume_times >= 0
        return level_delay_ms(FIRST_LEVEL + reconsume_times)


class ListDelays(_Policy, frozen=True, kw_only=True, tag="list"):
    """A table of one's own, ms. RocketMQ's CUSTOMIZED, but read from its first entry on."""

    delays_ms: tuple[int, ...]

    def check(self) -> None:
        count = len(self.delays_ms)
        if not 1 <= count <= LIST_COUNT_MAX:
            raise BadRequest(f"delays_ms has {count} entries, it must have 1 to {LIST_COUNT_MAX}")
        for index, delay_ms in enumerate(self.delays_ms):
            _check_delay(f"delays_ms[{index}]", delay_ms)

    def delay_ms(self, reconsume_times: int) -> int:
        assert reconsume_times >= 0
        return self.delays_ms[min(reconsume_times, len(self.delays_ms) - 1)]


class ExponentialDelays(_Policy, frozen=True, kw_only=True, tag="exponential"):
    """From ``start_ms`` on each delay is ``factor`` times the one before, at most ``cap_ms``.

    The defaults are those of RocketMQ's EXPONENTIAL.
    """

    start_ms: int = 5 * SECOND_MS
    factor: float = 2.0
    cap_ms: int = 2 * HOUR_MS

    def check(self) -> None:
        _check_delay("start_ms", self.start_ms)
        _check_delay("cap_ms", self.cap_ms)
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise BadRequest(f"factor is {self.factor}, it must be a number of 1 or more")
        if self.cap_ms < self.start_ms:
            raise BadRequest(
                f"cap_ms is {self.cap_ms}, it must not be less than start_ms, which is "
                f"{self.start_ms}"
            )

    def delay_ms(self, reconsume_times: int) -> int:
        assert reconsume_times >= 0
        try:
            delay_ms = self.start_ms * float(self.factor) ** reconsume_times
        except OverflowError:
            return self.cap_ms
        return self.cap_ms if delay_ms >= self.cap_ms else round(delay_ms)


RetryPolicy = LevelDelays | ListDelays | ExponentialDelays


def is_exhausted(*, reconsume_times: int, max_reconsume_times: int) -> bool:
    """Whether a message whose delivery failed goes to the DLQ instead of being delivered again.

    ``max_reconsume_times`` is the group's, ``RECONSUME_FOR_EVER`` when it never gives up.
    """
    return max_reconsume_times != RECONSUME_FOR_EVER and reconsume_times >= max_reconsume_times


def _check_delay(name: str, delay_ms: int) -> None:
    if not 1 <= delay_ms <= DELAY_MS_MAX:
        raise BadRequest(f"{name} is {delay_ms}, it must be 1 to {DELAY_MS_MAX}")
