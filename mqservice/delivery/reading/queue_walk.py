"""Reads the queues of a topic page by page, in the order in which messages were stored.

    question, place ──▶ ranges of the queues ──▶ [queue_merge] ──▶ page, next place

A place is the next offset of each queue, in the order of their ids, as MessagePack; newest first
the one behind it, so that a place serves both directions. Queues that the topic has got since the
place was written begin where the walk began. The end of a walk that has ``to`` is looked up for
each page: until that time has come it still moves.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from mqservice.delivery.limits import PULLS_AT_ONCE_MAX
from mqservice.delivery.reading.queue_merge import QueueMerge, QueueRange
from mqservice.delivery.reading.walk import NO_END, BrowsePage, BrowseQuery
from mqservice.store import OffsetAtTimeRequest, Store
from mqservice.topics.routes import TopicRoute

encode_place: Final = msgspec.msgpack.Encoder().encode
_decode_place: Final = msgspec.msgpack.Decoder(list[int]).decode


async def queue_page(
    store: Store, topic: TopicRoute, question: BrowseQuery, place: bytes | None, messages_max: int
) -> BrowsePage:
    """One page: a pull for each queue or a few more, and for times one look-up a queue.

    ``place`` is None or what a page before gave. Raises ``StoreError``.
    """
    if question.queue_id is None:
        queue_ids = list(range(topic.queue_count))
    else:
        queue_ids = [question.queue_id]
    known = [] if place is None else _decode_place(place)
    ranges: list[QueueRange] = []
    for start in range(0, len(queue_ids), PULLS_AT_ONCE_MAX):
        some = range(start, min(start + PULLS_AT_ONCE_MAX, len(queue_ids)))
        ranges += await asyncio.gather(
            *(
                _range_of(
                    store,
                    topic.engine_name,
                    queue_ids[index],
                    question,
                    position=known[index] if index < len(known) else None,
                )
                for index in some
            )
        )
    page = await QueueMerge(
        store, topic.engine_name, ranges, question=question, messages_max=messages_max
    ).page()
    next_place = None if page.is_last else encode_place(page.positions)
    return BrowsePage(records=page.records, place=next_place, scanned_count=page.scanned_count)


async def _range_of(
    store: Store, topic: str, queue_id: int, question: BrowseQuery, *, position: int | None
) -> QueueRange:
    low = question.offset or 0  # what lies before the first message is corrected by the engine
    if question.from_ms is not None and (position is None or question.is_newest_first):
        low = await _offset_at(store, topic, queue_id, question.from_ms)
    high = question.end_of(queue_id)
    if question.to_ms is not None and (position is None or not question.is_newest_first):
        high = min(high, await _offset_at(store, topic, queue_id, question.to_ms + 1))
    if question.is_newest_first:
        return QueueRange(
            queue_id=queue_id, position=high if position is None else position, end=low
        )
    return QueueRange(queue_id=queue_id, position=low if position is None else position, end=high)


async def ends_of(store: Store, topic: TopicRoute) -> list[int]:
    """Where the queues of a topic end, in the order of their ids. Raises ``StoreError``."""
    ends: list[int] = []
    for start in range(0, topic.queue_count, PULLS_AT_ONCE_MAX):
        some = range(start, min(start + PULLS_AT_ONCE_MAX, topic.queue_count))
        ends += await asyncio.gather(
            *(_offset_at(store, topic.engine_name, queue_id, NO_END) for queue_id in some)
        )
    return ends


async def _offset_at(store: Store, topic: str, queue_id: int, moment_ms: int) -> int:
    reply = await store.offset_at_time(
        OffsetAtTimeRequest(topic=topic, queue_id=queue_id, timestamp_ms=moment_ms)
    )
    return reply.queue_offset
