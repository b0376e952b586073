"""``mqservice audit``: who changed what, newest first.

search ─▶ GET /v1/audit, page by page ─▶ stdout: a table, or NDJSON
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import TenantTarget

app = typer.Typer(no_args_is_help=True, help="Who changed what, and when.")

_PATH: Final = "/v1/audit"
_PAGE_MAX: Final = 100
ENTRIES_MAX: Final = 100_000


class Entry(msgspec.Struct, kw_only=True):
    """Settings in it are shown as they come."""

    at: str
    actor: str
    address: str | None
    user_agent: str | None = None  # of services before it was kept
    action: str
    namespace: str | None
    target: str
    outcome: str
    before: dict[str, Any] | None  # Any: settings of many kinds of things
    after: dict[str, Any] | None  # Any: as above
    details: dict[str, Any]  # Any: as above
    request_id: str | None


class _Page(msgspec.Struct):
    entries: list[Entry]
    next_cursor: str | None = None


@app.callback()
def audit() -> None:
    """Who changed what, and when."""


@app.command("search")
async def search(
    target: TenantTarget,
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Start time, in RFC 3339.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="End time, in RFC 3339.")
    ] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", help="Who did it, such as key:a1B2c3D4 or user:alice.")
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", help="Kind of change, such as topic.put.")
    ] = None,
    changed: Annotated[
        str | None,
        typer.Option("--target", help="What was changed, such as topics/orders, or topics/*."),
    ] = None,
    of_namespace: Annotated[
        str | None, typer.Option("--of-namespace", help="Only this namespace.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=ENTRIES_MAX, help="Maximum number of entries.")
    ] = 100,
    form: FormOption = Output.TABLE,
) -> int:
    """Show who changed what, newest first."""
    given = {
        "from": since, "to": until, "actor": actor, "action": action, "target": changed,
        "namespace": of_namespace,
    }  # fmt: skip
    question = {name: value for name, value in given.items() if value is not None}
    entries: list[Entry] = []
    cursor: dict[str, str] = {}
    async with RestClient(target) as client:
        while len(entries) < limit:
            size = str(min(_PAGE_MAX, limit - len(entries)))
            query = urlencode({**question, **cursor, "limit": size})
            page = await client.call("GET", f"{_PATH}?{query}", _Page)
            entries += page.entries
            if page.next_cursor is None:
                break
            cursor = {"cursor": page.next_cursor}
    if prints(form, entries):
        return 0
    screen.show(entries_table(entries))
    return 0


def entries_table(entries: Sequence[Entry]) -> Table:
    table = Table("at", "actor", "action", "target", "change")
    for each in entries:
        table.add_row(each.at, each.actor, each.action, _target(each), _change(each))
    return table


def _target(entry: Entry) -> str:
    where = f"{entry.namespace}: " if entry.namespace else ""
    return screen.without_controls(where + entry.target)


def _change(entry: Entry) -> str:
    if entry.before is None and entry.after is None:
        return ""
    sides = [
        "" if side is None else msgspec.json.encode(side).decode()
        for side in (entry.before, entry.after)
    ]
    return screen.without_controls(" → ".join(sides))
