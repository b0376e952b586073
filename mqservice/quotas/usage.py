"""What a tenant uses now: topics and groups by counting, rates from this process's meters, and
storage from the engine.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from django.db.models import Count

from mqservice.accounts.models import Namespace
from mqservice.quotas.engine_usage import REQUEST_NAMES_MAX
from mqservice.quotas.meters import process_meters
from mqservice.quotas.schemas import UsageOut
from mqservice.store import StoreError, UsageRequest, blocking_client

_MEASURED: Final = (  # as ``meter.SHARED``
    "messages_in_per_second", "bytes_in_per_second",
    "messages_out_per_second", "bytes_out_per_second",
    "connection_count", "parked_poll_count",
)  # fmt: skip


class TenantUsage(NamedTuple):
    """What the engine holds of a tenant."""

    stored_bytes: int
    inflight_count: int
    is_complete: bool  # or there is more, which the engine has not counted yet


def usage_of(tenant_id: int) -> UsageOut:
    """Three queries and a call to the engine."""
    namespaces = Namespace.objects.filter(tenant=tenant_id)
    # Each by itself: one query for both would join every topic with every group.
    usage = UsageOut(
        topic_count=namespaces.aggregate(n=Count("topics"))["n"],
        group_count=namespaces.aggregate(n=Count("groups"))["n"],
    )
    try:
        held = engine_usage(tenant_id)
    except StoreError:
        held = None
    if held is not None and held.is_complete:
        usage.storage_bytes, usage.inflight_count = held.stored_bytes, held.inflight_count
    meters = process_meters()
    measured = None if meters is None else meters.usage(tenant_id)
    if measured is None:
        return usage
    return usage.model_copy(
        update={name: round(value) for name, value in zip(_MEASURED, measured, strict=True)}
    )


def engine_usage(tenant_id: int) -> TenantUsage:
    """One query and a call to each engine that has some of its namespaces. Raises ``StoreError``
    when one of them does not answer.
    """
    rows = Namespace.objects.filter(tenant=tenant_id).values_list("shard", "name")
    by_shard: dict[str, list[str]] = {}
    for shard, name in rows:
        by_shard.setdefault(shard, []).append(name)
    found = TenantUsage(0, 0, True)
    for shard, names in by_shard.items():
        with blocking_client(shard) as client:
            for first in range(0, len(names), REQUEST_NAMES_MAX):
                some = names[first : first + REQUEST_NAMES_MAX]
                reply = client.use(UsageRequest(namespaces=some))
                found = TenantUsage(
                    found.stored_bytes + sum(used.stored_bytes for used in reply.namespaces),
                    found.inflight_count + sum(used.inflight_count for used in reply.namespaces),
                    found.is_complete and reply.is_complete,
                )
    return found
