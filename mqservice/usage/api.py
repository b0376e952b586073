"""Usage over REST: ``GET /v1/usage?from=&to=&per=&by=&namespace=&topic=&cursor=``, JSON or CSV."""

from __future__ import annotations

from typing import Annotated, Final

from django.http import HttpResponse
from ninja import Query, Router, Schema
from pydantic import Field

from mqservice.accounts.rest import AuthedRequest
from mqservice.lib.clock import SystemClock
from mqservice.lib.csv_cells import CSV_TYPE, csv_response
from mqservice.lib.problem import Problem
from mqservice.lib.timestamps import rfc3339
from mqservice.lib.wire import time_ms
from mqservice.usage.limits import PAGE_MAX
from mqservice.usage.queries import GroupBy, Interval, UsageQuery, UsageRow, usage_page

router = Router(tags=["usage"])

_JSON_TYPE: Final = "application/json"
Name = Annotated[str | None, Field(max_length=200)]


class UsageRowOut(Schema):
    """`namespace` and `topic` are null if the row covers more than one, and for requests about
    none: those of the control plane, and rejected ones."""

    at: str
    namespace: str | None
    topic: str | None
    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    api_calls: int
    storage_bytes_max: int | None

    @classmethod
    def of(cls, row: UsageRow) -> UsageRowOut:
        return cls(
            at=rfc3339(row.at_ms),
            namespace=row.namespace or None,
            topic=row.topic or None,
            messages_in=row.messages_in,
            bytes_in=row.bytes_in,
            messages_out=row.messages_out,
            bytes_out=row.bytes_out,
            api_calls=row.api_calls,
            storage_bytes_max=row.storage_bytes_max,
        )


class UsagePageOut(Schema):
    """A page, the oldest first; ``next_cursor`` is null on the last one."""

    tenant: str
    per: Interval
    by: GroupBy
    rows: list[UsageRowOut]
    next_cursor: str | None


@router.get("/usage", response=UsagePageOut)
def read_usage(
    request: AuthedRequest,
    since: Annotated[str | None, Query(None, alias="from")],
    to: str | None = None,
    per: Interval = Interval.HOUR,
    by: GroupBy = GroupBy.TENANT,
    namespace: Name = None,
    topic: Name = None,
    cursor: str | None = None,
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = PAGE_MAX,
) -> UsagePageOut | HttpResponse:
    """Read what the tenant has used, by hour or day: the last day without `from` and `to`. With
    `Accept: text/csv` it is a table, and `X-Next-Cursor` leads to the next page. One query."""
    is_csv = _takes_csv(request)
    question = UsageQuery(
        from_ms=None if since is None else time_ms("?from", since),
        to_ms=None if to is None else time_ms("?to", to),
        per=per,
        by=by,
        namespace=namespace,
        topic=topic,
    )
    now_ms = SystemClock().now_ms()
    page = usage_page(request.auth, question, now_ms, cursor=cursor, limit=limit)
    rows = [UsageRowOut.of(row) for row in page.rows]
    if is_csv:
        return _table(rows, page.next_cursor)
    return UsagePageOut(
        tenant=request.auth.tenant, per=per, by=by, rows=rows, next_cursor=page.next_cursor
    )


def _takes_csv(request: AuthedRequest) -> bool:
    """Raises Problem NOT_ACCEPTABLE when it takes neither a table nor JSON."""
    kind = request.get_preferred_type([_JSON_TYPE, CSV_TYPE])
    if kind is None:
        raise Problem.of("NOT_ACCEPTABLE", f"this path responds with {_JSON_TYPE} or {CSV_TYPE}")
    return kind == CSV_TYPE


def _table(rows: list[UsageRowOut], next_cursor: str | None) -> HttpResponse:
    names = UsageRowOut.model_fields
    answer = csv_response(names, ([getattr(row, name) for name in names] for row in rows))
    if next_cursor is not None:
        answer["X-Next-Cursor"] = next_cursor
    return answer
