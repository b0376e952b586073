"""When a failed message comes again: RocketMQ's table, lists, growing delays, and refusals."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.errors import BadRequest
from storage_engine.records.delay_levels import (
    DELAY_LEVEL_MAX,
    DELAY_LEVELS_MS,
    DELAY_MS_MAX,
    clamped_level,
    level_delay_ms,
)
from storage_engine.settings.retry_policy import (
    RECONSUME_FOR_EVER,
    RECONSUME_TIMES_MAX,
    ExponentialDelays,
    LevelDelays,
    ListDelays,
    RetryPolicy,
    is_exhausted,
)

LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000}
YEAR_MS = 31_536_000_000
DELAYS = st.integers(1, DELAY_MS_MAX)


def test_levels_are_rocketmqs() -> None:
    assert list(DELAY_LEVELS_MS) == [
        int(level[:-1]) * UNITS_MS[level[-1]] for level in LEVELS.split()
    ]
    assert DELAY_MS_MAX == YEAR_MS


@pytest.mark.parametrize(
    ("level", "counted", "delay_ms"),
    [
        (1, 1, 1_000),
        (3, 3, 10_000),
        (18, 18, 7_200_000),
        (19, 18, 7_200_000),
        (9**9, 18, 7_200_000),
    ],
)
def test_a_level_above_the_last_counts_as_the_last(level: int, counted: int, delay_ms: int) -> None:
    assert clamped_level(level) == counted
    assert level_delay_ms(level) == delay_ms


@pytest.mark.parametrize("level", [0, -1])
def test_there_is_no_level_below_the_first(level: int) -> None:
    with pytest.raises(BadRequest, match=f"delay level is {level}"):
        level_delay_ms(level)


def test_default_policy_makes_17_deliveries_in_17_140_seconds() -> None:
    policy = LevelDelays()
    policy.check()

    reconsume_times, delays_s = 0, []
    while not is_exhausted(
        reconsume_times=reconsume_times, max_reconsume_times=RECONSUME_TIMES_MAX
    ):
        delays_s.append(policy.delay_ms(reconsume_times) / 1_000)
        reconsume_times += 1

    minutes = [60 * minute for minute in range(1, 11)]
    assert delays_s == [10, 30, *minutes, 1_200, 1_800, 3_600, 7_200]
    assert len(delays_s) == 16
    assert 1 + reconsume_times == 17
    assert sum(delays_s) == 17_140
    assert policy.delay_ms(16) == policy.delay_ms(1_000) == 7_200_000
    assert DELAY_LEVEL_MAX == 3 + 15


def test_last_entry_of_a_list_repeats() -> None:
    policy = ListDelays(delays_ms=(5, 1, 7))
    policy.check()

    assert [policy.delay_ms(times) for times in range(6)] == [5, 1, 7, 7, 7, 7]


def test_exponential_delays_grow_up_to_their_cap() -> None:
    policy = ExponentialDelays()
    policy.check()

    assert [policy.delay_ms(times) // 1_000 for times in range(12)] == [
        5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, 7_200,
    ]  # fmt: skip
    slow = ExponentialDelays(start_ms=1_000, factor=1.1, cap_ms=1_300)
    assert [slow.delay_ms(times) for times in range(4)] == [1_000, 1_100, 1_210, 1_300]
    # 100 * 1.15 is 114.99999999999999
    assert ExponentialDelays(start_ms=100, factor=1.15).delay_ms(1) == 115


@given(start=DELAYS, cap=DELAYS, factor=st.floats(1, allow_infinity=False), times=st.integers(0))
def test_exponential_delays_never_overflow_shrink_or_leave_their_range(
    start: int, cap: int, factor: float, times: int
) -> None:
    policy = ExponentialDelays(start_ms=min(start, cap), factor=factor, cap_ms=max(start, cap))
    policy.check()

    assert policy.delay_ms(0) == policy.start_ms
    assert policy.start_ms <= policy.delay_ms(times) <= policy.delay_ms(times + 1) <= policy.cap_ms


def test_a_whole_number_as_factor_of_a_huge_power_is_quick() -> None:
    assert ExponentialDelays(factor=10).delay_ms(10**9) == 7_200_000


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (ListDelays(delays_ms=()), "0 entries"),
        (ListDelays(delays_ms=(1,) * 1_001), "1001 entries, it must have 1 to 1000"),
        (ListDelays(delays_ms=(1, 0)), r"delays_ms\[1\] is 0, it must be 1 to"),
        (ListDelays(delays_ms=(-5,)), r"delays_ms\[0\] is -5"),
        (ListDelays(delays_ms=(YEAR_MS + 1,)), f"is {YEAR_MS + 1}, it must be 1 to {YEAR_MS}"),
        (ExponentialDelays(start_ms=0), "start_ms is 0"),
        (ExponentialDelays(start_ms=-1), "start_ms is -1"),
        (ExponentialDelays(cap_ms=0), "cap_ms is 0"),
        (ExponentialDelays(cap_ms=2**63), "cap_ms is 9223372036854775808"),
        (
            ExponentialDelays(cap_ms=4_999),
            "cap_ms is 4999, it must not be less than start_ms, which is 5000",
        ),
        (ExponentialDelays(factor=math.nan), "factor is nan"),
        (ExponentialDelays(factor=math.inf), "factor is inf"),
        (ExponentialDelays(factor=0), "factor is 0"),
        (ExponentialDelays(factor=0.999), "factor is 0.999"),
        (ExponentialDelays(factor=-2), "factor is -2"),
    ],
)
def test_values_out_of_range_are_refused(policy: RetryPolicy, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        policy.check()


def test_limits_themselves_are_taken() -> None:
    ListDelays(delays_ms=(1, YEAR_MS) * 500).check()
    ExponentialDelays(start_ms=YEAR_MS, factor=1, cap_ms=YEAR_MS).check()
    ExponentialDelays(start_ms=1, factor=1e308, cap_ms=1).check()


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (LevelDelays(), '{"kind":"levels"}'),
        (ListDelays(delays_ms=(1, 2)), '{"kind":"list","delays_ms":[1,2]}'),
        (
            ExponentialDelays(start_ms=1, factor=1.5, cap_ms=9),
            '{"kind":"exponential","start_ms":1,"factor":1.5,"cap_ms":9}',
        ),
    ],
)
def test_kind_tells_the_policies_apart_on_the_wire(policy: RetryPolicy, text: str) -> None:
    assert msgspec.json.encode(policy).decode() == text
    assert msgspec.json.decode(text, type=RetryPolicy) == policy
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(policy), type=RetryPolicy) == policy
    assert hash(policy) == hash(msgspec.json.decode(text, type=RetryPolicy))


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"kind":"never"}',
        '{"kind":"levels","delays_ms":[1]}',
        '{"kind":"list"}',
        '{"kind":"list","delays_ms":["1"]}',
        '{"kind":"list","delays_ms":[1.5]}',
        '{"kind":"exponential","factor":"2"}',
    ],
)
def test_other_structs_are_no_policies(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=RetryPolicy)


@pytest.mark.parametrize(
    ("reconsume_times", "max_reconsume_times", "expected"),
    [
        (15, 16, False),
        (16, 16, True),
        (17, 16, True),
        (0, 0, True),
        (10**6, RECONSUME_FOR_EVER, False),
    ],
)
def test_a_message_is_given_up_when_its_retries_are_used(
    reconsume_times: int, max_reconsume_times: int, *, expected: bool
) -> None:
    assert (
        is_exhausted(reconsume_times=reconsume_times, max_reconsume_times=max_reconsume_times)
        is expected
    )
