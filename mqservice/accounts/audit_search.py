"""Searches audit entries: one page of matching entries, newest first.

    question, cursor ──▶ [audit_page] ──▶ entries, cursor of the following page

A cursor is the id of the last entry with a MAC over it, the tenant and the question: ids are one
sequence for the whole service, and a cursor says nothing of them to who cannot forge one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import QuerySet

from mqservice.accounts.access import Principal
from mqservice.accounts.models import AuditEntry
from mqservice.lib.signed_text import read_cursor, signed_text
from mqservice.lib.signing import Signer

PAGE_MAX: Final = 100
HISTORY_ROWS_MAX: Final = 50
EXPORT_ROWS_MAX: Final = 10_000
_PLACE: Final = struct.Struct(">Q")
_CURSOR_CHARS_MAX: Final = 64
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """What is looked for; None: anything. Times are [from, to). With a ``*`` at its end ``target``
    is how targets begin.
    """

    from_ms: int | None = None
    to_ms: int | None = None
    actor: str | None = None
    action: str | None = None
    target: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    entries: list[AuditEntry]
    next_cursor: str | None


def audit_page(
    principal: Principal, question: AuditQuery, *, cursor: str | None, limit: int = PAGE_MAX
) -> AuditPage:
    """Entries of the tenant, or of the namespace that ``principal`` is bound to. One query.

    Raises Problem CURSOR_INVALID for one that is not of this question.
    """
    claim = _claim(principal, question)
    rows = _matching(principal, question)
    if cursor is not None:
        place = read_cursor(_signer(), cursor, claim, chars_max=_CURSOR_CHARS_MAX)
        rows = rows.filter(pk__lt=_PLACE.unpack(place)[0])
    limit = min(limit, PAGE_MAX)
    entries = list(rows.order_by("-id")[: limit + 1])
    if len(entries) <= limit:
        return AuditPage(entries=entries, next_cursor=None)
    entries.pop()
    cursor = signed_text(_signer(), _PLACE.pack(entries[-1].pk), claim)
    return AuditPage(entries=entries, next_cursor=cursor)


def audit_rows(principal: Principal, question: AuditQuery) -> list[AuditEntry]:
    """All that fits, the newest first, ``EXPORT_ROWS_MAX`` at most. One query."""
    return list(_matching(principal, question).order_by("-id")[:EXPORT_ROWS_MAX])


def installation_history(limit: int = HISTORY_ROWS_MAX) -> list[AuditEntry]:
    """What concerns no tenant but all of the installation, the newest first: for operators. One
    query.
    """
    return list(AuditEntry.objects.filter(tenant=None).order_by("-id")[:limit])


def _matching(principal: Principal, question: AuditQuery) -> QuerySet[AuditEntry]:
    rows = AuditEntry.objects.filter(tenant_id=principal.tenant_id)
    if principal.namespace is not None:
        rows = rows.filter(namespace=principal.namespace)
    if question.from_ms is not None:
        rows = rows.filter(at__gte=_EPOCH + timedelta(milliseconds=question.from_ms))
    if question.to_ms is not None:
        rows = rows.filter(at__lt=_EPOCH + timedelta(milliseconds=question.to_ms))
    if question.actor is not None:
        rows = rows.filter(actor=question.actor)
    if question.action is not None:
        rows = rows.filter(action=question.action)
    if question.namespace is not None:
        rows = rows.filter(namespace=question.namespace)
    target = question.target
    if target is not None and target.endswith("*"):
        rows = rows.filter(target__startswith=target[:-1])
    elif target is not None:
        rows = rows.filter(target=target)
    return rows


def _signer() -> Signer:
    return Signer(settings.SECRET_KEY, "audit cursor", settings.SECRET_KEY_FALLBACKS)


def _claim(principal: Principal, question: AuditQuery) -> bytes:
    """Each part with its length, so that no two claims are the same bytes."""
    parts = [
        principal.tenant_id, principal.namespace, question.from_ms, question.to_ms, question.actor,
        question.action, question.target, question.namespace,
    ]  # fmt: skip
    texts = [b"-" if part is None else b"+" + str(part).encode() for part in parts]
    return b"".join(len(text).to_bytes(4, "big") + text for text in texts)
