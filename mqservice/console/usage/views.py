"""Usage and quotas: how much of each limit is used now, and usage over time."""

from __future__ import annotations

from django.http import Http404, HttpResponse

from mqservice.console.charts.views import BarsOut, chart_response
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.frame import Frame, page
from mqservice.console.usage.queries import CHARTS, HistorySpan, history, limits_page
from mqservice.lib.clock import SystemClock


def _back(frame: Frame) -> HistorySpan:
    """A day for whatever is none of them."""
    try:
        return HistorySpan(frame.request.GET.get("span", ""))
    except ValueError:
        return HistorySpan.DAY


@page("usage")
def usage(frame: Frame) -> HttpResponse:
    """``?span=24h|7d|30d`` of the charts."""
    return frame.render(
        "console/usage.html",
        page=limits_page(frame.namespace.tenant_id),
        spans=list(HistorySpan),
        span=_back(frame),
        curl=curl_of("GET", "/v1/quotas") + "\n" + curl_of("GET", "/v1/usage?per=day&by=topic"),
    )


@page("usage")
def usage_chart(frame: Frame, name: str) -> HttpResponse:
    """What the charts draw, as JSON: messages, bytes, calls or storage. One query."""
    if name not in CHARTS:
        raise Http404
    found = history(frame.principal, name, _back(frame), SystemClock().now_ms())
    step_ms = found.step_ms
    return chart_response(
        found.lines,
        unit="B" if name in ("bytes", "storage") else "",
        from_ms=found.from_ms,
        to_ms=found.to_ms,
        # What is stored is no count of an hour: it is a line.
        bars=None
        if name == "storage"
        else BarsOut(step_ms=step_ms, open_ms=found.to_ms - found.to_ms % step_ms),
    )
