"""Copies over REST: what a search finds is produced again, to its own topic or to another.

    POST .../topics/{target}/messages:copy {"q": …} ──▶ search.read_page ──▶ Offers ──▶ Put
                                   dry_run: counts and checks only ──┘

A copy is a new message: body, tag, keys, message group and properties are those of the old one, id
and times are its own. It passes the checks and quotas of a produce. One call copies one page, the
oldest messages first, so that copies have the order of what they are of; only the key index is read
from the newest on.

A cursor says where a page begins and where the queues ended at the first call: what is stored later
is not found, copies to the same topic least of all. The cursor of a page that was counted finds the
same messages when they are copied.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from asgiref.sync import sync_to_async
from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from mqservice.accounts.access import Principal, metadata_unavailable
from mqservice.accounts.audit_messages import record_copied
from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.bodies import split_json_mark
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault, decode, problem_of
from mqservice.delivery.http import Request, read_body
from mqservice.delivery.limits import BROWSE_COUNT_MAX, FAULTS_MAX, KIB, QUERY_BYTES_MAX
from mqservice.delivery.messages import Offer, check_offer
from mqservice.delivery.operation import MESSAGE_ID, TOPIC, Body, Operation, Reply
from mqservice.delivery.path_routes import topic_route
from mqservice.delivery.produce.idempotency import IDEMPOTENCY_KEY, copy_mark, request_key
from mqservice.delivery.produce.produce import put_of
from mqservice.delivery.produce.produce_responses import RejectedResult
from mqservice.delivery.reading.query import CURSOR
from mqservice.delivery.reading.queue_walk import ends_of
from mqservice.delivery.reading.search import (
    NEWEST,
    OLDEST,
    SEARCH,
    Search,
    read_page,
    read_text,
    search_of,
)
from mqservice.delivery.response_format import reply_struct
from mqservice.store import Record, TopicNotFound, shown_record
from mqservice.topics.routes import TopicRoute

_BODY_BYTES_MAX: Final = QUERY_BYTES_MAX + 4 * KIB


class CopyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``q``: as of a search. ``max``: messages of one call. ``cursor``: ``next_cursor`` of the
    call before, or ``cursor`` of a dry run. ``dry_run``: count and check, and store nothing.
    """

    q: str
    max: int = BROWSE_COUNT_MAX
    cursor: str | None = None
    dry_run: bool = False


class CopiedMessage(msgspec.Struct, frozen=True):
    """``id``: of the message that was found; ``copy_id``: of its copy, null where none was
    stored.
    """

    id: str
    copy_id: str | None
    detail: str | None = None


class CopyResponse(msgspec.Struct, frozen=True):
    """``count`` messages of ``bytes`` were copied, or in a dry run would be. ``cursor``: of the
    messages of this call, to copy what a dry run has counted.
    """

    dry_run: bool
    topic: str
    count: int
    bytes: int
    cursor: str
    next_cursor: str | None
    messages: list[CopiedMessage]


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """``place``: of the walk, None at its beginning; ``ends`` as of ``SearchQuery``."""

    ends: list[int]
    place: bytes | None


class _Page(msgspec.Struct, frozen=True):
    records: list[Record]
    cursor: str
    next_cursor: str | None


_decode = msgspec.json.Decoder(CopyRequest).decode
_encode_place = msgspec.msgpack.Encoder().encode
_decode_place = msgspec.msgpack.Decoder(_Place).decode


async def copy_messages(context: DeliveryContext, request: Request) -> None:
    """``POST .../topics/{topic}/messages:copy``"""
    request.principal.require(Scope.PRODUCE, Kind.TOPIC, request.match.topic)
    target = await topic_route(context, request)
    asked = decode(_decode, await read_body(request, _BODY_BYTES_MAX))
    if not 1 <= asked.max <= BROWSE_COUNT_MAX:
        detail = f"max must be a whole number from 1 to {BROWSE_COUNT_MAX}, found {asked.max}"
        raise Fault("/max", "BAD_REQUEST", detail)
    request.topic = None  # the search looks up its own
    try:
        page = await _find_page(context, request, target, asked)
    except Fault as fault:
        pointer = fault.pointer.replace("?", "/")
        raise Fault(pointer, fault.code, fault.detail) from None
    records = page.records
    offers = _offers(records, target)
    copies: list[CopiedMessage]
    if asked.dry_run or not offers:
        copies = [CopiedMessage(record.message_id, None) for record in records]
    else:
        # First, so that nothing is copied without a trace, and what was stored is no error.
        await _record(request.principal, target, asked.q, len(offers))
        copies = await _put(context, request, target, records, offers)
    done = [each.detail is None for each in copies]
    reply_struct(
        request,
        CopyResponse(
            dry_run=asked.dry_run,
            topic=target.name,
            count=sum(done),
            bytes=sum(
                len(each.body) for each, is_done in zip(records, done, strict=True) if is_done
            ),
            cursor=page.cursor,
            next_cursor=page.next_cursor,
            messages=copies,
        ),
    )


