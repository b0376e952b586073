"""Dead letters as messages of the queue that a RedrivePolicy names.

    ReceiveMessage ──▶ [Rounds] ── %DLQ%orders, %DLQ%… without waiting ──▶ messages, or
                          ▲   └── the queue's own topic, for a second ──▶ messages, or
                          └────────────── time left ◀────────────────────── nothing

Letters stay where the console, issues and redrives see them. They are received as the engine's own
group ``LETTERS_GROUP``: one that is deleted here is gone there, and the other way round. Receipts
are the queue's, whichever topic their message is in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.receive.receive import ReceiveCall
from mqservice.delivery.settle.settle_plan import SettlePlan
from mqservice.lib.names import engine_name
from mqservice.sqs.request import SqsRequest
from mqservice.store import (
    DLQ_PREFIX,
    LETTERS_GROUP,
    Received,
    ReceiveRequest,
    SettleRequest,
    TopicNotFound,
    dlq_topic_of,
)
from mqservice.topics.routes import TopicRoute

ROUND_MS: Final = 1_000
Answer = Callable[[ReceiveRequest, Received], None]


class Rounds:
    """A receive of a queue that has dead letters of others."""

    def __init__(
        self,
        context: DeliveryContext,
        request: SqsRequest,
        route: TopicRoute,
        order: ReceiveRequest,
        answer: Answer,
    ) -> None:
        self._context, self._request, self._answer = context, request, answer
        self._order = order
        self._store = context.stores[route.shard]
        self._left_ms = order.wait_ms
        groups = [
            engine_name(namespace=route.namespace, name=each) for each in route.letter_sources
        ]
        self._topics = [dlq_topic_of(group) for group in groups]
        self._next = 0
        self._call: ReceiveCall | None = None

    def begin(self) -> None:
        """Ask the next one that may have messages."""
        if self._next < len(self._topics):
            topic = self._topics[self._next]
            changes = {"group": LETTERS_GROUP, "topic": topic, "wait_ms": 0}
        else:
            wait_ms = min(self._left_ms, ROUND_MS)
            self._left_ms -= wait_ms
            changes = {"wait_ms": wait_ms}
        order = msgspec.structs.replace(self._order, **changes)
        self._call = ReceiveCall(
            self._context,
            self._store,
            self._request,
            order,
            None,
            lambda received, _: self._ended(order, received),
            self._failed,
        )
        self._call.begin()

    def cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()

    def _ended(self, order: ReceiveRequest, received: Received) -> None:
        if not received.count and not self._context.drain.has_begun:
            was_own = self._next == len(self._topics)
            if not was_own or self._left_ms:
                self._next = 0 if was_own else self._next + 1
                self.begin()
                return
        self._answer(order, received)

    def _failed(self, error: Exception) -> bool:
        """Whether the failure ends nothing: nothing was dead-lettered there yet."""
        if not isinstance(error, TopicNotFound) or self._next == len(self._topics):
            return False
        self._next += 1
        self.begin()
        return True


class QueuePlan(SettlePlan):
    """A settlement whose receipts may be of dead letters, which the engine's own group settles. A
    message whose lease has ended can be hidden again while nobody else has it.
    """

    def requests(self) -> list[SettleRequest]:
        return [part for request in super().requests() for part in _split(_retaking(request))]


def _retaking(request: SettleRequest) -> SettleRequest:
    if not request.extends:
        return request
    extends = [msgspec.structs.replace(each, may_be_over=True) for each in request.extends]
    return msgspec.structs.replace(request, extends=extends)


def _split(request: SettleRequest) -> list[SettleRequest]:
    if not any(
        each.topic.startswith(DLQ_PREFIX)
        for items in (request.acks, request.nacks, request.extends)
        for each in items
    ):
        return [request]

    def of(*, is_letter: bool) -> SettleRequest:
        return msgspec.structs.replace(
            request,
            group=LETTERS_GROUP if is_letter else request.group,
            **{
                name: [
                    each
                    for each in getattr(request, name)
                    if each.topic.startswith(DLQ_PREFIX) is is_letter
                ]
                for name in ("acks", "nacks", "extends", "ack_up_tos")
            },
        )

    return [of(is_letter=True), of(is_letter=False)]
