"""Search over REST: the messages of a topic, or dead letters of a group, by one text of tokens.

    GET .../messages?q=topic:orders key:order-42 last:1h      ──▶ queue_walk, key_search
    GET .../messages?q=group:billing reason:"card declined"   ──▶ cause_walk
    GET .../messages?q=order-42                               ──▶ all_topics
    GET .../messages:histogram?q=                             ──▶ OFFSET_AT_TIME, no message is read

The newest come first, unless ``order=oldest``. A page that was reached by a cursor has one for each
direction: ``previous_cursor`` reads the other way from where the page began.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import msgspec

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault
from mqservice.delivery.http import Request
from mqservice.delivery.limits import BROWSE_BYTES_MAX, PULLS_AT_ONCE_MAX
from mqservice.delivery.operation import NAMESPACE, Operation, Reply
from mqservice.delivery.path_routes import group_route, topic_route
from mqservice.delivery.reading.all_topics import (
    IDS_MAX,
    PER_TOPIC_MAX,
    TOPICS_MAX,
    topics_page,
)
from mqservice.delivery.reading.browse import BROWSE, encode_query, page_reader, read_question
from mqservice.delivery.reading.dead_letters import REASON, dead_letter, dlq_of, letters_page
from mqservice.delivery.reading.key_search import find_by_id
from mqservice.delivery.reading.message_query import MessageQuery, parse_query
from mqservice.delivery.reading.query import CURSOR, LIMIT, Query, Text
from mqservice.delivery.reading.same_cause import requested_cause
from mqservice.delivery.reading.stored_messages import EXAMPLE, StoredMessage, stored_message
from mqservice.delivery.reading.walk import BrowsePage, BrowseQuery, SearchQuery
from mqservice.delivery.response_format import accepts_msgpack, reply_struct
from mqservice.lib.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import rfc3339
from mqservice.store import OffsetAtTimeRequest, Record, Store, TopicNotFound
from mqservice.topics.routes import TopicRoute

NEWEST: Final = "newest"
OLDEST: Final = "oldest"
_ORDERS: Final = (NEWEST, OLDEST)
BARS_MAX: Final = 60
# How long a bar of the histogram may be.
_BARS_MS: Final = (
    *(n * SECOND_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_MS for n in (1, 2, 3, 6, 12)),
    *(n * DAY_MS for n in (1, 2, 7, 14, 30, 90, 365, 3650)),
)
# How far back the oldest message is looked for.
_SPANS_MS: Final = (
    *(n * MINUTE_MS for n in (1, 5, 15, 30)),
    *(n * HOUR_MS for n in (1, 3, 6, 12)),
    *(n * DAY_MS for n in (1, 3, 7, 30, 90, 365, 3650)),
)

Q: Final = Text(
    name="q",
    text='Tokens: `topic:orders key:order-42 tag:paid last:1h body:"502" amount > 100 '
    "body.total > 5`, and `group:billing` for dead letters. See the guide.",
    chars_min=1,
    hint="what to look for, such as topic:orders key:order-42",
)
_ORDER: Final = Text(
    name="order",
    text="`newest` first, or `oldest`.",
    default=NEWEST,
    reject=lambda text: None if text in _ORDERS else "order must be newest or oldest",
)


class FoundMessage(StoredMessage, frozen=True, gc=False, kw_only=True):
    """``topic``: where it was produced to. A dead letter also has its ``group`` and why."""

    topic: str
    group: str | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET
    attempts: int | msgspec.UnsetType = msgspec.UNSET
    first_delivered_at: str | msgspec.UnsetType | None = msgspec.UNSET
    last_delivered_at: str | msgspec.UnsetType | None = msgspec.UNSET


class SearchResponse(msgspec.Struct, frozen=True):
    """``is_complete`` is false while the key index lacks the newest messages. ``scanned``: where
    messages have to be read to know which are wanted, how many were read for this page.
    ``previous_cursor`` is null on the first page, and of a search of all topics on each. That has
    ``topics_searched``, the number of topics that were searched for this page, ``topics_left``,
    that of those behind ``next_cursor``, and ``more_in``, the searched ones that may have more
    messages than are shown.
    """

    messages: list[FoundMessage]
    next_cursor: str | None
    previous_cursor: str | None
    is_complete: bool
    scanned: int | msgspec.UnsetType = msgspec.UNSET
    topics_searched: int | msgspec.UnsetType = msgspec.UNSET
    topics_left: int | msgspec.UnsetType = msgspec.UNSET
    more_in: list[str] | msgspec.UnsetType = msgspec.UNSET


class Bar(msgspec.Struct, frozen=True):
    """Messages stored at or after ``at``, until the next bar."""

    at: str
    count: int


class HistogramResponse(msgspec.Struct, frozen=True):
    """All messages of the time, whatever else the query asks for."""

    bar_ms: int
    total: int
    bars: list[Bar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where to look. ``group`` is empty for a topic."""

    topic: TopicRoute
    group: str

    def found(self, record: Record, *, as_bytes: bool) -> FoundMessage:
        if not self.group:
            shown = stored_message(record, as_bytes=as_bytes)
            return FoundMessage(**msgspec.structs.asdict(shown), topic=self.topic.name)
        letter = dead_letter(record, as_bytes=as_bytes)
        return FoundMessage(**msgspec.structs.asdict(letter), group=self.group)


