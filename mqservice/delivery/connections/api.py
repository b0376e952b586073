"""Open sockets over REST: ``/v1/ns/{ns}/connections`` and ``…/connections/{connection_id}``."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction
from ninja import Router, Schema

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.models import Namespace
from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.roles import Permission
from mqservice.delivery.connections.connection_calls import Found, end_connection, find_connections
from mqservice.delivery.connections.connections import ConnectedSubscription, Connection
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import rfc3339

router = Router(tags=["connections"])


class ConnectedSubscriptionOut(Schema):
    """`flow`: why nothing is pushed, as in the `flow` frame. `filter`: null for all."""

    sid: int
    topic: str
    group: str
    consumer: str
    filter: str | None
    delivered: int
    held: int
    credit_messages: int
    credit_bytes: int
    flow: str

    @classmethod
    def of(cls, subscription: ConnectedSubscription) -> ConnectedSubscriptionOut:
        return cls(
            sid=subscription.sid,
            topic=subscription.topic,
            group=subscription.group,
            consumer=subscription.consumer,
            filter=subscription.filter or None,
            delivered=subscription.delivered,
            held=subscription.held,
            credit_messages=subscription.credit_messages,
            credit_bytes=subscription.credit_bytes,
            flow=subscription.flow,
        )


class ConnectionOut(Schema):
    """`actor`: as in the audit. `user_agent` and `client`: as the client reports them."""

    id: str
    actor: str
    address: str
    protocol: str
    user_agent: str | None
    client: str | None
    connected_at: str
    published: int
    subscriptions: list[ConnectedSubscriptionOut]

    @classmethod
    def of(cls, connection: Connection) -> ConnectionOut:
        return cls(
            id=connection.id,
            actor=connection.actor,
            address=connection.address,
            protocol=connection.protocol,
            user_agent=connection.user_agent or None,
            client=connection.client or None,
            connected_at=rfc3339(connection.connected_ms),
            published=connection.published,
            subscriptions=[ConnectedSubscriptionOut.of(each) for each in connection.subscriptions],
        )


class ConnectionsOut(Schema):
    """`complete`: whether every web process has reported all of its sockets."""

    total: int
    complete: bool
    connections: list[ConnectionOut]


class DisconnectedOut(Schema):
    """Whether the socket was open."""

    disconnected: bool


@router.get("/ns/{ns}/connections", response=ConnectionsOut)
def list_connections(request: AuthedRequest, ns: str) -> ConnectionsOut:
    """List open WebSockets, the latest first. One query; asks all web processes."""
    found = connections_of(get_namespace(request.auth, ns))
    return ConnectionsOut(
        total=found.count,
        complete=found.is_complete,
        connections=[ConnectionOut.of(each) for each in found.connections],
    )


@router.delete("/ns/{ns}/connections/{connection_id}", response=DisconnectedOut)
def disconnect(request: AuthedRequest, ns: str, connection_id: str) -> DisconnectedOut:
    """Close a WebSocket. Its messages are released; the client may reconnect unless its key is
    revoked."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require_permission(Permission.CONNECTIONS_MANAGE)
    if not (connection_id.isascii() and connection_id.isprintable()):
        raise Problem.of("BAD_REQUEST", "the id of a connection must be printable ASCII")
    return DisconnectedOut(disconnected=end(request.auth, namespace, connection_id))


def connections_of(namespace: Namespace) -> Found:
    """Raises Problem CONNECTIONS_UNKNOWN."""
    return find_connections(settings.MQ_VALKEY_URL, namespace.tenant_id, namespace.name)


def end(by: Principal, namespace: Namespace, connection_id: str) -> bool:
    """End a socket of the namespace; False when there is none of that id any more. One entry.

    Raises Problem: FORBIDDEN, CONNECTIONS_UNKNOWN.
    """
    by.require_permission(Permission.CONNECTIONS_MANAGE)
    with transaction.atomic():
        was_there = end_connection(
            settings.MQ_VALKEY_URL, namespace.tenant_id, namespace.name, connection_id
        )
        record(
            by,
            namespace,
            "connection.disconnect",
            f"connections/{connection_id[:80]}",
            {"was_there": was_there},
        )
    return was_there
