"""Dead letters of one cause, page by page: reasons are not indexed, so dead letters are read for
them.

    question, cause, place ──▶ [cause_page] ── pages of queue_walk or key_search ──▶ those that fit
    page, next place ◀────────────┘

A page ends early after ``CAUSE_PAGES_MAX`` pages that were read, ``SCAN_BYTES_MAX`` of letters, or
``CAUSE_MS_MAX``, and says how many letters were looked at. Reasons are compared on a thread of
their own: one that is made to take long takes a few milliseconds of it, and the loop goes on.
"""

from __future__ import annotations

import asyncio

import msgspec

from mqservice.delivery.limits import (
    BROWSE_BYTES_MAX,
    BROWSE_COUNT_MAX,
    CAUSE_MS_MAX,
    CAUSE_PAGES_MAX,
    SCAN_BYTES_MAX,
)
from mqservice.delivery.reading.key_search import key_page
from mqservice.delivery.reading.queue_walk import encode_place, queue_page
from mqservice.delivery.reading.same_cause import SameCause
from mqservice.delivery.reading.walk import BrowsePage, BrowseQuery
from mqservice.lib.clock import Clock
from mqservice.store import Record, Store
from mqservice.topics.routes import TopicRoute


class CauseQuery(msgspec.Struct, frozen=True, array_like=True):
    """A question of which only letters of the cause are wanted; a cursor is bound to both."""

    question: BrowseQuery
    cause: str


async def cause_page(
    store: Store,
    topic: TopicRoute,
    asked: CauseQuery,
    place: bytes | None,
    messages_max: int,
    clock: Clock,
) -> BrowsePage:
    """One page of a DLQ, which has one queue. Raises ``StoreError``."""
    question, same = asked.question, SameCause(asked.cause)
    if question.key is not None:
        page = await key_page(store, topic, question, place, messages_max)
        fitting = await asyncio.to_thread(_matching, page.records, same)
        return BrowsePage(
            records=fitting,
            place=page.place,
            is_complete=page.is_complete,
            scanned_count=len(page.records),
        )
    ends_at_ms = clock.monotonic_ms() + CAUSE_MS_MAX
    found: list[Record] = []
    scanned_count, bytes_left, scan_bytes_left = 0, BROWSE_BYTES_MAX, SCAN_BYTES_MAX
    for _ in range(CAUSE_PAGES_MAX):
        page = await queue_page(store, topic, question, place, BROWSE_COUNT_MAX)
        for record in await asyncio.to_thread(_matching, page.records, same):
            bytes_left -= len(record.body)
            if found and (len(found) == messages_max or bytes_left < 0):
                next_offset = record.queue_offset + question.is_newest_first
                return BrowsePage(
                    records=found,
                    place=encode_place([next_offset]),
                    scanned_count=scanned_count + page.records.index(record),
                )
            found.append(record)
        place = page.place
        scanned_count += len(page.records)
        scan_bytes_left -= sum(len(record.body) for record in page.records)
        if (
            place is None
            or len(found) == messages_max
            or scan_bytes_left <= 0
            or clock.monotonic_ms() >= ends_at_ms
        ):
            break
    return BrowsePage(records=found, place=place, scanned_count=scanned_count)


def _matching(records: list[Record], same: SameCause) -> list[Record]:
    return [record for record in records if same.has(record)]
