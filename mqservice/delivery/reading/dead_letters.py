"""The dead letters of a group over REST: page by page, oldest first, or by key.

    GET .../groups/{group}/dlq?key=&from=&to=&tag=&limit=&cursor= ──▶ browse of %DLQ%group
    GET .../groups/{group}/dlq?reason=&…                          ──▶ cause_walk
    GET .../groups/{group}/dlq/{id}                               ──▶ key_search there

Each message is shown as it was in its topic, with the reason, the number of its deliveries, and
when the first and the last of them began. Reading changes nothing.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault
from mqservice.delivery.filters import filter_of_query, tags_in
from mqservice.delivery.http import Request
from mqservice.delivery.limits import BROWSE_COUNT_DEFAULT, BROWSE_COUNT_MAX
from mqservice.delivery.path_routes import group_route
from mqservice.delivery.reading.browse import (
    encode_query,
    key_of,
    page_reader,
    read_place,
    span_of,
)
from mqservice.delivery.reading.cause_walk import CauseQuery, cause_page
from mqservice.delivery.reading.key_search import find_by_id
from mqservice.delivery.reading.query import Query
from mqservice.delivery.reading.same_cause import reason_fault, requested_cause
from mqservice.delivery.reading.stored_messages import StoredMessage, stored_message
from mqservice.delivery.reading.walk import BrowsePage, BrowseQuery
from mqservice.delivery.response_format import accepts_msgpack, reply_struct
from mqservice.groups.routes import GroupRoute
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import rfc3339
from mqservice.store import Record, TopicNotFound, dlq_topic_of, find_dead_letter
from mqservice.topics.routes import TopicRoute

_NAMES: Final = ("key", "tag", "from", "to", "reason", "limit", "cursor")
_encode_cause_question: Final = msgspec.msgpack.Encoder().encode


class DeadLetterMessage(StoredMessage, frozen=True, gc=False, kw_only=True):
    """``topic``: its original topic. ``attempts``: its deliveries, all of which failed."""

    topic: str
    reason: str
    attempts: int
    first_delivered_at: str | None
    last_delivered_at: str | None


class DeadLettersResponse(msgspec.Struct, frozen=True):
    """``is_complete`` is false while the key index lacks the newest messages. ``scanned``: with
    ``reason``, how many dead letters were checked for this page."""

    messages: list[DeadLetterMessage]
    next_cursor: str | None
    is_complete: bool
    scanned: int | msgspec.UnsetType = msgspec.UNSET


async def browse_dead_letters(context: DeliveryContext, request: Request) -> None:
    """``GET .../groups/{group}/dlq``"""
    request.principal.require(Scope.CONSUME, Kind.GROUP, request.match.group)
    topic = _dlq_of(await group_route(context, request))
    query = Query(request.scope["query_string"], _NAMES)
    question = BrowseQuery(
        key_of(query),
        tags_in(filter_of_query(query.text("tag"), None, None)),
        *span_of(query),
        None,
        None,
    )
    cause = _cause_of(query)
    limit = query.number("limit", low=1, high=BROWSE_COUNT_MAX) or BROWSE_COUNT_DEFAULT
    asked = None if cause is None else CauseQuery(question, cause)
    bound_to = encode_query(question) if asked is None else _encode_cause_question(asked)
    place = read_place(context, query, topic, bound_to)
    try:
        if asked is None:
            page = await page_reader(question)(context.store, topic, question, place, limit)
        else:
            page = await cause_page(context.store, topic, asked, place, limit, context.clock)
    except TopicNotFound:  # nothing was given up yet
        page = BrowsePage(records=[], place=None)
    next_cursor = None
    if page.place is not None:
        next_cursor = context.cursors.write(page.place, topic=topic.engine_name, question=bound_to)
    as_bytes = accepts_msgpack(request)
    messages = [_dead_letter(record, as_bytes=as_bytes) for record in page.records]
    scanned = msgspec.UNSET if asked is None else page.scanned_count
    answer = DeadLettersResponse(messages, next_cursor, page.is_complete, scanned)
    reply_struct(request, answer)


async def read_dead_letter(context: DeliveryContext, request: Request) -> None:
    """``GET .../groups/{group}/dlq/{id}``"""
    request.principal.require(Scope.CONSUME, Kind.GROUP, request.match.group)
    topic = _dlq_of(await group_route(context, request))
    Query(request.scope["query_string"], ())
    try:
        record = await find_by_id(context.store, topic, request.match.message_id)
    except TopicNotFound as exc:
        raise Problem.of("MESSAGE_NOT_FOUND", "the group has no dead letters yet") from exc
    reply_struct(request, _dead_letter(record, as_bytes=accepts_msgpack(request)))


def _cause_of(query: Query) -> str | None:
    """The cause that the parameter ``reason`` means; None without it. Raises Fault."""
    text = query.text("reason")
    if text is None:
        return None
    if fault := reason_fault(text):
        raise Fault("?reason", "BAD_REQUEST", f"a reason {fault}")
    return requested_cause(text)


def _dlq_of(group: GroupRoute) -> TopicRoute:
    return TopicRoute(
        namespace=group.namespace,
        name=group.name,
        engine_name=dlq_topic_of(group.engine_name),
        queue_count=1,
        body_bytes_max=0,
        durability="sync",
        message_type="mixed",
    )


def _dead_letter(record: Record, *, as_bytes: bool) -> DeadLetterMessage:
    shown = stored_message(record, as_bytes=as_bytes)
    found = find_dead_letter(record)
    return DeadLetterMessage(
        **msgspec.structs.asdict(shown),
        topic=found.origin_topic.partition(ENGINE_SEPARATOR)[2] if found else "",
        reason=found.reason if found else "",
        attempts=found.attempts if found else 0,
        first_delivered_at=_moment(found.first_delivery_ms) if found else None,
        last_delivered_at=_moment(found.last_delivery_ms) if found else None,
    )


def _moment(ms: int) -> str | None:
    return rfc3339(ms) if ms else None
