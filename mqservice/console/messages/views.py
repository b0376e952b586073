"""One message or dead letter with its trace and body, saved searches, files of what a search finds.

topics/T/messages/ID, dead-letters/G/messages/ID ──▶ API, traces.queries ──▶ page, or the drawer
topics/T/messages?key=…, dead-letters/G?…, traces?…  ──▶ the explorer, where they all went
"""

from __future__ import annotations

from typing import Final, cast
from urllib.parse import urlencode

from django.contrib import messages as notes
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.accounts.scopes import Kind, Scope
from mqservice.console.groups.views import found_group
from mqservice.console.messages.explorer import explorer_url, old_search, to_explorer
from mqservice.console.messages.exports import Export, export_response
from mqservice.console.messages.saved_filters import (
    NotSaved,
    delete_filter,
    save_filter,
)
from mqservice.console.messages.traces import TRACED_ID_CHARS_MAX, shown_trace
from mqservice.console.shared.bodies import Stored, body_of, is_hidden, shown_body
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.data_plane import read_stored
from mqservice.console.shared.form_views import act, number_of
from mqservice.console.shared.frame import Crumb, Frame, page
from mqservice.console.topics.views import found_topic
from mqservice.delivery.reading.message_query import written
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.names import name_fault
from mqservice.searches.services import delete_search, put_search
from mqservice.topic_schemas.queries import find_schema

_PART: Final = "console/_message.html"


@page("messages", needs=Permission.CONSUME)
def topic_messages(frame: Frame, topic: str) -> HttpResponse:
    """To the explorer; ``?id=`` to the message."""
    row = found_topic(frame, topic)
    if message_id := frame.request.GET.get("id", "").strip():
        return redirect("console:message", frame.namespace.name, row.name, message_id)
    return to_explorer(frame, old_search(frame, written("topic", row.name)))


@page("messages", needs=Permission.CONSUME)
def letters(frame: Frame, group: str) -> HttpResponse:
    """To the explorer."""
    return to_explorer(frame, old_search(frame, written("group", found_group(frame, group).name)))


@page("messages", needs=Permission.CONSUME)
def traces(frame: Frame) -> HttpResponse:
    """``?id=`` to the trace of the message, anything else to the explorer."""
    given = frame.request.GET
    topic, message_id = given.get("topic", "").strip(), given.get("id", "").strip()
    if message_id and "/" not in message_id:
        asked = f"?{urlencode({'topic': topic})}" if topic else ""
        return redirect(frame.url("trace", message_id) + asked)
    return to_explorer(frame, old_search(frame, written("topic", topic)) if topic else "")


@page("messages", needs=Permission.CONSUME, methods=("POST",))
def saved_filters(frame: Frame, topic: str) -> HttpResponse:
    """``name`` with a search keeps it; ``delete`` with an id drops one."""
    row, posted = found_topic(frame, topic), frame.request.POST
    q = posted.get("q", "").strip() or written("topic", row.name)
    back = explorer_url(frame, q)
    if "delete" in posted:
        number = number_of(posted["delete"])
        if number is not None and delete_filter(frame.user, frame.namespace, number):
            notes.success(frame.request, _("The filter was deleted."))
        return redirect(back)
    try:
        given = {"q": posted.get("q", "").strip()}
        saved = save_filter(frame.user, frame.namespace, row.name, posted.get("name", ""), given)
    except NotSaved as refused:
        notes.error(frame.request, str(refused))
        return redirect(back)
    notes.success(frame.request, _("The filter %(name)s was saved.") % {"name": saved.name})
    return redirect(back)


@page("messages", needs=Permission.SETTINGS_MANAGE, methods=("POST",))
def shared_searches(frame: Frame) -> HttpResponse:
    """``name`` with a search shares it with all of the namespace; ``delete`` with a name drops
    one.
    """
    posted = frame.request.POST
    q = posted.get("q", "").strip()
    if dropped := posted.get("delete", ""):
        return act(
            frame,
            lambda: delete_search(frame.principal, frame.namespace, dropped),
            told=_("The shared search %(name)s was deleted.") % {"name": dropped},
            back=explorer_url(frame, q),
        )
    name = "-".join(posted.get("name", "").split())
    return act(
        frame,
        lambda: put_search(frame.principal, frame.namespace, name, q),
        told=_("The search %(name)s is shared.") % {"name": name},
        back=explorer_url(frame, q),
    )


@page("messages", needs=Permission.CONSUME)
def message(frame: Frame, topic: str, message_id: str) -> HttpResponse:
    """One message: where it lies, its properties, its body in three forms, what happened to it."""
    row = found_topic(frame, topic)
    stored, path = stored_message(frame, row.name, message_id)
    return _message_page(frame, stored, path, where=written("topic", row.name), origin=row.name)


