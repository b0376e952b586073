"""Resend or copy to another topic what a search finds: a dry run first, then page by page.

?q=&id=&target= ──▶ the API's copy with dry_run ──▶ what would be stored ── POST ──▶ stored
"""

from __future__ import annotations

import secrets
from typing import Any, Final

import msgspec
from django.contrib import messages as notes
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from mqservice.accounts.roles import Permission
from mqservice.console.messages.explorer import explorer_url, parsed
from mqservice.console.messages.exports import selected
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.data_plane import call_data_plane, reject_hidden
from mqservice.console.shared.form_views import FORM_METHODS
from mqservice.console.shared.frame import Crumb, Frame, page
from mqservice.console.shared.masking import masks_for
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import in_words
from mqservice.lib.units import count
from mqservice.topics.models import Topic

NAMES_MAX: Final = 200
EMPTY_PAGES_MAX: Final = 8  # that one look reads for a page with messages


@page("messages", needs=Permission.PRODUCE, methods=FORM_METHODS)
def copy_messages(frame: Frame) -> HttpResponse:
    """A dry run of one page; POST stores it, and leads to that of the next."""
    given = frame.request.POST if frame.request.method == "POST" else frame.request.GET
    q = selected(given.get("q", ""), given.getlist("id"))
    wanted = parsed(q)
    source = wanted.topic if wanted else ""
    target = given.get("target", "").strip() or source
    cursor = given.get("cursor", "")
    problem: Problem | None = None
    found: dict[str, Any] | None = None  # Any: JSON, see CopyResponse
    path = f"{frame.api_root}/topics/{target or 'orders'}/messages:copy"
    is_sent = frame.request.method == "POST" and "preview" not in given
    try:
        if target and name_fault(target):
            raise Problem.of("ILLEGAL_TOPIC", _("This cannot be the name of a topic."))
        if target:
            _check_masks(frame, q, source, target)
            if is_sent:
                key = given.get("key", "")
                found = _copied(frame, path, q, cursor, dry_run=False, key=key)
            else:
                found = _previewed(frame, path, q, cursor)
    except Problem as refused:
        problem = refused
    if is_sent and found is not None:
        told = ngettext("%(n)s message was copied.", "%(n)s messages were copied.", found["count"])
        notes.success(frame.request, told % {"n": count(found["count"])})
        failed = [each for each in found["messages"] if each["detail"]]
        if failed:
            text = _("%(n)s not stored: %(why)s") % {
                "n": len(failed),
                "why": in_words(failed[0]["detail"]),
            }
            notes.error(frame.request, text)
        if found["next_cursor"] is None:
            return redirect("console:topic-messages", frame.namespace.name, target)
        try:
            found = _previewed(frame, path, q, found["next_cursor"])
        except Problem as refused:
            problem = refused
    topics = Topic.objects.filter(namespace=frame.namespace).order_by("name")
    return frame.render(
        "console/copy.html",
        status=200 if problem is None else problem.status,
        q=q,
        source=source,
        target=target,
        cursor=cursor if found is None else found["cursor"],
        key=secrets.token_hex(16),  # a form that is sent twice copies once
        found=found if problem is None else None,
        problem=problem,
        topics=list(topics.values_list("name", flat=True)[:NAMES_MAX]),
        back=explorer_url(frame, q),
        crumbs=frame.crumbs(Crumb(title=_("Search"), url=explorer_url(frame, q)), _("Copy")),
        curl=curl_of("POST", path, {"q": q, "dry_run": True}),
    )


def _previewed(frame: Frame, path: str, q: str, cursor: str) -> Any:  # Any: above
    """A dry run of the next page that has messages; its ``cursor`` finds the same ones again, or
    goes on where nothing was found. Raises Problem.
    """
    for _attempt in range(EMPTY_PAGES_MAX):
        found = _copied(frame, path, q, cursor, dry_run=True)
        if found["count"] or found["next_cursor"] is None:
            break
        cursor = found["next_cursor"]
        found["cursor"] = cursor
    return found


def _copied(
    frame: Frame, path: str, q: str, cursor: str, *, dry_run: bool, key: str = ""
) -> Any:  # Any: above
    """Raises Problem."""
    body = msgspec.json.encode({"q": q, "cursor": cursor or None, "dry_run": dry_run})
    answer = call_data_plane(
        frame.request, frame.principal, "POST", path, body=body, idempotency_key=key
    )
    if answer.problem is not None:
        raise answer.problem
    return answer.data


def _check_masks(frame: Frame, q: str, source: str, target: str) -> None:
    """Raises Problem: a copy would show what is hidden, or the search would tell it."""
    masks = masks_for(frame.request, frame.principal, frame.namespace.name)
    reject_hidden(masks, None, {"q": q})
    if target != source and masks.shows_more_in(target):
        detail = _(
            "Masking hides parts of messages from your role that would be visible in %(name)s."
        )
        raise Problem.of("FORBIDDEN", detail % {"name": target})
