"""The audit log: one row for each change that someone may ask about later.

service of any app ── who, what, to which thing, before, after ──▶ [record] ──▶ accounts_auditentry

Rows hold settings, never secrets and never bodies of messages. The row is written in the
transaction of the change: either both are there or none.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from django.db import DatabaseError, models

from mqservice.accounts.access import Principal
from mqservice.accounts.models import USER_AGENT_CHARS_MAX, AuditEntry, Namespace, Tenant
from mqservice.lib.json_logs import client_address_var, request_id_var, user_agent_var
from mqservice.lib.rows import insert, insert_all

log = logging.getLogger(__name__)

SERVICE_ACTOR: Final = "service"  # what nobody asked for: the demo's first steps, commands
Settings = Mapping[str, object]


class Outcome(enum.StrEnum):
    """UNKNOWN: the answer got lost, what was asked may have been done."""

    DONE = "done"
    UNKNOWN = "unknown"


def record(
    principal: Principal | str | None,
    namespace: Namespace | Tenant | None,
    action: str,
    target: str,
    details: Settings | None = None,
    *,
    before: Settings | None = None,
    after: Settings | None = None,
    outcome: Outcome = Outcome.DONE,
) -> AuditEntry:
    """One insert, in the caller's transaction. Where it fails, the log tells all of it instead.

    Args:
        principal: who did it; an actor's name such as ``user:alice``; None: the service itself.
        namespace: where; the tenant for what concerns all of it; None: the whole installation,
            which only operators read of.
        before, after: of the settings that became different; None: there were, or are, none.
    """
    entry = entry_of(
        principal, namespace, action, target, details, before=before, after=after, outcome=outcome
    )
    record_all([entry])
    return entry


def entry_of(
    principal: Principal | str | None,
    namespace: Namespace | Tenant | None,
    action: str,
    target: str,
    details: Settings | None = None,
    *,
    before: Settings | None = None,
    after: Settings | None = None,
    outcome: Outcome = Outcome.DONE,
) -> AuditEntry:
    """What ``record`` writes, not yet written."""
    if isinstance(principal, Principal):
        actor = principal.actor
    else:
        actor = principal or SERVICE_ACTOR
    tenant_id: int | None
    if isinstance(namespace, Namespace):
        tenant_id, place = namespace.tenant_id, namespace.name
    else:
        tenant_id, place = None if namespace is None else namespace.pk, ""
    return AuditEntry(
        tenant_id=tenant_id,
        actor=actor,
        address=client_address_var.get(),
        user_agent=_printable(user_agent_var.get())[:USER_AGENT_CHARS_MAX],
        action=action,
        namespace=place,
        target=target,
        outcome=outcome.value,
        details=dict(details or {}),
        before=None if before is None else dict(before),
        after=None if after is None else dict(after),
        request_id=request_id_var.get() or "",
    )


def record_all(entries: Sequence[AuditEntry]) -> None:
    """One insert for some hundreds, in the caller's transaction. As ``record`` where it fails."""
    try:
        if len(entries) == 1:
            insert(entries[0])  # which costs less
        else:
            insert_all(entries)
    except DatabaseError:
        for entry in entries:
            log.error(
                "Could not write an entry to the audit log; it is in this line instead",
                extra={
                    "action": "audit_lost",
                    "actor": entry.actor,
                    "audited": entry.action,
                    "tenant_id": entry.tenant_id,
                    "namespace": entry.namespace,
                    "target": entry.target,
                    "outcome": entry.outcome,
                    "details": entry.details,
                    "before": entry.before,
                    "after": entry.after,
                },
            )
        raise


def _printable(text: str) -> str:
    """A header as text: PostgreSQL takes no NUL, and nobody wants to read control characters."""
    return "".join(char if char.isprintable() else "?" for char in text)


def settings_of(row: models.Model, names: Iterable[str]) -> dict[str, object]:
    """Values of a row's fields as the audit keeps them; each has to be fit for JSON."""
    return {name: getattr(row, name) for name in names}


def difference(
    before: Settings | None, after: Settings | None
) -> tuple[dict[str, object] | None, dict[str, object] | None]:
    """Both sides of what became different; all of the one side where there is no other."""
    if before is None or after is None:
        return (
            None if before is None else dict(before),
            None if after is None else dict(after),
        )
    changed = [name for name in after if before.get(name) != after[name]]
    return {name: before.get(name) for name in changed}, {name: after[name] for name in changed}
