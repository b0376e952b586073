"""``mqservice group``: create, change, show, pause and delete consumer groups."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import UsageError
from mqservice.cli.options import asks
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.rest_groups import Group, group_path
from mqservice.cli.setting_options import UNLIMITED, Body, takes_settings
from mqservice.cli.tables import Table
from mqservice.cli.target import Target
from mqservice.groups.settings import SETTINGS

app = typer.Typer()

NameArgument = Annotated[str, typer.Argument(help="Up to 64 letters, digits, - and _.")]


@app.command("create")
@takes_settings(SETTINGS)
async def create(body: Body, target: Target, name: NameArgument) -> int:
    """Create a group. Creating it again with the same settings changes nothing."""
    async with RestClient(target) as client:
        await _put(client, name, body)
    screen.notice(f"group {name} was created")
    return 0


@app.command("update")
@takes_settings(SETTINGS)
async def update(body: Body, target: Target, name: NameArgument) -> int:
    """Change an existing group. Settings that are not given are left unchanged."""
    if not body:
        raise UsageError("nothing to change: give at least one setting")
    async with RestClient(target) as client:
        await client.call("GET", group_path(name), Group)  # a change does not make a group
        await _put(client, name, body)
    screen.notice(f"group {name} was changed")
    return 0


async def _put(client: RestClient, name: str, body: Body) -> None:
    await client.call("PUT", group_path(name), Group, content=msgspec.json.encode(body))


@app.command("show")
async def show(target: Target, name: NameArgument, form: FormOption = Output.TABLE) -> int:
    """Show a group with its lag."""
    async with RestClient(target) as client:
        group = await client.call("GET", group_path(name), Group)
    if prints(form, group):
        return 0
    table = Table("setting", "value")
    for setting, value in zip(_COLUMNS, _row(group), strict=True):
        table.add_row(setting, value)
    for part, queues in group.assignment.items():
        table.add_row(part, str(queues))
    table.add_row("lag", group.lag_text)
    screen.show(table)
    return 0


@app.command("list")
async def list_groups(target: Target, form: FormOption = Output.TABLE) -> int:
    """List the groups of the namespace."""
    async with RestClient(target) as client:
        groups = await client.all_pages("groups", "groups", Group)
    if prints(form, groups):
        return 0
    table = Table(*_COLUMNS)
    for group in groups:
        table.add_row(*_row(group))
    screen.show(table)
    return 0


@app.command("pause")
async def pause(target: Target, name: NameArgument) -> int:
    """Deliver nothing to the group until it is resumed."""
    return await _change(target, "POST", f"{group_path(name)}:pause", f"group {name} was paused")


@app.command("resume")
async def resume(target: Target, name: NameArgument) -> int:
    """Resume a paused group."""
    return await _change(target, "POST", f"{group_path(name)}:resume", f"group {name} was resumed")


@app.command("delete")
@asks("Delete group {name} with its dead letters?")
async def delete(target: Target, name: NameArgument) -> int:
    """Delete a group with its progress, its retries and its dead letters."""
    return await _change(target, "DELETE", group_path(name), f"group {name} was deleted")


async def _change(target: Target, method: str, path: str, done: str) -> int:
    async with RestClient(target) as client:
        await client.call(method, path)
    screen.notice(done)
    return 0


_COLUMNS: Final = (
    "group",
    "start from",
    "lease",
    "consume timeout",
    "max attempts",
    "retry",
    "dispatch",
    "state",
)


def _row(group: Group) -> tuple[str, ...]:
    attempts = UNLIMITED if group.max_attempts is None else str(group.max_attempts)
    state = "paused" if group.paused else "running"
    retry, dispatch = str(group.retry), group.dispatch_text
    leases = group.lease, group.consume_timeout
    return group.name, group.start_from, *leases, attempts, retry, dispatch, state
