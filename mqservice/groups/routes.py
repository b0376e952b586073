"""What the data plane must know of a consumer group, in one small frozen object."""

from __future__ import annotations

from dataclasses import dataclass

from mqservice.groups.models import ConsumerGroup
from mqservice.groups.settings import CONSUME_TIMEOUT
from mqservice.lib.names import engine_name
from mqservice.protocol.choices import Dispatch


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRoute:
    """The group's name in the engine and its policy."""

    namespace: str
    name: str
    shard: str
    engine_name: str
    lease_ms: int
    max_reconsume_times: int
    consume_timeout_ms: int = CONSUME_TIMEOUT.default
    is_exclusive: bool = False
    is_broadcast: bool = False
    is_moving: bool = False  # to another shard, in a moment


def find_group_route(tenant_id: int, namespace: str, name: str) -> GroupRoute | None:
    """One query, which cannot see another tenant's rows."""
    rows = ConsumerGroup.objects.select_related("namespace")
    group = rows.filter(
        namespace__tenant_id=tenant_id, namespace__name=namespace, name=name
    ).first()
    if group is None:
        return None
    return GroupRoute(
        namespace=namespace,
        name=name,
        shard=group.namespace.shard,
        engine_name=engine_name(namespace=namespace, name=name),
        lease_ms=group.lease_ms,
        max_reconsume_times=group.max_reconsume_times,
        consume_timeout_ms=group.consume_timeout_ms,
        is_exclusive=group.dispatch == Dispatch.EXCLUSIVE,
        is_broadcast=group.dispatch == Dispatch.BROADCAST,
        is_moving=group.namespace.moving_to != "",
    )
