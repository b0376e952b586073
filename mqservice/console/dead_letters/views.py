"""Groups that have dead letters, the most first. The dead letters themselves are in the explorer
(``console/messages``), what is done with them in ``redrive_views``.
"""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse

from mqservice.console.dead_letters.queries import DeadLettersPage, dead_letters_page
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.frame import Crumb, Frame, page
from mqservice.console.shared.listing import PAGE_ROWS
from mqservice.delivery.reading.same_cause import NO_REASON
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.names import NAME_CHARS_MAX

LETTERS_SHOWN: Final = 50
SKIP_DIGITS_MAX: Final = 6


@page("dead-letters")
def dead_letters(frame: Frame) -> HttpResponse:
    """``?q=&skip=``: groups, those with the most letters first."""
    text = frame.request.GET.get("q", "").strip()[:NAME_CHARS_MAX]
    skip = _number(frame.request, "skip")
    found = dead_letters_page(frame.namespace, text, skip=skip, with_reasons=frame.can_consume)
    return frame.render(
        "console/dead_letters.html",
        page=found,
        text=text,
        no_reason=NO_REASON,
        previous_skip=max(0, skip - PAGE_ROWS),
        next_skip=skip + PAGE_ROWS,
        curl=_list_curl(frame, found),
    )


def letters_crumbs(frame: Frame, group: ConsumerGroup, title: str = "") -> list[Crumb]:
    return frame.crumbs_of("group-dead-letters", group.name, title)


def _list_curl(frame: Frame, found: DeadLettersPage) -> str:
    """The groups, and the letters of the one that has the most; no call counts those of all."""
    root = f"{frame.api_root}/groups"
    command = curl_of("GET", root)
    if frame.can_consume and found.rows:
        command += "\n\n" + curl_of(
            "GET", f"{root}/{found.rows[0].group}/dlq?limit={LETTERS_SHOWN}"
        )
    return command


def _number(request: HttpRequest, name: str) -> int:
    """A whole number of the query; 0 for anything else."""
    text = request.GET.get(name, "")
    is_number = text.isascii() and text.isdigit() and len(text) <= SKIP_DIGITS_MAX
    return int(text) if is_number else 0
