"""Receive over REST: a long poll on the engine whose answer is leased messages with receipts.

    POST :receive ──▶ settle, if asked, and receive (parked) ──▶ 200 {"messages": [...]}
       │ client closes                     │ process ends
       └──▶ the place is freed             └──▶ 200 {"messages": []}

The answer is always 200; nothing there is not an error. What was leased for a client that is gone
by the time the answer is ready is given back at once.

A receive may bring along what becomes of messages received before: half the requests of a consumer
that works through one answer after the other. All of the request is read before anything is done;
what is settled then stays settled, whatever becomes of the receive. Both go to the engine together,
unless there is room for what is received only once something is settled; a settlement that fails
ends the receive, and what that has leased goes back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from mqservice.accounts.access import Principal
from mqservice.delivery.consumers import client_id_of, consumer_member, zone_of
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault, decode
from mqservice.delivery.filters import filter_of
from mqservice.delivery.http import Request
from mqservice.delivery.leases import lease_ms_of
from mqservice.delivery.limits import (
    ATTEMPT_ID_CHARS_MAX,
    AUTO_EXTEND_MS_MAX,
    RECEIVE_BYTES_MAX,
    RECEIVE_COUNT_DEFAULT,
    RECEIVE_COUNT_MAX,
    SMALL_REQUEST_BYTES_MAX,
    WAIT_MS_DEFAULT,
    WAIT_MS_MAX,
)
from mqservice.delivery.path_routes import known_group, known_topic
from mqservice.delivery.receive.long_poll import LongPoll, require_consume
from mqservice.delivery.receive.received_messages import ReceivedMessage, messages_of
from mqservice.delivery.response_format import accepts_msgpack, encoded
from mqservice.delivery.settle.settle_plan import (
    SettleCall,
    SettleItems,
    SettlePlan,
    SettleResponse,
)
from mqservice.groups.routes import GroupRoute
from mqservice.lib.durations import pick_duration_ms
from mqservice.protocol.messages import FilterForm
from mqservice.quotas.meter import TenantMeter
from mqservice.store import Received, ReceiveRequest, Store, StoreError
from mqservice.topics.routes import TopicRoute


class ReceiveOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request's body; an empty body means all defaults.

    ``tag``: tags as in ``filter``; with a condition there, both must match. ``consumer_id``:
    receives with the same id are one member of the group, else each is its own. ``attempt_id``: a
    receive repeated with it, because its response was lost, gets the same messages again as far as
    they are still leased. ``auto_extend``: the leases last this long while the consumer receives or
    settles, each time within the lease. ``consumer_zone``: where it is, for groups that assign
    queues by machine rooms. ``client_id``: which client of a broadcast group receives; without a
    ``consumer_id`` its receives are one member. ``settle``: receipts of the group to settle first.
    """

    max: int = RECEIVE_COUNT_DEFAULT
    wait: str | None = None
    wait_ms: int | None = None
    lease: str | None = None
    lease_ms: int | None = None
    filter: FilterForm | None = None
    tag: str | None = None
    consumer_id: str | None = None
    attempt_id: str | None = None
    auto_extend: str | None = None
    auto_extend_ms: int | None = None
    consumer_zone: str | None = None
    client_id: str | None = None
    settle: SettleItems | None = None


class ReceiveResponse(msgspec.Struct, frozen=True):
    """``settled`` is present if the request had something to settle."""

    messages: list[ReceivedMessage]
    settled: SettleResponse | msgspec.UnsetType = msgspec.UNSET


_decode_options = msgspec.json.Decoder(ReceiveOptions).decode
_DEFAULTS: Final = ReceiveOptions()
Answer = Callable[[Received, SettleResponse | msgspec.UnsetType], None]
_ATTEMPT_ID: Final = re.compile(rf"[!-~]{{1,{ATTEMPT_ID_CHARS_MAX}}}")


def begin_receive(
    context: DeliveryContext, request: Request
) -> tuple[int, tuple[TopicRoute, GroupRoute]]:
    """How many bytes the body of ``POST .../topics/{topic}/groups/{group}:receive`` may have; topic
    and group.

    Raises Problem unless the key may consume the topic as the group; NotLoaded.
    """
    require_consume(request.principal, request)
    return SMALL_REQUEST_BYTES_MAX, (known_topic(context, request), known_group(context, request))


