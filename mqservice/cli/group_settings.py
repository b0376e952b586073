"""``mqservice group``: create, change, show, pause and delete consumer groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import UsageError
from mqservice.cli.options import asks
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.rest_groups import Group, GroupCalls
from mqservice.cli.setting_options import UNLIMITED, Body, takes_settings
from mqservice.cli.tables import Table
from mqservice.cli.target import Target
from mqservice.groups.settings import SETTINGS

app = typer.Typer()

NameArgument = Annotated[str, typer.Argument(help="Up to 64 letters, digits, - and _.")]


@app.command("create")
@takes_settings(SETTINGS)
def create(body: Body, target: Target, name: NameArgument) -> None:
    """Create a group. Creating it again with the same settings changes nothing."""
    _put(target, name, body, is_new=True)


@app.command("update")
@takes_settings(SETTINGS)
def update(body: Body, target: Target, name: NameArgument) -> None:
    """Change an existing group. Settings that are not given are left unchanged."""
    if not body:
        screen.fail(UsageError("nothing to change: give at least one setting"))
    _put(target, name, body, is_new=False)


@app.command("show")
async def show(target: Target, name: NameArgument, form: FormOption = Output.TABLE) -> int:
    """Show a group with its lag."""
    async with RestClient(target) as client:
        group = await GroupCalls(client).group(name)
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
        groups = await GroupCalls(client).groups()
    if prints(form, groups):
        return 0
    table = Table(*_COLUMNS)
    for group in groups:
        table.add_row(*_row(group))
    screen.show(table)
    return 0


@app.command("pause")
def pause(target: Target, name: NameArgument) -> None:
    """Deliver nothing to the group until it is resumed."""
    _call(
        target,
        lambda groups: groups.set_paused(name, is_paused=True),
        f"group {name} was paused",
    )


@app.command("resume")
def resume(target: Target, name: NameArgument) -> None:
    """Resume a paused group."""
    _call(
        target,
        lambda groups: groups.set_paused(name, is_paused=False),
        f"group {name} was resumed",
    )


@app.command("delete")
@asks("Delete group {name} with its dead letters?")
def delete(target: Target, name: NameArgument) -> None:
    """Delete a group with its progress, its retries and its dead letters."""
    _call(target, lambda groups: groups.delete(name), f"group {name} was deleted")


def _put(target: Target, name: str, settings: dict[str, object], *, is_new: bool) -> None:
    async def put(groups: GroupCalls) -> None:
        if not is_new:
            await groups.group(name)  # a change does not make a group
        await groups.put(name, settings)

    _call(target, put, f"group {name} was created" if is_new else f"group {name} was changed")


def _call(target: Target, call: Callable[[GroupCalls], Awaitable[object]], done: str) -> None:
    async def run() -> int:
        async with RestClient(target) as client:
            await call(GroupCalls(client))
        screen.notice(done)
        return 0

    screen.run(run())


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
