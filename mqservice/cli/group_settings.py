"""``mqservice group``: create, change, show, pause and delete consumer groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import UsageError
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.rest_groups import Group, GroupCalls
from mqservice.cli.setting_options import UNLIMITED, Body, takes_settings
from mqservice.cli.tables import Table
from mqservice.cli.target import BaseUrlOption, KeyOption, NamespaceOption, Target
from mqservice.groups.settings import SETTINGS

app = typer.Typer()

NameArgument = Annotated[str, typer.Argument(help="Up to 64 letters, digits, - and _.")]


@app.command("create")
@takes_settings(SETTINGS)
def create(
    body: Body,
    name: NameArgument,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Create a group. Creating it again with the same settings changes nothing."""
    _put(screen.target_of(base_url, key, namespace), name, body, is_new=True)


@app.command("update")
@takes_settings(SETTINGS)
def update(
    body: Body,
    name: NameArgument,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Change an existing group. Settings that are not given are left unchanged."""
    if not body:
        screen.fail(UsageError("nothing to change: give at least one setting"))
    _put(screen.target_of(base_url, key, namespace), name, body, is_new=False)


@app.command("show")
def show(
    name: NameArgument,
    form: FormOption = Output.TABLE,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Show a group with its lag."""
    screen.run(_show(screen.target_of(base_url, key, namespace), name, form=form))


@app.command("list")
def list_groups(
    form: FormOption = Output.TABLE,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """List the groups of the namespace."""
    screen.run(_list(screen.target_of(base_url, key, namespace), form=form))


@app.command("pause")
def pause(
    name: NameArgument,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Deliver nothing to the group until it is resumed."""
    _call(
        screen.target_of(base_url, key, namespace),
        lambda groups: groups.set_paused(name, is_paused=True),
        f"group {name} was paused",
    )


@app.command("resume")
def resume(
    name: NameArgument,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Resume a paused group."""
    _call(
        screen.target_of(base_url, key, namespace),
        lambda groups: groups.set_paused(name, is_paused=False),
        f"group {name} was resumed",
    )


@app.command("delete")
def delete(
    name: NameArgument,
    is_sure: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")
    ] = False,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Delete a group with its progress, its retries and its dead letters."""
    target = screen.target_of(base_url, key, namespace)
    if not is_sure:
        typer.confirm(f"Delete group {name} with its dead letters?", abort=True, err=True)
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


async def _show(target: Target, name: str, *, form: Output) -> int:
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


async def _list(target: Target, *, form: Output) -> int:
    async with RestClient(target) as client:
        groups = await GroupCalls(client).groups()
    if prints(form, groups):
        return 0
    table = Table(*_COLUMNS)
    for group in groups:
        table.add_row(*_row(group))
    screen.show(table)
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
