"""Quotas over REST: ``/v1/quotas``, of the tenant that the key belongs to."""

from __future__ import annotations

from django.http import HttpResponse
from ninja import Router

from mqservice.accounts.models import Tenant
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.roles import Permission
from mqservice.lib.etags import etag, revision_of
from mqservice.quotas.models import QuotaRow, Source
from mqservice.quotas.queries import find_row, limits_of
from mqservice.quotas.schemas import LimitsIn, LimitsOut, OwnLimitsOut, QuotasOut
from mqservice.quotas.services import put_limits
from mqservice.quotas.usage import usage_of

router = Router(tags=["quotas"])


@router.get("/quotas", response=QuotasOut)
def read_quotas(request: AuthedRequest, response: HttpResponse) -> QuotasOut:
    """Read the tenant's limits and its current use. Three queries."""
    row = find_row(request.auth.tenant_id, Source.TENANT)
    response["ETag"] = etag(0 if row is None else row.revision)
    return _quotas(request, row)


@router.put("/quotas", response=QuotasOut)
def write_quotas(request: AuthedRequest, response: HttpResponse, limits: LimitsIn) -> QuotasOut:
    """Lower the tenant's own limits. This cannot raise what the operator grants.

    ``If-Match`` guards against a lost update. Web processes apply it within a second.
    """
    principal = request.auth
    principal.require_permission(Permission.QUOTAS_MANAGE)
    row = put_limits(
        principal,
        Tenant.objects.get(pk=principal.tenant_id),
        Source.TENANT,
        limits.change(),
        revision=revision_of(request.headers.get("If-Match")),
    )
    response["ETag"] = etag(row.revision)
    return _quotas(request, row)


def _quotas(request: AuthedRequest, row: QuotaRow | None) -> QuotasOut:
    tenant_id = request.auth.tenant_id
    return QuotasOut(
        tenant=request.auth.tenant,
        limits=LimitsOut.of(limits_of(tenant_id)),
        own=OwnLimitsOut(**({} if row is None else row.limits)),
        usage=usage_of(tenant_id),
    )
