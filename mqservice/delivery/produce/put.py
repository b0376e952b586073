"""Checked messages on their way into the store: one or a batch, from a request or a socket.

    produce, socket ── offers ──▶ [Put] ── records ──▶ store
          answer(), results() ◀── done ──┘ ◀── outcomes ──┘

``encode`` until it says that nothing is left, then ``send_to_store``; once ``done`` was called, ask
for ``response`` or ``results``, once. Messages with an idempotency key (``once``) are the only ones
that the store compares with what it has; everything else is the same for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault, problem_of
from mqservice.delivery.delivery_time import is_in_future
from mqservice.delivery.messages import Offer, encode_offer
from mqservice.delivery.produce.idempotency import marks_of, result_of
from mqservice.delivery.produce.produce_responses import (
    PROMISED,
    RejectedResult,
    StoredResponse,
    StoredResult,
    rejected_result,
    scheduled_fields,
)
from mqservice.delivery.spans import OperationSpan
from mqservice.lib.timestamps import rfc3339
from mqservice.quotas.meter import TenantMeter
from mqservice.store import PROPERTY_DEDUP, OutcomeUnknown, PutResult, StoreError, Wait
from mqservice.topics.routes import TopicRoute
from mqservice.usage.counts import usage_counts


class Put:
    """See the module's docstring. The store calls it as its ``PutCall``."""

    _duplicates: set[int] | frozenset[int] = frozenset()
    _sizes: list[int]
    _outcomes: Sequence[PutResult] = ()
    _error: BaseException | None = None
    _done: Callable[[], None]
    _task: asyncio.Task[list[PutResult]]  # the loop holds tasks only weakly

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
        marks: list[dict[str, str]] | None = None,
        window_ms: int = 0,
        span: OperationSpan | None = None,
    ) -> None:
        """``key``: the request's own, if it has one. ``is_batch``: faults name the message.
        ``marks``: properties of our own, of each message. ``window_ms``: within which one of these
        is known again; 0: as long as by REST. ``span`` ends with the put.
        """
        self._context, self._meter, self._route = context, meter, route
        self._offers = offers
        self._client, self._is_batch = client, is_batch
        self._span = span
        born_ms = self._born_ms = context.clock.now_ms()
        waits = self._waits = dict[int, Wait]()
        is_once = key is not None or (
            marks is not None and any(PROPERTY_DEDUP in mark for mark in marks)
        )
        for index, offer in enumerate(offers):
            if offer.wait is not None and is_in_future(offer.wait, born_ms):
                waits[index] = offer.wait
            if offer.dedup_id is not None:
                is_once = True
        self._is_once = is_once
        self._marks = marks
        self._window_ms = window_ms
        if is_once and marks is None:
            self._marks = marks_of(key, offers, is_batch=is_batch)
        if len(offers) == 1:
            self._queue_ids = [context.queues.choose(route, offer.message_group, offer.queue)]
        else:
            wishes = [(offer.message_group, offer.queue) for offer in offers]
            self._queue_ids = context.queues.choose_all(route, wishes)
        self._message_ids: list[str] = []
        self._records: list[bytes] = []

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

    def send_to_store(self, done: Callable[[], None]) -> None:
        """Give the encoded messages to the store; puts are stored in the order of these calls.

        ``done`` is called once, later, and must not raise. Raises, and calls nobody:
            Problem: the tenant has used up its rate; nothing was stored.
            StoreError: nothing was stored.
        """
        records, self._records = self._records, []
        sizes = self._sizes = list(map(len, records))
        self._meter.charge_in(len(sizes), sum(sizes), self._context.clock.monotonic_ms())
        self._done = done
        if not self._is_once:
            route = self._route
            self._context.stores[route.shard].put_for(
                self, records, is_replicated=route.durability == "replicated"
            )
        else:
            self._task = asyncio.ensure_future(self._put_once(records))
            self._task.add_done_callback(self._put_once_ended)

    def put_all(self, done: Callable[[], None]) -> None:
        """``encode`` and ``send_to_store`` at once."""
        self.encode(len(self._offers))
        self.send_to_store(done)

    # What the store calls ------------------------------------------------------------------------

    def done(self) -> bool:
        """False: the outcome is always of interest, if only for what is counted."""
        return False

    def set_result(self, results: list[PutResult]) -> None:
        self._outcomes = results
        self._end()

    def set_exception(self, error: StoreError) -> None:
        self._error = error
        self._end()

    def _end(self) -> None:
        if self._span is not None:
            self._span.put_ended(
                self._message_ids, self._outcomes, self._error, is_batch=self._is_batch
            )
        done = self._done
        del self._done  # which knows this in turn: freed at once, without the garbage collector
        done()

    async def _put_once(self, records: list[bytes]) -> list[PutResult]:
        """A message that was stored before is reported as it was then."""
        store = self._context.stores[self._route.shard]
        places = await store.put_once(records, self._window_ms)
        duplicates = self._duplicates = set()
        for index, place in enumerate(places):
            if not place.is_duplicate:
                continue
            duplicates.add(index)
            self._message_ids[index] = place.message_id
            self._queue_ids[index] = place.queue_id
            wait = self._offers[index].wait
            if place.is_waiting and wait is not None:
                self._waits[index] = wait
            else:
                self._waits.pop(index, None)
        return [result_of(place) for place in places]

    def _put_once_ended(self, task: asyncio.Task[list[PutResult]]) -> None:
        if task.cancelled():  # as the process ends
            self._error = OutcomeUnknown("the process ended before the engine answered")
        else:
            self._error = task.exception()
            if self._error is None:
                self._outcomes = task.result()
        self._end()

    # What became of it ---------------------------------------------------------------------------

    def response(self) -> tuple[int, StoredResponse]:
        """Status and answer of a put of one message: 201, or 200 if it was stored before.

        Raises StoreError: it was not stored, or nothing is known.
        """
        if self._error is not None:
            raise self._error
        queue_offset, _, store_timestamp_ms, error, _ = outcome = self._outcomes[0]
        if error is not None:
            raise error
        route, message_id = self._route, self._message_ids[0]
        stored = StoredResponse(
            message_id,
            route.name,
            self._queue_ids[0],
            queue_offset,
            rfc3339(store_timestamp_ms),
            PROMISED[route.durability],
        )
        if self._waits:
            more = scheduled_fields(self._context, route, message_id, self._waits[0], outcome)
            stored = msgspec.structs.replace(stored, **more)
        if self._duplicates:
            return 200, msgspec.structs.replace(stored, duplicate=True)
        usage_counts.stored(route.engine_name, 1, self._sizes[0])
        return 201, stored

    def results(self) -> tuple[int, list[StoredResult | RejectedResult]]:
        """Status and results of a batch, in order: 201, 200 when all were stored before, 207 when
        some were refused.

        Raises StoreError: nothing was stored, or nothing is known.
        """
        self._raise_unless_stored()
        results: list[StoredResult | RejectedResult] = []
        refused_count = 0
        stored_ms, stored_at = -1, ""
        durability = PROMISED[self._route.durability]
        for index, (outcome, message_id, queue_id) in enumerate(
            zip(self._outcomes, self._message_ids, self._queue_ids, strict=True)
        ):
            queue_offset, _, at_ms, error, _ = outcome
            if error is not None:
                refused_count += 1
                results.append(rejected_result(index, error))
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
                more = scheduled_fields(self._context, self._route, message_id, wait, outcome)
                stored = msgspec.structs.replace(stored, **more)
            results.append(stored)
        self._count_stored()
        if refused_count:
            return 207, results
        return (200 if len(self._duplicates) == len(results) else 201), results

    def _raise_unless_stored(self) -> None:
        if self._error is not None:
            raise self._error
        first = self._outcomes[0].error
        if first is not None and all(outcome.error is not None for outcome in self._outcomes):
            raise first

    def _count_stored(self) -> None:
        sizes = [
            size
            for index, (size, outcome) in enumerate(zip(self._sizes, self._outcomes, strict=True))
            if outcome.error is None and index not in self._duplicates
        ]
        usage_counts.stored(self._route.engine_name, len(sizes), sum(sizes))
