"""Copies over REST: what a search finds is produced again, to its own topic or to another.

    POST .../topics/{target}/messages:copy {"q": …} ──▶ search.find_page ──▶ Offers ──▶ Put
                                   dry_run: counts and checks only ──┘

A copy is a new message: body, tag, keys, message group and properties are those of the old one, id
and times are its own. It passes the checks and quotas of a produce. One call copies one page.
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
from mqservice.delivery.produce.produce import put_of
from mqservice.delivery.produce.produce_responses import RejectedResult
from mqservice.delivery.reading.search import NEWEST, SEARCH, find_page, read_text
from mqservice.delivery.response_format import reply_struct
from mqservice.store import Record, shown_record
from mqservice.topics.routes import TopicRoute

_BODY_BYTES_MAX: Final = QUERY_BYTES_MAX + 4 * KIB


class CopyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``q``: as of a search. ``max``: messages of one call. ``cursor``: ``next_cursor`` of the
    call before. ``dry_run``: count and check, and store nothing.
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
    """``count`` messages of ``bytes`` were copied, or in a dry run would be."""

    dry_run: bool
    topic: str
    count: int
    bytes: int
    next_cursor: str | None
    messages: list[CopiedMessage]


_decode = msgspec.json.Decoder(CopyRequest).decode


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
        page = await find_page(
            context,
            request,
            read_text(asked.q),
            order=NEWEST,
            messages_max=asked.max,
            cursor=asked.cursor,
        )
    except Fault as fault:
        pointer = fault.pointer.replace("?", "/")
        raise Fault(pointer, fault.code, fault.detail) from None
    records = page.records[::-1]  # stored again in the order that they had
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
            next_cursor=page.next_cursor,
            messages=copies,
        ),
    )


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
    put = put_of(context, request, target, offers, is_batch=True)
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
        "call copies up to 256 messages or 4 MiB; go on with `next_cursor`. With `dry_run` "
        "nothing is stored. The key also needs to be allowed to consume what is copied."
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
