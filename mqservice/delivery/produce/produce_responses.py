"""Results for producers: where each message is stored, or why it is not."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.tokens.recall_handles import RecallHandle
from mqservice.errors import problem_from_store
from mqservice.lib.timestamps import rfc3339
from mqservice.store import PutResult, StoreError, Wait
from mqservice.topics.routes import TopicRoute


class StoredResponse(msgspec.Struct, frozen=True, gc=False):
    """Response for one stored message.

    A scheduled one has no offset yet, but ``deliver_at`` and ``recall_handle``.
    """

    id: str
    topic: str
    queue: int
    offset: int | None
    stored_at: str
    durability: str
    deliver_at: str | None = None
    recall_handle: str | None = None
    duplicate: bool = False


class StoredResult(msgspec.Struct, frozen=True, gc=False):
    """Result of one stored message of a batch; see ``StoredResponse``."""

    index: int
    status: int
    id: str
    queue: int
    offset: int | None
    stored_at: str
    durability: str
    duplicate: bool = False
    deliver_at: str | None = None
    recall_handle: str | None = None


class RejectedResult(msgspec.Struct, frozen=True):
    """Result of one message of a batch that the engine did not store."""

    index: int
    status: int
    code: str
    detail: str
    retryable: bool
    stored: bool | None


class BatchResponse(msgspec.Struct, frozen=True):
    """Results in the order of the request."""

    results: list[StoredResult | RejectedResult]


# What the answer may promise, by the topic's durability: on disk, on its way there, or in the
# replicated log.
PROMISED: Final = {"sync": "synced", "async": "buffered", "replicated": "replicated"}


def scheduled_fields(
    context: DeliveryContext, route: TopicRoute, message_id: str, wait: Wait, result: PutResult
) -> dict[str, Any]:  # Any: fields of an answer, as ``replace`` takes them
    """What the answer says of a message that is to come. The schedule is always durable, and as
    replicated as its topic.
    """
    place = wait.queue_id, result.queue_offset
    return {
        "offset": None,
        "durability": "replicated" if route.durability == "replicated" else "synced",
        "deliver_at": rfc3339(result.due_ms or wait.due_ms(result.store_timestamp_ms)),
        "recall_handle": context.recall_handles.write(
            RecallHandle(route.engine_name, message_id, *place)
        ),
    }


def rejected_result(index: int, error: StoreError) -> RejectedResult:
    """Of a message that the engine did not store."""
    problem = problem_from_store(error)
    return RejectedResult(
        index, problem.status, problem.code, problem.detail, problem.retryable, problem.stored
    )
