"""Offsets at a bit each against a set of them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from storage_engine.delivery.offset_bits import (
    PAGE_OFFSETS,
    OffsetBits,
    run_count,
    runs_in,
    runs_of,
)

# About the first offsets of pages and the last, where the arithmetic could be wrong.
OFFSETS = st.one_of(
    st.integers(0, 40),
    st.integers(PAGE_OFFSETS - 20, PAGE_OFFSETS + 20),
    st.integers(4 * PAGE_OFFSETS - 20, 5 * PAGE_OFFSETS + 20),
)
LENGTHS = st.one_of(st.integers(0, 9), st.integers(PAGE_OFFSETS - 5, 2 * PAGE_OFFSETS + 5))
SPANS = st.tuples(OFFSETS, LENGTHS).map(lambda at: (at[0], at[0] + at[1]))
STEPS = st.lists(st.tuples(st.sampled_from(["add", "discard", "cut_below", "cut_from"]), SPANS))


def check(bits: OffsetBits, expected: set[int], asked: int) -> None:
    """Every answer is that of the set."""
    ascending = list(bits)
    assert ascending == sorted(expected)
    assert (len(bits), bits.count, bool(bits)) == (len(expected), len(expected), bool(expected))
    assert (asked in bits) == (asked in expected)
    assert bits.has_from(asked) == any(offset >= asked for offset in expected)
    end = asked
    while end in expected:
        end += 1
    assert bits.end_of(asked) == end
    assert all(part for _, part in bits.parts())
    firsts = [first for first, _ in bits.parts()]
    assert all(low < high for low, high in pairwise(firsts))


@given(STEPS, OFFSETS)
def test_bits_answer_as_a_set_would_whatever_is_done(
    steps: list[tuple[str, tuple[int, int]]], asked: int
) -> None:
    bits, expected = OffsetBits(), set[int]()
    for step, (first, end) in steps:
        if step == "add":
            bits.add(first, end)
            expected |= set(range(first, end))
        elif step == "discard":
            bits.discard(first, end)
            expected -= set(range(first, end))
        elif step == "cut_below":
            bits.cut_below(first)
            expected = {offset for offset in expected if offset >= first}
        else:
            bits.cut_from(first)
            expected = {offset for offset in expected if offset < first}
        check(bits, expected, asked)
        counted = len([offset for offset in expected if first <= offset < end])
        assert bits.count_in(first, end) == counted
    bits.clear()
    check(bits, set(), asked)


@given(st.sets(st.integers(0, 200)), st.integers(0, 100))
def test_runs_in_a_number_are_those_of_its_bits(numbers: set[int], first: int) -> None:
    bits = sum([1 << number for number in numbers])
    runs = [(first + start, count) for start, count in runs_of(sorted(numbers))]
    assert list(runs_in(first, bits)) == runs
    assert run_count(bits) == len(runs)


def test_a_cut_far_above_all_is_no_walk_over_what_lies_between() -> None:
    bits = OffsetBits()
    bits.add(5, 6)
    bits.cut_below(1 << 60)
    assert not bits
    bits.add((1 << 61) + 3, (1 << 61) + 7)
    assert list(bits.runs()) == [((1 << 61) + 3, 4)]
