"""The audit over REST: ``GET /v1/audit?from=&to=&actor=&action=&target=&namespace=&cursor=``."""

from __future__ import annotations

from typing import Annotated, Any

from ninja import Query, Router, Schema
from pydantic import Field

from mqservice.accounts.audit_search import PAGE_MAX, AuditQuery, audit_page
from mqservice.accounts.models import AuditEntry
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.roles import Permission
from mqservice.lib.wire import moment, time_ms

router = Router(tags=["audit"])

Text = Annotated[str | None, Field(max_length=200)]


class AuditEntryOut(Schema):
    """`namespace` null: it concerns the whole tenant. `before` and `after` have the fields that
    changed; null if there were or are none. `outcome` unknown: the engine's reply was lost, and the
    change may have been made."""

    at: str
    actor: str
    address: str | None
    user_agent: str | None
    action: str
    namespace: str | None
    target: str
    outcome: str
    before: dict[str, Any] | None  # Any: settings of many kinds of things
    after: dict[str, Any] | None  # Any: as above
    details: dict[str, Any]  # Any: as above
    request_id: str | None

    @classmethod
    def of(cls, row: AuditEntry) -> AuditEntryOut:
        return cls(
            at=moment(row.at),
            actor=row.actor,
            address=row.address or None,
            user_agent=row.user_agent or None,
            action=row.action,
            namespace=row.namespace or None,
            target=row.target,
            outcome=row.outcome,
            before=row.before,
            after=row.after,
            details=row.details,
            request_id=row.request_id or None,
        )


class AuditListOut(Schema):
    """A page, the newest first; ``next_cursor`` is null on the last one."""

    entries: list[AuditEntryOut]
    next_cursor: str | None


@router.get("/audit", response=AuditListOut)
def search_audit(
    request: AuthedRequest,
    since: Annotated[str | None, Query(None, alias="from")],
    to: str | None = None,
    actor: Text = None,
    action: Text = None,
    target: Text = None,
    namespace: Text = None,
    cursor: str | None = None,
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = PAGE_MAX,
) -> AuditListOut:
    """Search the audit: who changed what, and when. One query."""
    request.auth.require_permission(Permission.AUDIT_READ)
    question = AuditQuery(
        from_ms=None if since is None else time_ms("?from", since),
        to_ms=None if to is None else time_ms("?to", to),
        actor=actor,
        action=action,
        target=target,
        namespace=namespace,
    )
    page = audit_page(request.auth, question, cursor=cursor, limit=limit)
    return AuditListOut(
        entries=[AuditEntryOut.of(row) for row in page.entries], next_cursor=page.next_cursor
    )
