"""Browse over REST: the messages of a topic page by page, without affecting their delivery.

    GET .../messages?from=&to=&tag=&queue=&offset=&sql=&contains= ──▶ queue_walk  in log's order
    GET .../messages?key=&from=&to=&tag=&queue=&contains=            ──▶ key_search  newest first
    GET .../messages/{id}                          ──▶ key_search
                                            answer ◀── messages, next_cursor

A page may be short, or even empty, before the last one: ``next_cursor`` alone says whether there is
more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault
from mqservice.delivery.filters import filter_of_query, tags_in
from mqservice.delivery.http import Request
from mqservice.delivery.limits import (
    BROWSE_COUNT_DEFAULT,
    BROWSE_COUNT_MAX,
    CONTAINS_BYTES_MAX,
)
from mqservice.delivery.messages import key_fault
from mqservice.delivery.path_routes import topic_route
from mqservice.delivery.reading.key_search import find_by_id, key_page
from mqservice.delivery.reading.query import OFFSET_MAX, Query
from mqservice.delivery.reading.queue_walk import queue_page
from mqservice.delivery.reading.stored_messages import (
    StoredMessage,
    stored_message,
    stored_messages,
)
from mqservice.delivery.reading.walk import BrowsePage, BrowseQuery
from mqservice.delivery.response_format import accepts_msgpack, reply_struct
from mqservice.store import FilterKind, Store
from mqservice.topics.routes import TopicRoute

_NAMES: Final = (
    "key", "tag", "from", "to", "queue", "offset", "filter", "sql", "contains", "limit", "cursor",
)  # fmt: skip


class BrowseResponse(msgspec.Struct, frozen=True):
    """``is_complete`` is false while the key index lacks the newest messages. ``scanned``: with
    ``filter`` or ``contains``, how many messages were checked for this page."""

    messages: list[StoredMessage]
    next_cursor: str | None
    is_complete: bool
    scanned: int | msgspec.UnsetType = msgspec.UNSET


FindPage = Callable[[Store, TopicRoute, BrowseQuery, bytes | None, int], Awaitable[BrowsePage]]
encode_query = msgspec.msgpack.Encoder().encode


async def browse_messages(context: DeliveryContext, request: Request) -> None:
    """``GET .../topics/{topic}/messages``"""
    request.principal.require(Scope.CONSUME, Kind.TOPIC, request.match.topic)
    topic = await topic_route(context, request)
    query = Query(request.scope["query_string"], _NAMES)
    question = _read_query(query, topic)
    limit = query.number("limit", low=1, high=BROWSE_COUNT_MAX) or BROWSE_COUNT_DEFAULT
    bound_to = encode_query(question)
    place = read_place(context, query, topic, bound_to)
    page = await page_reader(question)(context.store, topic, question, place, limit)
    next_cursor = None
    if page.place is not None:
        next_cursor = context.cursors.write(page.place, topic=topic.engine_name, question=bound_to)
    messages = stored_messages(page.records, as_bytes=accepts_msgpack(request))
    scanned = page.scanned_count if question.is_scan else msgspec.UNSET
    reply_struct(request, BrowseResponse(messages, next_cursor, page.is_complete, scanned))


def page_reader(question: BrowseQuery) -> FindPage:
    """What finds the pages of a question."""
    return queue_page if question.key is None else key_page


def key_of(query: Query) -> str | None:
    """The parameter ``key``. Raises Fault: no message can have it."""
    key = query.text("key")
    if key is not None and (fault := key_fault(key)):
        raise Fault("?key", "ILLEGAL_KEY", f"a key {fault}")
    return key


def span_of(query: Query) -> tuple[int | None, int | None]:
    """The parameters ``from`` and ``to``. Raises Fault: the one is after the other."""
    from_ms, to_ms = query.moment_ms("from"), query.moment_ms("to")
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        raise Fault("?to", "BAD_REQUEST", f"to is {from_ms - to_ms} ms before from")
    return from_ms, to_ms


def read_place(
    context: DeliveryContext, query: Query, topic: TopicRoute, question: bytes
) -> bytes | None:
    """Where the ``cursor`` of a query goes on; None without one. Raises Fault."""
    cursor = query.text("cursor")
    if cursor is None:
        return None
    place = context.cursors.read(cursor, topic=topic.engine_name, question=question)
    if place is None:
        raise Fault(
            "?cursor",
            "CURSOR_INVALID",
            "the cursor does not belong to this topic and query; give next_cursor of "
            "the previous page, and the same parameters except limit",
        )
    return place


async def read_message(context: DeliveryContext, request: Request) -> None:
    """``GET .../topics/{topic}/messages/{id}``"""
    request.principal.require(Scope.CONSUME, Kind.TOPIC, request.match.topic)
    topic = await topic_route(context, request)
    Query(request.scope["query_string"], ())
    record = await find_by_id(context.store, topic, request.match.message_id)
    reply_struct(request, stored_message(record, as_bytes=accepts_msgpack(request)))


def _read_query(query: Query, topic: TopicRoute) -> BrowseQuery:
    queue_id = query.queue(topic.queue_count)
    offset = query.number("offset", low=0, high=OFFSET_MAX)
    from_ms, to_ms = span_of(query)
    key = key_of(query)
    if offset is not None:
        if key is not None:
            raise Fault("?offset", "BAD_REQUEST", "a search by key takes no offset")
        if queue_id is None:
            raise Fault(
                "?offset", "BAD_REQUEST", "an offset belongs to one queue: give queue as well"
            )
        if from_ms is not None:
            raise Fault(
                "?offset",
                "BAD_REQUEST",
                "browsing starts at offset or at from: give only one of them",
            )
    wanted = filter_of_query(query.text("tag"), query.text("filter"), query.text("sql"))
    is_sql = wanted.kind is FilterKind.SQL92
    if is_sql and key is not None:
        name = "filter" if query.text("sql") is None else "sql"
        raise Fault(f"?{name}", "BAD_REQUEST", "a search by key takes tags, but no condition")
    tags = [] if is_sql else tags_in(wanted)
    condition = wanted.text if is_sql else ""
    return BrowseQuery(key, tags, from_ms, to_ms, queue_id, offset, condition, _contains(query))


def _contains(query: Query) -> str:
    """The parameter ``contains``; empty without one. Raises Fault."""
    text = query.text("contains")
    if text is None:
        return ""
    size_bytes = len(text.encode())
    if not 1 <= size_bytes <= CONTAINS_BYTES_MAX:
        detail = f"contains must be 1 to {CONTAINS_BYTES_MAX} bytes of UTF-8, found {size_bytes}"
        raise Fault("?contains", "BAD_REQUEST", detail)
    return text
