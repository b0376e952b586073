"""Coarser samples against a plain reading of the finer ones, in any order of runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mqservice.accounts.models import Namespace
from mqservice.lib.durations import DAY_MS, HOUR_MS, MINUTE_MS
from mqservice.sampling.limits import LATE_MS, RESOLUTIONS_MS, RETAINED_MS, SAMPLE_MS
from mqservice.sampling.models import GroupSample, StoreSample, TopicSample
from mqservice.sampling.rollup import delete_old_samples, roll_up
from tests.people import People

START_MS = 1_800_000_000_000 - 1_800_000_000_000 % HOUR_MS
Known = st.none() | st.integers(0, 1_000)


def sample(namespace: Namespace, at_ms: int, lag: int | None, topic: str = "") -> GroupSample:
    return GroupSample(
        namespace=namespace, group_name="g", topic=topic, resolution_ms=SAMPLE_MS, at_ms=at_ms,
        known_count=int(lag is not None), estimated_count=int(lag is not None and lag % 2),
        lag_sum=lag, lag_max=lag, lag_last=lag, lag_ms_max=lag,
        inflight_max=lag, settled_last=lag, member_last=None, dead_last=None,
    )  # fmt: skip


def rows(resolution_ms: int) -> list[dict[str, Any]]:  # Any: whatever the columns hold
    found = GroupSample.objects.filter(resolution_ms=resolution_ms).order_by("topic", "at_ms")
    return [dict(row) for row in found.values()]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lags=st.lists(
        st.tuples(st.integers(0, 900), Known), max_size=40, unique_by=lambda each: each[0]
    ),
    runs=st.lists(st.integers(0, 3 * HOUR_MS), max_size=4),
)
def test_coarse_rows_are_what_the_fine_ones_say_however_often_they_are_made(
    people: People, lags: list[tuple[int, int | None]], runs: list[int]
) -> None:
    """Runs in between, at any time, lead to the same rows as one in the end."""
    GroupSample.objects.all().delete()
    written = sorted(lags)
    end_ms = START_MS + 3 * HOUR_MS + LATE_MS
    for run_ms in sorted(runs):
        # What was there by then; a sample is written within LATE_MS of its moment.
        due = [each for each in written if START_MS + each[0] * SAMPLE_MS <= START_MS + run_ms]
        GroupSample.objects.bulk_create(
            [sample(people.acme, START_MS + at * SAMPLE_MS, lag) for at, lag in due],
            ignore_conflicts=True,
        )
        roll_up(START_MS + run_ms)
    GroupSample.objects.bulk_create(
        [sample(people.acme, START_MS + at * SAMPLE_MS, lag) for at, lag in written],
        ignore_conflicts=True,
    )
    roll_up(end_ms)
    for coarse_ms in RESOLUTIONS_MS[1:]:
        spans: dict[int, list[int | None]] = {}
        for at, lag in written:
            at_ms = START_MS + at * SAMPLE_MS
            spans.setdefault(at_ms - at_ms % coarse_ms, []).append(lag)
        assert [row["at_ms"] for row in rows(coarse_ms)] == sorted(spans)
        for row in rows(coarse_ms):
            all_lags = spans[row["at_ms"]]
            known = [lag for lag in all_lags if lag is not None]
            assert row["sample_count"] == len(all_lags)
            assert row["known_count"] == len(known)
            assert row["estimated_count"] == sum(lag % 2 for lag in known)
            assert row["lag_sum"] == (sum(known) if known else None)
            assert row["lag_max"] == row["lag_ms_max"] == max(known, default=None)
            assert row["lag_last"] == row["settled_last"] == (known[-1] if known else None)
            assert row["dead_last"] is None


def test_a_span_is_made_when_it_is_over_and_its_last_sample_had_its_time(people: People) -> None:
    sample(people.acme, START_MS + 50_000, 5).save()
    roll_up(START_MS + MINUTE_MS + LATE_MS - 1)
    assert rows(MINUTE_MS) == []
    roll_up(START_MS + MINUTE_MS + LATE_MS)
    assert [row["lag_sum"] for row in rows(MINUTE_MS)] == [5]


def test_each_thing_has_rows_of_its_own(people: People) -> None:
    for namespace, topic, lag in [
        (people.acme, "", 1), (people.acme, "orders", 2), (people.rival, "", 4),
    ]:  # fmt: skip
        sample(namespace, START_MS, lag, topic).save()
    for free in (70, 30, 50):
        StoreSample.objects.create(
            broker="b", resolution_ms=SAMPLE_MS, at_ms=START_MS + free * 100 // 10 * 10,
            disk_total_last=100, disk_free_last=free, disk_free_min=free,
            disk_state_max=int(free < 40), lost_last=None,
        )  # fmt: skip
    TopicSample.objects.create(
        namespace=people.acme, topic="t", resolution_ms=SAMPLE_MS, at_ms=START_MS, stored_last=9
    )
    roll_up(START_MS + MINUTE_MS + LATE_MS)
    assert sorted(row["lag_sum"] for row in rows(MINUTE_MS)) == [1, 2, 4]
    disk = StoreSample.objects.get(resolution_ms=MINUTE_MS)
    assert (disk.sample_count, disk.disk_free_min, disk.disk_free_last) == (3, 30, 70)
    assert (disk.disk_state_max, disk.lost_last) == (1, None)
    assert TopicSample.objects.get(resolution_ms=MINUTE_MS).stored_last == 9


def test_samples_go_when_they_are_too_old_and_were_rolled_up(people: People) -> None:
    now_ms = START_MS + 100 * DAY_MS
    for resolution_ms, kept_ms in RETAINED_MS.items():
        for at_ms in (now_ms - kept_ms - 1, now_ms - kept_ms, now_ms):
            GroupSample.objects.create(
                namespace=people.acme, group_name="g", topic="", resolution_ms=resolution_ms,
                at_ms=at_ms, known_count=0,
            )  # fmt: skip
    delete_old_samples(now_ms)
    for resolution_ms, kept_ms in RETAINED_MS.items():
        kept = [row["at_ms"] for row in rows(resolution_ms)]
        assert kept == [now_ms - kept_ms, now_ms]


def test_what_was_not_rolled_up_yet_stays(people: People) -> None:
    """Workers were away for a day: the fine samples from before are still needed."""
    sample(people.acme, START_MS, 5).save()
    delete_old_samples(START_MS + DAY_MS)
    roll_up(START_MS + DAY_MS)
    delete_old_samples(START_MS + DAY_MS)
    assert [row["lag_sum"] for row in rows(HOUR_MS)] == [5]


@pytest.fixture(autouse=True)
def _database(people: People) -> None:
    """All of these write."""
