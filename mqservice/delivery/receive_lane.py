"""A receive that needs nothing but what this process knows, without a task, however long it waits.

    web_transport ── a request that is whole ──▶ [ReceiveLane.take] ── Poll ──▶ store, parked
                      False: the data plane does it         answer ◀── ended ────┘

It takes requests whose key, meter, topic and group are known, unless how much may be received
depends on what is settled with it. See ``lane``.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mqservice.delivery.http import Request, answer, answer_now, request_id_of
from mqservice.delivery.lane import Lane
from mqservice.delivery.limits import SMALL_REQUEST_BYTES_MAX
from mqservice.delivery.parked import Poll, require_consume
from mqservice.delivery.plane import RECEIVE, known_match
from mqservice.delivery.receive import answer_of, makes_room, wanted_of, within_room
from mqservice.delivery.replies import encoded
from mqservice.delivery.settling import Settling
from mqservice.delivery.spans import Operation
from mqservice.groups.routes import GroupRoute
from mqservice.quotas.meter import TenantMeter
from mqservice.store import Received, ReceiveRequest
from mqservice.usage.counts import usage_counts

# What asks for more than a plain request does.
_UNUSUAL: Final = (b"content-encoding", b"expect")


class _Waiting:
    """A receive's answer to come."""

    __slots__ = ("_group", "_lane", "_meter", "_order", "_request", "_settling", "_topic")

    def __init__(
        self,
        lane: ReceiveLane,
        request: Request,
        meter: TenantMeter,
        group: GroupRoute,
        order: ReceiveRequest,
        settling: Settling | None,
    ) -> None:
        self._lane, self._request, self._meter = lane, request, meter
        self._group, self._order, self._settling = group, order, settling

    def ended(self, outcome: Received | Exception) -> None:
        """As ``Poll`` calls it."""
        self._meter.dismiss_poll()
        if isinstance(outcome, Exception):
            self._lane.refuse(self._request, outcome)
        else:
            self._lane.answer(self._request, self._group, self._order, outcome, self._settling)


class ReceiveLane(Lane):
    """See the module's docstring. One per process."""

    def take(self, cycle: Any, headers: dict[bytes, bytes]) -> bool:
        """Whether the request of ``cycle`` is answered here, now or later. False: nothing was done.

        ``cycle``: uvicorn's, whose types of ASGI are narrower than ours; it has all of its body and
        no answer yet. ``headers`` are its own.
        """
        scope = cycle.scope
        match = known_match(scope["path"])
        if match is None or match.operation != RECEIVE or scope["method"] != "POST":
            return False
        context = self._context
        caches = context.caches
        principal = caches.keys.cached(headers.get(b"authorization", b""))
        if principal is None or not headers.keys().isdisjoint(_UNUSUAL):
            return False
        meter = context.meters.known.get(principal.tenant_id)
        topic = caches.routes.topic(principal, match.ns, match.topic)
        group = caches.routes.group(principal, match.ns, match.group)
        if meter is None or topic is None or group is None:
            return False
        body = bytes(cycle.body)
        if len(body) > SMALL_REQUEST_BYTES_MAX:
            return False
        request = Request(scope, cycle.receive, cycle.send, match, headers, request_id_of(headers))
        request.principal, request.meter = principal, meter
        if context.spans is not None:
            context.spans.of_request(request, Operation.RECEIVE)
        try:
            meter.check_out(context.clock.monotonic_ms())
        except Exception as exc:  # of what was not begun nothing is charged
            super().refuse(request, exc)
            return True
        try:
            require_consume(principal, request)
            order, plan = wanted_of(context, request, topic, group, body)
            if plan is not None and makes_room(meter, order):
                return False
            meter.admit_poll()
        except Exception as exc:
            self.refuse(request, exc)
            return True
        settling = None if plan is None else Settling(plan, meter)
        waiting = _Waiting(self, request, meter, group, order, settling)
        try:
            poll = Poll(context, request, within_room(meter, order), settling, waiting.ended)
        except Exception as exc:
            waiting.ended(exc)
            return True
        cycle.flow.resume_reading()  # as who waits for the body does: the client may leave
        poll.begin()
        return True

    def answer(
        self,
        request: Request,
        group: GroupRoute,
        order: ReceiveRequest,
        received: Received,
        settling: Settling | None,
    ) -> None:
        """Tell the client what it has received."""
        try:
            settled = msgspec.UNSET if settling is None else settling.answer()
            reply = answer_of(self._context, request, group, order, received, settled)
            content, media_type = encoded(request, reply)
            is_sent = answer_now(request, 200, content, media_type)
        except Exception as exc:
            self.refuse(request, exc)
            return
        self._charge(request)
        usage_counts.called(request.principal.tenant_id, order.topic)
        usage_counts.sent(order.topic, request.read_count, request.answer_bytes)
        if not is_sent:  # the client reads slowly
            self._start(answer(request, 200, content, media_type))

    def refuse(self, request: Request, exc: Exception) -> None:
        """As the data plane, which charges a receive that came to nothing as one message."""
        self._charge(request)
        super().refuse(request, exc)

    def _charge(self, request: Request) -> None:
        assert request.meter is not None, "take has seen to it"
        request.meter.charge_out(request.message_count, request.answer_bytes)
