"""A produce of one message that needs nothing but what this process knows, without a task.

    web_transport ── a request that is whole ──▶ [ProduceLane.take] ── record ──▶ store
                      False: the data plane does it           answer ◀── done ─────┘

It takes requests whose key, meter and topic are known and which have no key to be stored once by.
See ``lane``.
"""

from __future__ import annotations

from typing import Any, Final

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.http import Request, answer, answer_now, request_id_of
from mqservice.delivery.lane import Lane
from mqservice.delivery.messages import check_offer
from mqservice.delivery.one_put import OnePut
from mqservice.delivery.plane import MESSAGES, known_match
from mqservice.delivery.produce import body_bytes_max, carry_context, offer_of
from mqservice.delivery.spans import Operation
from mqservice.store import PutResult, StoreError
from mqservice.usage.counts import usage_counts

# What asks for more than a plain request does.
_UNUSUAL: Final = (b"idempotency-key", b"content-encoding", b"expect")


class _Waiting:
    """A put's answer to come, as ``put_coalescer.PutCall``."""

    __slots__ = ("_lane", "_put", "_request")

    def __init__(self, lane: ProduceLane, request: Request, put: OnePut) -> None:
        self._lane, self._request, self._put = lane, request, put

    def done(self) -> bool:
        return False

    def set_result(self, results: list[PutResult]) -> None:
        self._lane.answer(self._request, self._put, results[0])

    def set_exception(self, error: StoreError) -> None:
        self._lane.refuse(self._request, error)


class ProduceLane(Lane):
    """See the module's docstring. One per process."""

    def take(self, cycle: Any, headers: dict[bytes, bytes]) -> bool:
        """Whether the request of ``cycle`` is answered here, now or later. False: nothing was done.

        ``cycle``: uvicorn's, whose types of ASGI are narrower than ours; it has all of its body and
        no answer yet. ``headers`` are its own.
        """
        scope = cycle.scope
        match = known_match(scope["path"])
        if match is None or match.operation != MESSAGES or scope["method"] != "POST":
            return False
        context = self._context
        principal = context.caches.keys.cached(headers.get(b"authorization", b""))
        if principal is None or not headers.keys().isdisjoint(_UNUSUAL):
            return False
        meter = context.meters.known.get(principal.tenant_id)
        route = context.caches.routes.topic(principal, match.ns, match.topic)
        if meter is None or route is None:
            return False
        request = Request(scope, cycle.receive, cycle.send, match, headers, request_id_of(headers))
        body = bytes(cycle.body)
        if len(body) > body_bytes_max(request, route):
            return False
        request.principal, request.meter, request.is_reading = principal, meter, False
        if context.spans is not None:
            context.spans.of_request(request, Operation.SEND)
        try:
            meter.check_in(context.clock.monotonic_ms())
            principal.require(Scope.PRODUCE, Kind.TOPIC, match.topic)
            offer = offer_of(request, body)
            check_offer(offer, route)
            if offer.dedup_id is not None:
                return False
            carry_context(request, (offer,))
            put = OnePut(context, request, route, offer)
            context.store.put_for(_Waiting(self, request, put), [put.record])
        except Exception as exc:
            self.refuse(request, exc)
        return True

    def answer(self, request: Request, put: OnePut, result: PutResult) -> None:
        """Tell the client how its put has ended."""
        try:
            told = put.told(result)
            is_sent = answer_now(request, 201, told)
        except Exception as exc:
            self.refuse(request, exc)
            return
        usage_counts.stored_by_call(put.topic, len(put.record))
        if not is_sent:  # the client reads slowly
            self._start(answer(request, 201, told))
