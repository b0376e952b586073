"""What a tenant uses now: topics and groups by counting, rates from this process's meters, and
storage from the engine.
"""

from __future__ import annotations

from django.db.models import Count

from mqservice.accounts.models import Namespace
from mqservice.quotas.engine_usage import REQUEST_NAMES_MAX
from mqservice.quotas.process import process_meters
from mqservice.quotas.schemas import UsageOut
from mqservice.store import StoreError, UsageRequest, blocking_client


def usage_of(tenant_id: int) -> UsageOut:
    """Two queries and a call to the engine."""
    counts = Namespace.objects.filter(tenant=tenant_id).aggregate(
        topics=Count("topics", distinct=True), groups=Count("groups", distinct=True)
    )
    held = _engine_usage(tenant_id)
    usage = UsageOut(
        topic_count=counts["topics"],
        group_count=counts["groups"],
        storage_bytes=None if held is None else held[0],
        inflight_count=None if held is None else held[1],
    )
    meters = process_meters()
    report = None if meters is None else meters.usage(tenant_id)
    if report is None:
        return usage
    messages_in, bytes_in, messages_out, bytes_out = (round(value) for value in report.demand)
    return usage.model_copy(
        update={
            "messages_in_per_second": messages_in,
            "bytes_in_per_second": bytes_in,
            "messages_out_per_second": messages_out,
            "bytes_out_per_second": bytes_out,
            "connection_count": report.socket_count,
            "parked_poll_count": report.poll_count,
        }
    )


def _engine_usage(tenant_id: int) -> tuple[int, int] | None:
    """Bytes stored and messages in flight; None while the engine cannot tell."""
    names = list(Namespace.objects.filter(tenant=tenant_id).values_list("name", flat=True))
    stored_bytes = inflight_count = 0
    try:
        with blocking_client() as client:
            for first in range(0, len(names), REQUEST_NAMES_MAX):
                part = names[first : first + REQUEST_NAMES_MAX]
                reply = client.use(UsageRequest(namespaces=part))
                if not reply.is_complete:
                    return None
                stored_bytes += sum(use.stored_bytes for use in reply.namespaces)
                inflight_count += sum(use.inflight_count for use in reply.namespaces)
    except StoreError:
        return None
    return stored_bytes, inflight_count
