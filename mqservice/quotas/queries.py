"""Reads limits. The data plane uses ``caches``; the control plane reads without a cache."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection
from django.db.models import Model, Q

from mqservice.quotas.limits import LIMIT_NAMES, QuotaLimits, effective
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


def count_and_limit(tenant_id: int, limit_name: str, kind: type[Model]) -> tuple[int, int]:
    """How many rows of ``kind`` a tenant's namespaces have, and how many it may have. One query."""
    count = (
        f"SELECT count(*) FROM {connection.ops.quote_name(kind._meta.db_table)} AS thing"
        " JOIN accounts_namespace AS namespace ON namespace.id = thing.namespace_id"
        " WHERE namespace.tenant_id = %s"
    )
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT ({count}), {_words(limit_name)}", [tenant_id, *_of_words(tenant_id)]
        )
        (counted, *words) = cursor.fetchone()
    return counted, _limit_of_words(limit_name, words)


def limit_of(tenant_id: int, limit_name: str) -> int:
    """One of the limits that hold for a tenant. One query."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_words(limit_name)}", _of_words(tenant_id))
        return _limit_of_words(limit_name, cursor.fetchone())


def _words(limit_name: str) -> str:
    """What the three rows say of a limit, as columns; their parameters are ``_of_words``."""
    assert limit_name in LIMIT_NAMES, "a column of the rows of limits"
    said = f"(SELECT {limit_name} FROM quotas_quotarow WHERE source = %s AND tenant_id"
    return f"{said} IS NULL), {said} = %s), {said} = %s)"


def _of_words(tenant_id: int) -> list[int | str]:
    return [
        Source.OPERATOR.value, Source.OPERATOR.value, tenant_id, Source.TENANT.value, tenant_id
    ]  # fmt: skip


def _limit_of_words(limit_name: str, words: Sequence[int | None]) -> int:
    limit: int = getattr(effective(*({limit_name: word} for word in words)), limit_name)
    return limit


def find_row(tenant_id: int | None, source: Source) -> QuotaRow | None:
    """One word on limits; None if it was never said. One query."""
    return QuotaRow.objects.filter(tenant=tenant_id, source=source.value).first()
