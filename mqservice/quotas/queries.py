"""Reading limits. The data plane does so through ``caches``; the control plane asks afresh."""

from __future__ import annotations

from django.db.models import Q

from mqservice.quotas.limits import QuotaLimits, effective
from mqservice.quotas.models import QuotaRow, Source


def limits_of(tenant_id: int) -> QuotaLimits:
    """What holds for a tenant. One query."""
    rows = QuotaRow.objects.filter(Q(tenant=None) | Q(tenant=tenant_id))
    by_source = {(row.tenant_id, row.source): row.limits for row in rows}
    return effective(
        by_source.get((None, Source.OPERATOR.value), {}),
        by_source.get((tenant_id, Source.OPERATOR.value), {}),
        by_source.get((tenant_id, Source.TENANT.value), {}),
    )


def find_row(tenant_id: int | None, source: Source) -> QuotaRow | None:
    """One word on limits; None if it was never said. One query."""
    return QuotaRow.objects.filter(tenant=tenant_id, source=source.value).first()
