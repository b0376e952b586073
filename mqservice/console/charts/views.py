"""``/console/<ns>/charts/<name>``: the data of the charts, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from django.http import Http404, HttpResponse, JsonResponse
from django.utils.translation import gettext as _

from mqservice.alerts.queries import thresholds_of
from mqservice.alerts.settings import AlertKind
from mqservice.console.charts.series import (
    BARS_MAX,
    LENGTHS_MS,
    POINTS_MAX,
    Point,
    Span,
    dead_letters,
    grid_of,
    in_rates,
    lags,
    oldest_ages,
    out_rates,
)
from mqservice.console.shared.frame import Frame, page
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import SECOND_MS
from mqservice.topics.models import Topic


def span_of(text: str) -> Span:
    """An hour for whatever is none of them."""
    try:
        return Span(text)
    except ValueError:
        return Span.HOUR


@page("home")
def chart(frame: Frame, name: str) -> HttpResponse:
    """``?span=5m|1h|6h|24h|7d&topic=&group=``. Five queries."""
    namespace, topic = frame.namespace, frame.request.GET.get("topic", "")[:127]
    group = frame.request.GET.get("group", "")[:127]
    span, now_ms = span_of(frame.request.GET.get("span", "")), SystemClock().now_ms()
    topic_count = 1 if topic else Topic.objects.filter(namespace=namespace).count()
    group_count = 1 if group else ConsumerGroup.objects.filter(namespace=namespace).count()
    grid = grid_of(
        span,
        now_ms,
        thing_count=max(topic_count, group_count),
        points_max=BARS_MAX if name == "dead" else POINTS_MAX,
    )
    unit, lines = "", list[tuple[str, list[Point]]]()
    if name == "rates":
        unit = "/s"
        lines = [
            (_("in"), in_rates(namespace, grid, topic)),
            (_("out"), out_rates(namespace, grid, topic)),
        ]
    elif name == "settled":
        unit, lines = "/s", [(_("out"), out_rates(namespace, grid, topic, group))]
    elif name == "lag":
        lines = lags(namespace, grid, topic, group)
    elif name == "age":
        unit, lines = "s", [(_("oldest"), oldest_ages(namespace, grid, topic, group))]
    elif name == "dead":
        lines = [(_("dead letters"), dead_letters(namespace, grid, group))]
    else:
        raise Http404
    return chart_response(
        lines,
        unit=unit,
        from_ms=grid.to_ms - LENGTHS_MS[span],
        to_ms=grid.to_ms,
        # A bar stands for the step that ends at its moment.
        bars=BarsOut(step_ms=grid.step_ms, is_at_end=True) if name == "dead" else None,
        thresholds=_thresholds(frame, name, group, topic),
    )


def _thresholds(frame: Frame, name: str, group: str, topic: str) -> list[tuple[str, float]]:
    """Where alerts fire, in the unit of the chart. All groups together have none."""
    if not group and not topic:
        return []
    if name == "lag":
        found = thresholds_of(frame.namespace, AlertKind.LAG, group=group, topic=topic)
        return [(rule, float(value)) for rule, value in found]
    if name == "age":
        found = thresholds_of(frame.namespace, AlertKind.OLDEST_AGE, group=group, topic=topic)
        return [(rule, value / SECOND_MS) for rule, value in found]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class BarsOut:
    """Values that are counts of a period of ``step_ms`` each, which begins, or with ``is_at_end``
    ends, at the moment of its point. ``open_ms``: where the period that is not over began.
    """

    step_ms: int
    is_at_end: bool = False
    open_ms: int | None = None


def chart_response(
    lines: Sequence[tuple[str, list[Point]]],
    *,
    unit: str,
    from_ms: int,
    to_ms: int,
    bars: BarsOut | None = None,
    thresholds: Sequence[tuple[str, float]] = (),
) -> JsonResponse:
    """What ``frontend/src/js/charts.js`` draws. ``unit``: "", "/s", "s" or "B"; ``thresholds``: of
    alerts, by name.
    """
    return JsonResponse(
        {
            "unit": unit,
            "from_ms": from_ms,
            "to_ms": to_ms,
            "bars": None if bars is None else asdict(bars),
            "thresholds": [{"label": label, "value": value} for label, value in thresholds],
            "series": [{"label": label, "points": points} for label, points in lines],
        }
    )