@page("messages", needs=Permission.CONSUME)
def letter(frame: Frame, group: str, message_id: str) -> HttpResponse:
    """One dead letter: why it was given up as well."""
    row = found_group(frame, group)
    stored, path = stored_letter(frame, row.name, message_id)
    where = written("group", row.name)
    return _message_page(frame, stored, path, where=where, origin=stored["topic"], group=row)


@page("messages", needs=Permission.CONSUME)
def trace(frame: Frame, message_id: str) -> HttpResponse:
    """``?topic=&group=``: to the message, wherever it is stored; what happened to one that is
    gone.
    """
    topic = frame.request.GET.get("topic", "")
    if len(message_id) > TRACED_ID_CHARS_MAX or (topic and name_fault(topic)):
        raise Http404
    frame.principal.require(Scope.CONSUME, Kind.TOPIC if topic else None, topic)
    found = shown_trace(frame, message_id, topic, frame.request.GET.get("group", ""))
    if found.topic:
        return redirect(frame.url("message", found.topic, message_id))
    return frame.render(
        "console/message.html",
        status=200 if found.problem is None else found.problem.status,
        message_id=message_id,
        crumbs=frame.crumbs(message_id[:40]),
        curl=curl_of("GET", f"{frame.api_root}/messages/{message_id}/trace"),
        **found.context,
    )


def _message_page(
    frame: Frame,
    stored: Stored,
    path: str,
    *,
    where: str,
    origin: str,
    group: ConsumerGroup | None = None,
) -> HttpResponse:
    """``origin``: the topic that it was produced to, empty where nobody knows."""
    is_part = frame.request.headers.get("HX-Request") == "true"
    name = "dead-letter" if group else "message"
    place = group.name if group else origin
    trace_path = f"{frame.api_root}/messages/{stored['id']}/trace"
    return frame.render(
        _PART if is_part else "console/message.html",
        200,
        is_part=is_part,
        href=frame.request.path,
        message=stored,
        message_id=stored["id"],
        origin=origin,
        group=group,
        body=shown_body(stored, find_schema(frame.namespace, origin)),
        schema_topic=origin,
        body_href=frame.url(f"{name}-body", place, stored["id"]),
        keys=[
            (key, explorer_url(frame, f"{where} {written('key', key)}")) for key in stored["keys"]
        ],
        crumbs=frame.crumbs(Crumb(title=place, url=explorer_url(frame, where)), _("Message")),
        curl=f"{curl_of('GET', path)}\n\n{curl_of('GET', trace_path)}",
        **shown_trace(frame, stored["id"], origin, group.name if group else "").context,
    )


@page("messages", needs=Permission.CONSUME)
def download(frame: Frame, topic: str, message_id: str) -> HttpResponse:
    """The body as it is. A browser keeps it and never shows it: it may be a page of anybody."""
    row = found_topic(frame, topic)
    stored, _path = stored_message(frame, row.name, message_id)
    return _body_response(row.name, stored)


@page("messages", needs=Permission.CONSUME)
def letter_body(frame: Frame, group: str, message_id: str) -> HttpResponse:
    """The body as it is, as ``download``."""
    row = found_group(frame, group)
    stored, _path = stored_letter(frame, row.name, message_id)
    return _body_response(row.name, stored)


@page("messages", needs=Permission.CONSUME)
def export(frame: Frame, kind: str) -> HttpResponse:
    """``?q=&id=``: what a search finds, or of its topic or group the messages of the ids."""
    if kind not in set(Export):
        raise Http404
    response = export_response(frame, frame.request.GET, Export(kind))
    return cast("HttpResponse", response)  # a stream of it, which ``page`` passes on as well


def _body_response(name: str, stored: Stored) -> HttpResponse:
    """A body as a file of no type; of ``name``, the topic or the group it is of."""
    if is_hidden(stored):
        raise PermissionDenied("masking hides this body from your role")
    response = HttpResponse(body_of(stored), content_type="application/octet-stream")
    masked = "-masked" if stored.get("masked") else ""
    response["Content-Disposition"] = f'attachment; filename="{name}-{stored["id"]}{masked}.bin"'
    return response


def stored_message(frame: Frame, topic: str, message_id: str) -> tuple[Stored, str]:
    """The message and its path in the API. Raises Http404."""
    return read_stored(frame, f"topics/{topic}/messages", message_id)


def stored_letter(frame: Frame, group: str, message_id: str) -> tuple[Stored, str]:
    """The letter and its path in the API. Raises Http404."""
    return read_stored(frame, f"groups/{group}/dlq", message_id)
