"""The benchmarks' histogram against the plain definition over a sorted list."""

from __future__ import annotations

from random import Random

import pytest

from bench.peers.percentiles import EXACT_US, Histogram


def _exact(values: list[int], percent: float) -> int:
    wanted = max(1, -(-len(values) * percent // 100))
    return sorted(values)[int(wanted) - 1]


def _of(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


@pytest.mark.parametrize("percent", [1, 50, 90, 99, 99.9, 100])
@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, 5_000])
def test_small_latencies_are_exact(count: int, percent: float) -> None:
    random = Random(count)
    values = [random.randrange(EXACT_US) for _ in range(count)]

    assert _of(values).percentile_us(percent) == _exact(values, percent)


@pytest.mark.parametrize("percent", [50, 99, 99.9])
def test_large_latencies_are_right_to_a_thousandth_and_never_too_small(percent: float) -> None:
    random = Random(7)
    values = [round(10 ** random.uniform(3, 9)) for _ in range(10_000)]

    exact, found = _exact(values, percent), _of(values).percentile_us(percent)

    assert exact <= found <= exact * (1 + 1 / 1_000)


def test_a_single_stall_is_the_largest_and_is_not_in_the_median() -> None:
    histogram = _of([100] * 999 + [5_000_000])

    assert histogram.max_us == 5_000_000
    assert histogram.percentile_us(50) == 100
    assert histogram.percentile_us(99.9) == 100
    assert histogram.percentile_us(100) == 5_000_000


def test_two_runs_count_into_one() -> None:
    histogram = _of([1, 2, 3])
    histogram.record(4)

    assert histogram.count == 4
    assert histogram.percentile_us(50) == 2


def test_an_empty_histogram_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="no latency"):
        Histogram().percentile_us(50)


def test_a_latency_before_the_plan_is_a_mistake_of_the_clock() -> None:
    with pytest.raises(AssertionError):
        Histogram().record(-1)
