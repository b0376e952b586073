"""``mqservice usage``: what the tenant has used, by hour or day.

GET /v1/usage, page by page ─▶ stdout: a table, or CSV as the service writes it
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

_COLUMNS: Final = (
    "at", "namespace", "topic", "messages_in", "bytes_in", "messages_out", "bytes_out",
    "api_calls", "storage_bytes_max",
)  # fmt: skip


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    at: str
    namespace: str | None
    topic: str | None
    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int
    api_calls: int
    storage_bytes_max: int | None


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    rows: list[_Row]
    next_cursor: str | None


def usage(
    target: Target,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Start time, in RFC 3339; by default a day ago."
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="TIME", help="End time, in RFC 3339; by default now.")
    ] = None,
    per: Annotated[str, typer.Option(help="hour or day.")] = "hour",
    by: Annotated[str, typer.Option(help="tenant, namespace or topic.")] = "tenant",
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")] = None,
    form: FormOption = Output.TABLE,
) -> None:
    """Show the tenant's usage: messages and bytes in and out, calls, storage."""
    given = {"from": since, "to": to, "per": per, "by": by, "topic": topic}
    query = {name: value for name, value in given.items() if value is not None}
    screen.run(_show(target, query, form=form))


async def _show(target: Target, query: dict[str, str], *, form: Output) -> int:
    rows: list[_Row] = []
    table = Table(*_COLUMNS)
    async with RestClient(target) as client:
        cursor: str | None = None
        while True:
            asked = query if cursor is None else {**query, "cursor": cursor}
            page = await client.call("GET", f"/v1/usage?{urlencode(asked)}", _Page)
            for row in page.rows:
                rows.append(row)
                table.add_row(*(_shown(getattr(row, name)) for name in _COLUMNS))
            cursor = page.next_cursor
            if cursor is None:
                break
    if not prints(form, rows):
        screen.show(table)
    return 0


def _shown(value: str | int | None) -> str:
    return "" if value is None else str(value)
