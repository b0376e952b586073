"""``mqservice admin``: what the operator does on the service's machine, without a key.

create-owner ─▶ stdout: the password, where one was made; all else on stderr
operator     ─▶ who sees the operator's page
quota        ─▶ stdout: the limits that hold, a line each
"""

from __future__ import annotations

import secrets
from typing import Annotated, Final

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.operator_commands import run_operator_command
from mqservice.cli.status import DataDirOption

app = typer.Typer(no_args_is_help=True, help="Operator commands, run on the service's machine.")

_PASSWORD_BYTES: Final = 15


class _Facts(msgspec.Struct):
    username: str
    tenant: str
    is_new_user: bool


@app.callback()
def admin() -> None:
    """Operator commands, run on the service's machine."""


@app.command("create-owner")
def create_owner(
    username: Annotated[str, typer.Argument(help="User name to sign in with.")],
    tenant: Annotated[
        str,
        typer.Option(
            "--tenant",
            help=("Name of the tenant; it is created together with a namespace of the same name."),
        ),
    ],
    email: Annotated[
        str, typer.Option("--email", help="Email address for password resets; counts as verified.")
    ] = "",
    asks: Annotated[
        bool, typer.Option("--ask", help="Ask for the password instead of generating one.")
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Make a user the owner of a tenant; prints the password, which is shown only once."""
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    if asks:
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    arguments = ["create_owner", f"--tenant={tenant}", f"--email={email}", "--", username]
    text = run_operator_command(data_dir, arguments, MQ_OWNER_PASSWORD=password)
    made = msgspec.json.decode(text.strip().rpartition("\n")[2], type=_Facts)
    screen.notice(f"{made.username} owns the tenant {made.tenant}")
    if not made.is_new_user:
        screen.notice("the user exists already: the password was not changed")
    elif not asks:
        typer.echo(password)


@app.command("operator")
def operator(
    username: Annotated[str, typer.Argument(help="Name of an existing user.")],
    is_revoked: Annotated[
        bool, typer.Option("--revoke", help="Remove access to the operator console.")
    ] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Give a user access to the operator console."""
    arguments = ["operator", *(["--revoke"] if is_revoked else []), "--", username]
    screen.notice(run_operator_command(data_dir, arguments).strip().rpartition("\n")[2])


@app.command("quota")
def quota(
    limits: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=NUMBER...]", help="As shown; NAME=- removes a limit."),
    ] = None,
    tenant: Annotated[
        str, typer.Option("--tenant", help="Tenant; without it, the default of all tenants.")
    ] = "",
    data_dir: DataDirOption = None,
) -> None:
    """Show or set the limits of a tenant, or of all tenants; prints the resulting limits."""
    whose = [f"--tenant={tenant}"] if tenant else []
    text = run_operator_command(data_dir, ["quota", *whose, "--", *(limits or [])])
    held = msgspec.json.decode(text.strip().rpartition("\n")[2], type=dict[str, int])
    for name, number in held.items():
        typer.echo(f"{name}={number}")
