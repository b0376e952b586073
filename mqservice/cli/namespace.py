"""``mqservice namespace``: list namespaces, make one read-only or writable again.

list ─▶ stdout: a table, or NDJSON          read-only, writable ─▶ a line on stderr
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import Target, TenantTarget

app = typer.Typer(no_args_is_help=True, help="List namespaces, and make one read-only.")

_PATH: Final = "/v1/namespaces"

NameArgument = Annotated[str, typer.Argument(metavar="NAMESPACE", help="Name, as shown by list.")]


class _ReadOnly(msgspec.Struct, kw_only=True):
    since: str
    by: str
    reason: str


class _Namespace(msgspec.Struct, kw_only=True):
    name: str
    created_at: str
    read_only: _ReadOnly | None


@app.command("list")
async def list_namespaces(target: TenantTarget, form: FormOption = Output.TABLE) -> int:
    """List the tenant's namespaces, and since when and why they are read-only."""
    async with RestClient(target) as client:
        found = await client.all_pages(_PATH, "namespaces", msgspec.Raw)
    if prints(form, found):
        return 0
    table = Table("namespace", "created", "read-only since", "by", "reason")
    for document in found:
        row = msgspec.json.decode(document, type=_Namespace)
        held = row.read_only or _ReadOnly(since="", by="", reason="")
        cells = row.name, row.created_at, held.since, held.by, held.reason
        table.add_row(*(screen.without_controls(each) for each in cells))
    screen.show(table)
    return 0


@app.command("read-only")
def read_only(
    target: TenantTarget,
    name: NameArgument,
    reason: Annotated[str, typer.Option("--reason", help="Reason, shown to other users.")] = "",
) -> None:
    """Make a namespace read-only; programs can still produce and consume."""
    screen.run(_switch(target, name, {"read_only": True, "reason": reason}))


@app.command("writable")
def writable(target: TenantTarget, name: NameArgument) -> None:
    """Make a namespace writable again."""
    screen.run(_switch(target, name, {"read_only": False}))


async def _switch(target: Target, name: str, change: dict[str, object]) -> int:
    path = f"{_PATH}/{quote(name, safe='')}"
    async with RestClient(target) as client:
        row = await client.call("PATCH", path, _Namespace, content=msgspec.json.encode(change))
    state = "can be changed" if row.read_only is None else "is read-only"
    screen.notice(f"namespace {row.name} {state}")
    return 0
