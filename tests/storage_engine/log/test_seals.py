"""Seals vouch for what was appended, for nothing else, and for a bounded stretch of the log."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage_engine.disk.files import Files
from storage_engine.disk.mapped_files import MappedFiles
from storage_engine.log import log_reader as seals_module
from storage_engine.log.log_reader import (
    RECORDS_MIN,
    SEALED_BYTES_A_RECORD_MAX,
    STRETCH_BYTES,
    Seals,
)

SEGMENT_BYTES = 1 << 20


@pytest.fixture
def run(tmp_path: Path) -> MappedFiles:
    """Two segments full of anything."""
    found = MappedFiles(Files(), tmp_path / "log", SEGMENT_BYTES)
    for seed in (1, 2):
        found.roll().view[:] = Random(seed).randbytes(SEGMENT_BYTES)
    return found


def seal(seals: Seals, run: MappedFiles, start: int, size: int) -> None:
    segment = run.find(start)
    assert segment is not None
    position = start - segment.base_offset
    seals.add(segment.view[position : position + size], start)


def flip(run: MappedFiles, at: int, bit: int = 0) -> None:
    segment = run.find(at)
    assert segment is not None
    segment.view[at - segment.base_offset] ^= 1 << bit


def hold(seals: Seals, run: MappedFiles, start: int, size: int, *more: tuple[int, int]) -> bool:
    return seals.hold([(start, start + size), *more], RECORDS_MIN, run)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # each example undoes its flip
)
@given(data=st.data(), sizes=st.lists(st.integers(100, 9_000), min_size=1, max_size=40))
def test_they_hold_exactly_while_no_byte_of_the_batches_has_changed(
    run: MappedFiles, data: st.DataObject, sizes: list[int]
) -> None:
    seals = Seals()
    start = at = data.draw(st.integers(0, 1_000)) * 8
    for size in sizes:
        seal(seals, run, at, size)
        at += size
    is_dense = at - start <= RECORDS_MIN * SEALED_BYTES_A_RECORD_MAX
    wanted_end = at if is_dense else data.draw(st.integers(at - STRETCH_BYTES // 4, at))
    wanted_start = start if is_dense else start + STRETCH_BYTES // 2
    hurt = data.draw(st.integers(wanted_start, wanted_end - 1))
    assert hold(seals, run, wanted_start, wanted_end - wanted_start)
    flip(run, hurt, bit := data.draw(st.integers(0, 7)))
    try:
        assert not hold(seals, run, wanted_start, wanted_end - wanted_start)
    finally:
        flip(run, hurt, bit)


def test_they_do_not_hold_what_was_never_sealed(run: MappedFiles) -> None:
    seals = Seals()
    assert not hold(seals, run, 1_000, 4_000)
    seal(seals, run, 1_000, 4_000)
    seal(seals, run, 6_000, 4_000)
    assert hold(seals, run, 1_000, 4_000)
    assert hold(seals, run, 1_000, 4_000, (7_000, 8_000))
    assert not hold(seals, run, 999, 4_000)
    assert not hold(seals, run, 1_001, 4_000)
    assert not hold(seals, run, 5_000, 500)
    assert not hold(seals, run, 1_000, 9_000)  # a gap within
    assert not hold(seals, run, 9_000, 1_001)
    assert not hold(seals, run, 1_000, 4_000, (1 << 40, (1 << 40) + 9))


def test_neighbouring_stretches_hold_together(run: MappedFiles) -> None:
    seals = Seals()
    for at in range(3):
        seal(seals, run, at * STRETCH_BYTES, STRETCH_BYTES)
    assert len(seals._starts) == 3
    assert hold(seals, run, 100, 3 * STRETCH_BYTES - 200)
    flip(run, 3 * STRETCH_BYTES - 1)  # outside of what is wanted, within the last seal
    assert not hold(seals, run, 100, 3 * STRETCH_BYTES - 200)
    assert hold(seals, run, 100, 2 * STRETCH_BYTES - 200)


def test_records_of_two_segments_are_held_by_their_own_stretches(run: MappedFiles) -> None:
    seals = Seals()
    last, first = SEGMENT_BYTES - 4_008, (SEGMENT_BYTES, SEGMENT_BYTES + 4_000)
    seal(seals, run, last, 4_000)
    seal(seals, run, SEGMENT_BYTES, 4_000)
    assert hold(seals, run, last, 4_000, first)
    flip(run, SEGMENT_BYTES + 3_999)
    assert not hold(seals, run, last, 4_000, first)
    assert hold(seals, run, last, 4_000)


def test_a_segment_that_is_gone_is_vouched_for_no_more(run: MappedFiles) -> None:
    seals = Seals()
    seal(seals, run, 0, 4_000)
    assert hold(seals, run, 0, 4_000)
    run.delete(run.remove_before(SEGMENT_BYTES))
    assert not hold(seals, run, 0, 4_000)


def test_few_records_in_a_long_stretch_are_asked_alone(run: MappedFiles) -> None:
    seals = Seals()
    seal(seals, run, 0, SEGMENT_BYTES)
    assert not hold(seals, run, 0, 4_000, (SEGMENT_BYTES // 2, SEGMENT_BYTES // 2 + 4_000))
    assert not seals.hold([(0, SEGMENT_BYTES)], RECORDS_MIN - 1, run)
    assert seals.hold([(0, SEGMENT_BYTES)], RECORDS_MIN, run)


def test_older_stretches_lose_their_seals(
    run: MappedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seals_module, "COUNT_MAX", 4)
    seals = Seals()
    for at in range(8):  # a gap between any two: each its own stretch
        seal(seals, run, at * 10_000, 4_000)
        assert len(seals._starts) == len(seals._ends) == len(seals._crcs) < 8
    assert [hold(seals, run, at * 10_000, 4_000) for at in range(8)] == [False] * 4 + [True] * 4
