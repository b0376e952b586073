"""Changes limits, the only writers of their rows; and the error for one thing too many.

put_limits ── row ──▶ commit ──▶ NOTIFY ──▶ web processes
"""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction
from django.db.models import Model

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import difference, record, settings_of
from mqservice.accounts.models import Tenant
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.quotas.limits import LIMIT_MAX, LIMIT_MIN, LIMIT_NAMES
from mqservice.quotas.models import QuotaRow, Source
from mqservice.quotas.queries import count_and_limit


@transaction.atomic
def put_limits(
    by: Principal | None,
    tenant: Tenant | None,
    source: Source,
    values: Mapping[str, int | None],
    *,
    revision: int | None = None,
) -> QuotaRow:
    """Say the limits in ``values`` anew; None takes a word back, others stay as they are.

    Args:
        by: None for the operator.
        tenant: None for the default of all tenants, which only the operator sets.
        revision: refuse with PRECONDITION_FAILED unless the row is in this revision; 0: absent.

    Raises:
        Problem: ILLEGAL_SETTING with one item for each value out of range, PRECONDITION_FAILED.
    """
    faults = [
        ProblemItem(
            f"/{name}", "ILLEGAL_SETTING", f"must be in [{LIMIT_MIN}, {LIMIT_MAX}], found {value}"
        )
        for name, value in values.items()
        if value is not None and not LIMIT_MIN <= value <= LIMIT_MAX
    ]
    faults += [
        ProblemItem(f"/{name}", "ILLEGAL_SETTING", "there is no limit with this name")
        for name in values
        if name not in LIMIT_NAMES
    ]
    if faults:
        raise Problem.of("ILLEGAL_SETTING", "a limit is out of its range", errors=faults)
    row, is_new = QuotaRow.objects.select_for_update().get_or_create(
        tenant=tenant, source=source.value
    )
    if revision is not None and revision != (0 if is_new else row.revision):
        raise Problem.of(
            "PRECONDITION_FAILED", "the limits have changed since the revision in If-Match"
        )
    before = settings_of(row, LIMIT_NAMES)
    if is_new or any(before[name] != value for name, value in values.items()):
        for name, value in values.items():
            setattr(row, name, value)
        row.revision = 1 if is_new else row.revision + 1
        row.save()
        if tenant is not None:
            changed = difference(before, settings_of(row, LIMIT_NAMES))
            record(by, tenant, "quotas.put", source.value, before=changed[0], after=changed[1])
    return row


def require_room(tenant_id: int, limit_name: str, kind: type[Model]) -> None:
    """Refuse one more of ``kind``, whose rows are of namespaces, than ``limit_name`` allows.

    The caller holds a lock that lets nobody count at the same time. One query.

    Raises Problem QUOTA_EXCEEDED.
    """
    count, limit = count_and_limit(tenant_id, limit_name, kind)
    if count >= limit:
        what = limit_name.removesuffix("_count_max")
        raise Problem.of(
            "QUOTA_EXCEEDED",
            f"the tenant has {count} {what}s, which is over its limit of {limit}; "
            "delete some first",
        )
