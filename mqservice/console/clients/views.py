"""Connected clients, and disconnecting a socket."""

from __future__ import annotations

from dataclasses import replace

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from msgspec import structs

from mqservice.accounts.roles import Permission
from mqservice.console.audit.sentences import actor_of, key_names
from mqservice.console.clients.queries import clients_page
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.frame import Frame, page
from mqservice.console.shared.masking import masks_for, shown_filter
from mqservice.delivery.connections.api import end
from mqservice.delivery.connections.connections import Connection
from mqservice.lib.names import NAME_CHARS_MAX
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import problem_text
from mqservice.masking.masks import Masks


@page("clients")
def clients(frame: Frame) -> HttpResponse:
    """``?q=&page=``"""
    given = frame.request.GET
    number = given.get("page", "")
    shown = clients_page(
        frame.namespace,
        text=given.get("q", "").strip()[:NAME_CHARS_MAX],
        number=max(1, int(number)) if number.isdecimal() and len(number) < 5 else 1,
    )
    masks = masks_for(frame.request, frame.principal, frame.namespace.name)
    opened = shown.sockets or []
    keys = key_names(frame.namespace.tenant_id, [each.actor for each in opened])
    sockets = [
        structs.replace(_without_hidden(each, masks), actor=actor_of(each.actor, keys))
        for each in opened
    ]
    return frame.render(
        "console/clients.html",
        page=shown if shown.sockets is None else replace(shown, sockets=sockets),
        previous_number=shown.number - 1,
        next_number=shown.number + 1,
        can_disconnect=frame.principal.permits(Permission.CONNECTIONS_MANAGE),
        curl=curl_of("GET", f"{frame.api_root}/connections"),
    )


@page("clients", needs=Permission.CONNECTIONS_MANAGE, methods=("POST",))
def disconnect(frame: Frame) -> HttpResponse:
    """POST ``id``: of a socket of this namespace."""
    try:
        was_there = end(frame.principal, frame.namespace, frame.request.POST.get("id", ""))
    except Problem as problem:
        messages.error(frame.request, problem_text(problem))
    else:
        if was_there:
            text = _("Disconnected. The client may reconnect unless its key is revoked.")
            messages.success(frame.request, text)
        else:
            messages.info(frame.request, _("This client was already disconnected."))
    return redirect("console:clients", frame.namespace.name)


def _without_hidden(socket: Connection, masks: Masks) -> Connection:
    own = [
        structs.replace(each, filter=shown_filter(masks, each.topic, each.filter))
        for each in socket.subscriptions
    ]
    return structs.replace(socket, subscriptions=own)
