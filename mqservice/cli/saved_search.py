"""``mqservice saved-search``: searches for messages that a namespace shares under a name.

list          GET …/searches ─▶ stdout: a table, JSON or NDJSON
show          GET …/searches/{name} ─▶ stdout: its fields, or JSON
set, delete   PUT or DELETE …/searches/{name}
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.options import asks
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer(
    no_args_is_help=True, help="Saved searches: those that everybody in the namespace sees."
)

NameArgument = Annotated[str, typer.Argument(help="Name of the saved search.")]


class _Search(msgspec.Struct, kw_only=True):
    name: str
    q: str
    updated_at: str


class _Searches(msgspec.Struct, kw_only=True):
    searches: list[msgspec.Raw]


@app.command("list")
async def list_searches(target: Target, form: FormOption = Output.TABLE) -> int:
    """List the saved searches."""
    async with RestClient(target) as client:
        found = await client.call("GET", "searches", _Searches)
    if not prints(form, found.searches):
        table = Table("saved search", "query", "updated")
        for document in found.searches:
            _add(table, msgspec.json.decode(document, type=_Search))
        screen.show(table)
    return 0


@app.command("show")
async def show(target: Target, name: NameArgument, form: FormOption = Output.TABLE) -> int:
    """Show one saved search."""
    async with RestClient(target) as client:
        content = await client.download(_path(name))
    if not prints(form, msgspec.Raw(content)):
        table = Table("saved search", "query", "updated")
        _add(table, msgspec.json.decode(content, type=_Search))
        screen.show(table)
    return 0


@app.command("set")
async def set_search(
    target: Target,
    name: NameArgument,
    query: Annotated[
        str,
        typer.Argument(help="Tokens, as `mqservice search` takes them: topic:orders tag:paid."),
    ],
) -> int:
    """Create a saved search, or replace one."""
    content = msgspec.json.encode({"q": query})
    async with RestClient(target) as client:
        saved = await client.call("PUT", _path(name), _Search, content=content)
    screen.notice(f"saved search {saved.name}: {saved.q}")
    return 0


@app.command("delete")
@asks("Delete saved search {name} for everybody?")
async def delete(target: Target, name: NameArgument) -> int:
    """Delete a saved search, for everybody."""
    async with RestClient(target) as client:
        await client.call("DELETE", _path(name))
    screen.notice(f"saved search {name} was deleted")
    return 0


def _add(table: Table, search: _Search) -> None:
    cells = search.name, search.q, search.updated_at
    table.add_row(*(screen.without_controls(each) for each in cells))


def _path(name: str) -> str:
    return f"searches/{quote(name, safe='')}"
