"""``mqservice member``: the members of the tenant and their roles.

list ─▶ stdout: a table, or NDJSON          set-role, remove ─▶ a line on stderr
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import PAGES_MAX, RestClient
from mqservice.cli.errors import ResponseMalformed
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import BaseUrlOption, KeyOption, Target

app = typer.Typer(no_args_is_help=True, help="List members, change their roles, remove them.")

_PATH: Final = "/v1/members"

NameArgument = Annotated[
    str, typer.Argument(metavar="USERNAME", help="User name, as shown by list.")
]


class Member(msgspec.Struct, kw_only=True):
    username: str
    role: str
    created_at: str


class _Page(msgspec.Struct):
    members: list[Member]
    next: str | None = None


@app.command("list")
def list_members(
    form: FormOption = Output.TABLE,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
) -> None:
    """List the members of the tenant."""
    screen.run(_list(screen.target_of(base_url, key, None), form=form))


@app.command("set-role")
def set_role(
    username: NameArgument,
    role: Annotated[str, typer.Argument(help="viewer, developer, admin or owner.")],
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
) -> None:
    """Change the role of a member."""
    screen.run(_set_role(screen.target_of(base_url, key, None), username, role))


@app.command("remove")
def remove(
    username: NameArgument,
    is_sure: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")
    ] = False,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
) -> None:
    """Remove a member from the tenant; keys that the member created stay valid."""
    target = screen.target_of(base_url, key, None)
    if not is_sure:
        typer.confirm(f"Remove {username} from the tenant?", abort=True, err=True)
    screen.run(_remove(target, username))


async def _list(target: Target, *, form: Output) -> int:
    members: list[Member] = []
    path = _PATH
    async with RestClient(target) as client:
        for _ in range(PAGES_MAX):
            page = await client.call("GET", path, _Page)
            members += page.members
            if page.next is None:
                break
            path = f"{_PATH}?after={quote(page.next, safe='')}"
        else:
            raise ResponseMalformed(f"the list of members did not end after {PAGES_MAX} pages")
    if prints(form, members):
        return 0
    table = Table("user name", "role", "since")
    for each in members:
        table.add_row(screen.without_controls(each.username), each.role, each.created_at)
    screen.show(table)
    return 0


async def _set_role(target: Target, username: str, role: str) -> int:
    async with RestClient(target) as client:
        content = msgspec.json.encode({"role": role})
        changed = await client.call("PATCH", _path(username), Member, content=content)
    screen.notice(f"{changed.username} now has the role {changed.role}")
    return 0


async def _remove(target: Target, username: str) -> int:
    async with RestClient(target) as client:
        await client.call("DELETE", _path(username))
    screen.notice(f"{username} no longer belongs to the tenant")
    return 0


def _path(username: str) -> str:
    return f"{_PATH}/{quote(username, safe='')}"
