"""What a session reports about itself to lists of connections; see ``delivery/connections.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqservice.delivery.connections.connections import ConnectedSubscription, Connection
from mqservice.lib.names import CONSUMER_PREFIX

if TYPE_CHECKING:
    from mqservice.delivery.socket.session import Session
    from mqservice.delivery.socket.subscription import Subscription


def connection_of(session: Session) -> Connection:
    """Nothing is counted for this: what was pushed shows in the tags that were given."""
    commands = session.commands
    return Connection(
        id=session.session_id,
        namespace=commands.namespace,
        actor=commands.principal.actor,
        address=commands.client[0],
        protocol=session.codec.name,
        user_agent=session.user_agent,
        client=commands.client_name,
        connected_ms=session.connected_ms,
        published=commands.published_count,
        subscriptions=[_subscription(each) for each in session.subscriptions.values()],
    )


def _subscription(subscription: Subscription) -> ConnectedSubscription:
    credits = subscription.credits
    return ConnectedSubscription(
        sid=subscription.sid,
        topic=subscription.topic.name,
        group=subscription.group.name,
        consumer=subscription.membership.member_id.removeprefix(CONSUMER_PREFIX),
        filter=subscription.wanted.text,
        delivered=subscription.leased.next_tag - 1,
        held=subscription.outstanding_count,
        credit_messages=credits.msgs,
        credit_bytes=credits.bytes,
        flow=credits.state,
    )