@dataclass(frozen=True, slots=True)
class BoundCursors:
    """Of one topic and one question; those of others are None here."""

    context: DeliveryContext
    topic: str
    question: bytes

    def read(self, text: str) -> bytes | None:
        return self.context.cursors.read(text, topic=self.topic, question=self.question)

    def write(self, place: bytes) -> str:
        return self.context.cursors.write(place, topic=self.topic, question=self.question)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is looked for, and where. ``cause``: that of the dead letters wanted."""

    source: Source
    question: SearchQuery
    cause: str | None
    ids: list[str]

    @property
    def turned(self) -> Search:
        """The same in the other direction."""
        return self._with(newest_first=not self.question.newest_first)

    @property
    def is_by_index(self) -> bool:
        return self.question.key is not None or bool(self.ids)

    def until(self, ends: list[int]) -> Search:
        """The same without what is stored behind ``ends``."""
        return self._with(ends=ends)

    def cursors(self, context: DeliveryContext, *, of_copy: bool = False) -> BoundCursors:
        """Those that belong to it."""
        where = self.source.topic.engine_name
        return _cursors(context, where, self.question, self.cause, self.ids, of_copy=of_copy)

    def _with(self, **fields: object) -> Search:
        return dataclasses.replace(self, question=msgspec.structs.replace(self.question, **fields))


def _cursors(
    context: DeliveryContext,
    where: str,
    question: SearchQuery,
    cause: str | None,
    ids: list[str],
    *,
    of_copy: bool = False,
) -> BoundCursors:
    """Those of a question. ``where``: the engine's name of a topic, or a namespace."""
    question = msgspec.structs.replace(question, ends=[])
    if question.last_ms is not None:  # the time before now is another one on the next page
        question = msgspec.structs.replace(question, from_ms=None)
    return BoundCursors(context, where, encode_query((question, cause, ids, of_copy)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPage:
    """``scanned_count`` is None where no message had to be read to know whether it is wanted."""

    source: Source
    records: list[Record]
    next_cursor: str | None
    previous_cursor: str | None
    is_complete: bool
    scanned_count: int | None


async def search_messages(context: DeliveryContext, request: Request) -> None:
    """``GET .../messages``"""
    query = SEARCH.query(request)
    wanted = read_query(query)
    if wanted.is_of_all_topics:
        await _search_all_topics(context, request, query, wanted)
        return
    page = await find_page(
        context,
        request,
        wanted,
        order=query.require(_ORDER),
        messages_max=query.require(LIMIT),
        cursor=query.get(CURSOR),
    )
    as_bytes = accepts_msgpack(request)
    reply_struct(
        request,
        SearchResponse(
            messages=[page.source.found(record, as_bytes=as_bytes) for record in page.records],
            next_cursor=page.next_cursor,
            previous_cursor=page.previous_cursor,
            is_complete=page.is_complete,
            scanned=msgspec.UNSET if page.scanned_count is None else page.scanned_count,
        ),
    )


async def _search_all_topics(
    context: DeliveryContext, request: Request, query: Query, wanted: MessageQuery
) -> None:
    request.principal.require_somewhere(Scope.CONSUME)
    for name in ("queue", "offset"):
        if name in wanted.values:
            raise Q.fault(f"{name}: is of one topic; add topic:NAME")
    if len(wanted.ids) > IDS_MAX:
        raise Q.fault(
            f"at most {IDS_MAX} ids are looked for in all topics, found {len(wanted.ids)}; "
            "add topic:NAME"
        )
    order, now_ms = query.require(_ORDER), context.clock.now_ms()
    question, _ = _question(wanted, None, order=order, now_ms=now_ms)
    namespace = request.principal.namespace_named(request.match.ns) or ""
    cursors = _cursors(context, namespace, question, None, wanted.ids)
    cursor, place = query.get(CURSOR), b""
    if cursor is not None:
        place = cursors.read(cursor) or _reject_cursor()
    page = await topics_page(
        context,
        request,
        question,
        wanted.ids,
        after=place.decode(),
        messages_max=query.require(LIMIT),
    )
    as_bytes = accepts_msgpack(request)
    messages = [
        Source(topic=topic, group="").found(record, as_bytes=as_bytes)
        for topic, record in page.found
    ]
    reply_struct(
        request,
        SearchResponse(
            messages=messages,
            next_cursor=None if page.last is None else cursors.write(page.last.encode()),
            previous_cursor=None,
            is_complete=page.is_complete,
            topics_searched=page.searched_count,
            topics_left=page.left_count,
            more_in=page.more_in,
        ),
    )


async def find_page(
    context: DeliveryContext,
    request: Request,
    wanted: MessageQuery,
    *,
    order: str,
    messages_max: int,
    cursor: str | None,
) -> FoundPage:
    """One page of what ``wanted`` asks for, of one who may read it. Raises Fault, Problem,
    ``StoreError``.
    """
    search = await search_of(context, request, wanted, order=order)
    turned = search.turned
    here, back = search.cursors(context), turned.cursors(context)
    place, is_back = None if cursor is None else here.read(cursor), False
    if cursor is not None and place is None:
        place, is_back = back.read(cursor), True
        if place is None:
            _reject_cursor()
    page = await read_page(context, turned if is_back else search, place, messages_max)
    records, ahead, behind = page.records, page.place, place
    if is_back:
        records, ahead, behind = records[::-1], place, page.place
    if search.is_by_index:
        behind = None  # found through an index, which is read in one direction
    is_counted = search.question.is_scan or search.cause is not None
    return FoundPage(
        source=search.source,
        records=records,
        next_cursor=None if ahead is None else here.write(ahead),
        previous_cursor=None if behind is None else back.write(behind),
        is_complete=page.is_complete,
        scanned_count=page.scanned_count if is_counted else None,
    )


def _reject_cursor() -> NoReturn:
    raise CURSOR.fault(
        "the cursor does not belong to this query; give next_cursor or previous_cursor of "
        "a page with the same q and order",
        code=CURSOR.code,
    )


async def search_of(
    context: DeliveryContext, request: Request, wanted: MessageQuery, *, order: str
) -> Search:
    """What ``wanted`` asks for, of one who may read it. Raises Fault, Problem."""
    source = await _source(context, request, wanted)
    question, cause = _question(wanted, source, order=order, now_ms=context.clock.now_ms())
    return Search(source=source, question=question, cause=cause, ids=wanted.ids)


async def read_page(
    context: DeliveryContext, search: Search, place: bytes | None, messages_max: int
) -> BrowsePage:
    """One page; ``place`` is None or what a page before gave. Raises ``StoreError``."""
    topic, question = search.source.topic, search.question
    store = context.stores[topic.shard]
    if search.ids:
        return await _ids_page(store, topic, search.ids, place, messages_max)
    if search.source.group:
        return await letters_page(
            store, topic, question, search.cause, place, messages_max, context.clock
        )
    return await page_reader(question)(store, topic, question, place, messages_max)


async def count_over_time(context: DeliveryContext, request: Request) -> None:
    """``GET .../messages:histogram``"""
    wanted = read_query(HISTOGRAM.query(request))
    source = await _source(context, request, wanted)
    now_ms = context.clock.now_ms()
    # It has no order; what a query asks for is checked with the one that it needs.
    order = OLDEST if "offset" in wanted.values else NEWEST
    question, _ = _question(wanted, source, order=order, now_ms=now_ms)
    store = context.stores[source.topic.shard]
    try:
        times_ms, bar_ms = await _times(store, source.topic, question, now_ms)
        counts = await _counts(store, source.topic, question.queue_id, times_ms)
    except TopicNotFound:  # nothing was given up yet
        times_ms, bar_ms, counts = [], 0, []
    bars = [Bar(rfc3339(at_ms), count) for at_ms, count in zip(times_ms, counts, strict=False)]
    reply_struct(request, HistogramResponse(bar_ms, sum(counts), bars))


def read_query(query: Query) -> MessageQuery:
    """``q`` of a request. Raises Fault."""
    return read_text(query.require(Q))


def read_text(text: str) -> MessageQuery:
    """What a ``q`` asks for. Raises Fault."""
    try:
        return parse_query(text)
    except Fault as fault:
        raise Q.fault(fault.detail, code=fault.code) from None


async def _source(context: DeliveryContext, request: Request, wanted: MessageQuery) -> Source:
    """Raises Problem, Fault."""
    request.match = request.match._replace(topic=wanted.topic, group=wanted.group)
    if wanted.group:
        request.principal.require(Scope.CONSUME, Kind.GROUP, wanted.group)
        group = await group_route(context, request)
        return Source(topic=dlq_of(group), group=group.name)
    if not wanted.topic:
        detail = "say where to look: topic:NAME, or group:NAME for its dead letters"
        if not wanted.is_of_all_topics:  # else a search could, but this is no search
            detail += "; only a key or an id can be searched for in all topics"
        raise Q.fault(detail)
    request.principal.require(Scope.CONSUME, Kind.TOPIC, wanted.topic)
    return Source(topic=await topic_route(context, request), group="")


def _question(
    wanted: MessageQuery, source: Source | None, *, order: str, now_ms: int
) -> tuple[SearchQuery, str | None]:
    """What to look for, and the cause of dead letters; without a ``source`` in all topics.

    Raises Fault.
    """
    values = dict(wanted.values)
    reason = values.pop("reason", None)
    try:
        if reason is not None and (source is None or not source.group):
            raise Fault("", "BAD_REQUEST", "reason: is of dead letters; add group:NAME")
        cause = None if reason is None else requested_cause(REASON.parse(reason))
        queue_count = 0 if source is None else source.topic.queue_count
        asked: BrowseQuery = read_question(Query.of(values, BROWSE.parameters), queue_count)
    except Fault as fault:
        raise Q.fault(fault.detail, code=fault.code) from None
    if asked.offset is not None and order == NEWEST:
        raise Q.fault("offset: begins there and continues with newer messages; add order=oldest")
    if asked.key is not None and order != NEWEST:
        raise _ORDER.fault("a search by key gives the newest first")
    from_ms = asked.from_ms
    if wanted.last_ms is not None:
        from_ms = max(0, now_ms - wanted.last_ms)
    return (
        SearchQuery(
            asked.key,
            asked.tags,
            from_ms,
            asked.to_ms,
            asked.queue_id,
            asked.offset,
            asked.filter,
            asked.contains,
            wanted.fields,
            wanted.last_ms,
            order == NEWEST,
        ),
        cause,
    )


async def _ids_page(
    store: Store, topic: TopicRoute, ids: list[str], place: bytes | None, messages_max: int
) -> BrowsePage:
    """The messages of ``ids`` in this order, but those that are not there."""
    at = 0 if place is None else int(place)
    records: list[Record] = []
    bytes_left, is_complete = BROWSE_BYTES_MAX, True
    while at < len(ids) and len(records) < messages_max and bytes_left > 0:
        try:
            record = await find_by_id(store, topic, ids[at])
        except Problem as problem:
            if problem.code != "MESSAGE_NOT_FOUND":
                raise
            is_complete = is_complete and not problem.retryable
        except TopicNotFound:
            return BrowsePage(records=[], place=None)
        else:
            records.append(record)
            bytes_left -= len(record.body)
        at += 1
    return BrowsePage(
        records=records,
        place=str(at).encode() if at < len(ids) else None,
        is_complete=is_complete,
    )


async def _times(
    store: Store, topic: TopicRoute, question: BrowseQuery, now_ms: int
) -> tuple[list[int], int]:
    """The ascending times between bars, and how long a bar is."""
    to_ms = min(now_ms if question.to_ms is None else question.to_ms, now_ms)
    from_ms = question.from_ms
    if from_ms is None:
        starts_ms = [max(0, to_ms - span_ms) for span_ms in reversed(_SPANS_MS)]
        counts = await _counts(store, topic, question.queue_id, [*starts_ms, to_ms + 1])
        first = next((at for at, count in enumerate(counts) if count), len(starts_ms) - 1)
        from_ms = starts_ms[first]
    from_ms = min(from_ms, to_ms)
    span_ms = to_ms - from_ms
    bar_ms = next((each for each in _BARS_MS if each * BARS_MAX >= span_ms), _BARS_MS[-1])
    first_ms = (from_ms // bar_ms + 1) * bar_ms
    return [from_ms, *range(first_ms, to_ms + 1, bar_ms), to_ms + 1], bar_ms


async def _counts(
    store: Store, topic: TopicRoute, queue_id: int | None, times_ms: Sequence[int]
) -> list[int]:
    """How many messages were stored from each time to the next; one call a queue."""
    counts = [0] * (len(times_ms) - 1)
    queue_ids = range(topic.queue_count) if queue_id is None else [queue_id]
    for start in range(0, len(queue_ids), PULLS_AT_ONCE_MAX):
        replies = await asyncio.gather(
            *(
                store.offset_at_time(
                    OffsetAtTimeRequest(
                        topic=topic.engine_name,
                        queue_id=each,
                        timestamp_ms=times_ms[0],
                        later_ms=list(times_ms[1:]),
                    )
                )
                for each in queue_ids[start : start + PULLS_AT_ONCE_MAX]
            )
        )
        for reply in replies:
            offsets = [reply.queue_offset, *reply.later_offsets]
            for at, count in enumerate(counts):
                counts[at] = count + offsets[at + 1] - offsets[at]
    return counts


_CODES: Final = (
    "TOPIC_NOT_FOUND", "ILLEGAL_TOPIC", "GROUP_NOT_FOUND", "ILLEGAL_GROUP",
    *(parameter.code for parameter in (*BROWSE.parameters, REASON)),
)  # fmt: skip
SEARCH: Final = Operation(
    method="GET",
    path=NAMESPACE + "/messages",
    operation_id="searchMessages",
    tag="read",
    summary="Search messages",
    description=(
        "Finds messages of a topic, or dead letters of a group, by tokens in `q`; the console's "
        "explorer and `mqservice search` take the same text. Delivery is not affected. The newest "
        "come first. Only `next_cursor` says whether there is more: any page may be short. Where "
        "messages have to be read to know which are wanted (`body:`, a comparison, `reason:`), a "
        "page reads a bounded number and returns it in `scanned`. `previous_cursor` leads back. "
        "A key or an id can be searched for without a topic, in all topics that the API key may "
        f"consume: a page searches up to {TOPICS_MAX} of them by name and shows the newest "
        f"{PER_TOPIC_MAX} messages of each at most."
    ),
    scope=Scope.CONSUME,
    handler=search_messages,
    parameters=(Q, _ORDER, LIMIT, CURSOR),
    replies=(
        Reply(
            "A page; may be empty.",
            SearchResponse,
            {
                "messages": [{**EXAMPLE, "topic": "orders"}],
                "next_cursor": None,
                "previous_cursor": None,
                "is_complete": True,
            },
        ),
    ),
    codes=_CODES,
)
HISTOGRAM: Final = Operation(
    method="GET",
    path=NAMESPACE + "/messages:histogram",
    operation_id="countMessagesOverTime",
    tag="read",
    summary="Count messages over time",
    description=(
        f"How many messages the topic of `q` has stored in each of up to {BARS_MAX + 1} spans of "
        "its time (`last:`, `from:` and `to:`; all of it without them). Only `queue:` narrows "
        "the count, no other token: messages are not read for it. Dead letters that were redriven "
        "or purged since count as well."
    ),
    scope=Scope.CONSUME,
    handler=count_over_time,
    parameters=(Q,),
    replies=(
        Reply(
            "The counts, from the oldest to the newest.",
            HistogramResponse,
            {
                "bar_ms": 60_000,
                "total": 7,
                "bars": [{"at": "2026-11-21T12:08:00.000Z", "count": 7}],
            },
        ),
    ),
    codes=_CODES,
)
