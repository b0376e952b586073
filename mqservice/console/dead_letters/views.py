"""Dead letters: groups that have some, one group's dead letters, one of them, and all as a file.

    ?key=&tag=&reason=&from=&to=&cursor= ──▶ the data plane's browse of the DLQ ──▶ rows, cursor

Who may manage the group selects letters here and goes on to ``redrive_views``.
"""

from __future__ import annotations

from typing import Final, cast
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.dead_letters.exports import EXPORTED_MAX, Export, export_response
from mqservice.console.dead_letters.queries import DeadLettersPage, dead_letters_page, letters_of
from mqservice.console.groups.views import found_group
from mqservice.console.messages.views import body_response
from mqservice.console.shared.bodies import Stored, preview, shown_body
from mqservice.console.shared.columns import columns_of
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.data_plane import call_data_plane, read_stored
from mqservice.console.shared.form_times import ago, utc_of
from mqservice.console.shared.frame import Crumb, Frame, page
from mqservice.console.shared.listing import PAGE_ROWS
from mqservice.console.shared.time_zones import zone_given
from mqservice.delivery.reading.same_cause import NO_REASON
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.durations import DAY_MS, HOUR_MS
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.tasks.models import Task

LETTERS_SHOWN: Final = 50
TASKS_SHOWN: Final = 5
SKIP_DIGITS_MAX: Final = 6
FIELDS: Final = ("key", "tag", "reason", "from", "to")


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


@page("dead-letters", needs=Permission.CONSUME)
def letters(frame: Frame, group: str) -> HttpResponse:
    """One page of a group's letters, the oldest first, or by key the newest."""
    row = found_group(frame, group)
    given = given_fields(frame.request)
    path = f"{frame.api_root}/groups/{row.name}/dlq"
    query = {
        **given,
        "limit": str(LETTERS_SHOWN),
        "cursor": frame.request.GET.get("cursor", ""),
    }
    answer = call_data_plane(frame.request, frame.principal, "GET", path, query=query)
    asked = urlencode({name: value for name, value in query.items() if value and name != "cursor"})
    found = [] if answer.problem else answer.data["messages"]
    tasks = Task.objects.filter(namespace=frame.namespace, group_name=row.name).order_by("-id")
    return frame.render(
        "console/group_dead_letters.html",
        status=answer.status,
        group=row,
        letters=letters_of(frame.namespace, row.name),
        given=given,
        chosen=urlencode({name: value for name, value in given.items() if value}),
        hour=ago(HOUR_MS),
        day=ago(DAY_MS),
        is_filtered=any(given.values()),
        problem=answer.problem,
        rows=[(message, preview(message)) for message in found],
        columns=columns_of(frame.user, "group_dead_letters"),
        next_cursor=None if answer.problem else answer.data["next_cursor"],
        is_complete=answer.problem is not None or answer.data["is_complete"],
        scanned_count=None if answer.problem else answer.data.get("scanned"),
        no_reason=NO_REASON,
        tasks=list(tasks[:TASKS_SHOWN]),
        exported_max=EXPORTED_MAX,
        crumbs=letters_crumbs(frame, row),
        curl=curl_of("GET", f"{path}?{asked}"),
    )


@page("dead-letters", needs=Permission.CONSUME)
def letter(frame: Frame, group: str, message_id: str) -> HttpResponse:
    """One letter: why it was given up, its deliveries, its properties, its body."""
    row = found_group(frame, group)
    stored, path = stored_letter(frame, row.name, message_id)
    return frame.render(
        "console/dead_letter.html",
        group=row,
        message=stored,
        body=shown_body(stored),
        crumbs=letters_crumbs(frame, row, _("Message")),
        curl=curl_of("GET", path),
    )


@page("dead-letters", needs=Permission.CONSUME)
def letter_body(frame: Frame, group: str, message_id: str) -> HttpResponse:
    """The body as it is, as ``messages.views.download``."""
    row = found_group(frame, group)
    stored, _path = stored_letter(frame, row.name, message_id)
    return body_response(row.name, stored)


@page("dead-letters", needs=Permission.CONSUME)
def export(frame: Frame, group: str) -> HttpResponse:
    """``?format=csv|json`` and what ``letters`` takes: a file of at most ``EXPORTED_MAX``."""
    row = found_group(frame, group)
    kind = frame.request.GET.get("format", "csv")
    if kind not in set(Export):
        raise Http404
    response = export_response(frame, row, given_fields(frame.request), Export(kind))
    return cast("HttpResponse", response)  # a stream of it, which ``page`` passes on as well


def letters_crumbs(frame: Frame, group: ConsumerGroup, title: str = "") -> list[Crumb]:
    return frame.crumbs_of("group-dead-letters", group.name, title)


def given_fields(request: HttpRequest) -> dict[str, str]:
    """The conditions as somebody wrote them, but for times, which are in UTC."""
    found = {name: request.GET.get(name, "").strip() for name in FIELDS}
    zone = zone_given(request.GET)
    return {**found, "from": utc_of(found["from"], zone), "to": utc_of(found["to"], zone)}


def stored_letter(frame: Frame, group: str, message_id: str) -> tuple[Stored, str]:
    """The letter and its path in the API. Raises Http404."""
    return read_stored(frame, f"groups/{group}/dlq", message_id)


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
