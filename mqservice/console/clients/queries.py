"""Connected clients: open sockets as reported by web processes, REST consumers as reported by the
engine.

    connections_of ── sockets of all processes ──┐
    group_members ─── of each group, but sockets ┴──▶ ClientsPage

A producer over REST is a request, over when it is answered: nobody knows of it, and the page says
so. At most ``GROUPS_MAX`` groups are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mqservice.accounts.models import Namespace
from mqservice.console.groups.group import GroupPage, MemberRow, member_row
from mqservice.delivery.connections.api import connections_of
from mqservice.delivery.connections.connections import Connection
from mqservice.groups.models import ConsumerGroup
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.problem import Problem
from mqservice.monitoring.sampling import engine_stats
from mqservice.store import GroupRef, StoreError, blocking_client

PAGE_ROWS: Final = 50
GROUPS_MAX: Final = 100
CONSUMERS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """One over REST."""

    group: str
    member: MemberRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsPage:
    """``sockets`` and ``consumers`` are None when nobody can tell. ``number``: of the page, from 1.

    ``is_complete``: whether every process has told all of its sockets; ``is_cut``: whether there
    are more groups or consumers than are looked at.
    """

    text: str
    number: int
    sockets: list[Connection] | None
    socket_count: int
    found_count: int
    is_complete: bool
    consumers: list[Consumer] | None
    is_cut: bool

    @property
    def has_next(self) -> bool:
        return self.number * PAGE_ROWS < self.found_count

    @property
    def first(self) -> int:
        return (self.number - 1) * PAGE_ROWS + 1

    @property
    def last(self) -> int:
        return self.first + len(self.sockets or ()) - 1


def clients_page(namespace: Namespace, *, text: str, number: int) -> ClientsPage:
    """A query, a round over all web processes, and a call to the engine for each group."""
    try:
        known = connections_of(namespace)
    except Problem:
        known = None
    fitting = [] if known is None else [each for each in known.connections if _matches(each, text)]
    consumers, is_cut = _consumers(namespace, text, [] if known is None else known.connections)
    first = (number - 1) * PAGE_ROWS
    return ClientsPage(
        text=text,
        number=number,
        sockets=None if known is None else fitting[first : first + PAGE_ROWS],
        socket_count=0 if known is None else known.count,
        found_count=len(fitting),
        is_complete=known is not None and known.is_complete,
        consumers=consumers,
        is_cut=is_cut,
    )


def _matches(connection: Connection, text: str) -> bool:
    shown = [connection.actor, connection.address, connection.client, connection.user_agent]
    for each in connection.subscriptions:
        shown += [each.group, each.topic, each.consumer]
    return any(text.lower() in part.lower() for part in shown)


def _consumers(
    namespace: Namespace, text: str, sockets: list[Connection]
) -> tuple[list[Consumer] | None, bool]:
    """The latest first, and whether that is not all."""
    if engine_stats(namespace.shard) is None:
        return None, False
    on_sockets = {
        (each.group, each.consumer) for socket in sockets for each in socket.subscriptions
    }
    rows = ConsumerGroup.objects.filter(namespace=namespace).select_related("namespace")
    groups = list(rows.order_by("name")[: GROUPS_MAX + 1])
    now_ms = SystemClock().now_ms()
    found = []
    with blocking_client(namespace.shard) as client:
        for group in groups[:GROUPS_MAX]:
            try:
                topics = client.group_members(GroupRef(group=group.engine_name)).topics
            except StoreError:
                continue  # one that has just been deleted
            for topic in topics:
                name = topic.topic.partition(ENGINE_SEPARATOR)[2]
                for each in topic.members:
                    member = member_row(each, name, now_ms)
                    if member.kind != "socket" and (group.name, member.name) not in on_sockets:
                        found.append(Consumer(group=group.name, member=member))
    text = text.lower()
    found = [
        each
        for each in found
        if text in each.group.lower() or text in each.member.name.lower()
        or text in each.member.topic.lower()
    ]  # fmt: skip
    found.sort(key=lambda each: (-each.member.heard_ms, each.group, each.member.name))
    return found[:CONSUMERS_MAX], len(found) > CONSUMERS_MAX or len(groups) > GROUPS_MAX


def group_with_sockets(page: GroupPage, namespace: Namespace) -> GroupPage:
    """The same, with what is known of its members' sockets."""
    if not any(part.members for part in page.parts):
        return page
    try:
        sockets = connections_of(namespace).connections
    except Problem:
        return page  # of whose members no address is known
    by_consumer = {
        (each.topic, each.consumer): (socket, each)
        for socket in sockets
        for each in socket.subscriptions
        if each.group == page.group.name
    }
    parts = []
    for part in page.parts:
        members = []
        for member in part.members:
            known = by_consumer.get((member.topic, member.consumer))
            if known is not None:
                socket, subscription = known
                member = replace(
                    member,
                    address=socket.address,
                    client=socket.client or socket.user_agent,
                    flow=subscription.flow,
                )
            members.append(member)
        parts.append(replace(part, members=members))
    return replace(page, parts=parts)
