"""``mqservice schema``: the schema by which the console decodes bodies of a topic.

show, delete   GET or DELETE …/topics/{topic}/schema
set            FILE ─▶ definition ─▶ PUT …/topics/{topic}/schema
               .avsc, .json: as it is   .proto: compiled by protoc   others: a descriptor set
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import UsageError
from mqservice.cli.options import asks
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import Target
from mqservice.protocol.choices import SchemaKind

app = typer.Typer(
    no_args_is_help=True, help="Schemas of topics: how the console decodes their bodies."
)

FILE_BYTES_MAX: Final = 1024 * 1024  # the service takes less, and says how much
_AVRO_SUFFIXES: Final = (".avsc", ".json")
_PROTO: Final = ".proto"

TopicArgument = Annotated[str, typer.Argument(help="Name of the topic.")]


class _Schema(msgspec.Struct, kw_only=True):
    topic: str
    namespace: str
    kind: str
    message: str | None
    definition: str
    created_at: str
    updated_at: str

    @property
    def encoding(self) -> str:
        return f"{self.kind}, message {self.message}" if self.message else self.kind


@app.command("show")
async def show(target: Target, topic: TopicArgument, form: FormOption = Output.TABLE) -> int:
    """Show the schema of a topic. The definition is part of the JSON forms only."""
    async with RestClient(target) as client:
        found = await client.call("GET", _path(topic), _Schema)
    if prints(form, found):
        return 0
    facts = Table("", "")
    for name, value in (
        ("topic", found.topic),
        ("encoding", found.encoding),
        ("definition", f"{len(found.definition):,} bytes"),
        ("created", found.created_at),
        ("changed", found.updated_at),
    ):
        facts.add_row(name, screen.without_controls(value))
    screen.show(facts)
    return 0


@app.command("set")
async def set_schema(
    target: Target,
    topic: TopicArgument,
    file: Annotated[
        Path,
        typer.Argument(
            help="Avro schema (.avsc, .json), Protobuf source (.proto), or descriptor set."
        ),
    ],
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            help="For Protobuf: full name of the message. Not needed if there is only one.",
        ),
    ] = None,
    proto_path: Annotated[
        list[Path] | None,
        typer.Option(
            "--proto-path", help="Directory in which protoc looks for imports. May be repeated."
        ),
    ] = None,
) -> int:
    """Set the schema of a topic. A .proto file is compiled by protoc, which must be installed."""
    kind, definition = _definition_of(file, proto_path or [])
    order = {"kind": kind, "definition": definition, "message": message}
    async with RestClient(target) as client:
        found = await client.call("PUT", _path(topic), _Schema, content=msgspec.json.encode(order))
    screen.notice(f"the console decodes bodies of {found.topic} as {found.encoding}")
    return 0


@app.command("delete")
@asks("Delete the schema of topic {topic}?")
async def delete(target: Target, topic: TopicArgument) -> int:
    """Delete the schema of a topic. Its messages stay as they are."""
    async with RestClient(target) as client:
        await client.call("DELETE", _path(topic))
    screen.notice(f"the schema of topic {topic} was deleted")
    return 0


def _definition_of(file: Path, proto_path: list[Path]) -> tuple[SchemaKind, str]:
    """Raises UsageError."""
    if file.suffix == _PROTO:
        return SchemaKind.PROTOBUF, _encoded(_compiled(file, proto_path))
    content = _content_of(file)
    if file.suffix not in _AVRO_SUFFIXES:
        return SchemaKind.PROTOBUF, _encoded(content)
    try:
        return SchemaKind.AVRO, content.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not text") from None


def _compiled(file: Path, proto_path: list[Path]) -> bytes:
    """The descriptor set of a source file, with those that it imports. Raises UsageError."""
    program = shutil.which("protoc")
    if program is None:
        raise UsageError(
            "protoc was not found: install it, or give a descriptor set that it made elsewhere"
        )
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "set"
        paths = [f"--proto_path={each}" for each in (file.parent, *proto_path)]
        command = [program, "--include_imports", f"--descriptor_set_out={made}", *paths, str(file)]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        if ended.returncode:
            first = (ended.stderr.strip().splitlines() or ["it said nothing"])[0]
            raise UsageError(f"protoc failed: {screen.without_controls(first)}")
        return _content_of(made)


def _content_of(file: Path) -> bytes:
    """Raises UsageError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as exc:
        raise UsageError(f"cannot read {file}: {exc.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise UsageError(f"{file} has more than {FILE_BYTES_MAX:,} bytes")
    return content


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _path(topic: str) -> str:
    return f"topics/{quote(topic, safe='')}/schema"