def receive_messages(
    context: DeliveryContext, request: Request, found: tuple[TopicRoute, GroupRoute], body: bytes
) -> Callable[[], None]:
    """``POST .../topics/{topic}/groups/{group}:receive``. Raises Fault, Problem or StoreError.

    Returns what ends it when nobody waits for the answer any more.
    """
    topic, group = found
    order, plan = read_receive(context, request, topic, group, body)
    answer = partial(_answer, context, request, group, order)
    call = ReceiveCall(context, context.stores[group.shard], request, order, plan, answer)
    call.begin()
    return call.cancel


class ReceiveCall:
    """One receive from its begin to its answer: settle first, if that makes room, then poll.

    ``answer`` replies with what was received, and with what was settled if something was to be;
    what it raises fails the request. ``failed`` may take an error that then does not.
    """

    __slots__ = (
        "_answer",
        "_context",
        "_failed",
        "_is_over",
        "_meter",
        "_order",
        "_plan",
        "_poll",
        "_request",
        "_settle",
        "_store",
    )

    def __init__(
        self,
        context: DeliveryContext,
        store: Store,
        request: Request,
        order: ReceiveRequest,
        plan: SettlePlan | None,
        answer: Answer,
        failed: Callable[[Exception], bool] = lambda error: False,
    ) -> None:
        assert request.meter is not None, "the data plane has one for each request"
        self._context, self._request, self._meter = context, request, request.meter
        self._store, self._order, self._plan, self._answer = store, order, plan, answer
        self._failed = failed
        self._settle: SettleCall | None = None
        self._poll: LongPoll | None = None
        self._is_over = False

    def begin(self) -> None:
        """Raises Problem when too many receives of the tenant wait already."""
        self._meter.admit_poll()
        try:
            settle = None
            if self._plan is not None:
                settle = self._settle = SettleCall(self._plan, self._meter)
                if _makes_room(self._meter, self._order):
                    settle.begin(self._store, self)
                    if settle.is_settled:
                        self.settled()
                    return
            self._receive(settle)
        except Exception as exc:
            self._ended(exc)

    def settled(self) -> None:
        """There is as much room as there will be."""
        if self._is_over:
            return
        try:
            self._receive(None)
        except Exception as exc:
            self._ended(exc)

    def settle_failed(self, error: StoreError) -> None:
        self._ended(error)

    def cancel(self) -> None:
        """Nobody waits any more: give back what is leased. A settlement that was sent stays."""
        if self._poll is not None:
            self._poll.cancel()
        self._leave()

    def _receive(self, settle: SettleCall | None) -> None:
        order = _within_room(self._meter, self._order)
        self._poll = LongPoll(self._context, self._store, self._request, order, settle, self._ended)
        self._poll.begin()

    def _leave(self) -> bool:
        """Whether it had not ended before."""
        was_over, self._is_over = self._is_over, True
        if not was_over:
            self._meter.dismiss_poll()
        return not was_over

    def _ended(self, outcome: Received | Exception) -> None:
        if not self._leave():
            return
        try:
            if isinstance(outcome, Exception):
                if self._failed(outcome):
                    return
                raise outcome
            self._count(outcome)
            settle = self._settle
            self._answer(outcome, msgspec.UNSET if settle is None else settle.answer())
        except Exception as exc:
            self._request.fail(exc)

    def _count(self, received: Received) -> None:
        """Its messages are leased and read."""
        request = self._request
        request.read_count = received.count
        request.message_count = max(1, request.read_count)
        self._meter.lease(request.read_count)
        if request.span is not None:
            request.span.received(received, self._order.group)


def read_receive(
    context: DeliveryContext, request: Request, topic: TopicRoute, group: GroupRoute, body: bytes
) -> tuple[ReceiveRequest, SettlePlan | None]:
    """What is to be received, and what is to be settled. Raises Fault unless all of it is right."""
    options = decode(_decode_options, body) if body else _DEFAULTS
    wanted = filter_of("/filter", options.filter, options.tag)
    lease_ms = lease_ms_of("/lease", options.lease, options.lease_ms, group.lease_ms)
    order = ReceiveRequest(
        group=group.engine_name,
        topic=topic.engine_name,
        member_id=_member_id_of(options, request, group),
        messages_max=_count_of(options),
        bytes_max=RECEIVE_BYTES_MAX,
        wait_ms=_wait_ms_of(options, context, request.principal),
        lease_ms=lease_ms,
        filter=wanted.text,
        filter_kind=wanted.kind,
        attempt_id=options.attempt_id or "",
        auto_extend_ms=_auto_extend_ms_of(options, lease_ms),
        zone=zone_of(options.consumer_zone),
        client_id=client_id_of(group, options.client_id),
        is_unnamed=options.consumer_id is None and not group.is_broadcast,
    )
    if options.settle is None:
        return order, None
    # The receive itself lets the engine hear of its consumer.
    plan = SettlePlan(
        context,
        group,
        options.settle,
        member_id="",
        heard=[],
        pointer="/settle",
        span=request.span,
    )
    return order, plan


