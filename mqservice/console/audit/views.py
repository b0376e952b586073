"""The audit log as a table: filters in the URL, page by page, and as CSV.

?actor=&action=&target=&namespace=&from=&to=&cursor= ──▶ accounts.audit_search ──▶ rows
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

import msgspec
from django.http import HttpResponse

from mqservice.accounts.audit_search import (
    EXPORT_ROWS_MAX,
    AuditQuery,
    audit_page,
    audit_rows,
)
from mqservice.accounts.models import AuditEntry
from mqservice.accounts.roles import Permission
from mqservice.console.audit.sentences import actor_of, key_names, sentence_of
from mqservice.console.shared.curl_commands import curl_of
from mqservice.console.shared.form_times import utc_of
from mqservice.console.shared.frame import Frame, page
from mqservice.console.shared.time_zones import zone_given
from mqservice.lib.csv_cells import csv_response
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import problem_text
from mqservice.lib.wire import moment, time_ms

PAGE_ROWS: Final = 50
_FIELD_CHARS_MAX: Final = 200
_FIELDS: Final = ("actor", "action", "target", "namespace", "from", "to")
_COLUMNS: Final = (
    "at", "actor", "address", "user_agent", "action", "namespace", "target", "outcome", "before",
    "after", "details", "request_id",
)  # fmt: skip
_Settings = dict[str, object] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting that became different; ``before`` or ``after`` is empty where there was none."""

    name: str
    before: str
    after: str


@page("audit", needs=Permission.AUDIT_READ)
def audit(frame: Frame) -> HttpResponse:
    """Two queries beside those of the frame."""
    given = _given(frame)
    problem, rows, next_cursor = None, [], None
    try:
        found = audit_page(
            frame.principal,
            _question(given),
            cursor=frame.request.GET.get("cursor") or None,
            limit=PAGE_ROWS,
        )
        rows, next_cursor = found.entries, found.next_cursor
    except Problem as refusal:
        problem = refusal
    asked = urlencode({name: value for name, value in given.items() if value})
    keys = key_names(
        frame.namespace.tenant_id, (text for row in rows for text in (row.actor, row.target))
    )
    return frame.render(
        "console/audit.html",
        status=200 if problem is None else problem.status,
        rows=[
            (row, changes_of(row), sentence_of(row, keys), actor_of(row.actor, keys))
            for row in rows
        ],
        next_cursor=next_cursor,
        given=given,
        is_filtered=any(given.values()),
        problem=problem,
        places=[
            each.name for each in frame.namespaces if each.tenant_id == frame.namespace.tenant_id
        ],
        csv_query=f"?{asked}" if asked else "",
        export_rows_max=EXPORT_ROWS_MAX,
        curl=curl_of("GET", f"/v1/audit?{asked}"),
    )


@page("audit", needs=Permission.AUDIT_READ)
def audit_csv(frame: Frame) -> HttpResponse:
    """What the same filters find, ``EXPORT_ROWS_MAX`` rows at most, as a file."""
    try:
        rows = audit_rows(frame.principal, _question(_given(frame)))
    except Problem as problem:
        text = problem_text(problem)
        return HttpResponse(text, status=problem.status, content_type="text/plain; charset=utf-8")
    cells = ([_cell(row, name) for name in _COLUMNS] for row in rows)
    return csv_response(_COLUMNS, cells, file_name=f"audit-{frame.namespace.tenant.name}.csv")


def changes_of(row: AuditEntry) -> list[Change]:
    """Settings by name, then details as they are."""
    before: _Settings = row.before
    after: _Settings = row.after
    names = [*(before or {}), *(name for name in after or {} if name not in (before or {}))]
    changes = [
        Change(name=name, before=_text(before, name), after=_text(after, name)) for name in names
    ]
    details: dict[str, object] = row.details
    return [
        *changes,
        *(Change(name=name, before="", after=_text(details, name)) for name in details),
    ]


def _text(values: _Settings, name: str) -> str:
    if values is None or name not in values:
        return ""
    value = values[name]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _given(frame: Frame) -> dict[str, str]:
    found = {name: frame.request.GET.get(name, "") for name in _FIELDS}
    given = {name: text.strip()[:_FIELD_CHARS_MAX] for name, text in found.items()}
    zone = zone_given(frame.request.GET)
    return {**given, "from": utc_of(given["from"], zone), "to": utc_of(given["to"], zone)}


def _question(given: dict[str, str]) -> AuditQuery:
    """Raises Problem for a time that is none."""
    return AuditQuery(
        from_ms=_time_ms("?from", given["from"]),
        to_ms=_time_ms("?to", given["to"]),
        actor=given["actor"] or None,
        action=given["action"] or None,
        target=given["target"] or None,
        namespace=given["namespace"] or None,
    )


def _time_ms(pointer: str, text: str) -> int | None:
    """Raises Problem BAD_REQUEST."""
    return time_ms(pointer, text) if text else None


def _cell(row: AuditEntry, name: str) -> str:
    value = getattr(row, name)
    if isinstance(value, datetime):
        return moment(value)
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()
