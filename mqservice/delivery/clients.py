"""Which client of a broadcast group receives: each of them gets every message.

client_id of a request, group ──▶ [client_id_of] ──▶ the client, or Fault at /client_id
"""

from __future__ import annotations

from mqservice.delivery.decoding import Fault
from mqservice.groups.routes import GroupRoute
from mqservice.store import client_id_fault


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
