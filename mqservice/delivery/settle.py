"""Settle over REST: acks, nacks, extends and dead letters of one group, by receipt, in one call.

The answer is 200 whatever happened to single receipts; each one that had no effect is in
``failed``. What one call means is in ``settlement``, which a receive may bring along too.
"""

from __future__ import annotations

import msgspec

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.clients import client_id_of
from mqservice.delivery.consumers import consumer_member
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import decode
from mqservice.delivery.http import Request, answer, read_body
from mqservice.delivery.limits import SMALL_REQUEST_BYTES_MAX
from mqservice.delivery.path_routes import group_route
from mqservice.delivery.settlement import Plan, Settlement, settle_plan
from mqservice.groups.routes import GroupRoute


class SettleOptions(Settlement, frozen=True, forbid_unknown_fields=True):
    """The request's body. ``consumer_id``: extends its leases with ``auto_extend``; in a broadcast
    group those of the client that the receipts or ``client_id`` name."""

    consumer_id: str | None = None
    client_id: str | None = None


_decode_options = msgspec.json.Decoder(SettleOptions).decode
_encode = msgspec.json.Encoder().encode


async def settle_messages(context: DeliveryContext, request: Request) -> None:
    """``POST .../groups/{group}:settle``"""
    request.principal.require(Scope.CONSUME, Kind.GROUP, request.match.group)
    group = await group_route(context, request)
    body = await read_body(request, SMALL_REQUEST_BYTES_MAX)
    options = decode(_decode_options, body)
    member_id = "" if options.consumer_id is None else consumer_member(options.consumer_id)
    plan = Plan(context, group, options, member_id=member_id, heard=_heard_of(group, options))
    await answer(request, 200, _encode(await settle_plan(request, plan)))


def _heard_of(group: GroupRoute, options: SettleOptions) -> list[str]:
    """The client whose consumer is heard of, "" unless the group broadcasts; none if none is."""
    client_id = ""
    if options.client_id is not None:
        client_id = client_id_of(group, options.client_id)
    if options.consumer_id is None or (group.is_broadcast and not client_id):
        return []
    return [client_id]
