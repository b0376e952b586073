"""The audit: one row for each thing done that somebody may ask about later.

service of any app ── who, what, to which thing ──▶ [record] ──▶ accounts_auditentry
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping

from django.db import DatabaseError

from mqservice.accounts.access import Principal
from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.lib.json_logs import request_id_var

log = logging.getLogger(__name__)


class Outcome(enum.StrEnum):
    """UNKNOWN: the answer got lost, what was asked may have been done."""

    DONE = "done"
    UNKNOWN = "unknown"


def record(
    principal: Principal,
    namespace: Namespace,
    action: str,
    target: str,
    details: Mapping[str, object],
    *,
    outcome: Outcome = Outcome.DONE,
) -> AuditEntry:
    """One insert, in the caller's transaction. Where it fails, the log tells all of it instead."""
    try:
        return AuditEntry.objects.create(
            tenant_id=namespace.tenant_id,
            actor=f"key:{principal.key_id}",
            action=action,
            namespace=namespace.name,
            target=target,
            outcome=outcome.value,
            details=dict(details),
            request_id=request_id_var.get() or "",
        )
    except DatabaseError:
        log.error(
            "Not audited",
            extra={
                "action": "audit_lost",
                "actor": principal.key_id,
                "audited": action,
                "namespace": namespace.name,
                "target": target,
                "outcome": outcome.value,
                "details": dict(details),
            },
        )
        raise