def _makes_room(meter: TenantMeter, order: ReceiveRequest) -> bool:
    """Whether how much may be received depends on what is settled with it."""
    return meter.lease_room < order.messages_max


def _within_room(meter: TenantMeter, order: ReceiveRequest) -> ReceiveRequest:
    """No more than the tenant may have in flight. Raises Problem when that is nothing."""
    room = meter.require_lease_room()
    if room < order.messages_max:
        return msgspec.structs.replace(order, messages_max=room)
    return order


def _answer(
    context: DeliveryContext,
    request: Request,
    group: GroupRoute,
    order: ReceiveRequest,
    received: Received,
    settled: SettleResponse | msgspec.UnsetType,
) -> None:
    is_msgpack = accepts_msgpack(request)
    messages = messages_of(
        context, received, group=group, client_id=order.client_id, as_bytes=is_msgpack
    )
    reply = ReceiveResponse(messages, settled=settled)
    content, media_type = encoded(reply, is_msgpack=is_msgpack)
    request.reply(200, content, media_type)


def _member_id_of(options: ReceiveOptions, request: Request, group: GroupRoute) -> str:
    """A consumer of an exclusive group is known by its name from one receive to the next.

    One without a name that repeats a receive is known by the id of that.
    """
    attempt_id = options.attempt_id
    if attempt_id is not None and not _ATTEMPT_ID.fullmatch(attempt_id):
        detail = f"must be 1 to {ATTEMPT_ID_CHARS_MAX} visible ASCII characters"
        raise Fault("/attempt_id", "BAD_REQUEST", f"attempt_id {detail}")
    if options.consumer_id is None:
        if group.is_exclusive:
            detail = (
                "the group has dispatch: exclusive, so consumer_id must name the "
                "consumer that receives"
            )
            raise Fault("/consumer_id", "BAD_REQUEST", detail)
        if group.is_broadcast:
            return f"client-{options.client_id}"
        return f"rest-{request.request_id}" if attempt_id is None else f"attempt-{attempt_id}"
    return consumer_member(options.consumer_id)


def _auto_extend_ms_of(options: ReceiveOptions, lease_ms: int) -> int:
    """0: not at all."""
    text, ms = options.auto_extend, options.auto_extend_ms
    try:
        span_ms = pick_duration_ms("auto_extend", text, ms, default_ms=0)
    except ValueError as exc:
        raise Fault("/auto_extend", "BAD_REQUEST", str(exc)) from exc
    if not span_ms:
        return 0
    if options.consumer_id is None:
        detail = (
            "auto_extend needs consumer_id: leases are extended for as long as that "
            "consumer is active"
        )
        raise Fault("/consumer_id", "BAD_REQUEST", detail)
    if not lease_ms < span_ms <= AUTO_EXTEND_MS_MAX:
        raise Fault(
            "/auto_extend",
            "ILLEGAL_LEASE",
            f"auto_extend must be longer than the lease of {lease_ms} ms and at most "
            f"{AUTO_EXTEND_MS_MAX} ms, found {span_ms}",
        )
    return span_ms


def _count_of(options: ReceiveOptions) -> int:
    if not 1 <= options.max <= RECEIVE_COUNT_MAX:
        raise Fault(
            "/max", "BAD_REQUEST", f"max must be 1 to {RECEIVE_COUNT_MAX}, found {options.max}"
        )
    return options.max


def _wait_ms_of(options: ReceiveOptions, context: DeliveryContext, principal: Principal) -> int:
    try:
        wait_ms = pick_duration_ms(
            "wait", options.wait, options.wait_ms, default_ms=WAIT_MS_DEFAULT
        )
    except ValueError as exc:
        raise Fault("/wait", "BAD_REQUEST", str(exc)) from exc
    if wait_ms > WAIT_MS_MAX:
        raise Fault(
            "/wait", "BAD_REQUEST", f"wait must be at most {WAIT_MS_MAX} ms, found {wait_ms}"
        )
    return wait_within(wait_ms, context, principal)


def wait_within(wait_ms: int, context: DeliveryContext, principal: Principal) -> int:
    """No longer than the key is good, and not at all in a process that ends."""
    if context.drain.has_begun:
        return 0
    if principal.expires_at_ms is not None:
        return max(0, min(wait_ms, principal.expires_at_ms - context.clock.now_ms()))
    return wait_ms
