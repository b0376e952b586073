"""Messages of a topic: search and browse, saved filters, one message, its download.

    ?key= | ?id= | ?tag=&from=&to=&queue=&offset=&filter=&contains= ──▶ browse ──▶ rows, cursor

With a filter or a text a page is what a bounded amount of looking has found, and says how much.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from django.contrib import messages as notes
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.messages.saved_filters import (
    NotSaved,
    delete_filter,
    filters_of,
    save_filter,
)
from mqservice.console.shared.bodies import Stored, body_of, is_hidden, preview, shown_body
from mqservice.console.shared.columns import columns_of
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.data_plane import call_data_plane, read_stored
from mqservice.console.shared.form_times import ago, utc_of
from mqservice.console.shared.form_views import number_of
from mqservice.console.shared.frame import Frame, page
from mqservice.console.shared.time_zones import zone_given
from mqservice.console.topics.views import found_topic, topic_crumbs
from mqservice.lib.durations import HOUR_MS, MINUTE_MS

PAGE_ROWS: Final = 50
_FIELDS: Final = ("key", "tag", "from", "to", "queue", "offset", "filter", "contains")
_MORE_FIELDS: Final = _FIELDS[2:]  # folded on a narrow screen until one of them is used


def question_of(given: dict[str, str]) -> dict[str, str]:
    """The fields of the page as parameters of the data plane, where a condition is ``sql``."""
    return {"sql" if name == "filter" else name: value for name, value in given.items()}


@page("topics", needs=Permission.CONSUME)
def messages(frame: Frame, topic: str) -> HttpResponse:
    """One page of messages. A query of the topic, and what the data plane asks."""
    row = found_topic(frame, topic)
    given = _given(frame.request.GET)
    message_id = frame.request.GET.get("id", "").strip()
    if message_id:
        return redirect("console:message", frame.namespace.name, row.name, message_id)
    path = f"{frame.api_root}/topics/{row.name}/messages"
    query = {
        **question_of(given),
        "limit": str(PAGE_ROWS),
        "cursor": frame.request.GET.get("cursor", ""),
    }
    answer = call_data_plane(frame.request, frame.principal, "GET", path, query=query)
    asked = urlencode({name: value for name, value in query.items() if value and name != "cursor"})
    found = [] if answer.problem else answer.data["messages"]
    return frame.render(
        "console/messages.html",
        status=answer.status,
        topic=row,
        tab="messages",
        crumbs=topic_crumbs(frame, row, _("Messages")),
        given=given,
        minutes_5=ago(5 * MINUTE_MS),
        hour=ago(HOUR_MS),
        is_filtered=any(given.values()),
        more_count=sum(bool(given[name]) for name in _MORE_FIELDS),
        columns=columns_of(frame.user, "messages"),
        saved=filters_of(frame.user, frame.namespace, row.name),
        problem=answer.problem,
        rows=[(message, preview(message)) for message in found],
        next_cursor=None if answer.problem else answer.data["next_cursor"],
        is_complete=answer.problem is not None or answer.data["is_complete"],
        scanned_count=None if answer.problem else answer.data.get("scanned"),
        curl=curl_of("GET", f"{path}?{asked}"),
    )


@page("topics", needs=Permission.CONSUME, methods=("POST",))
def saved_filters(frame: Frame, topic: str) -> HttpResponse:
    """``name`` with the fields of a search keeps it; ``delete`` with an id drops one."""
    row, posted = found_topic(frame, topic), frame.request.POST
    given = {name: value for name, value in _given(posted).items() if value}
    back = reverse("console:messages", args=(frame.namespace.name, row.name))
    if "delete" in posted:
        number = number_of(posted["delete"])
        if number is not None and delete_filter(frame.user, frame.namespace, number):
            notes.success(frame.request, _("The filter was deleted."))
        return redirect(f"{back}?{urlencode(given)}" if given else back)
    try:
        saved = save_filter(frame.user, frame.namespace, row.name, posted.get("name", ""), given)
    except NotSaved as refused:
        notes.error(frame.request, str(refused))
        return redirect(f"{back}?{urlencode(given)}")
    notes.success(frame.request, _("The filter %(name)s was saved.") % {"name": saved.name})
    return redirect(f"{back}?{saved.query}")


@page("topics", needs=Permission.CONSUME)
def message(frame: Frame, topic: str, message_id: str) -> HttpResponse:
    """One message: where it lies, its properties, its body in three forms."""
    row = found_topic(frame, topic)
    stored, path = stored_message(frame, row.name, message_id)
    return frame.render(
        "console/message.html",
        topic=row,
        tab="messages",
        message=stored,
        crumbs=topic_crumbs(frame, row, _("Message")),
        body=shown_body(stored),
        curl=curl_of("GET", path),
    )


@page("topics", needs=Permission.CONSUME)
def download(frame: Frame, topic: str, message_id: str) -> HttpResponse:
    """The body as it is. A browser keeps it and never shows it: it may be a page of anybody."""
    row = found_topic(frame, topic)
    stored, _path = stored_message(frame, row.name, message_id)
    return body_response(row.name, stored)


def body_response(name: str, stored: Stored) -> HttpResponse:
    """A body as a file of no type; of ``name``, the topic or the group it is of."""
    if is_hidden(stored):
        raise PermissionDenied("masking hides this body from your role")
    response = HttpResponse(body_of(stored), content_type="application/octet-stream")
    masked = "-masked" if stored.get("masked") else ""
    response["Content-Disposition"] = f'attachment; filename="{name}-{stored["id"]}{masked}.bin"'
    return response


def _given(fields: QueryDict) -> dict[str, str]:
    """The conditions as somebody wrote them, but for times, which are in UTC."""
    found = {name: fields.get(name, "").strip() for name in _FIELDS}
    zone = zone_given(fields)
    return {**found, "from": utc_of(found["from"], zone), "to": utc_of(found["to"], zone)}


def stored_message(frame: Frame, topic: str, message_id: str) -> tuple[Stored, str]:
    """The message and its path in the API. Raises Http404."""
    return read_stored(frame, f"topics/{topic}/messages", message_id)
