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

from mqservice.accounts.scopes import Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.filters import filter_of_query, tags_in
from mqservice.delivery.http import Request
from mqservice.delivery.limits import CONTAINS_BYTES_MAX
from mqservice.delivery.operation import TOPIC, Operation, Reply, page_reply
from mqservice.delivery.reading.key_search import find_by_id, key_page
from mqservice.delivery.reading.query import (
    CURSOR,
    FROM,
    KEY,
    LIMIT,
    OFFSET_MAX,
    QUEUE,
    TAG,
    TO,
    Number,
    Query,
    Text,
)
from mqservice.delivery.reading.queue_walk import queue_page
from mqservice.delivery.reading.stored_messages import (
    EXAMPLE,
    StoredMessage,
    stored_message,
    stored_messages,
)
from mqservice.delivery.reading.walk import BrowsePage, BrowseQuery
from mqservice.delivery.response_format import accepts_msgpack, reply_struct
from mqservice.lib.queue_numbers import queue_fault
from mqservice.store import FilterKind, Store
from mqservice.topics.routes import TopicRoute

_OFFSET: Final = Number(
    name="offset", text="Start at this offset of the queue.", low=0, high=OFFSET_MAX
)
_FILTER: Final = Text(
    name="filter",
    text='Like `filter` of a receive: tags, `created || paid`, or `{"sql": "amount > 100"}`.',
    code="ILLEGAL_FILTER",
    chars_min=1,
)
_SQL: Final = Text(
    name="sql",
    text="Only messages whose properties match this SQL92 condition: `amount > 100`.",
    code="ILLEGAL_FILTER",
    chars_min=1,
)


def _reject_contains(text: str) -> str | None:
    size_bytes = len(text.encode())
    if 1 <= size_bytes <= CONTAINS_BYTES_MAX:
        return None
    return f"contains must be 1 to {CONTAINS_BYTES_MAX} bytes of UTF-8, found {size_bytes}"


_CONTAINS: Final = Text(
    name="contains",
    text="Only messages whose body contains this string; exact match.",
    chars_min=1,
    chars_max=CONTAINS_BYTES_MAX,
    reject=_reject_contains,
)


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
    topic, query = await BROWSE.read_topic(context, request)
    question = read_question(query, topic.queue_count)
    limit = query.require(LIMIT)
    bound_to = encode_query(question)
    place = read_place(context, query, topic, bound_to)
    page = await page_reader(question)(context.stores[topic.shard], topic, question, place, limit)
    next_cursor = None
    if page.place is not None:
        next_cursor = context.cursors.write(page.place, topic=topic.engine_name, question=bound_to)
    messages = stored_messages(page.records, as_bytes=accepts_msgpack(request))
    scanned = page.scanned_count if question.is_scan else msgspec.UNSET
    reply_struct(request, BrowseResponse(messages, next_cursor, page.is_complete, scanned))


def page_reader(question: BrowseQuery) -> FindPage:
    """What finds the pages of a question."""
    return queue_page if question.key is None else key_page


def read_place(
    context: DeliveryContext, query: Query, topic: TopicRoute, question: bytes
) -> bytes | None:
    """Where the ``cursor`` of a query goes on; None without one. Raises Fault."""
    cursor = query.get(CURSOR)
    if cursor is None:
        return None
    place = context.cursors.read(cursor, topic=topic.engine_name, question=question)
    if place is None:
        raise CURSOR.fault(
            "the cursor does not belong to this topic and query; give next_cursor of "
            "the previous page, and the same parameters except limit",
            code=CURSOR.code,
        )
    return place


async def read_message(context: DeliveryContext, request: Request) -> None:
    """``GET .../topics/{topic}/messages/{id}``"""
    topic, _ = await READ_MESSAGE.read_topic(context, request)
    record = await find_by_id(context.stores[topic.shard], topic, request.match.message_id)
    reply_struct(request, stored_message(record, as_bytes=accepts_msgpack(request)))


def read_question(query: Query, queue_count: int) -> BrowseQuery:
    """What the parameters of a browse ask of a topic with so many queues. Raises Fault."""
    queue_id = query.get(QUEUE)
    if queue_id is not None and (fault := queue_fault(queue_id, queue_count)):
        raise QUEUE.fault(fault, code=QUEUE.code)
    offset = query.get(_OFFSET)
    from_ms, to_ms = query.span()
    key = query.get(KEY)
    if offset is not None:
        if key is not None:
            raise _OFFSET.fault("a search by key takes no offset")
        if queue_id is None:
            raise _OFFSET.fault("an offset belongs to one queue: give queue as well")
        if from_ms is not None:
            raise _OFFSET.fault("browsing starts at offset or at from: give only one of them")
    wanted = filter_of_query(query.get(TAG), query.get(_FILTER), query.get(_SQL))
    is_sql = wanted.kind is FilterKind.SQL92
    tags = [] if is_sql else tags_in(wanted)
    condition = wanted.text if is_sql else ""
    contains = query.get(_CONTAINS) or ""
    return BrowseQuery(key, tags, from_ms, to_ms, queue_id, offset, condition, contains)


BROWSE: Final = Operation(
    method="GET",
    path=TOPIC + "/messages",
    operation_id="browseMessages",
    tag="read",
    summary="Browse or search a topic",
    description=(
        "Returns messages in pages, in the order they were stored, or with `key` the newest "
        "first. Delivery is not affected. Only `next_cursor` says whether there is more: any "
        "page may be short. `offset` requires `queue`, and cannot be combined with `key` or "
        "`from`. With `sql` or `contains` a page checks a bounded number of messages and "
        "returns that number in `scanned`. Unknown parameters are rejected."
    ),
    scope=Scope.CONSUME,
    handler=browse_messages,
    parameters=(
        KEY, TAG, FROM, TO, QUEUE, _OFFSET, _FILTER, _SQL, _CONTAINS, LIMIT, CURSOR,
    ),
    replies=page_reply(BrowseResponse, EXAMPLE),
)  # fmt: skip
READ_MESSAGE: Final = Operation(
    method="GET",
    path=TOPIC + "/messages/{message_id}",
    operation_id="readMessage",
    tag="read",
    summary="Read one message",
    description="Returns a message by its id.",
    scope=Scope.CONSUME,
    handler=read_message,
    replies=(Reply("The message.", StoredMessage, EXAMPLE),),
)
