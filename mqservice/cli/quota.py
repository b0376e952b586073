"""``mqservice quota``: what the tenant may use and uses, and limits that it lowers itself."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer(no_args_is_help=True, help="Show quotas, and lower them.")

_PATH: Final = "/v1/quotas"


class Quotas(msgspec.Struct, kw_only=True):
    """As the service shows them; None where it knows nothing, or nothing is said."""

    tenant: str
    limits: dict[str, int]
    own: dict[str, int | None]
    usage: dict[str, int | None]


@app.command("show")
async def show(target: Target, form: FormOption = Output.TABLE) -> int:
    """Show what the tenant may use, and what it uses now."""
    async with RestClient(target) as client:
        quotas = await client.call("GET", _PATH, Quotas)
    if not prints(form, quotas):
        _print(quotas)
    return 0


@app.command("set")
async def set_limits(
    target: Target,
    limits: Annotated[
        list[str],
        typer.Argument(metavar="NAME=NUMBER...", help="As shown; NAME=- removes a limit."),
    ],
) -> int:
    """Lower limits of the tenant below what is granted. Needs a key that is not limited to a
    namespace.
    """
    content = msgspec.json.encode(dict(_parsed(text) for text in limits))
    async with RestClient(target) as client:
        _print(await client.call("PUT", _PATH, Quotas, content=content))
    return 0


def _parsed(text: str) -> tuple[str, int | None]:
    name, _, number = text.partition("=")
    if number == "-":
        return name, None
    if not (number.isascii() and number.isdecimal()):
        raise typer.BadParameter(f"{text} must have the form NAME=NUMBER, or NAME=-")
    return name, int(number)


def _print(quotas: Quotas) -> None:
    table = Table("limit", "used", "allowed", "set by the tenant")
    for name, limit in quotas.limits.items():
        used, own = quotas.usage.get(name.removesuffix("_max")), quotas.own.get(name)
        shown = "?" if used is None else str(used)
        table.add_row(name, shown, str(limit), "" if own is None else str(own))
    screen.show(table)
