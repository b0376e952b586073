"""What a tenant uses now: topics and groups by counting, rates from this process's meters."""

from __future__ import annotations

from django.db.models import Count

from mqservice.accounts.models import Namespace
from mqservice.quotas.process import process_meters
from mqservice.quotas.schemas import UsageOut


def usage_of(tenant_id: int) -> UsageOut:
    """One query."""
    counts = Namespace.objects.filter(tenant=tenant_id).aggregate(
        topics=Count("topics", distinct=True), groups=Count("groups", distinct=True)
    )
    usage = UsageOut(topic_count=counts["topics"], group_count=counts["groups"])
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
