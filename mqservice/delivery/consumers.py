"""Names and zones of consumers in requests and subscriptions.

consumer_id, consumer_zone of a request ──▶ [here] ──▶ the engine's member and zone, or Fault
"""

from __future__ import annotations

from dataclasses import dataclass

from mqservice.delivery.decoding import Fault
from mqservice.lib.names import CONSUMER_PREFIX, name_fault


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
