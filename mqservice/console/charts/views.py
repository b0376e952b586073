"""``/console/<ns>/charts/<name>``: the data of the charts, as JSON."""

from __future__ import annotations

from django.http import Http404, HttpResponse, JsonResponse
from django.utils.translation import gettext as _

from mqservice.console.charts.series import (
    LENGTHS_MS,
    Grid,
    Span,
    grid_of,
    in_rates,
    lags,
    out_rates,
)
from mqservice.console.shared.frame import Frame, page
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.topics.models import Topic


def span_of(text: str) -> Span:
    """An hour for whatever is none of them."""
    try:
        return Span(text)
    except ValueError:
        return Span.HOUR


@page("overview")
def chart(frame: Frame, name: str) -> HttpResponse:
    """``?span=5m|1h|6h|24h|7d&topic=&group=``. Four queries."""
    namespace, topic = frame.namespace, frame.request.GET.get("topic", "")[:127]
    group = frame.request.GET.get("group", "")[:127]
    span, now_ms = span_of(frame.request.GET.get("span", "")), SystemClock().now_ms()
    topic_count = 1 if topic else Topic.objects.filter(namespace=namespace).count()
    group_count = 1 if group else ConsumerGroup.objects.filter(namespace=namespace).count()
    grid = grid_of(span, now_ms, thing_count=max(topic_count, group_count))
    if name == "rates":
        unit, lines = (
            "/s",
            [
                (_("in"), in_rates(namespace, grid, topic)),
                (_("out"), out_rates(namespace, grid, topic)),
            ],
        )
    elif name == "settled":
        unit, lines = "/s", [(_("out"), out_rates(namespace, grid, topic, group))]
    elif name == "lag":
        unit, lines = "", [(_("Lag, messages"), lags(namespace, grid, topic, group)[0])]
    elif name == "age":
        unit, lines = (
            " s",
            [(_("Age of the oldest message, s"), lags(namespace, grid, topic, group)[1])],
        )
    else:
        raise Http404
    return JsonResponse(_answer(grid, LENGTHS_MS[span], unit, lines))


def _answer(
    grid: Grid, length_ms: int, unit: str, lines: list[tuple[str, list[tuple[int, float | None]]]]
) -> dict[str, object]:
    return {
        "unit": unit,
        "from_ms": grid.to_ms - length_ms,
        "to_ms": grid.to_ms,
        "series": [{"label": label, "points": points} for label, points in lines],
    }
