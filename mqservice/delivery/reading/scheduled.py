"""Scheduled messages over REST: list, cancel, send now, reschedule.

    GET    .../topics/{topic}/scheduled?limit=&cursor=   in the order in which the store keeps them
    GET    .../scheduled?limit=&cursor=                  of all topics of the namespace, likewise
    DELETE .../scheduled/{recall_handle}                 200 won, 409 ALREADY_DELIVERED, 404
    POST   .../scheduled/{recall_handle}:send            likewise
    POST   .../scheduled/{recall_handle}:reschedule      likewise, with the new time

A cancel that was answered with 200 is durable: the message is never delivered. So is a new time. A
page may be short, or even empty, before the last one: ``next_cursor`` alone says whether there is
more.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault, decode
from mqservice.delivery.delivery_time import (
    CODE,
    as_time_fault,
    check_not_too_far,
    read_wait,
)
from mqservice.delivery.http import Request, read_body
from mqservice.delivery.limits import BROWSE_BYTES_MAX
from mqservice.delivery.operation import (
    MESSAGE_ID,
    NAMESPACE,
    TOPIC,
    Body,
    Operation,
    Reply,
    page_reply,
)
from mqservice.delivery.reading.query import CURSOR, LIMIT, Query
from mqservice.delivery.reading.stored_messages import EXAMPLE, StoredMessage, stored_message
from mqservice.delivery.response_format import accepts_msgpack, reply_struct
from mqservice.delivery.tokens.recall_handles import RecallHandle
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import rfc3339
from mqservice.store import (
    Record,
    ScheduledCancelRequest,
    ScheduledListRequest,
    ScheduledMoveRequest,
    ScheduledOutcome,
    ScheduledReply,
    ScheduledSendRequest,
    Store,
)

_PLACE: Final = struct.Struct(">Iq")  # queue and offset of the schedule
_QUESTION: Final = b"scheduled"
_REAL_TOPIC: Final = "REAL_TOPIC"
_TIME_BYTES_MAX: Final = 4 * 1024
_ASKED_MAX: Final = 8  # times that the engine is asked for one page, some 4,000 messages each


class ScheduledMessage(StoredMessage, frozen=True, gc=False, kw_only=True):
    """``queue`` is its destination; ``offset`` is its position in the schedule until then."""

    deliver_at: str
    recall_handle: str


class ScheduledResponse(msgspec.Struct, frozen=True):
    messages: list[ScheduledMessage]
    next_cursor: str | None


class NamespaceScheduled(ScheduledMessage, frozen=True, gc=False, kw_only=True):
    """A scheduled message in a list over several topics."""

    topic: str


class NamespaceScheduledResponse(msgspec.Struct, frozen=True):
    messages: list[NamespaceScheduled]
    next_cursor: str | None


class RescheduleRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new time; exactly one of the three."""

    delay: str | None = None
    delay_ms: int | None = None
    deliver_at: str | None = None


class Rescheduled(msgspec.Struct, frozen=True):
    """``recall_handle``: the new one; the former one remains valid."""

    id: str
    topic: str
    state: str
    deliver_at: str
    recall_handle: str


class ScheduledDone(msgspec.Struct, frozen=True):
    """``state``: ``cancelled`` or ``sent``."""

    id: str
    topic: str
    state: str


_decode_time = msgspec.json.Decoder(RescheduleRequest).decode


async def list_scheduled(context: DeliveryContext, request: Request) -> None:
    """``GET .../topics/{topic}/scheduled``"""
    route, query = await LIST_SCHEDULED.read_topic(context, request)
    store = context.stores[route.shard]
    found, next_cursor = await _page(context, store, query, route.engine_name)
    as_bytes = accepts_msgpack(request)
    messages = [
        ScheduledMessage(**_shown(context, route.engine_name, *each, as_bytes=as_bytes))
        for each in found
    ]
    reply_struct(request, ScheduledResponse(messages, next_cursor))


async def list_all_scheduled(context: DeliveryContext, request: Request) -> None:
    """``GET .../scheduled``; of topics that are there, of which the messages will come."""
    principal = request.principal
    principal.require(Scope.CONSUME)
    routes = context.caches.routes
    namespace = await routes.load_namespace(principal, request.match.ns)
    query = LIST_ALL_SCHEDULED.query(request)
    store = context.stores[namespace.shard]
    found, next_cursor = await _page(context, store, query, namespace.name, is_namespace=True)
    as_bytes = accepts_msgpack(request)
    messages: list[NamespaceScheduled] = []
    known: dict[str, bool] = {}
    for record, due_ms in found:
        engine_topic = record.properties.get(_REAL_TOPIC, "")
        topic = engine_topic.partition(ENGINE_SEPARATOR)[2]
        if topic not in known:
            known[topic] = await _topic_exists(context, request, topic)
        if known[topic]:
            shown = _shown(context, engine_topic, record, due_ms, as_bytes=as_bytes)
            messages.append(NamespaceScheduled(**shown, topic=topic))
    reply_struct(request, NamespaceScheduledResponse(messages, next_cursor))


