"""Sending a message from a form, once or several times, with the curl command that does the same.

?from=id, ?from=id&group= ──▶ the form, filled from a message or a dead letter ──▶ a new message
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from mqservice.accounts.roles import Permission
from mqservice.console.groups.views import found_group
from mqservice.console.messages.views import stored_letter, stored_message
from mqservice.console.shared.bodies import body_of, text_of
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.data_plane import call_data_plane
from mqservice.console.shared.forms import PublishForm
from mqservice.console.shared.frame import Frame, page
from mqservice.console.topics.views import found_topic, topic_crumbs
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.lib.problem_words import in_words

_FIRST: Final = re.compile(r"^/0(?=/|$)")
_LATER: Final = re.compile(r"^/[1-9]")


class BadForm(Exception):
    """A field that cannot be read."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field, self.text = field, text


@page("topics", needs=Permission.PRODUCE, methods=("GET", "HEAD", "POST"))
def publish(frame: Frame, topic: str) -> HttpResponse:
    """POST stores the message as ``POST /v1/ns/{ns}/topics/{topic}/messages`` does."""
    row = found_topic(frame, topic)
    form = PublishForm(frame.request.POST or None, initial=_filled(frame, row.name))
    path = f"{frame.api_root}/topics/{row.name}/messages"
    body: dict[str, object] = {"body_json": {"order": 42}}
    status = 200
    if frame.request.method == "POST" and form.is_valid():
        try:
            body = message_of(form.cleaned_data)
            told = _send(frame, path, body, form.cleaned_data["repeat"] or 1)
        except BadForm as bad:
            form.add_error(bad.field, bad.text)
        except Problem as problem:
            form.add_problem(problem)
        else:
            if told:
                messages.success(frame.request, told)
            if "again" not in frame.request.POST:
                return redirect("console:topic-messages", frame.namespace.name, row.name)
            return redirect("console:publish", frame.namespace.name, row.name)
    if form.is_bound:
        status = 422
    return frame.render(
        "console/publish.html",
        status=status,
        form=form,
        topic=row,
        tab="publish",
        is_resend="from" in frame.request.GET,
        crumbs=topic_crumbs(frame, row, _("Publish")),
        curl=curl_of("POST", path, body),
    )


def _send(frame: Frame, path: str, body: dict[str, object], count: int) -> str:
    """Store a message so many times; what is told of it, if any was stored. Raises Problem.

    What of several was not stored is told as an error, beside what was.
    """
    if count == 1:
        data = _send_one(frame, path, msgspec.json.encode(body))
        told = {"id": data["id"], "queue": data["queue"]}
        return _("Stored in queue %(queue)s as %(id)s.") % told
    results = _send_one(frame, f"{path}:batch", msgspec.json.encode([body] * count))["results"]
    refused = [each for each in results if "id" not in each]
    if refused:
        told = {"n": len(refused), "why": in_words(refused[0]["detail"])}
        messages.error(frame.request, _("%(n)s not stored: %(why)s") % told)
    stored = len(results) - len(refused)
    told_text = ngettext("%(n)s message was stored.", "%(n)s messages were stored.", stored)
    return told_text % {"n": stored} if stored else ""


def _send_one(frame: Frame, path: str, body: bytes) -> Any:  # Any: see Answer
    """Raises Problem, whose pointers are of one message: of several all have the same fault."""
    answer = call_data_plane(frame.request, frame.principal, "POST", path, body=body)
    problem = answer.problem
    if problem is None:
        return answer.data
    first = [item for item in problem.errors if not _LATER.match(item.pointer)]
    problem.errors = [
        ProblemItem(_FIRST.sub("", item.pointer), item.code, item.detail) for item in first
    ]
    raise problem


def _filled(frame: Frame, topic: str) -> dict[str, object]:
    """What the form begins with: of the message it is to be like, else nothing.

    Raises Http404: there is no such message. One call of the data plane, for a resend only.
    """
    message_id = frame.request.GET.get("from", "")
    if not message_id or frame.request.method == "POST":
        return {}
    if not frame.can_consume:
        raise PermissionDenied(f"this needs the permission {Permission.CONSUME.value}")
    group = frame.request.GET.get("group", "")
    if group:
        stored = stored_letter(frame, found_group(frame, group).name, message_id)[0]
    else:
        stored = stored_message(frame, topic, message_id)[0]
    text = text_of(body_of(stored))
    if stored.get("masked") or stored.get("masked_properties"):
        # What stands in place of a hidden value must not become part of a new message.
        messages.error(
            frame.request, _("Values hidden from your role were left out. Fill them in again.")
        )
    if stored.get("masked"):
        text = ""
    elif text is None:
        messages.error(
            frame.request, _("The body is not text and cannot be edited here, so it was left out.")
        )
    hidden = stored.get("masked_properties", ())
    lines = [
        f"{name}={value}" for name, value in stored["properties"].items() if name not in hidden
    ]
    return {
        "body": text or "",
        "is_json": "body_json" in stored,
        "tag": stored["tag"] or "",
        "keys": ", ".join(stored["keys"]),
        "message_group": stored["message_group"] or "",
        "properties": "\n".join(lines),
    }


def message_of(fields: dict[str, object]) -> dict[str, object]:
    """The JSON form of the API. Raises BadForm."""
    message: dict[str, object] = {}
    text = str(fields["body"])
    if fields["is_json"]:
        try:
            json.loads(text)
            message["body_json"] = msgspec.Raw(text.strip().encode())  # as it was written
        except ValueError as exc:
            raise BadForm("body", _("This is not valid JSON: %(why)s") % {"why": exc}) from None
    else:
        message["body"] = text
    for name in ("tag", "delay", "message_group"):
        if fields[name]:
            message[name] = fields[name]
    keys = [key.strip() for key in str(fields["keys"]).split(",") if key.strip()]
    if keys:
        message["keys"] = keys
    properties = {}
    for line in str(fields["properties"]).splitlines():
        name, sign, value = line.partition("=")
        if line.strip() and not sign:
            raise BadForm(
                "properties", _("“%(line)s” is not in the form name=value.") % {"line": line[:80]}
            )
        if sign:
            properties[name.strip()] = value.strip()
    if properties:
        message["properties"] = properties
    return message
