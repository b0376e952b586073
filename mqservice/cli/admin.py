"""``mqservice admin``: what the operator does on the machine itself, without a key.

create-owner ─▶ stdout: the password, where one was made; all else on stderr
"""

from __future__ import annotations

import os
import secrets
import sys
from typing import Annotated, Final

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.status import DataDirOption

app = typer.Typer(no_args_is_help=True, help="What the operator does on the service's machine.")

_PASSWORD_BYTES: Final = 15


class _Facts(msgspec.Struct):
    username: str
    tenant: str
    is_new_user: bool


@app.callback()
def admin() -> None:
    """What the operator does on the service's machine."""


@app.command("create-owner")
def create_owner(
    username: Annotated[str, typer.Argument(help="User name, to sign in with.")],
    tenant: Annotated[
        str, typer.Option("--tenant", help="The tenant, made with a namespace of its name.")
    ],
    email: Annotated[
        str, typer.Option("--email", help="Address for lost passwords; counts as verified.")
    ] = "",
    asks: Annotated[
        bool, typer.Option("--ask", help="Ask for the password instead of making one.")
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Make a user the owner of a tenant; prints the password, this once."""
    # Here, for it costs every other command a part of its start.
    from mqservice.supervisor.config import data_dir_from_env
    from mqservice.supervisor.errors import SupervisorError
    from mqservice.supervisor.operating import run_command

    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    if asks:
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    place = data_dir_from_env(os.environ) if data_dir is None else data_dir.absolute()
    arguments = ["create_owner", f"--tenant={tenant}", f"--email={email}", "--", username]
    try:
        text = run_command(os.environ, place, arguments, MQ_OWNER_PASSWORD=password)
    except SupervisorError as error:
        print(f"mqservice: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
    made = msgspec.json.decode(text.strip().rpartition("\n")[2], type=_Facts)
    screen.notice(f"{made.username} owns the tenant {made.tenant}")
    if not made.is_new_user:
        screen.notice("the user was here before: the password is what it was")
    elif not asks:
        typer.echo(password)
