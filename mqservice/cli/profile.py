"""``mqservice profile``: which servers are saved, which is in use, and removing one."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.errors import ClientError
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.profiles import complete_names, load_profiles, save_profiles
from mqservice.cli.tables import Table

app = typer.Typer(no_args_is_help=True, help="List, choose and remove saved profiles.")

NameArgument = Annotated[
    str, typer.Argument(help="Name, as shown by `profile list`.", autocompletion=complete_names)
]


class _Row(msgspec.Struct):
    """A profile without its key."""

    name: str
    base_url: str
    namespace: str
    is_current: bool


@app.command("list")
def list_profiles(output: FormOption = Output.TABLE) -> None:
    """List the saved profiles, without their keys. A * marks the one in use."""
    try:
        saved = load_profiles()
    except ClientError as exc:
        screen.fail(exc)
    rows = [
        _Row(name, each.base_url, each.namespace, name == saved.current)
        for name, each in sorted(saved.profiles.items())
    ]
    if prints(output, rows):
        return
    table = Table("", "name", "address", "namespace")
    for row in rows:
        table.add_row("*" if row.is_current else "", row.name, row.base_url, row.namespace)
    screen.show(table)


@app.command("use")
def use(name: NameArgument) -> None:
    """Use a profile for all commands without --profile."""
    try:
        saved = load_profiles()
        chosen = saved.named(name)
        saved.current = name
        save_profiles(saved)
    except ClientError as exc:
        screen.fail(exc)
    screen.notice(f"profile {name} is now in use: {chosen.base_url}")


@app.command("remove")
def remove(name: NameArgument) -> None:
    """Remove a profile and its key. The key stays valid on the server until it is revoked."""
    try:
        saved = load_profiles()
        saved.named(name)
        del saved.profiles[name]
        if saved.current == name:
            saved.current = ""
        save_profiles(saved)
    except ClientError as exc:
        screen.fail(exc)
    screen.notice(f"profile {name} was removed")
