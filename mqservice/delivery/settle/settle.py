"""Settle over REST: acks, nacks, extends and dead letters of one group, by receipt, in one call.

The answer is 200 whatever happened to single receipts; each one that had no effect is in
``failed``. What one call means is in ``settle_plan``, which a receive may bring along too.
"""

from __future__ import annotations

import msgspec

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.consumers import client_id_of, consumer_member
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import decode
from mqservice.delivery.http import Request
from mqservice.delivery.limits import SMALL_REQUEST_BYTES_MAX
from mqservice.delivery.path_routes import known_group
from mqservice.delivery.settle.settle_plan import SettleCall, SettleItems, SettlePlan
from mqservice.groups.routes import GroupRoute
from mqservice.store import StoreError


class SettleOptions(SettleItems, frozen=True, forbid_unknown_fields=True):
    """The request's body. ``consumer_id``: extends its leases with ``auto_extend``; in a broadcast
    group those of the client that the receipts or ``client_id`` name."""

    consumer_id: str | None = None
    client_id: str | None = None


_decode_options = msgspec.json.Decoder(SettleOptions).decode
_encode = msgspec.json.Encoder().encode


def begin_settle(context: DeliveryContext, request: Request) -> tuple[int, GroupRoute]:
    """How many bytes the body of ``POST .../groups/{group}:settle`` may have; the group.

    Raises Problem unless the key may consume as the group; NotLoaded.
    """
    request.principal.require(Scope.CONSUME, Kind.GROUP, request.match.group)
    return SMALL_REQUEST_BYTES_MAX, known_group(context, request)


def settle_messages(
    context: DeliveryContext, request: Request, group: GroupRoute, body: bytes
) -> None:
    """``POST .../groups/{group}:settle``. Raises Fault, Problem or StoreError."""
    options = decode(_decode_options, body)
    member_id = "" if options.consumer_id is None else consumer_member(options.consumer_id)
    heard = _seen_client(group, options)
    plan = SettlePlan(context, group, options, member_id=member_id, heard=heard, span=request.span)
    assert request.meter is not None, "the data plane has one for each request"
    call = SettleCall(plan, request.meter)
    waiter = _Waiter(request, call)
    call.begin(plan.store, waiter)
    if call.is_settled:
        waiter.settled()


class _Waiter:
    """Answers the request once everything is settled."""

    __slots__ = ("_call", "_request")

    def __init__(self, request: Request, call: SettleCall) -> None:
        self._request, self._call = request, call

    def settled(self) -> None:
        try:
            content = _encode(self._call.answer())
        except Exception as exc:
            self._request.fail(exc)
        else:
            self._request.reply(200, content)

    def settle_failed(self, error: StoreError) -> None:
        self._request.fail(error)


def _seen_client(group: GroupRoute, options: SettleOptions) -> list[str]:
    """The client whose consumer is heard of, "" unless the group broadcasts; none if none is."""
    client_id = ""
    if options.client_id is not None:
        client_id = client_id_of(group, options.client_id)
    if options.consumer_id is None or (group.is_broadcast and not client_id):
        return []
    return [client_id]
