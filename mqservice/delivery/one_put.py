"""One offer without a key on its way into the store: what most requests are.

produce_one, ProduceLane ── checked offer ──▶ [OnePut] ── record ──▶ store.put
                    the answer's body ◀── told ──┘ ◀── its result ────┘
"""

from __future__ import annotations

import msgspec

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.http import Request
from mqservice.delivery.messages import Offer, encode_offer
from mqservice.delivery.produce_answers import StoredAnswer, durability_of, waiting
from mqservice.delivery.waits import is_to_come
from mqservice.lib.timestamps import rfc3339
from mqservice.store import PutResult
from mqservice.topics.routes import TopicRoute

_encode = msgspec.json.Encoder().encode


class OnePut:
    """The record of an offer; it is charged, and has its queue and its id."""

    __slots__ = (
        "_born_ms",
        "_context",
        "_message_id",
        "_offer",
        "_queue_id",
        "_route",
        "_span",
        "record",
    )

    def __init__(
        self, context: DeliveryContext, request: Request, route: TopicRoute, offer: Offer
    ) -> None:
        """Raises Fault when the message does not fit a record, Problem when the tenant has used up
        its rate.
        """
        self._context, self._route, self._offer = context, route, offer
        self._span = request.span
        self._queue_id = context.queues.choose(route, offer.message_group, offer.queue)
        self._born_ms = context.clock.now_ms()
        self._message_id, self.record = encode_offer(
            offer, route, queue_id=self._queue_id, born_ms=self._born_ms, born_host=request.client
        )
        assert request.meter is not None, "the data plane has one for each request"
        request.meter.charge_in(1, len(self.record), context.clock.monotonic_ms())

    @property
    def topic(self) -> str:
        """As the engine knows it."""
        return self._route.engine_name

    def told(self, result: PutResult) -> bytes:
        """The body of the answer. Raises StoreError: nothing was stored."""
        if result.error is not None:
            raise result.error
        if self._span is not None:
            self._span.stored(self._message_id)
        route, offer = self._route, self._offer
        stored = StoredAnswer(
            self._message_id,
            route.name,
            self._queue_id,
            result.queue_offset,
            rfc3339(result.store_timestamp_ms),
            durability_of(route),
        )
        if offer.wait is not None and is_to_come(offer.wait, self._born_ms):
            more = waiting(self._context, route, self._message_id, offer.wait, result)
            stored = msgspec.structs.replace(stored, **more)
        return _encode(stored)