async def _find_page(
    context: DeliveryContext, request: Request, target: TopicRoute, asked: CopyRequest
) -> _Page:
    """The messages to copy. Raises Fault, Problem, ``StoreError``."""
    wanted = read_text(asked.q)
    order = NEWEST if "key" in wanted.values else OLDEST
    search = await search_of(context, request, wanted, order=order)
    cursors = search.cursors(context, of_copy=True)
    if asked.cursor is not None:
        content = cursors.read(asked.cursor)
        if content is None:
            raise CURSOR.fault(
                "the cursor does not belong to this query; give cursor or next_cursor of a call "
                "with the same q",
                code=CURSOR.code,
            )
        here = _decode_place(content)
    else:
        if (
            IDEMPOTENCY_KEY in request.headers
            and not (asked.dry_run or search.ids)
            and search.source.topic.engine_name == target.engine_name
        ):
            raise Fault(
                "/cursor",
                "BAD_REQUEST",
                "sent again, this would also find its own copies: begin with a dry run, and send "
                "its cursor",
            )
        here = _Place(await _ends_of(context, search), None)
    page = await read_page(context, search.until(here.ends), here.place, asked.max)
    return _Page(
        # In the order that they had, also those that an index found.
        sorted(page.records, key=lambda record: record.physical_offset),
        cursors.write(_encode_place(here)),
        None if page.place is None else cursors.write(_encode_place(_Place(here.ends, page.place))),
    )


async def _ends_of(context: DeliveryContext, search: Search) -> list[int]:
    topic = search.source.topic
    try:
        return await ends_of(context.stores[topic.shard], topic)
    except TopicNotFound:
        if not search.source.group:
            raise
        return [0]  # nothing was given up yet


async def _record(principal: Principal, target: TopicRoute, q: str, count: int) -> None:
    """In the audit. Raises Problem: the database is away."""

    def record() -> None:
        try:
            place = f"topics/{target.name}"
            record_copied(principal, target.namespace, place, q=q, count=count)
        except (DatabaseError, InterfaceError) as exc:
            raise metadata_unavailable() from exc
        finally:
            if not connection.in_atomic_block:  # a test's transaction has to live on
                close_old_connections()

    await sync_to_async(record)()


def _offers(records: list[Record], target: TopicRoute) -> list[Offer]:
    """Raises Problem: what the target does not take, with the id of each message."""
    offers, faults = [], []
    for record in records:
        shown = shown_record(record)
        is_json, properties = split_json_mark(shown.properties)
        offer = Offer(
            body=shown.body,
            is_json=is_json,
            tag=shown.tag,
            keys=shown.keys,
            message_group=shown.message_group,
            properties=dict(properties),
            queue=None,
            wait=None,
        )
        try:
            check_offer(offer, target)
        except Fault as fault:
            faults.append(fault.under(f"/{record.message_id}"))
        offers.append(offer)
    if faults:
        raise problem_of(*faults[:FAULTS_MAX], stored=False)
    return offers


async def _put(
    context: DeliveryContext,
    request: Request,
    target: TopicRoute,
    records: list[Record],
    offers: list[Offer],
) -> list[CopiedMessage]:
    """Raises Problem, ``StoreError``: nothing was stored."""
    marks = None
    if IDEMPOTENCY_KEY in request.headers:
        key = request_key(request)
        marks = [
            copy_mark(key, each.message_id, offer)
            for each, offer in zip(records, offers, strict=True)
        ]
    put = put_of(context, request, target, offers, is_batch=True, marks=marks)
    stored = asyncio.Event()
    put.put_all(stored.set)
    await stored.wait()
    _, results = put.results()
    return [
        CopiedMessage(record.message_id, None, result.detail)
        if isinstance(result, RejectedResult)
        else CopiedMessage(record.message_id, result.id)
        for record, result in zip(records, results, strict=True)
    ]


COPY: Final = Operation(
    method="POST",
    path=TOPIC + "/messages:copy",
    operation_id="copyMessages",
    tag="produce",
    summary="Copy or resend messages",
    description=(
        "Produces again to the topic of the path what `q` finds, such as `topic:orders id:A,B` or "
        "`group:billing reason:timeout`: to resend, name the topic they come from. Copies are new "
        "messages with the body, tag, keys, message group and properties of the old ones. One "
        "call copies up to 256 messages or 4 MiB, the oldest first; continue with `next_cursor`. "
        "What is stored after the first call is not found. With `dry_run` nothing is stored; its "
        "`cursor` copies what it counted. The key also needs to be allowed to consume what is "
        "copied."
    ),
    scope=Scope.PRODUCE,
    handler=copy_messages,
    takes_idempotency_key=True,
    body=Body(CopyRequest, {"q": "topic:orders tag:paid last:1h", "dry_run": True}),
    replies=(
        Reply(
            "What was copied, or would be.",
            CopyResponse,
            {
                "dry_run": False,
                "topic": "orders-copy",
                "count": 1,
                "bytes": 12,
                "cursor": "AZKAwA",
                "next_cursor": None,
                "messages": [{"id": MESSAGE_ID, "copy_id": MESSAGE_ID[::-1], "detail": None}],
            },
        ),
    ),
    codes=(
        *SEARCH.codes, "CURSOR_INVALID", "ILLEGAL_TAG", "ILLEGAL_PROPERTY",
        "MESSAGE_TYPE_CONFLICT", "PROPERTIES_TOO_LARGE", "STORAGE_FULL", "QUOTA_EXCEEDED",
        "REPLICATION_UNAVAILABLE",
        "IDEMPOTENCY_IN_PROGRESS", "IDEMPOTENCY_KEY_REUSED",
    ),
)  # fmt: skip