async def _topic_exists(context: DeliveryContext, request: Request, topic: str) -> bool:
    routes, principal, ns = context.caches.routes, request.principal, request.match.ns
    try:
        return bool(
            routes.topic(principal, ns, topic) or await routes.load_topic(principal, ns, topic)
        )
    except Problem as problem:
        if problem.status == 404:
            return False
        raise


async def _page(
    context: DeliveryContext, store: Store, query: Query, name: str, *, is_namespace: bool = False
) -> tuple[list[tuple[Record, int]], str | None]:
    """Records with their due times, and the cursor of what follows.

    Args:
        name: the engine's, of a topic or of a namespace; no name is one of both.
    """
    limit = query.require(LIMIT)
    queue_id, queue_offset = _place_of(context, query, name)
    for _ in range(_ASKED_MAX):
        head, records = await store.scheduled_list(
            ScheduledListRequest(
                topic=name,
                is_namespace=is_namespace,
                queue_id=queue_id,
                queue_offset=queue_offset,
                messages_max=limit,
                bytes_max=BROWSE_BYTES_MAX,
            )
        )
        found = list(zip(records, head.due_ms, strict=True))
        queue_id, queue_offset = head.queue_id, head.queue_offset
        if head.is_end:
            return found, None
        if found:
            break
    place = _PLACE.pack(queue_id, queue_offset)
    return found, context.cursors.write(place, topic=name, question=_QUESTION)


async def cancel_scheduled(context: DeliveryContext, request: Request) -> None:
    """``DELETE .../scheduled/{recall_handle}``"""
    handle, store = await _handle(context, request)
    reply = await store.scheduled_cancel(ScheduledCancelRequest(**handle._asdict()))
    await _respond(request, handle, reply, "cancelled")


async def send_scheduled(context: DeliveryContext, request: Request) -> None:
    """``POST .../scheduled/{recall_handle}:send``"""
    handle, store = await _handle(context, request)
    reply = await store.scheduled_send_now(ScheduledSendRequest(**handle._asdict()))
    await _respond(request, handle, reply, "sent")


async def reschedule(context: DeliveryContext, request: Request) -> None:
    """``POST .../scheduled/{recall_handle}:reschedule``"""
    handle, store = await _handle(context, request)
    try:
        asked = decode(_decode_time, await read_body(request, _TIME_BYTES_MAX))
    except Fault as fault:
        raise as_time_fault(fault) from None
    wait = read_wait(None, asked.delay, asked.delay_ms, asked.deliver_at)
    if wait is None:
        raise Fault("", CODE, "give one of delay, delay_ms and deliver_at")
    check_not_too_far(wait, context.clock.now_ms())
    reply = await store.scheduled_move(
        ScheduledMoveRequest(
            **handle._asdict(), delay_ms=wait.delay_ms, deliver_at_ms=wait.deliver_at_ms
        )
    )
    _reject_too_late(handle, reply.outcome)
    place = RecallHandle(handle.topic, handle.message_id, reply.queue_id, reply.queue_offset)
    topic = handle.topic.partition(ENGINE_SEPARATOR)[2]
    text = context.recall_handles.write(place)
    done = Rescheduled(handle.message_id, topic, "rescheduled", rfc3339(reply.due_ms), text)
    reply_struct(request, done)


def _place_of(context: DeliveryContext, query: Query, name: str) -> tuple[int, int]:
    text = query.get(CURSOR)
    if text is None:
        return 0, 0
    place = context.cursors.read(text, topic=name, question=_QUESTION)
    if place is None:
        raise CURSOR.fault("the cursor does not belong to this list", code=CURSOR.code)
    queue_id, queue_offset = _PLACE.unpack(place)
    return queue_id, queue_offset


def _shown(
    context: DeliveryContext, topic: str, record: Record, due_ms: int, *, as_bytes: bool
) -> dict[str, Any]:  # Any: fields of ScheduledMessage
    shown = msgspec.structs.asdict(stored_message(record, as_bytes=as_bytes))
    handle = RecallHandle(topic, record.message_id, record.queue_id, record.queue_offset)
    shown["queue"] = int(record.properties.get("REAL_QID", "0"))
    shown["deliver_at"] = rfc3339(due_ms)
    shown["recall_handle"] = context.recall_handles.write(handle)
    return shown


