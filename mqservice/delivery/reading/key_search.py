"""Finds the messages of a topic by ID or key, newest first, through the engine's key index.

    question, place ──▶ [key_search] ── LOOK_UP ──▶ engine
    page, next place ◀──────┘

The engine compares the text of the key, so keys of one hash are kept apart; tag, queue and text
are compared here. A place is the engine's own cursor.
"""

from __future__ import annotations

from mqservice.delivery.limits import (
    BROWSE_BYTES_MAX,
    BROWSE_COUNT_DEFAULT,
    PAGE_LOOK_UP_COUNT_MAX,
)
from mqservice.delivery.reading.query import OFFSET_MAX
from mqservice.delivery.reading.walk import BrowsePage, BrowseQuery, has_properties
from mqservice.lib.problem import Problem
from mqservice.store import LookUpRequest, Record, Store
from mqservice.topics.routes import TopicRoute


async def key_page(
    store: Store,
    topic: TopicRoute,
    question: BrowseQuery,
    place: bytes | None,
    messages_max: int,
    *,
    bytes_max: int = BROWSE_BYTES_MAX,
) -> BrowsePage:
    """One page: one look-up, and more only while nothing that was found is wanted.

    Raises ``StoreError``.
    """
    assert question.key is not None
    cursor = "" if place is None else place.decode()
    records: list[Record] = []
    is_complete = True
    scanned_count = 0
    for _ in range(PAGE_LOOK_UP_COUNT_MAX):
        head, found = await store.look_up(
            LookUpRequest(
                topic=topic.engine_name,
                key=question.key,
                messages_max=messages_max,
                bytes_max=bytes_max,
                from_ms=question.from_ms or 0,
                to_ms=OFFSET_MAX if question.to_ms is None else question.to_ms,
                cursor=cursor,
            )
        )
        records = [record for record in found if _matches(record, question)]
        scanned_count += len(found)
        cursor, is_complete = head.cursor, head.is_complete
        if records or not cursor:
            break
    return BrowsePage(
        records=records,
        place=cursor.encode() if cursor else None,
        is_complete=is_complete,
        scanned_count=scanned_count,
    )


async def find_by_id(store: Store, topic: TopicRoute, message_id: str) -> Record:
    """The message of that id. Usually one look-up.

    Raises:
        Problem: MESSAGE_NOT_FOUND, worth another try while the index lacks the newest messages.
        StoreError: the engine does not answer.
    """
    cursor = ""
    is_complete = True
    # More than one page only when somebody has given many messages this id as a key.
    for _ in range(PAGE_LOOK_UP_COUNT_MAX):
        head, found = await store.look_up(
            LookUpRequest(
                topic=topic.engine_name,
                key=message_id,
                messages_max=BROWSE_COUNT_DEFAULT,
                bytes_max=BROWSE_BYTES_MAX,
                cursor=cursor,
            )
        )
        for record in found:
            if record.message_id == message_id:
                return record
        cursor, is_complete = head.cursor, head.is_complete
        if not cursor:
            break
    detail = f"{topic.name} has no message with this id; it never existed or has expired"
    if not is_complete:
        detail = (
            "no message with this id was found, but the index does not have the newest "
            "messages yet; try again"
        )
    elif cursor:
        detail = (
            "too many messages have this id as a key, and it is not the id of any of the newest"
        )
    raise Problem.of("MESSAGE_NOT_FOUND", detail, retryable=not is_complete)


def _matches(record: Record, question: BrowseQuery) -> bool:
    return (
        (not question.tags or record.tag in question.tags)
        and (question.queue_id is None or record.queue_id == question.queue_id)
        and record.queue_offset < question.end_of(record.queue_id)
        and question.matches_body(record.body)
        and (not question.filter or has_properties(record, question.filter))
    )
