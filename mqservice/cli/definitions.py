"""``mqservice definitions``: export and import the topics and groups of a namespace as one
document.

JSON or YAML: as --format says, else by the end of the file's name, else JSON.

export ─▶ GET definitions ─▶ stdout, or a file that is there whole or not at all
import ─▶ POST definitions:import?dry_run=true ─▶ table on stderr ─▶ asked, or --yes ─▶ POST
"""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import UsageError
from mqservice.cli.options import SureOption
from mqservice.cli.outputs import FileOption, FormOption, Output, prints, write_output
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer(
    no_args_is_help=True, help="All topics and groups of a namespace as one document."
)

DECLINED: Final = 1
STDIN: Final = "-"
VALUE_CHARS_MAX: Final = 60
_UNCHANGED: Final = "unchanged"
_YAML_SUFFIXES: Final = frozenset({".yaml", ".yml"})


class Form(enum.StrEnum):
    """How a document is written."""

    JSON = "json"
    YAML = "yaml"

    @property
    def media_type(self) -> str:
        return f"application/{self.value}"


DocumentFormOption = Annotated[
    Form | None,
    typer.Option("--format", help="Format of the document; by default from the file's extension."),
]


class Imported(msgspec.Struct, kw_only=True):
    """What becomes, or would become, of one topic or group."""

    name: str
    action: str
    before: dict[str, Any] | None  # Any: settings, shown as the service says them
    after: dict[str, Any]  # Any: as above


class ImportResponse(msgspec.Struct, kw_only=True):
    created: int
    changed: int
    unchanged: int
    topics: list[Imported]
    groups: list[Imported]

    @property
    def counts(self) -> str:
        return f"{self.created} created, {self.changed} changed, {self.unchanged} unchanged"


@app.command("export")
def export(
    target: Target,
    prefix: Annotated[
        str, typer.Option("--prefix", help="Only topics and groups whose names start with this.")
    ] = "",
    file: FileOption = None,
    document_form: DocumentFormOption = None,
) -> None:
    """Export the settings of all topics and groups as JSON or YAML."""
    screen.run(_export(target, prefix, file, document_form or _form_of(file)))


@app.command("import")
def import_(
    target: Target,
    file: Annotated[str, typer.Argument(help="The document; - for standard input.")],
    document_form: DocumentFormOption = None,
    is_sure: SureOption = False,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done.")
    ] = False,
    form: FormOption = Output.TABLE,
) -> None:
    """Create and change topics and groups as a document defines them, all or none; deletes nothing.

    Shows what that does, and asks first.
    """
    if file == STDIN and not (is_sure or is_dry_run):
        screen.fail(
            UsageError(
                "cannot ask for confirmation when the document comes from standard input: add --yes"
            )
        )
    try:
        content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as exc:
        screen.fail(UsageError(f"cannot read {file}: {exc.strerror}"))
    kind = (document_form or _form_of(Path(file))).media_type
    screen.run(_import(target, content, kind, is_sure=is_sure, is_dry_run=is_dry_run, form=form))


def _form_of(file: Path | None) -> Form:
    is_yaml = file is not None and file.suffix.lower() in _YAML_SUFFIXES
    return Form.YAML if is_yaml else Form.JSON


async def _export(target: Target, prefix: str, file: Path | None, form: Form) -> int:
    async with RestClient(target) as client:
        query = f"?prefix={quote(prefix, safe='')}" if prefix else ""
        document = await client.download(f"definitions{query}", form.media_type)
    if form is Form.JSON:
        document = msgspec.json.format(document, indent=2) + b"\n"
    return write_output(document, file)


async def _import(
    target: Target, content: bytes, kind: str, *, is_sure: bool, is_dry_run: bool, form: Output
) -> int:
    path = "definitions:import"
    async with RestClient(target) as client:
        found = await client.call(
            "POST", f"{path}?dry_run=true", ImportResponse, content=content, media_type=kind
        )
        is_different = bool(found.created or found.changed)
        if is_different:
            screen.show_on_stderr(_table(found))
        if not is_dry_run:
            if is_different and not (
                is_sure or screen.is_confirmed(f"{found.counts}: apply this?")
            ):
                screen.notice("nothing was changed")
                return DECLINED
            # Sent where nothing is different, too: the storage engine may lack something of it.
            found = await client.call(
                "POST", path, ImportResponse, content=content, media_type=kind
            )
    prints(form, found)
    screen.notice(f"{'would be: ' if is_dry_run else ''}{found.counts}")
    return 0


def _table(found: ImportResponse) -> Table:
    table = Table("", "name", "action", "setting", "before", "after")
    for kind, things in (("topic", found.topics), ("group", found.groups)):
        for thing in things:
            if thing.action == _UNCHANGED:
                continue
            head = kind, screen.without_controls(thing.name), thing.action
            for setting, value in thing.after.items():
                before = "" if thing.before is None else _shown(thing.before.get(setting))
                table.add_row(*head, setting, before, _shown(value))
                head = "", "", ""
    return table


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    short = text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"
    return screen.without_controls(short)
