"""Clients of broadcast groups over REST: which one a request means, and what the engine reports of
them.

client_id of a request ──▶ [client_id_of] ──▶ the client, "" for the group, or Problem
lag ──▶ [client_page] ── engine GROUP_CLIENTS ──▶ [BroadcastClientsOut]
"""

from __future__ import annotations

from ninja import Schema

from mqservice.errors import problem_from_store
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.lib.timestamps import rfc3339
from mqservice.protocol.choices import Dispatch
from mqservice.store import (
    ClientStats,
    GroupClients,
    GroupClientsRequest,
    StoreError,
    blocking_client,
    client_id_fault,
)

CLIENTS_DEFAULT = 100
CLIENTS_MAX = 1_000


def client_id_of(group: ConsumerGroup, given: str | None, *, is_needed: bool = False) -> str:
    """Raises Problem BAD_REQUEST where one is wrong, or too much, or missing though needed."""
    is_broadcast = group.dispatch == Dispatch.BROADCAST
    if given is None:
        if is_needed and is_broadcast:
            raise _fault("the group has dispatch: broadcast, so the request must name the client")
        return ""
    if not is_broadcast:
        raise _fault("is only for groups with dispatch: broadcast")
    if fault := client_id_fault(given):
        raise _fault(fault)
    return given


def _fault(detail: str) -> Problem:
    item = ProblemItem("/client_id", "BAD_REQUEST", detail)
    return Problem.of("BAD_REQUEST", f"/client_id: {detail}", errors=[item])


class BroadcastClientOut(Schema):
    """``lag`` is null for one that reads none of the topics; ``dropped`` counts from the engine's
    start.
    """

    client_id: str
    lag: int | None
    ready: int
    inflight: int
    dropped: int
    seen_at: str

    @classmethod
    def of(cls, client: ClientStats) -> BroadcastClientOut:
        return cls(
            client_id=client.client_id,
            lag=client.lag,
            ready=client.ready_count,
            inflight=client.inflight_count,
            dropped=client.dropped_count,
            seen_at=rfc3339(client.seen_ms),
        )


class BroadcastClientsOut(Schema):
    """A page by client id; `next` is the `after` of the following page, null on the last one."""

    total: int
    clients: list[BroadcastClientOut]
    next: str | None

    @classmethod
    def of(cls, page: GroupClients) -> BroadcastClientsOut:
        return cls(
            total=page.count,
            clients=[BroadcastClientOut.of(client) for client in page.clients],
            next=None if page.is_last else page.clients[-1].client_id,
        )


def client_page(group: ConsumerGroup, topic: str, *, after: str, limit: int) -> BroadcastClientsOut:
    """Clients of a broadcast group. ``topic``: the engine's name, empty for all.

    One call to the engine. Raises Problem when it cannot tell.
    """
    request = GroupClientsRequest(
        group=group.engine_name, topic=topic, after=after, count_max=limit
    )
    try:
        with blocking_client(group.namespace.shard) as client:
            return BroadcastClientsOut.of(client.group_clients(request))
    except StoreError as exc:
        raise problem_from_store(exc) from exc
