"""Offers that were checked, on their way into the store, whoever offered them.

produce, socket ── offers of one request ──▶ [PendingPut] ── one put ──▶ store
                          results, in order ◀──┘
"""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault, problem_of
from mqservice.delivery.messages import Offer, encode_offer
from mqservice.delivery.once import has_keys, marks_of, result_of
from mqservice.delivery.produce_answers import (
    RefusedResult,
    StoredResult,
    durability_of,
    refused_result,
    waiting,
)
from mqservice.delivery.spans import OperationSpan
from mqservice.delivery.waits import is_to_come
from mqservice.errors import problem_from_store
from mqservice.lib.timestamps import rfc3339
from mqservice.quotas.meter import TenantMeter
from mqservice.store import PutResult
from mqservice.topics.routes import TopicRoute
from mqservice.usage.counts import usage_counts


class PendingPut:
    """Checked offers on their way into the store: encoded, handed over, answered.

    ``results`` does all of it. Whoever has others to think of encodes in steps: ``encode`` until it
    says that nothing is left, then ``hand_over``, then ``told`` once ``outcomes`` are done.
    """

    outcomes: asyncio.Future[list[PutResult]]

    def __init__(
        self,
        context: DeliveryContext,
        meter: TenantMeter,
        route: TopicRoute,
        offers: list[Offer],
        client: tuple[str, int],
        *,
        key: str | None = None,
        is_batch: bool = True,
        span: OperationSpan | None = None,
    ) -> None:
        """``key``: of the request; see ``once``. ``span`` ends with it."""
        born_ms = self._born_ms = context.clock.now_ms()
        self._context, self._meter, self._route = context, meter, route
        self._client, self._is_batch = client, is_batch
        self._durability = durability_of(route)
        self._waits = {
            index: offer.wait
            for index, offer in enumerate(offers)
            if offer.wait is not None and is_to_come(offer.wait, born_ms)
        }
        self._queue_ids = context.queues.choose_all(
            route, [(offer.message_group, offer.queue) for offer in offers]
        )
        self._message_ids: list[str] = []
        self._offers = offers
        self._is_once = has_keys(key, offers)
        self._marks = marks_of(key, offers, is_batch=is_batch) if self._is_once else None
        self._records: list[bytes] = []
        self._sizes: list[int] = []
        self._duplicates: set[int] = set()
        self._span = span

    def encode(self, count: int) -> bool:
        """Encode the next ``count`` messages; whether those were the last ones.

        Raises Problem, with nothing stored, when a message does not fit a record.
        """
        offers, queue_ids, marks = self._offers, self._queue_ids, self._marks
        start = len(self._records)
        end = min(start + count, len(offers))
        for index in range(start, end):
            try:
                message_id, record = encode_offer(
                    offers[index],
                    self._route,
                    queue_id=queue_ids[index],
                    born_ms=self._born_ms,
                    born_host=self._client,
                    mark=marks[index] if marks else None,
                )
            except Fault as fault:
                place = fault.under(f"/{index}") if self._is_batch else fault
                raise problem_of(place, stored=False) from None
            self._message_ids.append(message_id)
            self._records.append(record)
        return end == len(offers)

    def hand_over(self) -> None:
        """To the store, what is encoded: in the order in which this is called.

        Raises Problem, with nothing stored, when the tenant has used up its rate.
        """
        records, self._records = self._records, []
        self._sizes = [len(record) for record in records]
        self._meter.charge_in(len(records), sum(self._sizes), self._context.clock.monotonic_ms())
        if self._is_once:
            self.outcomes = asyncio.ensure_future(self._put_once(records))
        else:
            self.outcomes = self._context.store.put(records)
        if self._span is not None:
            ended = partial(self._span.put_ended, self._message_ids, is_batch=self._is_batch)
            self.outcomes.add_done_callback(ended)

    async def _put_once(self, records: list[bytes]) -> list[PutResult]:
        """What was stored before is told as it was told then."""
        places = await self._context.store.put_once(records)
        for index, place in enumerate(places):
            if not place.is_duplicate:
                continue
            self._duplicates.add(index)
            self._message_ids[index] = place.message_id
            self._queue_ids[index] = place.queue_id
            wait = self._offers[index].wait
            if place.is_waiting and wait is not None:
                self._waits[index] = wait
            else:
                self._waits.pop(index, None)
        return [result_of(place) for place in places]

    async def results(self) -> tuple[int, list[StoredResult | RefusedResult]]:
        """``told``, once the store has answered. Raises Problem as ``encode``, ``hand_over`` do."""
        self.encode(len(self._offers))
        self.hand_over()
        await self.outcomes
        return self.told()

    def told(self) -> tuple[int, list[StoredResult | RefusedResult]]:
        """201 and the results in order, 200 when all were stored before, 207 when some were
        refused. Once ``outcomes`` are done, and only once: what was stored is counted.

        Raises:
            Problem: nothing was stored.
            StoreError: nothing was stored, or nothing is known.
        """
        outcomes = self.outcomes.result()
        refused_count = sum(outcome.error is not None for outcome in outcomes)
        if refused_count == len(outcomes):
            assert outcomes[0].error is not None
            raise problem_from_store(outcomes[0].error)
        results: list[StoredResult | RefusedResult] = []
        stored_ms, stored_at = -1, ""
        durability = self._durability
        for index, (outcome, message_id, queue_id) in enumerate(
            zip(outcomes, self._message_ids, self._queue_ids, strict=True)
        ):
            queue_offset, _, at_ms, error, _ = outcome
            if error is not None:
                results.append(refused_result(index, error))
                continue
            if at_ms != stored_ms:  # messages of one frame are stored at one time
                stored_ms, stored_at = at_ms, rfc3339(at_ms)
            stored = StoredResult(
                index, 201, message_id, queue_id, queue_offset, stored_at, durability
            )
            if index in self._duplicates:
                stored = msgspec.structs.replace(stored, status=200, duplicate=True)
            if index in self._waits:
                wait = self._waits[index]
                more = waiting(self._context, self._route, message_id, wait, outcome)
                stored = msgspec.structs.replace(stored, **more)
            results.append(stored)
        self._count_stored(outcomes)
        is_old = len(self._duplicates) == len(results)
        return (207 if refused_count else 200 if is_old else 201), results

    def _count_stored(self, outcomes: list[PutResult]) -> None:
        sizes = self._sizes
        if self._duplicates or any(outcome.error is not None for outcome in outcomes):
            sizes = [
                size
                for index, size in enumerate(sizes)
                if outcomes[index].error is None and index not in self._duplicates
            ]
        usage_counts.stored(self._route.engine_name, len(sizes), sum(sizes))
