"""The time by which messages grow old, against wall clocks that lie."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, RETENTION_CLOCK_FILE
from storage_engine.errors import DiskFull
from storage_engine.retention.retention_clock import CATCH_UP_FACTOR, TOLERANCE_MS, RetentionClock
from tests.storage_engine.doubles import FaultyFiles, ManualClock, OpenStore

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
T0_MS = 1_700_000_000_000


def begun(
    path: Path, clock: ManualClock, newest_ms: int = 0, files: Files | None = None
) -> RetentionClock:
    (path / CONFIG_DIR).mkdir(exist_ok=True)
    return RetentionClock(files or Files(), path, clock, newest_ms)


def test_a_new_store_believes_the_wall_clock(tmp_path: Path) -> None:
    clock = ManualClock(now_ms=T0_MS)
    age = begun(tmp_path, clock)
    assert (age.now_ms(), age.behind_ms()) == (T0_MS, 0)
    clock.advance(DAY_MS)
    assert (age.now_ms(), age.behind_ms()) == (T0_MS + DAY_MS, 0)


def test_a_wall_clock_that_jumps_while_the_engine_runs_is_not_followed(tmp_path: Path) -> None:
    clock = ManualClock(now_ms=T0_MS)
    age = begun(tmp_path, clock)
    clock.wall_ms += DAY_MS
    clock.advance(1_000)
    assert age.now_ms() == T0_MS + 1_000 + TOLERANCE_MS
    clock.wall_ms -= 2 * DAY_MS
    assert age.now_ms() == T0_MS + 1_000 - DAY_MS


async def test_after_a_stop_it_catches_up_sixty_times_as_fast_as_time_passes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock(now_ms=T0_MS)
    await begun(tmp_path, clock).save()
    clock = ManualClock(now_ms=T0_MS + 3 * DAY_MS)
    age = begun(tmp_path, clock, newest_ms=T0_MS + 3 * DAY_MS)  # stored by a clock that was wrong
    assert "far ahead" in caplog.text
    assert age.now_ms() == T0_MS + TOLERANCE_MS
    clock.advance(10 * MINUTE_MS)
    assert age.now_ms() == T0_MS + 10 * MINUTE_MS * CATCH_UP_FACTOR + TOLERANCE_MS
    clock.advance(3 * DAY_MS // CATCH_UP_FACTOR)
    assert age.behind_ms() == 0


async def test_a_start_after_another_with_the_wrong_clock_continues_where_that_one_stood(
    tmp_path: Path,
) -> None:
    await begun(tmp_path, ManualClock(now_ms=T0_MS)).save()
    stood_ms = T0_MS
    for _ in range(3):
        clock = ManualClock(now_ms=T0_MS + 365 * DAY_MS)
        age = begun(tmp_path, clock)
        clock.advance(10 * MINUTE_MS)
        await age.save()
        stood_ms += 10 * MINUTE_MS * CATCH_UP_FACTOR + TOLERANCE_MS
        assert age.now_ms() == stood_ms


@pytest.mark.parametrize("content", [b"", b"{}", b'{"nowMs":"x"}', b"\x00" * 40])
def test_a_damaged_file_leaves_the_newest_record_to_say(tmp_path: Path, content: bytes) -> None:
    (tmp_path / CONFIG_DIR).mkdir()
    (tmp_path / CONFIG_DIR / RETENTION_CLOCK_FILE).write_bytes(content)
    age = begun(tmp_path, ManualClock(now_ms=T0_MS + DAY_MS), newest_ms=T0_MS)
    assert age.now_ms() == T0_MS + TOLERANCE_MS


async def test_a_disk_that_takes_nothing_leaves_it_where_it_was(tmp_path: Path) -> None:
    files = FaultyFiles()
    clock = ManualClock(now_ms=T0_MS)
    age = begun(tmp_path, clock, files=files)
    files.full = {"replace"}
    await age.save()
    assert not (tmp_path / CONFIG_DIR / RETENTION_CLOCK_FILE).exists()
    with pytest.raises(DiskFull):
        files.replace(tmp_path / "x", b"")
    files.full = set()
    await age.save()
    assert (tmp_path / CONFIG_DIR / RETENTION_CLOCK_FILE).exists()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, DAY_MS), st.integers(-2 * DAY_MS, 2 * DAY_MS)), max_size=12)
)
def test_no_wall_clock_makes_it_run(steps: list[tuple[int, int]]) -> None:
    """Never ahead of the wall clock, nor of what has passed since the start."""
    clock = ManualClock(now_ms=T0_MS)
    age = RetentionClock(Files(), Path("/nonexistent"), clock, T0_MS)
    passed_ms = 0
    for passes_ms, jump_ms in steps:
        clock.advance(passes_ms)
        clock.wall_ms += jump_ms
        passed_ms += passes_ms
        assert age.now_ms() <= clock.wall_ms
        assert age.now_ms() <= T0_MS + passed_ms + TOLERANCE_MS


async def test_a_machine_that_wakes_up_a_year_ahead_expires_nothing(tmp_path: Path) -> None:
    limits = {"retention_ms": DAY_MS}
    async with OpenStore(tmp_path / "s", limits=limits) as store:
        store.topic()
        await store.put_bodies(b"a", b"b")
        clock = ManualClock(now_ms=store.clock.wall_ms + 365 * DAY_MS)
        await store.store.retention.run()
    for _ in range(2):
        async with OpenStore(tmp_path / "s", clock=clock, limits=limits) as store:
            await store.store.retention.run()
            assert store.pull_bodies()[:2] == [b"a", b"b"]
            await store.put_bodies(b"of next year")
            clock.advance(5 * MINUTE_MS)
            await store.store.retention.run()
            assert store.pull_bodies()[:2] == [b"a", b"b"]
