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

from mqservice.accounts.scopes import Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.filters import filter_of_query, tags_in
from mqservice.delivery.http import Request
from mqservice.delivery.limits import REASON_QUERY_CHARS_MAX
from mqservice.delivery.operation import GROUP, STORED_AT, Operation, Reply, page_reply
from mqservice.delivery.reading.browse import encode_query, page_reader, read_place
from mqservice.delivery.reading.cause_walk import CauseQuery, cause_page
from mqservice.delivery.reading.key_search import find_by_id
from mqservice.delivery.reading.query import CURSOR, FROM, KEY, LIMIT, TAG, TO, Text
from mqservice.delivery.reading.same_cause import NO_REASON, reason_fault, requested_cause
from mqservice.delivery.reading.stored_messages import EXAMPLE, StoredMessage, stored_message
from mqservice.delivery.reading.walk import BrowsePage, BrowseQuery
from mqservice.delivery.response_format import accepts_msgpack, reply_struct
from mqservice.groups.routes import GroupRoute
from mqservice.lib.clock import Clock
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import rfc3339
from mqservice.store import Record, Store, TopicNotFound, dlq_topic_of, find_dead_letter
from mqservice.topics.routes import TopicRoute


def _reject_reason(text: str) -> str | None:
    fault = reason_fault(text)
    return f"a reason {fault}" if fault else None


REASON: Final = Text(
    name="reason",
    text="Only dead letters with the cause of this reason, or with this cause of an issue: "
    f"numbers, ids and quoted values may differ. `{NO_REASON}`: those without a reason.",
    chars_min=1,
    chars_max=REASON_QUERY_CHARS_MAX,
    reject=_reject_reason,
)
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
    group, query = await BROWSE_DEAD_LETTERS.read_group(context, request)
    topic = dlq_of(group)
    question = BrowseQuery(
        query.get(KEY),
        tags_in(filter_of_query(query.get(TAG), None, None)),
        *query.span(),
        None,
        None,
    )
    reason = query.get(REASON)
    cause = None if reason is None else requested_cause(reason)
    limit = query.require(LIMIT)
    asked = None if cause is None else CauseQuery(question, cause)
    bound_to = encode_query(question) if asked is None else _encode_cause_question(asked)
    place = read_place(context, query, topic, bound_to)
    store = context.stores[topic.shard]
    page = await letters_page(store, topic, question, cause, place, limit, context.clock)
    next_cursor = None
    if page.place is not None:
        next_cursor = context.cursors.write(page.place, topic=topic.engine_name, question=bound_to)
    as_bytes = accepts_msgpack(request)
    messages = [dead_letter(record, as_bytes=as_bytes) for record in page.records]
    scanned = msgspec.UNSET if asked is None else page.scanned_count
    answer = DeadLettersResponse(messages, next_cursor, page.is_complete, scanned)
    reply_struct(request, answer)


async def letters_page(
    store: Store,
    topic: TopicRoute,
    question: BrowseQuery,
    cause: str | None,
    place: bytes | None,
    messages_max: int,
    clock: Clock,
) -> BrowsePage:
    """One page of a DLQ, with ``cause`` only dead letters of it. Raises ``StoreError``."""
    try:
        if cause is None:
            return await page_reader(question)(store, topic, question, place, messages_max)
        asked = CauseQuery(question, cause)
        return await cause_page(store, topic, asked, place, messages_max, clock)
    except TopicNotFound:  # nothing was given up yet
        return BrowsePage(records=[], place=None)


async def read_dead_letter(context: DeliveryContext, request: Request) -> None:
    """``GET .../groups/{group}/dlq/{id}``"""
    group, _ = await READ_DEAD_LETTER.read_group(context, request)
    topic = dlq_of(group)
    try:
        record = await find_by_id(context.stores[topic.shard], topic, request.match.message_id)
    except TopicNotFound as exc:
        raise Problem.of("MESSAGE_NOT_FOUND", "the group has no dead letters yet") from exc
    reply_struct(request, dead_letter(record, as_bytes=accepts_msgpack(request)))


def dlq_of(group: GroupRoute) -> TopicRoute:
    """The topic of the group's dead letters."""
    return TopicRoute(
        namespace=group.namespace,
        name=group.name,
        shard=group.shard,
        engine_name=dlq_topic_of(group.engine_name),
        queue_count=1,
        body_bytes_max=0,
        durability="sync",
        message_type="mixed",
    )


def dead_letter(record: Record, *, as_bytes: bool) -> DeadLetterMessage:
    """One dead letter as it was in its topic."""
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


_EXAMPLE: Final = {
    **EXAMPLE, "topic": "orders", "reason": "db down", "attempts": 17,
    "first_delivered_at": STORED_AT, "last_delivered_at": STORED_AT,
}  # fmt: skip
BROWSE_DEAD_LETTERS: Final = Operation(
    method="GET",
    path=GROUP + "/dlq",
    operation_id="browseDeadLetters",
    tag="dead letters",
    summary="Browse dead letters",
    description=(
        "Returns a group's dead letters in pages, with reason and number of deliveries. "
        "Reading changes nothing. With `reason` a page checks a bounded number of dead letters "
        "and returns that number in `scanned`; only `next_cursor` says whether there is more."
    ),
    scope=Scope.CONSUME,
    handler=browse_dead_letters,
    parameters=(KEY, TAG, REASON, FROM, TO, LIMIT, CURSOR),
    replies=page_reply(DeadLettersResponse, _EXAMPLE),
)
READ_DEAD_LETTER: Final = Operation(
    method="GET",
    path=GROUP + "/dlq/{message_id}",
    operation_id="readDeadLetter",
    tag="dead letters",
    summary="Read one dead letter",
    description="Returns a dead letter of the group by its id.",
    scope=Scope.CONSUME,
    handler=read_dead_letter,
    replies=(Reply("The message.", DeadLetterMessage, _EXAMPLE),),
)
