"""Scheduled messages over REST: which are to come, one of them never, or one of them at once.

    GET    .../topics/{topic}/scheduled?limit=&cursor=   in the order in which the store keeps them
    DELETE .../scheduled/{recall_handle}                 200 won, 409 ALREADY_DELIVERED, 404
    POST   .../scheduled/{recall_handle}:send            likewise

A cancel that was answered with 200 is durable: the message is never delivered. A page may be short,
or even empty, before the last one: ``next_cursor`` alone says whether there is more.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault
from mqservice.delivery.http import Request
from mqservice.delivery.limits import (
    BROWSE_BYTES_MAX,
    BROWSE_COUNT_DEFAULT,
    BROWSE_COUNT_MAX,
)
from mqservice.delivery.reading.query import Query
from mqservice.delivery.reading.stored_messages import StoredMessage, stored_message
from mqservice.delivery.recall_handles import RecallHandle
from mqservice.delivery.receive import topic_route
from mqservice.delivery.replies import answer_struct, takes_msgpack
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import rfc3339
from mqservice.store import (
    Record,
    ScheduledCancelRequest,
    ScheduledListRequest,
    ScheduledOutcome,
    ScheduledReply,
    ScheduledSendRequest,
)
from mqservice.topics.routes import TopicRoute

_PLACE: Final = struct.Struct(">Iq")  # queue and offset of the schedule
_QUESTION: Final = b"scheduled"
_ASKED_MAX: Final = 8  # times that the engine is asked for one page, some 4,000 messages each


class ScheduledMessage(StoredMessage, frozen=True, gc=False, kw_only=True):
    """``queue`` is the one it goes to; ``offset`` is its place in the schedule until then."""

    deliver_at: str
    recall_handle: str


class ScheduledAnswer(msgspec.Struct, frozen=True):
    messages: list[ScheduledMessage]
    next_cursor: str | None


class ScheduledDone(msgspec.Struct, frozen=True):
    """``state``: ``cancelled`` or ``sent``."""

    id: str
    topic: str
    state: str


async def list_scheduled(context: DeliveryContext, request: Request) -> None:
    """``GET .../topics/{topic}/scheduled``"""
    request.principal.require(Scope.CONSUME, Kind.TOPIC, request.match.topic)
    route = await topic_route(context, request)
    query = Query(request.scope["query_string"], ("limit", "cursor"))
    limit = query.number("limit", low=1, high=BROWSE_COUNT_MAX) or BROWSE_COUNT_DEFAULT
    queue_id, queue_offset = _place_of(context, query, route)
    as_bytes = takes_msgpack(request)
    messages: list[ScheduledMessage] = []
    is_end = False
    for _ in range(_ASKED_MAX):
        head, records = await context.store.scheduled_list(
            ScheduledListRequest(
                topic=route.engine_name,
                queue_id=queue_id,
                queue_offset=queue_offset,
                messages_max=limit,
                bytes_max=BROWSE_BYTES_MAX,
            )
        )
        messages = [
            _scheduled(context, route, record, due_ms, as_bytes=as_bytes)
            for record, due_ms in zip(records, head.due_ms, strict=True)
        ]
        queue_id, queue_offset, is_end = head.queue_id, head.queue_offset, head.is_end
        if messages or is_end:
            break
    next_cursor = None
    if not is_end:
        place = _PLACE.pack(queue_id, queue_offset)
        next_cursor = context.cursors.write(place, topic=route.engine_name, question=_QUESTION)
    await answer_struct(request, ScheduledAnswer(messages, next_cursor))


async def cancel_scheduled(context: DeliveryContext, request: Request) -> None:
    """``DELETE .../scheduled/{recall_handle}``"""
    handle = await _handle(context, request)
    reply = await context.store.scheduled_cancel(ScheduledCancelRequest(**handle._asdict()))
    await _answer(request, handle, reply, "cancelled")


async def send_scheduled(context: DeliveryContext, request: Request) -> None:
    """``POST .../scheduled/{recall_handle}:send``"""
    handle = await _handle(context, request)
    reply = await context.store.scheduled_send_now(ScheduledSendRequest(**handle._asdict()))
    await _answer(request, handle, reply, "sent")


def _place_of(context: DeliveryContext, query: Query, route: TopicRoute) -> tuple[int, int]:
    text = query.text("cursor")
    if text is None:
        return 0, 0
    place = context.cursors.read(text, topic=route.engine_name, question=_QUESTION)
    if place is None:
        raise Fault("?cursor", "CURSOR_INVALID", "the cursor is not one of this list")
    queue_id, queue_offset = _PLACE.unpack(place)
    return queue_id, queue_offset


def _scheduled(
    context: DeliveryContext, route: TopicRoute, record: Record, due_ms: int, *, as_bytes: bool
) -> ScheduledMessage:
    shown = msgspec.structs.asdict(stored_message(record, as_bytes=as_bytes))
    place = record.queue_id, record.queue_offset
    handle = RecallHandle(route.engine_name, record.message_id, *place)
    shown["queue"] = int(record.properties.get("REAL_QID", "0"))
    return ScheduledMessage(
        **shown, deliver_at=rfc3339(due_ms), recall_handle=context.recall_handles.write(handle)
    )


async def _handle(context: DeliveryContext, request: Request) -> RecallHandle:
    """The message of the path, if it is of the path's namespace and that of the key.

    A foreign one is told like one that does not exist.
    """
    principal, ns = request.principal, request.match.ns
    principal.require_somewhere(Scope.PRODUCE)
    handle = context.recall_handles.read(request.match.message_id)
    if handle is None:
        raise _unknown()
    namespace, _, topic = handle.topic.partition(ENGINE_SEPARATOR)
    if principal.namespace_named(ns) != namespace:
        raise _unknown()
    routes = context.caches.routes
    try:
        route = routes.topic(principal, ns, topic) or await routes.load_topic(principal, ns, topic)
    except Problem as problem:
        if problem.status == 404:  # another tenant's namespace, or a topic that was deleted
            raise _unknown() from None
        raise
    if route.engine_name != handle.topic:
        raise _unknown()
    principal.require(Scope.PRODUCE, Kind.TOPIC, topic)
    return handle


async def _answer(request: Request, handle: RecallHandle, reply: ScheduledReply, done: str) -> None:
    if reply.outcome is ScheduledOutcome.DELIVERED:
        raise Problem.of("ALREADY_DELIVERED", f"message {handle.message_id} was delivered before")
    if reply.outcome is ScheduledOutcome.GONE:
        raise Problem.of(
            "MESSAGE_NOT_FOUND",
            f"message {handle.message_id} is not to come: it was cancelled, or has expired since",
        )
    topic = handle.topic.partition(ENGINE_SEPARATOR)[2]
    await answer_struct(request, ScheduledDone(handle.message_id, topic, done))


def _unknown() -> Problem:
    return Problem.of("MESSAGE_NOT_FOUND", "the recall handle is none of this namespace")
