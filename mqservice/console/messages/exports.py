"""What a search finds as a file, CSV, JSON or NDJSON, written page by page while it is sent.

    page of the search ──▶ rows ──▶ chunk of the answer ──▶ next page … at most EXPORTED_MAX

No more than a page is in memory. A file that does not hold all says so at its end: JSON by
``is_complete`` and ``goes_on_at``, CSV and NDJSON by a last row. One whose pages fail on the way
ends without its end, and the browser says that it failed.
"""

from __future__ import annotations

import csv
import enum
import io
import json
from collections.abc import AsyncIterator
from typing import Final

from django.http import HttpResponse, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase

from mqservice.console.shared.bodies import Stored, body_of, is_hidden, text_of
from mqservice.console.shared.data_plane import DataPlaneResponse, call_data_plane, call_for_stream
from mqservice.console.shared.frame import Frame
from mqservice.delivery.decoding import Fault
from mqservice.delivery.reading.message_query import parse_query, tokens_of, written
from mqservice.delivery.reading.search import OLDEST
from mqservice.lib.csv_cells import csv_cell
from mqservice.lib.problem_words import problem_text

EXPORTED_MAX: Final = 10_000
PAGE_MESSAGES: Final = 256
_WHERE: Final = ("topic", "group")
COLUMNS: Final = (
    "id", "topic", "stored_at", "attempts", "first_delivered_at", "last_delivered_at", "reason",
    "tag", "keys", "message_group", "properties", "body", "body_form",
)  # fmt: skip
BYTE_ORDER_MARK: Final = "\ufeff"  # else Excel takes UTF-8 for something else


class Export(enum.StrEnum):
    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"


_TYPES: Final = {
    Export.CSV: "text/csv; charset=utf-8",
    Export.JSON: "application/json",
    Export.NDJSON: "application/x-ndjson",
}


def export_response(frame: Frame, given: QueryDict, kind: Export) -> HttpResponseBase:
    """The file; a page that says why where the first page is refused."""
    path = f"{frame.api_root}/messages"
    q = selected(given.get("q", ""), given.getlist("id"))
    asked = {"q": q, "order": given.get("order", ""), "limit": str(PAGE_MESSAGES)}
    first = call_data_plane(frame.request, frame.principal, "GET", path, query=asked)
    if first.problem is not None:
        text = problem_text(first.problem)
        return HttpResponse(text, status=first.status, content_type="text/plain; charset=utf-8")
    pages = _pages(frame, path, asked, first)
    if kind is Export.CSV:
        content = csv_of(pages, "from" if asked["order"] == OLDEST else "to")
    else:
        content = json_of(q, pages) if kind is Export.JSON else ndjson_of(pages)
    response = StreamingHttpResponse(content, content_type=_TYPES[kind])
    wanted = parse_query(q)
    name = f"{wanted.group}-dead-letters" if wanted.group else f"{wanted.topic}-messages"
    response["Content-Disposition"] = f'attachment; filename="{name}.{kind.value}"'
    response["Cache-Control"] = "no-store"
    return response


def selected(q: str, ids: list[str]) -> str:
    """The search for these messages of the topic or group of ``q``; ``q`` itself without ids, and
    where it is no query, of which the API says why.
    """
    if not ids:
        return q
    try:
        tokens = list(tokens_of(q))
    except Fault:
        return q
    where = (
        written(each.name, each.value)
        for each in tokens
        if each.name in _WHERE and not each.is_comparison
    )
    return " ".join([*where, written("id", ",".join(ids))])


Page = tuple[list[Stored], bool]  # messages, and whether there are more behind them


async def _pages(
    frame: Frame, path: str, query: dict[str, str], answer: DataPlaneResponse
) -> AsyncIterator[Page]:
    """Pages until the last one, or until enough. Raises Problem, which ends the answer early."""
    left = EXPORTED_MAX
    while True:
        messages = answer.data["messages"]
        cursor = answer.data["next_cursor"]
        has_more = cursor is not None or len(messages) > left
        yield messages[:left], has_more
        left -= len(messages)
        if cursor is None or left <= 0:
            return
        answer = await call_for_stream(
            frame.request, frame.principal, path, {**query, "cursor": cursor}
        )
        if answer.problem is not None:
            raise answer.problem


async def csv_of(pages: AsyncIterator[Page], further: str) -> AsyncIterator[str]:
    """A chunk for each page. ``further``: the token of a time that leads to what is not in it."""
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    file.write(BYTE_ORDER_MARK)
    writer.writerow(COLUMNS)
    is_cut, last_at = False, ""
    async for messages, has_more in pages:
        is_cut = has_more
        for message in messages:
            writer.writerow(_row(message))
            last_at = message["stored_at"]
        yield _drain(file)
    if is_cut:
        told = f"there are more: search on with {further}:{last_at}"
        writer.writerow([f"(stopped after {EXPORTED_MAX} messages; {told})"])
        yield _drain(file)


async def ndjson_of(pages: AsyncIterator[Page]) -> AsyncIterator[str]:
    """A line for each message, as ``mqservice produce`` takes them."""
    is_cut, last_at = False, ""
    async for messages, has_more in pages:
        is_cut = has_more
        chunk = ""
        for message in messages:
            chunk += _json(message) + "\n"
            last_at = message["stored_at"]
        yield chunk
    if is_cut:
        yield json.dumps({"is_complete": False, "goes_on_at": last_at}) + "\n"


async def json_of(q: str, pages: AsyncIterator[Page]) -> AsyncIterator[str]:
    """A chunk for each page; messages as the API has them."""
    head = json.dumps({"q": q}, ensure_ascii=False)[:-1] + ', "messages": [\n'
    separator = ""
    is_cut, last_at = False, None
    async for messages, has_more in pages:
        is_cut = has_more
        chunk = head
        for message in messages:
            chunk += separator + _json(message)
            separator, last_at = ",\n", message["stored_at"]
        head = ""
        yield chunk
    end = {"is_complete": not is_cut, "goes_on_at": last_at if is_cut else None}
    yield "\n], " + json.dumps(end)[1:] + "\n"


def _json(message: Stored) -> str:
    kept = {name: value for name, value in message.items() if name != "body_text"}
    return json.dumps(kept, ensure_ascii=False)


def _row(message: Stored) -> list[str | int | None]:
    body = body_of(message)
    text = text_of(body)
    form = "json" if "body_json" in message else "base64" if text is None else "text"
    if message.get("masked"):
        form = "hidden" if is_hidden(message) else f"{form}, masked"
    if text is None:
        text = message["body_b64"]
    cells = (
        message["id"], message["topic"], message["stored_at"], message.get("attempts"),
        message.get("first_delivered_at"), message.get("last_delivered_at"), message.get("reason"),
        message["tag"], ", ".join(message["keys"]), message["message_group"],
        json.dumps(message["properties"], ensure_ascii=False), text, form,
    )  # fmt: skip
    return [csv_cell(cell) for cell in cells]


def _drain(file: io.StringIO) -> str:
    """What was written since the last time."""
    text = file.getvalue()
    file.seek(0)
    file.truncate()
    return text
