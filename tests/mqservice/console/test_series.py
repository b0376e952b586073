"""Time series of the charts: rates without peaks that nobody made, gaps, bounded work."""

from __future__ import annotations

import pytest
from django.test import Client

from mqservice.console.charts.series import (
    LENGTHS_MS,
    POINTS_MAX,
    ROWS_MAX,
    Grid,
    Span,
    dead_letters,
    grid_of,
    in_rates,
    lags,
    oldest_ages,
    rates,
)
from mqservice.sampling.models import GroupSample, TopicSample
from tests.people import People

NOW_MS = 1_800_000_123_456
GRID = Grid(from_ms=0, to_ms=40_000, step_ms=10_000, resolution_ms=10_000)


@pytest.mark.parametrize("span", list(Span))
@pytest.mark.parametrize("thing_count", [0, 1, 100, 1_000, 5_000])
def test_grid_spans_what_was_asked_for_in_a_bounded_number_of_rows(
    span: Span, thing_count: int
) -> None:
    grid = grid_of(span, NOW_MS, thing_count=thing_count)
    moments = grid.moments
    assert len(moments) <= POINTS_MAX + 1
    assert len(moments) * thing_count <= max(ROWS_MAX, 25 * thing_count) + thing_count
    assert NOW_MS - grid.step_ms < moments[-1] <= NOW_MS
    assert moments[0] >= NOW_MS - LENGTHS_MS[span] - grid.step_ms
    assert all(moment % grid.resolution_ms == 0 for moment in moments)


def test_rate_needs_the_step_before_and_says_nothing_over_a_reset_or_a_gap() -> None:
    totals = [
        ("a", 0, 100), ("a", 10_000, 150), ("a", 20_000, 20), ("a", 40_000, 90),
        ("new", 10_000, 1_000_000), ("new", 20_000, 1_000_100),
    ]  # fmt: skip
    assert rates(totals, GRID) == [
        (0, None), (10_000, 5.0), (20_000, 10.0), (30_000, None), (40_000, None),
    ]  # fmt: skip


def test_series_are_of_the_namespace_alone(people: People) -> None:
    for namespace, stored in ((people.acme, 100), (people.rival, 900_000)):
        for at_ms in (0, 10_000):
            TopicSample.objects.create(
                namespace=namespace,
                topic="orders",
                resolution_ms=10_000,
                at_ms=at_ms,
                stored_last=stored * (at_ms // 10_000),
            )
        GroupSample.objects.create(
            namespace=namespace,
            group_name="billing",
            resolution_ms=10_000,
            at_ms=20_000,
            known_count=1,
            lag_last=stored,
            lag_ms_max=7_000,
        )
    assert in_rates(people.acme, GRID)[1] == (10_000, 10.0)
    [(name, behind)] = lags(people.acme, GRID)
    assert name == "billing"
    assert [point[1] for point in behind] == [None, None, 100, None, None]
    assert oldest_ages(people.acme, GRID)[2] == (20_000, 7.0)


def test_lag_is_told_by_group_those_furthest_behind_first(people: People) -> None:
    lags_of = {"idle": 0, **{f"group-{number}": 10 * number for number in range(1, 8)}}
    for name, lag in lags_of.items():
        add_group_sample(people, name, at_ms=20_000, lag_last=lag)
    add_group_sample(people, "was-behind", at_ms=10_000, lag_last=9_000)
    add_group_sample(people, "was-behind", at_ms=20_000, lag_last=0)
    shown = [name for name, _ in lags(people.acme, GRID)]
    assert shown == ["group-7", "group-6", "group-5", "group-4", "group-3"]
    assert [name for name, _ in lags(people.acme, GRID, group="idle")] == ["idle"]


def test_dead_letters_are_counted_by_step_over_all_groups(people: People) -> None:
    for at_ms, dead, others in ((0, 5, 0), (10_000, 7, 1), (30_000, 7, 1), (40_000, 2, 1)):
        add_group_sample(people, "billing", at_ms=at_ms, dead_last=dead)
        add_group_sample(people, "mail", at_ms=at_ms, dead_last=others)
    counted = [point[1] for point in dead_letters(people.acme, GRID)]
    assert counted == [None, 3, None, None, 0]  # a count that went down is of another group
    assert dead_letters(people.acme, GRID, group="mail")[1] == (10_000, 1)


def add_group_sample(people: People, name: str, *, at_ms: int, **numbers: int) -> None:
    GroupSample.objects.create(
        namespace=people.acme,
        group_name=name,
        resolution_ms=10_000,
        at_ms=at_ms,
        known_count=1,
        **numbers,
    )


def test_chart_answers_json_for_each_name_and_404_for_others(
    people: People, client: Client
) -> None:
    client.force_login(people.bob)
    for name, has_bars in (("rates", False), ("lag", False), ("age", False), ("dead", True)):
        data = client.get(f"/console/acme/charts/{name}?span=5m").json()
        assert data["to_ms"] - data["from_ms"] == 5 * 60_000
        assert all(point[1] is None for line in data["series"] for point in line["points"])
        assert (data["bars"] is not None) == has_bars
    assert client.get("/console/acme/charts/other").status_code == 404
    client.force_login(people.charlie)
    assert client.get("/console/acme/charts/rates").status_code == 404
