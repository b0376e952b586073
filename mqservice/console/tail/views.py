"""Live tail: the page; its rows come over the socket of ``tail/consumer.py``."""

from __future__ import annotations

from typing import Final

from django.http import HttpResponse
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.frame import Frame, page
from mqservice.console.tail.reading import SHOWN_PER_S_MAX
from mqservice.console.topics.views import found_topic, topic_crumbs
from mqservice.lib.clock import SystemClock
from mqservice.lib.timestamps import rfc3339
from mqservice.topics.models import Topic

ROWS_MAX: Final = 200  # kept in the page: a browser lays all of them out for each that comes
NAMES_MAX: Final = 200  # suggested; any other can be typed


@page("messages", needs=Permission.CONSUME)
def tail(frame: Frame) -> HttpResponse:
    """``?topic=``; without one it asks for it. One query, or two."""
    name = frame.request.GET.get("topic", "").strip()
    if not name:
        rows = Topic.objects.filter(namespace=frame.namespace).order_by("name")
        names = list(rows.values_list("name", flat=True)[:NAMES_MAX])
        return frame.render(
            "console/tail_topic.html",
            names=names,
            curl=curl_of("GET", f"{frame.api_root}/topics"),
        )
    row = found_topic(frame, name)
    return frame.render(
        "console/tail.html",
        topic=row,
        tab="tail",
        crumbs=topic_crumbs(frame, row, _("Live tail")),
        rows_max=ROWS_MAX,
        curl=curl_of(
            "GET",
            f"{frame.api_root}/topics/{row.name}/messages?from={rfc3339(SystemClock().now_ms())}",
        ),
        per_s_max=SHOWN_PER_S_MAX,
    )
