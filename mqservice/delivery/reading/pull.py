"""Pull over REST: one queue at an offset, with RocketMQ's statuses, for consumers that store their
own offset.

    GET .../queues/{queue}/messages?offset=&max=&tag= ──▶ PULL ──▶ status, offsets, messages
    GET .../queues/{queue}/offset?time=               ──▶ OFFSET_AT_TIME ──▶ offsets

offset in the queue     status            next_offset
in [min, max)           FOUND             behind the last message, or the last that was passed over
in [min, max)           NO_MATCHED_MSG    behind what was passed over: ask on from there
max_offset              NO_NEW_MSG        the same
below min, above max    OFFSET_ILLEGAL    the nearest one that is not

Changes no delivery state.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mqservice.accounts.scopes import Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.filters import filter_of_query, tags_in
from mqservice.delivery.http import Request
from mqservice.delivery.limits import BROWSE_BYTES_MAX, BROWSE_COUNT_DEFAULT, BROWSE_COUNT_MAX
from mqservice.delivery.operation import TOPIC, Operation, Reply
from mqservice.delivery.reading.query import OFFSET_MAX, TAG, Number, Time
from mqservice.delivery.reading.stored_messages import EXAMPLE, StoredMessage, stored_messages
from mqservice.delivery.response_format import accepts_msgpack, reply_struct
from mqservice.lib.problem import Problem
from mqservice.lib.queue_numbers import QUEUE_NOT_FOUND
from mqservice.store import OffsetAtTimeRequest, PullRequest
from mqservice.topics.routes import TopicRoute

_QUEUE_DIGITS_MAX: Final = 9
_OFFSET: Final = Number(
    name="offset",
    text="Where to read.",
    hint="the queue offset to read from",
    low=0,
    high=OFFSET_MAX,
)
_MAX: Final = Number(
    name="max",
    text="Maximum number of messages.",
    low=1,
    high=BROWSE_COUNT_MAX,
    default=BROWSE_COUNT_DEFAULT,
)
_TIME: Final = Time(
    name="time",
    text="The time, RFC 3339.",
    hint="an RFC 3339 time such as 2026-12-01T08:00:00.000Z",
)


class PullResponse(msgspec.Struct, frozen=True):
    """``status`` is one of RocketMQ's pull statuses."""

    status: str
    min_offset: int
    max_offset: int
    next_offset: int
    messages: list[StoredMessage]


class OffsetResponse(msgspec.Struct, frozen=True):
    """``offset`` is ``max_offset`` if no message was stored at or after the time."""

    offset: int
    min_offset: int
    max_offset: int


async def pull_messages(context: DeliveryContext, request: Request) -> None:
    """``GET .../topics/{topic}/queues/{queue}/messages``"""
    topic, query = await PULL.read_topic(context, request)
    queue_id = _queue_of(request, topic)
    head, records = await context.stores[topic.shard].pull(
        PullRequest(
            topic=topic.engine_name,
            queue_id=queue_id,
            queue_offset=query.require(_OFFSET),
            messages_max=query.require(_MAX),
            bytes_max=BROWSE_BYTES_MAX,
            tags=tags_in(filter_of_query(query.get(TAG), None, None)),
        )
    )
    messages = stored_messages(records, as_bytes=accepts_msgpack(request))
    reply_struct(
        request,
        PullResponse(
            head.status.name, head.min_offset, head.max_offset, head.next_offset, messages
        ),
    )


async def read_offset_at_time(context: DeliveryContext, request: Request) -> None:
    """``GET .../topics/{topic}/queues/{queue}/offset``"""
    topic, query = await OFFSET_AT_TIME.read_topic(context, request)
    queue_id = _queue_of(request, topic)
    moment_ms = query.require(_TIME)
    reply = await context.stores[topic.shard].offset_at_time(
        OffsetAtTimeRequest(topic=topic.engine_name, queue_id=queue_id, timestamp_ms=moment_ms)
    )
    reply_struct(request, OffsetResponse(reply.queue_offset, reply.min_offset, reply.max_offset))


def _queue_of(request: Request, topic: TopicRoute) -> int:
    """The queue of the path. Raises Problem QUEUE_NOT_FOUND."""
    text = request.match.queue
    if text.isascii() and text.isdigit() and len(text) <= _QUEUE_DIGITS_MAX:
        queue_id = int(text)
        if queue_id < topic.queue_count:
            return queue_id
    raise Problem.of(QUEUE_NOT_FOUND, f"{topic.name} has queues 0 to {topic.queue_count - 1}")


PULL: Final = Operation(
    method="GET",
    path=TOPIC + "/queues/{queue}/messages",
    operation_id="pullMessages",
    tag="read",
    summary="Pull from a queue at an offset",
    description=(
        "For readers that store their own offset. `status` is RocketMQ's: `FOUND`, "
        "`NO_MATCHED_MSG`, `NO_NEW_MSG` or `OFFSET_ILLEGAL`; continue at `next_offset`."
    ),
    scope=Scope.CONSUME,
    handler=pull_messages,
    parameters=(_OFFSET, _MAX, TAG),
    replies=(
        Reply(
            "The messages.",
            PullResponse,
            {
                "status": "FOUND",
                "min_offset": 0,
                "max_offset": 26147,
                "next_offset": 26147,
                "messages": [EXAMPLE],
            },
        ),
    ),
)
OFFSET_AT_TIME: Final = Operation(
    method="GET",
    path=TOPIC + "/queues/{queue}/offset",
    operation_id="readOffsetAtTime",
    tag="read",
    summary="Find the offset of a time",
    description="Returns the offset of the first message stored at or after a time.",
    scope=Scope.CONSUME,
    handler=read_offset_at_time,
    parameters=(_TIME,),
    replies=(
        Reply(
            "The offset, and the range that can be read.",
            OffsetResponse,
            {"offset": 26100, "min_offset": 0, "max_offset": 26147},
        ),
    ),
)
