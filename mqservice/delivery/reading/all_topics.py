"""Finds a key or IDs in all topics of a namespace, through the key index.

    topics after the last one ──▶ [topics_page] ── KEY_TOPICS, which may have it ──▶ engine
                                       │ └──────── LOOK_UP in these, some at once ─▶ engine
    newest first, topics with more, last topic ◀┘

Topics are gone through by name. A page has a few messages of each: the topics that have more are
named, and a search of one topic goes on there. It ends after ``TOPICS_MAX`` topics, after
``SEARCH_MS_MAX``, or before a topic whose messages have no room in it; the next page begins there.
Topics are loaded ``TOPICS_AT_ONCE`` at a time: a page that is soon full needs few of them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.http import Request
from mqservice.delivery.limits import BROWSE_BYTES_MAX, PULLS_AT_ONCE_MAX
from mqservice.delivery.reading.key_search import find_by_id, key_page
from mqservice.delivery.reading.walk import BrowsePage, SearchQuery
from mqservice.lib.durations import SECOND_MS
from mqservice.lib.problem import Problem
from mqservice.store import KeyTopicsRequest, Record, Store, TopicNotFound
from mqservice.topics.routes import TopicRoute

TOPICS_MAX: Final = 1_024  # of one page
TOPICS_AT_ONCE: Final = 256  # with IDS_MAX ids as many as the engine is asked for together
PER_TOPIC_MAX: Final = 8
IDS_MAX: Final = 8  # each is looked for in each topic
SEARCH_MS_MAX: Final = SECOND_MS
_NOTHING: Final = BrowsePage(records=[], place=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsPage:
    """``last``: the topic behind which the next page begins, None after the last page.

    ``searched_count``: topics that were looked through for this page; ``left_count``: those behind.
    ``more_in``: topics that may have more messages than are found here.
    """

    found: list[tuple[TopicRoute, Record]]
    last: str | None
    searched_count: int
    left_count: int
    more_in: list[str]
    is_complete: bool


async def topics_page(
    context: DeliveryContext,
    request: Request,
    question: SearchQuery,
    ids: list[str],
    *,
    after: str,
    messages_max: int,
) -> TopicsPage:
    """One page, of the topics that ``request`` may read. Raises Problem, ``StoreError``."""
    routes, principal, ns = context.caches.routes, request.principal, request.match.ns
    namespace = await routes.load_namespace(principal, ns)
    store = context.stores[namespace.shard]
    end_ms = context.clock.monotonic_ms() + SEARCH_MS_MAX
    each_max = min(PER_TOPIC_MAX, messages_max)
    found: list[tuple[TopicRoute, Record]] = []
    more_in: list[str] = []
    topics: list[TopicRoute] = []
    may_have: set[str] = set()
    searched_count, left_count, bytes_left = 0, 1, BROWSE_BYTES_MAX
    is_complete, has_room = True, True
    while has_room and searched_count < TOPICS_MAX:
        if searched_count == len(topics):
            if not left_count:
                break
            last = topics[-1].name if topics else after
            count_max = min(TOPICS_AT_ONCE, TOPICS_MAX - searched_count)
            more, left_count = await routes.load_topics(
                principal, ns, after=last, count_max=count_max
            )
            topics += more
            asked = KeyTopicsRequest(
                topics=[topic.engine_name for topic in more], keys=ids or [question.key or ""]
            )
            reply = await store.key_topics(asked)
            may_have.update(more[at].name for at in reply.indexes)
            is_complete = is_complete and reply.is_complete
        batch, looked_into = _batch(topics[searched_count:], may_have)
        pages = await asyncio.gather(
            *(_topic_page(store, topic, question, ids, each_max) for topic in looked_into)
        )
        page_of = {topic.name: page for topic, page in zip(looked_into, pages, strict=True)}
        for topic in batch:
            page = page_of.get(topic.name, _NOTHING)
            size_bytes = sum(len(record.body) for record in page.records)
            if found and (len(found) + len(page.records) > messages_max or size_bytes > bytes_left):
                has_room = False
                break
            found += [(topic, record) for record in page.records]
            bytes_left -= size_bytes
            is_complete = is_complete and page.is_complete
            searched_count += 1
            if page.place is not None:
                more_in.append(topic.name)
        if context.clock.monotonic_ms() >= end_ms:
            break
    left_count += len(topics) - searched_count
    found.sort(key=lambda each: each[1].store_timestamp_ms, reverse=True)
    return TopicsPage(
        found=found,
        last=topics[searched_count - 1].name if left_count else None,
        searched_count=searched_count,
        left_count=left_count,
        more_in=more_in,
        is_complete=is_complete,
    )


def _batch(
    topics: list[TopicRoute], may_have: set[str]
) -> tuple[list[TopicRoute], list[TopicRoute]]:
    """The next ones of ``topics``, and those of them that are looked into at once."""
    looked_into: list[TopicRoute] = []
    for at, topic in enumerate(topics):
        if topic.name in may_have:
            looked_into.append(topic)
            if len(looked_into) == PULLS_AT_ONCE_MAX:
                return topics[: at + 1], looked_into
    return topics, looked_into


async def _topic_page(
    store: Store, topic: TopicRoute, question: SearchQuery, ids: list[str], messages_max: int
) -> BrowsePage:
    """The newest of one topic; of ``ids``, those that it has."""
    try:
        if not ids:
            bytes_max = BROWSE_BYTES_MAX // PULLS_AT_ONCE_MAX
            return await key_page(store, topic, question, None, messages_max, bytes_max=bytes_max)
        return await _ids_page(store, topic, ids)
    except TopicNotFound:  # nothing was sent to it yet, or it has been deleted since
        return BrowsePage(records=[], place=None)


async def _ids_page(store: Store, topic: TopicRoute, ids: list[str]) -> BrowsePage:
    records: list[Record] = []
    is_complete = True
    for message_id in ids:
        try:
            records.append(await find_by_id(store, topic, message_id))
        except Problem as problem:
            if problem.code != "MESSAGE_NOT_FOUND":
                raise
            is_complete = is_complete and not problem.retryable
    return BrowsePage(records=records, place=None, is_complete=is_complete)
