"""The judge of a soak finds what grows, and nothing where nothing does."""

from __future__ import annotations

from tests.acceptance.nemesis.growth import SAMPLES_MIN, Sample, growth

COUNT = 10 * SAMPLES_MIN


def steady(pid: int = 7) -> list[Sample]:
    return [Sample(pid, 100 + number % 3, 50 + number % 5) for number in range(COUNT)]


def test_what_stays_within_its_noise_does_not_grow() -> None:
    assert growth(steady()) == ""


def test_what_fills_at_first_does_not_grow() -> None:
    filling = [Sample(7, min(100, number * 5), min(50, number)) for number in range(COUNT)]
    assert growth(filling) == ""


def test_memory_that_grows_is_found() -> None:
    found = growth([Sample(7, 100 + number / 2, 50) for number in range(COUNT)])
    assert found.startswith("memory from 129.8 to 169.8 MiB"), found


def test_files_that_stay_open_are_found() -> None:
    found = growth([Sample(7, 100, 50 + number) for number in range(COUNT)])
    assert found == "open files from 129 to 170", found


def test_a_process_that_was_restarted_is_compared_with_itself_only() -> None:
    before = [Sample(6, 10, 5)] * COUNT
    assert growth([*before, *steady()]) == ""
    assert growth([*before, *steady()[: SAMPLES_MIN - 1]]) == "", "too few to tell"
