"""Runs of offsets against a set of them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from storage_engine.delivery.offset_bits import OffsetRuns, runs_of
from storage_engine.delivery.progress import Progress

SPANS = st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda at: (at[0], at[0] + at[1]))


def held(runs: OffsetRuns) -> set[int]:
    found = [offset for first, count in runs for offset in range(first, first + count)]
    assert found == sorted(set(found))
    assert runs.count == len(found)
    ends = [first + count for first, count in runs]
    assert all(end < first for end, (first, _) in zip(ends, list(runs)[1:], strict=False))
    return set(found)


@given(st.lists(SPANS), st.integers(0, 50))
def test_runs_hold_what_was_added_and_answer_as_a_set_would(
    spans: list[tuple[int, int]], asked: int
) -> None:
    runs = OffsetRuns()
    expected: set[int] = set()
    for first, end in spans:
        runs.add(first, end)
        expected |= set(range(first, end))
        assert held(runs) == expected
    assert (asked in runs) == (asked in expected)
    assert bool(runs) == bool(expected)
    end = asked
    while end in expected:
        end += 1
    assert runs.end_of(asked) == end
    assert runs.count_below(asked) == len([offset for offset in expected if offset < asked])
    firsts = [first for first, _ in runs if first >= asked]
    assert runs.first_from(asked, 45) == min([45, *firsts])


@given(st.lists(SPANS), st.integers(0, 50))
def test_runs_are_cut_at_any_offset(spans: list[tuple[int, int]], at: int) -> None:
    low, high = OffsetRuns(), OffsetRuns()
    for first, end in spans:
        low.add(first, end)
        high.add(first, end)
    expected = held(low)
    low.cut_from(at)
    high.cut_below(at)
    assert held(low) == {offset for offset in expected if offset < at}
    assert held(high) == {offset for offset in expected if offset >= at}
    high.clear()
    assert held(high) == set()


@given(st.integers(0, 5), st.lists(st.tuples(SPANS, st.booleans())), st.integers(0, 50))
def test_progress_is_the_prefix_of_what_was_settled_or_skipped(
    start: int, steps: list[tuple[tuple[int, int], bool]], max_offset: int
) -> None:
    progress = Progress("g", "t", 0, start)
    done = set(range(start))
    for (first, end), is_skip in steps:
        if is_skip:
            progress.skip(first, end - first)
        else:
            progress.apply([(first, end - first)])
        done |= set(range(first, end))
        offset = start
        while offset in done:
            offset += 1
        assert progress.consumer_offset == offset
        above = {each for each in done if each > offset}
        assert set(progress.settled) | held(progress.skipped) == above
        assert all(progress.is_settled(each) for each in done)
        assert not progress.is_settled(offset)
    is_beyond = bool(done) and max(done | {progress.consumer_offset - 1}) >= max_offset
    assert progress.clamp(max_offset) == is_beyond
    assert progress.consumer_offset <= max_offset or not is_beyond
    assert held(progress.skipped) <= set(range(max_offset))


def test_what_was_skipped_is_forgotten_once_the_consumer_offset_has_passed_it() -> None:
    progress = Progress("g", "t", 0, 0)
    progress.skip(2, 3)
    progress.skip(8, 2)
    progress.apply([(0, 2)])
    assert (progress.consumer_offset, list(progress.skipped), progress.skipped.count) == (
        5,
        [(8, 2)],
        2,
    )


@given(st.lists(st.integers(0, 30)))
def test_offsets_in_any_order_make_the_fewest_runs(offsets: list[int]) -> None:
    runs = runs_of(offsets)
    assert [at for first, count in runs for at in range(first, first + count)] == sorted(
        set(offsets)
    )
    assert all(first + count < later for (first, count), (later, _) in pairwise(runs))
