"""``mqservice connection``: list open WebSockets, and disconnect one.

connection list ─▶ table on stdout, or NDJSON        connection end ─▶ DELETE
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer(no_args_is_help=True, help="Open WebSockets: list and disconnect them.")

GONE = 1


class _Subscription(msgspec.Struct, kw_only=True):
    topic: str
    group: str
    delivered: int
    held: int
    flow: str


class _Connection(msgspec.Struct, kw_only=True):
    id: str
    actor: str
    address: str
    client: str | None
    user_agent: str | None
    connected_at: str
    published: int
    subscriptions: list[_Subscription]


class _Page(msgspec.Struct, kw_only=True):
    total: int
    complete: bool
    connections: list[_Connection]


class _Disconnected(msgspec.Struct, kw_only=True):
    disconnected: bool


@app.command("list")
async def show(target: Target, form: FormOption = Output.TABLE) -> int:
    """List the open sockets of the namespace, newest first."""
    async with RestClient(target) as client:
        found = await client.call("GET", "connections", _Page)
    if prints(form, found.connections):
        return 0
    table = Table("id", "address", "client", "reads", "delivered", "published", "since")
    for each in found.connections:
        reads = [_read(one) for one in each.subscriptions]
        table.add_row(
            each.id,
            each.address,
            screen.without_controls(each.client or each.user_agent or "-"),
            "\n".join(reads) or "-",
            str(sum(one.delivered for one in each.subscriptions)),
            str(each.published),
            each.connected_at,
        )
    screen.show(table)
    if not found.complete:
        screen.notice(
            f"{len(found.connections)} of at least {found.total}: not all web processes "
            "have replied"
        )
    return 0


@app.command("end")
async def end(
    target: Target,
    connection: Annotated[str, typer.Argument(help="ID of the socket, as shown by list.")],
) -> int:
    """Disconnect a socket; its leases are released. It may reconnect unless its key is revoked."""
    async with RestClient(target) as client:
        path = f"connections/{quote(connection, safe='')}"
        ended = await client.call("DELETE", path, _Disconnected)
    if not ended.disconnected:
        screen.notice(f"{connection} was already disconnected")
        return GONE
    screen.notice(f"{connection} was disconnected")
    return 0


def _read(subscription: _Subscription) -> str:
    """With why nothing is pushed, where nothing is."""
    why = "" if subscription.flow == "open" else f" ({subscription.flow})"
    return f"{subscription.topic} for {subscription.group}{why}"
