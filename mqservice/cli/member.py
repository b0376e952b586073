"""``mqservice member``: the members of the tenant and their roles.

list ─▶ stdout: a table, or NDJSON          set-role, remove ─▶ a line on stderr
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.options import asks
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import TenantTarget

app = typer.Typer(no_args_is_help=True, help="List members, change their roles, remove them.")

_PATH: Final = "/v1/members"

NameArgument = Annotated[
    str, typer.Argument(metavar="USERNAME", help="User name, as shown by list.")
]


class Member(msgspec.Struct, kw_only=True):
    username: str
    role: str
    created_at: str


@app.command("list")
async def list_members(target: TenantTarget, form: FormOption = Output.TABLE) -> int:
    """List the members of the tenant."""
    async with RestClient(target) as client:
        members = await client.all_pages(_PATH, "members", Member)
    if prints(form, members):
        return 0
    table = Table("user name", "role", "since")
    for each in members:
        table.add_row(screen.without_controls(each.username), each.role, each.created_at)
    screen.show(table)
    return 0


@app.command("set-role")
async def set_role(
    target: TenantTarget,
    username: NameArgument,
    role: Annotated[str, typer.Argument(help="viewer, developer, admin or owner.")],
) -> int:
    """Change the role of a member."""
    async with RestClient(target) as client:
        content = msgspec.json.encode({"role": role})
        changed = await client.call("PATCH", _path(username), Member, content=content)
    screen.notice(f"{changed.username} now has the role {changed.role}")
    return 0


@app.command("remove")
@asks("Remove {username} from the tenant?")
async def remove(target: TenantTarget, username: NameArgument) -> int:
    """Remove a member from the tenant; keys that the member created stay valid."""
    async with RestClient(target) as client:
        await client.call("DELETE", _path(username))
    screen.notice(f"{username} no longer belongs to the tenant")
    return 0


def _path(username: str) -> str:
    return f"{_PATH}/{quote(username, safe='')}"
