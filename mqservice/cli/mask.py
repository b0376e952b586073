"""``mqservice mask``: what the console hides of messages, and from which roles.

list          GET …/masking ─▶ stdout: a table, or NDJSON; the switch for bodies on stderr
set, delete   PUT or DELETE …/masking/{name}
bodies        PUT …/masking
"""

from __future__ import annotations

import enum
from typing import Annotated
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.options import asks
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer(
    no_args_is_help=True, help="Masking rules: what users see of messages in the console."
)

NameArgument = Annotated[str, typer.Argument(help="Name of the rule.")]


class Part(enum.StrEnum):
    BODY = "body"
    FIELD = "field"
    PROPERTY = "property"


class ClearFor(enum.StrEnum):
    ADMIN = "admin"
    OWNER = "owner"


class BodiesFor(enum.StrEnum):
    DEVELOPER = "developer"
    ADMIN = "admin"
    OWNER = "owner"


class _Rule(msgspec.Struct, kw_only=True):
    name: str
    topics: str
    part: str
    path: str | None
    clear_for: str


class _Masking(msgspec.Struct, kw_only=True):
    bodies_for: str
    rules: list[msgspec.Raw] = []

    @property
    def bodies_text(self) -> str:
        if self.bodies_for == BodiesFor.DEVELOPER:
            return "bodies are shown to all users who may read messages"
        return f"bodies are shown to the role {self.bodies_for} and above"


@app.command("list")
async def list_rules(target: Target, form: FormOption = Output.TABLE) -> int:
    """List the rules, and the lowest role that sees bodies."""
    async with RestClient(target) as client:
        found = await client.call("GET", "masking", _Masking)
    if not prints(form, found.rules):
        table = Table("rule", "topics", "hides", "path", "clear for")
        for document in found.rules:
            rule = msgspec.json.decode(document, type=_Rule)
            cells = rule.name, rule.topics, rule.part, rule.path or "", rule.clear_for
            table.add_row(*(screen.without_controls(each) for each in cells))
        screen.show(table)
    screen.notice(found.bodies_text)
    return 0


@app.command("set")
def set_rule(
    target: Target,
    name: NameArgument,
    topics: Annotated[
        str,
        typer.Option("--topics", help="Topic, or the start of topic names and a *: payments-*."),
    ],
    part: Annotated[Part, typer.Option("--part", help="Part of the message to hide.")],
    path: Annotated[
        str | None,
        typer.Option(
            "--path",
            help=(
                "For a field: a JSON pointer, such as /card/number or /**/password. For "
                "a property: its name, which may end in *."
            ),
        ),
    ] = None,
    clear_for: Annotated[
        ClearFor, typer.Option("--clear-for", help="Lowest role that sees it.")
    ] = ClearFor.ADMIN,
) -> None:
    """Create a rule, or replace one completely."""
    rule = {"topics": topics, "part": part, "path": path, "clear_for": clear_for}
    screen.run(_set(target, name, msgspec.json.encode(rule)))


@app.command("delete")
@asks("Delete rule {name}? What it hides becomes visible.")
async def delete(target: Target, name: NameArgument) -> int:
    """Delete a rule. What it hides becomes visible."""
    async with RestClient(target) as client:
        await client.call("DELETE", _path(name))
    screen.notice(f"masking rule {name} was deleted")
    return 0


@app.command("bodies")
async def bodies(
    target: Target,
    shown_for: Annotated[
        BodiesFor,
        typer.Argument(
            metavar="ROLE",
            help="Lowest role that sees bodies; developer is every user who may read.",
        ),
    ],
) -> int:
    """Set the lowest role that sees bodies, for all topics."""
    content = msgspec.json.encode({"bodies_for": shown_for})
    async with RestClient(target) as client:
        found = await client.call("PUT", "masking", _Masking, content=content)
    screen.notice(found.bodies_text)
    return 0


async def _set(target: Target, name: str, content: bytes) -> int:
    async with RestClient(target) as client:
        rule = await client.call("PUT", _path(name), _Rule, content=content)
    what = f"the {rule.part} {rule.path}" if rule.path else "bodies"
    screen.notice(
        f"{rule.name}: {what} of {rule.topics} hidden in the console below the role "
        f"{rule.clear_for}; programs with keys see everything"
    )
    return 0


def _path(name: str) -> str:
    return f"masking/{quote(name, safe='')}"
