"""Who receives, as a request or a subscription says it.

consumer_id, consumer_zone, client_id ──▶ [here] ──▶ the engine's member, zone and client, or Fault

A client is one of a broadcast group: each of them gets every message.
"""

from __future__ import annotations

from dataclasses import dataclass

from mqservice.delivery.decoding import Fault
from mqservice.groups.routes import GroupRoute
from mqservice.lib.names import CONSUMER_PREFIX, name_fault
from mqservice.store import client_id_fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """What a subscription says of itself; empty: nothing.

    ``client_id``: which client of a broadcast group it is. ``member_id``: the engine's name of a
    consumer that has one of its own. ``zone``: where it is.
    """

    client_id: str = ""
    member_id: str = ""
    zone: str = ""


def consumer_member(consumer_id: str) -> str:
    """What the engine calls the member. Fault unless ``consumer_id`` is a name."""
    if fault := name_fault(consumer_id):
        raise Fault("/consumer_id", "BAD_REQUEST", fault)
    return f"{CONSUMER_PREFIX}{consumer_id}"


def zone_of(consumer_zone: str | None) -> str:
    """Empty for None. Fault unless it is a name."""
    if consumer_zone is not None and (fault := name_fault(consumer_zone)):
        raise Fault("/consumer_zone", "BAD_REQUEST", fault)
    return consumer_zone or ""


def client_id_of(group: GroupRoute, given: str | None) -> str:
    """Empty for a group that does not broadcast. Raises Fault where one is missing, wrong or too
    much.
    """
    if not group.is_broadcast:
        if given is not None:
            detail = "is only for groups with dispatch: broadcast"
            raise Fault("/client_id", "BAD_REQUEST", detail)
        return ""
    if given is None:
        detail = (
            "the group has dispatch: broadcast, so client_id must name the client that receives"
        )
        raise Fault("/client_id", "BAD_REQUEST", detail)
    if fault := client_id_fault(given):
        raise Fault("/client_id", "BAD_REQUEST", fault)
    return given
