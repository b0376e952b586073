"""Audit of what is done to messages by the data plane, which has no rows at hand."""

from __future__ import annotations

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.models import Namespace

COPY_ACTION = "messages.copy"
_Q_CHARS_MAX = 1_000


def record_copied(principal: Principal, namespace: str, target: str, *, q: str, count: int) -> None:
    """One row: what was copied where, and how many. Two queries."""
    q = q[:_Q_CHARS_MAX].replace(
        "\0", "\N{REPLACEMENT CHARACTER}"
    )  # no JSON of the database has it
    row = Namespace.objects.get(tenant_id=principal.tenant_id, name=namespace)
    record(principal, row, COPY_ACTION, target, {"q": q, "count": count})
