"""The clocks of messages that wait: what a jump of the wall clock, a restart, a boot do to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.puts.delay_clock import JUMP_MS, DelayClock
from tests.storage_engine.doubles import FaultyFiles, ManualClock, tiny_config

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def started(
    tmp_path: Path, clock: ManualClock, files: FaultyFiles | None = None, least_ms: int = 0
) -> DelayClock:
    (tmp_path / "config").mkdir(exist_ok=True)
    made = DelayClock(tiny_config(tmp_path), files or FaultyFiles(), clock)
    made.start(least_ms)
    return made


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, -1_000, 1_000, HOUR_MS, DAY_MS])
def test_a_delay_takes_as_long_as_it_takes_whatever_the_wall_clock_does(
    tmp_path: Path, jump_ms: int
) -> None:
    clock = ManualClock()
    delays = started(tmp_path, clock)
    begun_ms = delays.delay_ms()
    assert begun_ms == clock.now_ms()
    clock.advance(400)
    clock.wall_ms += jump_ms
    clock.advance(600)
    assert delays.delay_ms() == begun_ms + 1_000


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS, DAY_MS, -DAY_MS])
def test_a_moment_is_not_reached_by_a_jump(tmp_path: Path, jump_ms: int) -> None:
    clock = ManualClock()
    moments = started(tmp_path, clock)
    begun_ms = moments.time_ms()
    clock.wall_ms += jump_ms
    clock.advance(1_000)
    assert moments.time_ms() == begun_ms + 1_000
    clock.wall_ms -= jump_ms
    assert moments.time_ms() == begun_ms + 1_000
    clock.wall_ms += jump_ms
    again = started(tmp_path, clock)  # a start believes what the clock says then
    assert again.time_ms() == clock.now_ms()


@pytest.mark.parametrize("step_ms", [-JUMP_MS, -3, 3, JUMP_MS])
def test_a_moment_follows_the_wall_clock_in_small_steps(tmp_path: Path, step_ms: int) -> None:
    clock = ManualClock()
    moments = started(tmp_path, clock)
    for _ in range(5):
        clock.wall_ms += step_ms
        clock.advance(10)
        assert moments.time_ms() == clock.now_ms()


def test_delays_continue_evenly_over_a_restart_though_the_wall_clock_jumped(tmp_path: Path) -> None:
    clock = ManualClock()
    first = started(tmp_path, clock)
    first.save()
    begun_ms = first.delay_ms()
    clock.wall_ms += DAY_MS
    clock.advance(5_000)
    assert started(tmp_path, clock).delay_ms() == begun_ms + 5_000


def test_after_a_boot_delays_begin_at_the_wall_clock_and_not_before_the_log_ends(
    tmp_path: Path,
) -> None:
    clock, files = ManualClock(), FaultyFiles()
    started(tmp_path, clock, files).save()
    files.medium = "second boot"
    clock.wall_ms += HOUR_MS
    clock.steady_ms = 7
    assert started(tmp_path, clock, files).delay_ms() == clock.now_ms()
    behind = started(tmp_path, clock, files, least_ms=clock.now_ms() + 5)
    assert behind.delay_ms() == clock.now_ms() + 5


@pytest.mark.parametrize("content", [b"", b"{", b'{"bootId":"first"}', b'{"aheadMs":"x"}', b"\xff"])
def test_a_file_that_cannot_be_read_lets_delays_begin_at_the_wall_clock(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/delayClock.json").write_bytes(content)
    clock = ManualClock()
    assert started(tmp_path, clock).delay_ms() == clock.now_ms()


def test_a_full_disk_keeps_nothing_and_stops_nothing(tmp_path: Path) -> None:
    clock, files = ManualClock(), FaultyFiles()
    delays = started(tmp_path, clock, files)
    files.full.add("replace")
    delays.save()
    assert not (tmp_path / "config/delayClock.json").exists()
    files.full.clear()
    delays.save()
    assert (tmp_path / "config/delayClock.json").exists()