async def _handle(context: DeliveryContext, request: Request) -> tuple[RecallHandle, Store]:
    """The message of the path, if it is of the path's namespace and that of the key, and where it
    is.

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
    return handle, context.stores[route.shard]


async def _respond(
    request: Request, handle: RecallHandle, reply: ScheduledReply, done: str
) -> None:
    _reject_too_late(handle, reply.outcome)
    topic = handle.topic.partition(ENGINE_SEPARATOR)[2]
    reply_struct(request, ScheduledDone(handle.message_id, topic, done))


def _reject_too_late(handle: RecallHandle, outcome: ScheduledOutcome) -> None:
    """Raises Problem unless the message was still to come."""
    if outcome is ScheduledOutcome.DELIVERED:
        raise Problem.of("ALREADY_DELIVERED", f"message {handle.message_id} was already delivered")
    if outcome is ScheduledOutcome.GONE:
        raise Problem.of(
            "MESSAGE_NOT_FOUND",
            f"message {handle.message_id} is not scheduled: it was cancelled, or has expired",
        )


def _unknown() -> Problem:
    return Problem.of("MESSAGE_NOT_FOUND", "the recall handle does not belong to this namespace")


_EXAMPLE: Final = {
    **EXAMPLE,
    "deliver_at": "2026-12-01T08:00:00.000Z",
    "recall_handle": "rc_ARIAAAAAAAAAAESIwMUFDNkUz",
}
_DONE: Final = {"id": MESSAGE_ID, "topic": "orders", "state": "cancelled"}
_ONE: Final = NAMESPACE + "/scheduled/{recall_handle}"
LIST_SCHEDULED: Final = Operation(
    method="GET",
    path=TOPIC + "/scheduled",
    operation_id="listScheduled",
    tag="schedule",
    summary="List scheduled messages of a topic",
    description="Pending messages of a topic, by kind of delay, then by arrival.",
    scope=Scope.CONSUME,
    handler=list_scheduled,
    parameters=(LIMIT, CURSOR),
    replies=page_reply(ScheduledResponse, _EXAMPLE, has_completeness=False),
)
CANCEL_SCHEDULED: Final = Operation(
    method="DELETE",
    path=_ONE,
    operation_id="cancelScheduled",
    tag="schedule",
    summary="Cancel a scheduled message",
    description="After a 200 the message is never delivered.",
    scope=Scope.PRODUCE,
    handler=cancel_scheduled,
    replies=(Reply("The message is cancelled.", ScheduledDone, _DONE),),
    codes=("REPLICATION_UNAVAILABLE",),
)
SEND_SCHEDULED: Final = Operation(
    method="POST",
    path=_ONE + ":send",
    operation_id="sendScheduled",
    tag="schedule",
    summary="Send a scheduled message now",
    description="Delivers it immediately instead of at its time.",
    scope=Scope.PRODUCE,
    handler=send_scheduled,
    replies=(Reply("The message is on its way.", ScheduledDone, {**_DONE, "state": "sent"}),),
    codes=("REPLICATION_UNAVAILABLE",),
)
RESCHEDULE: Final = Operation(
    method="POST",
    path=_ONE + ":reschedule",
    operation_id="reschedule",
    tag="schedule",
    summary="Reschedule a message",
    description=(
        "Changes its time, earlier or later, by `delay`, `delay_ms` or `deliver_at`; a time "
        "that has passed means immediately. With the response the old time no longer applies; "
        "a crash leaves one of the two."
    ),
    scope=Scope.PRODUCE,
    handler=reschedule,
    body=Body(RescheduleRequest, {"delay": "2h"}),
    replies=(
        Reply(
            "The message is rescheduled.",
            Rescheduled,
            {
                **_DONE,
                "state": "rescheduled",
                "deliver_at": _EXAMPLE["deliver_at"],
                "recall_handle": _EXAMPLE["recall_handle"],
            },
        ),
    ),
    codes=("ILLEGAL_DELIVERY_TIME", "REPLICATION_UNAVAILABLE"),
)
LIST_ALL_SCHEDULED: Final = Operation(
    method="GET",
    path=NAMESPACE + "/scheduled",
    operation_id="listAllScheduled",
    tag="schedule",
    summary="List scheduled messages of all topics",
    description=(
        "Pending messages of a namespace, by kind of delay, then by arrival. A key that may "
        "consume only some of the topics is rejected."
    ),
    scope=Scope.CONSUME,
    handler=list_all_scheduled,
    parameters=(LIMIT, CURSOR),
    replies=page_reply(
        NamespaceScheduledResponse, {**_EXAMPLE, "topic": "orders"}, has_completeness=False
    ),
)
