"""Messages of a topic: search and browse, one message as tree, text and bytes, its download.

    ?key= | ?id= | ?tag=&from=&to=&queue=&offset=  ──▶ the data plane's browse ──▶ rows, cursor

A body is what a tenant wrote: it is shown as text only, and downloaded as bytes of no type.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from mqservice.accounts.roles import Permission
from mqservice.console.asking import ask
from mqservice.console.frame import Frame, page
from mqservice.console.views_topics import found_topic, topic_crumbs
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import HOUR_MS, MINUTE_MS
from mqservice.lib.timestamps import rfc3339

PAGE_ROWS: Final = 50
PREVIEW_CHARS: Final = 160
SHOWN_BYTES_MAX: Final = 64 * 1024
TREE_NODES_MAX: Final = 2_000
_FIELDS: Final = ("key", "tag", "from", "to", "queue", "offset")
_HEX_ROW: Final = 16
_HEX_BYTES_MAX: Final = 8 * 1024
Stored = dict[str, Any]  # Any: a message of the API's answer, see StoredMessage


@page("topics", needs=Permission.CONSUME)
def messages(frame: Frame, topic: str) -> HttpResponse:
    """One page of messages. A query of the topic, and what the data plane asks."""
    row = found_topic(frame, topic)
    given = {name: frame.request.GET.get(name, "").strip() for name in _FIELDS}
    message_id = frame.request.GET.get("id", "").strip()
    if message_id:
        return redirect("console:message", frame.namespace.name, row.name, message_id)
    path = f"/v1/ns/{frame.namespace.name}/topics/{row.name}/messages"
    query = {
        **given,
        "from": _utc(given["from"]),
        "to": _utc(given["to"]),
        "limit": str(PAGE_ROWS),
        "cursor": frame.request.GET.get("cursor", ""),
    }
    answer = ask(frame.request, frame.principal, "GET", path, query=query)
    asked = urlencode({name: value for name, value in query.items() if value and name != "cursor"})
    found = [] if answer.problem else answer.data["messages"]
    return frame.render(
        "console/messages.html",
        status=answer.status,
        topic=row,
        tab="messages",
        crumbs=topic_crumbs(frame, row, _("Messages")),
        given=given,
        minutes_5=_ago(5 * MINUTE_MS),
        hour=_ago(HOUR_MS),
        is_filtered=any(given.values()),
        problem=answer.problem,
        rows=[(message, preview(message)) for message in found],
        next_cursor=None if answer.problem else answer.data["next_cursor"],
        is_complete=answer.problem is not None or answer.data["is_complete"],
        curl=f'curl -sS "{settings.MQ_BASE_URL}{path}?{asked}" \\\n'
        '  -H "Authorization: Bearer $MQ_API_KEY"',
    )


@page("topics", needs=Permission.CONSUME)
def message(frame: Frame, topic: str, message_id: str) -> HttpResponse:
    """One message: where it lies, its properties, its body in three forms."""
    row = found_topic(frame, topic)
    stored, path = _stored(frame, row.name, message_id)
    body = body_of(stored)
    text = text_of(body)
    return frame.render(
        "console/message.html",
        topic=row,
        tab="messages",
        message=stored,
        crumbs=topic_crumbs(frame, row, _("Message")),
        size=len(body),
        text=None if text is None else text[:SHOWN_BYTES_MAX],
        is_cut=len(body) > SHOWN_BYTES_MAX,
        tree=tree_of(text),
        hex=hex_of(body[:_HEX_BYTES_MAX]),
        is_hex_cut=len(body) > _HEX_BYTES_MAX,
        curl=f'curl -sS "{settings.MQ_BASE_URL}{path}" \\\n'
        '  -H "Authorization: Bearer $MQ_API_KEY"',
    )


@page("topics", needs=Permission.CONSUME)
def download(frame: Frame, topic: str, message_id: str) -> HttpResponse:
    """The body as it is. A browser keeps it and never shows it: it may be a page of anybody."""
    row = found_topic(frame, topic)
    stored, _path = _stored(frame, row.name, message_id)
    response = HttpResponse(body_of(stored), content_type="application/octet-stream")
    response["Content-Disposition"] = f'attachment; filename="{row.name}-{stored["id"]}.bin"'
    return response


def _stored(frame: Frame, topic: str, message_id: str) -> tuple[Stored, str]:
    """The message and its path in the API. Raises Http404."""
    if not message_id.isalnum() or not message_id.isascii():
        raise Http404
    path = f"/v1/ns/{frame.namespace.name}/topics/{topic}/messages/{message_id}"
    answer = ask(frame.request, frame.principal, "GET", path)
    if answer.problem is not None:
        raise Http404(answer.problem.detail)
    return answer.data, path


def body_of(message: Stored) -> bytes:
    """The bytes of whichever form the API chose."""
    if "body_json" in message:
        return json.dumps(message["body_json"], ensure_ascii=False).encode()
    if "body_b64" in message:
        return base64.b64decode(message["body_b64"])
    return str(message.get("body", "")).encode()


def text_of(body: bytes) -> str | None:
    """None for what is no UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def preview(message: Stored) -> str:
    """The beginning of a body, for one line of a table."""
    text = text_of(body_of(message))
    if text is None:
        return _("binary")
    return " ".join(text[: 2 * PREVIEW_CHARS].split())[:PREVIEW_CHARS]


def tree_of(text: str | None) -> list[dict[str, object]] | None:
    """A JSON object or array as nested nodes; None for anything else, and for what is too large.

    A node has ``key``, and either ``kind`` and ``text``, or ``children`` and ``summary``.
    """
    if text is None or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = json.loads(text)
        return [_node("", value, iter(range(TREE_NODES_MAX)))]
    except (ValueError, RecursionError, StopIteration):
        return None


def _node(key: str, value: object, budget: Iterator[int]) -> dict[str, object]:
    """Raises StopIteration when there are too many."""
    next(budget)
    if isinstance(value, dict):
        children = [_node(name, each, budget) for name, each in value.items()]
        return {"key": key, "children": children, "summary": f"{{{len(children)}}}"}
    if isinstance(value, list):
        children = [_node(str(index), each, budget) for index, each in enumerate(value)]
        return {"key": key, "children": children, "summary": f"[{len(children)}]"}
    kind = "text" if isinstance(value, str) else "figure"
    return {"key": key, "kind": kind, "text": json.dumps(value, ensure_ascii=False)}


def hex_of(body: bytes) -> str:
    """Offset, 16 bytes, their characters; a line each."""
    lines = []
    for start in range(0, len(body), _HEX_ROW):
        row = body[start : start + _HEX_ROW]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<{3 * _HEX_ROW - 1}}  {shown}")
    return "\n".join(lines)


def _ago(ms: int) -> str:
    """As a field for a time has it."""
    return rfc3339(SystemClock().now_ms() - ms)[: len("2026-11-22T08:00:00")]


def _utc(text: str) -> str:
    """A time of a form, which has no zone, as RFC 3339 in UTC; anything else as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
