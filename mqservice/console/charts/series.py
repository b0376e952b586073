"""Time series for the charts, built from samples, with a bounded number of points.

    span, what ──▶ moments on the grid of a resolution ──▶ rows at these moments ──▶ points

However many topics a namespace has, at most ``ROWS_MAX`` rows are read: with more of them the
points lie further apart. A rate is made of two totals of the same topic or group one step apart,
so that creating or deleting one makes no peak; what was not measured is None.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.db.models import QuerySet

from mqservice.accounts.models import Namespace
from mqservice.lib.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from mqservice.sampling.limits import RESOLUTIONS_MS, SAMPLE_MS
from mqservice.sampling.models import GroupSample, TopicSample

ROWS_MAX: Final = 20_000  # some 30 ms of CPU
POINTS_MAX: Final = 360
POINTS_MIN: Final = 24
BARS_MAX: Final = 30  # of one chart, so that each can be told from its neighbours
LINES_MAX: Final = 5  # groups that a chart tells apart: as many as there are colours
Point = tuple[int, float | None]
_Total = tuple[str, int, int | None]  # name, at_ms, total


class Span(enum.StrEnum):
    """What can be looked back at."""

    MINUTES_5 = "5m"
    HOUR = "1h"
    HOURS_6 = "6h"
    DAY = "24h"
    WEEK = "7d"


LENGTHS_MS: Final = {
    Span.MINUTES_5: 5 * MINUTE_MS,
    Span.HOUR: HOUR_MS,
    Span.HOURS_6: 6 * HOUR_MS,
    Span.DAY: DAY_MS,
    Span.WEEK: 7 * DAY_MS,
}
_RESOLUTIONS: Final = {
    Span.MINUTES_5: SAMPLE_MS,
    Span.HOUR: SAMPLE_MS,
    Span.HOURS_6: MINUTE_MS,
    Span.DAY: MINUTE_MS,
    Span.WEEK: HOUR_MS,
}
assert set(_RESOLUTIONS.values()) <= set(RESOLUTIONS_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Moments ``from_ms``, ``from_ms + step_ms``, … up to ``to_ms``, all of one resolution."""

    from_ms: int
    to_ms: int
    step_ms: int
    resolution_ms: int

    @property
    def moments(self) -> list[int]:
        return list(range(self.from_ms, self.to_ms + 1, self.step_ms))


def grid_of(span: Span, now_ms: int, *, thing_count: int, points_max: int = POINTS_MAX) -> Grid:
    """``thing_count``: topics or groups of which there is a row for each moment."""
    resolution_ms, length_ms = _RESOLUTIONS[span], LENGTHS_MS[span]
    point_count = max(POINTS_MIN, min(points_max, ROWS_MAX // max(1, thing_count)))
    step_count = max(1, -(-length_ms // (resolution_ms * point_count)))
    step_ms = step_count * resolution_ms
    to_ms = now_ms - now_ms % step_ms
    return Grid(
        from_ms=to_ms - length_ms + length_ms % step_ms,
        to_ms=to_ms,
        step_ms=step_ms,
        resolution_ms=resolution_ms,
    )


def in_rates(namespace: Namespace, grid: Grid, topic: str = "") -> list[Point]:
    """Messages stored per second, in all topics or one. One query."""
    rows = TopicSample.objects.filter(
        namespace=namespace, resolution_ms=grid.resolution_ms, at_ms__in=grid.moments
    )
    if topic:
        rows = rows.filter(topic=topic)
    return rates(rows.values_list("topic", "at_ms", "stored_last"), grid)


def out_rates(namespace: Namespace, grid: Grid, topic: str = "", group: str = "") -> list[Point]:
    """Messages settled per second by all groups or one, on all topics or one. One query."""
    rows = _groups(namespace, grid, topic, group)
    return rates(rows.values_list("group_name", "at_ms", "settled_last"), grid)


def lags(
    namespace: Namespace, grid: Grid, topic: str = "", group: str = ""
) -> list[tuple[str, list[Point]]]:
    """Messages not yet settled by each of the ``LINES_MAX`` groups that were furthest behind, those
    first that are so now; by name. One query.
    """
    rows = _groups(namespace, grid, topic, group).values_list("group_name", "at_ms", "lag_last")
    by_group: dict[str, dict[int, int]] = {}
    for name, at_ms, lag in rows:
        if lag is not None:
            by_group.setdefault(name, {})[at_ms] = lag
    newest = {name: found[max(found)] for name, found in by_group.items()}
    ordered = sorted(
        by_group, key=lambda name: (-newest[name], -max(by_group[name].values()), name)
    )
    # A group that never had anything to do says nothing, unless it is the only one.
    shown = [name for name in ordered if any(by_group[name].values())] or ordered[:1]
    return [
        (name, [(at_ms, by_group[name].get(at_ms)) for at_ms in grid.moments])
        for name in shown[:LINES_MAX]
    ]


def oldest_ages(namespace: Namespace, grid: Grid, topic: str = "", group: str = "") -> list[Point]:
    """How long the oldest message that is not settled has waited, in s. One query."""
    ages: dict[int, int] = {}
    for at_ms, age_ms in _groups(namespace, grid, topic, group).values_list("at_ms", "lag_ms_max"):
        if age_ms is not None:
            ages[at_ms] = max(ages.get(at_ms, 0), age_ms)
    return [
        (at_ms, None if at_ms not in ages else ages[at_ms] / SECOND_MS) for at_ms in grid.moments
    ]


def dead_letters(namespace: Namespace, grid: Grid, group: str = "") -> list[Point]:
    """Messages given up in each step, by all groups or one. One query."""
    rows = _groups(namespace, grid, "", group).values_list("group_name", "at_ms", "dead_last")
    return increases(rows, grid)


def rates(totals: Iterable[_Total], grid: Grid) -> list[Point]:
    """Per second at each moment: ``increases`` over the length of a step."""
    return [
        (at_ms, None if more is None else more * SECOND_MS / grid.step_ms)
        for at_ms, more in increases(totals, grid)
    ]


def increases(totals: Iterable[_Total], grid: Grid) -> list[Point]:
    """How much more there was than a step before, over all that have a total at both moments. A
    total that went down was reset and says nothing.
    """
    known = {(name, at_ms): total for name, at_ms, total in totals if total is not None}
    sums: dict[int, int] = {}
    for (name, at_ms), total in known.items():
        before = known.get((name, at_ms - grid.step_ms))
        if before is not None and total >= before:
            sums[at_ms] = sums.get(at_ms, 0) + total - before
    return [(at_ms, sums.get(at_ms)) for at_ms in grid.moments]


def _groups(namespace: Namespace, grid: Grid, topic: str, group: str) -> QuerySet[GroupSample]:
    """Rows of the groups, or one, as a whole, or of what they read of one topic."""
    rows = GroupSample.objects.filter(group_name=group) if group else GroupSample.objects.all()
    return rows.filter(
        namespace=namespace,
        topic=topic,
        resolution_ms=grid.resolution_ms,
        at_ms__in=grid.moments,
    )
