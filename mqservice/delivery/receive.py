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

``receive_lane`` does the same for most requests, without a task.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mqservice.accounts.access import Principal
from mqservice.delivery.clients import client_id_of
from mqservice.delivery.consumers import consumer_member, zone_of
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault, decode
from mqservice.delivery.filters import FilterForm, filter_of
from mqservice.delivery.http import Request, read_body
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
from mqservice.delivery.parked import poll_engine, require_consume
from mqservice.delivery.path_routes import group_route, topic_route
from mqservice.delivery.received_messages import ReceivedMessage, messages_of
from mqservice.delivery.replies import answer_struct, takes_msgpack
from mqservice.delivery.settlement import Plan, SettleAnswer, Settlement, settle_plan
from mqservice.delivery.settling import Settling
from mqservice.groups.routes import GroupRoute
from mqservice.lib.durations import pick_duration_ms
from mqservice.quotas.meter import TenantMeter
from mqservice.store import Received, ReceiveRequest
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
    settle: Settlement | None = None


class ReceiveAnswer(msgspec.Struct, frozen=True):
    """``backlog_hint`` is null if the engine does not report it; ``settled`` is present if the
    request had something to settle."""

    messages: list[ReceivedMessage]
    backlog_hint: int | None = None
    settled: SettleAnswer | msgspec.UnsetType = msgspec.UNSET


_decode_options = msgspec.json.Decoder(ReceiveOptions).decode
_DEFAULTS: Final = ReceiveOptions()
_ATTEMPT_ID: Final = re.compile(rf"[!-~]{{1,{ATTEMPT_ID_CHARS_MAX}}}")


async def receive_messages(context: DeliveryContext, request: Request) -> None:
    """``POST .../topics/{topic}/groups/{group}:receive``"""
    require_consume(request.principal, request)
    topic = await topic_route(context, request)
    group = await group_route(context, request)
    body = await read_body(request, SMALL_REQUEST_BYTES_MAX)
    order, plan = wanted_of(context, request, topic, group, body)
    meter = request.meter
    assert meter is not None, "the data plane has one for each request"
    settled: SettleAnswer | msgspec.UnsetType = msgspec.UNSET
    settling = None
    meter.admit_poll()
    try:
        if plan is not None:
            if makes_room(meter, order):
                settled = await settle_plan(request, plan)
            else:
                settling = Settling(plan, meter)
        received = await poll_engine(context, request, within_room(meter, order), settling)
    finally:
        meter.dismiss_poll()
    if settling is not None:
        settled = settling.answer()
    await answer_struct(request, answer_of(context, request, group, order, received, settled))


def wanted_of(
    context: DeliveryContext, request: Request, topic: TopicRoute, group: GroupRoute, body: bytes
) -> tuple[ReceiveRequest, Plan | None]:
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
    plan = Plan(context, group, options.settle, member_id="", heard=[], pointer="/settle")
    return order, plan


def makes_room(meter: TenantMeter, order: ReceiveRequest) -> bool:
    """Whether how much may be received depends on what is settled with it."""
    return meter.lease_room < order.messages_max


def within_room(meter: TenantMeter, order: ReceiveRequest) -> ReceiveRequest:
    """No more than the tenant may have in flight. Raises Problem when that is nothing."""
    room = meter.require_lease_room()
    if room < order.messages_max:
        return msgspec.structs.replace(order, messages_max=room)
    return order


def answer_of(
    context: DeliveryContext,
    request: Request,
    group: GroupRoute,
    order: ReceiveRequest,
    received: Received,
    settled: SettleAnswer | msgspec.UnsetType,
) -> ReceiveAnswer:
    """The answer, whose messages are counted as leased and as read."""
    meter = request.meter
    assert meter is not None, "the data plane has one for each request"
    request.read_count = received.count
    request.message_count = max(1, request.read_count)
    meter.lease(request.read_count)
    messages = messages_of(
        context, received, group=group, client_id=order.client_id, as_bytes=takes_msgpack(request)
    )
    return ReceiveAnswer(messages, settled=settled)


def _member_id_of(options: ReceiveOptions, request: Request, group: GroupRoute) -> str:
    """A consumer of an exclusive group is known by its name from one receive to the next.

    One without a name that repeats a receive is known by the id of that.
    """
    attempt_id = options.attempt_id
    if attempt_id is not None and not _ATTEMPT_ID.fullmatch(attempt_id):
        detail = f"is 1 to {ATTEMPT_ID_CHARS_MAX} visible characters of ASCII"
        raise Fault("/attempt_id", "BAD_REQUEST", f"attempt_id {detail}")
    if options.consumer_id is None:
        if group.is_exclusive:
            detail = "the group has dispatch: exclusive, so consumer_id must say who receives"
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
        detail = "auto_extend needs consumer_id: leases last while that consumer is heard of"
        raise Fault("/consumer_id", "BAD_REQUEST", detail)
    if not lease_ms < span_ms <= AUTO_EXTEND_MS_MAX:
        raise Fault(
            "/auto_extend",
            "ILLEGAL_LEASE",
            f"leases are extended to more than the {lease_ms} ms of one, and at most "
            f"{AUTO_EXTEND_MS_MAX} ms, found {span_ms}",
        )
    return span_ms


def _count_of(options: ReceiveOptions) -> int:
    if not 1 <= options.max <= RECEIVE_COUNT_MAX:
        raise Fault("/max", "BAD_REQUEST", f"max is 1 to {RECEIVE_COUNT_MAX}, found {options.max}")
    return options.max


def _wait_ms_of(options: ReceiveOptions, context: DeliveryContext, principal: Principal) -> int:
    """No longer than the key is good."""
    try:
        wait_ms = pick_duration_ms(
            "wait", options.wait, options.wait_ms, default_ms=WAIT_MS_DEFAULT
        )
    except ValueError as exc:
        raise Fault("/wait", "BAD_REQUEST", str(exc)) from exc
    if wait_ms > WAIT_MS_MAX:
        raise Fault("/wait", "BAD_REQUEST", f"wait is at most {WAIT_MS_MAX} ms, found {wait_ms}")
    if context.drain.has_begun:
        return 0
    if principal.expires_at_ms is not None:
        return max(0, min(wait_ms, principal.expires_at_ms - context.clock.now_ms()))
    return wait_ms
