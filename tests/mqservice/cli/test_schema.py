"""``mqservice schema``: what is sent for which file, what is shown, and exit codes."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

Json = dict[str, Any]  # Any: documents as the API writes them
PATH = "/v1/ns/-/topics/orders/schema"
_FAILING = "#!/bin/sh\necho 'order.proto:1:1: Expected ;' >&2\nexit 1\n"
# Writes its arguments where a descriptor set is wanted.
_PROTOC = """#!/bin/sh
for each in "$@"; do
  case "$each" in --descriptor_set_out=*) out="${each#*=}" ;; esac
done
printf '%s ' "$@" > "$out"
"""


def schema(**fields: object) -> Json:
    return {
        "topic": "orders", "namespace": "acme", "kind": "avro", "message": None,
        "definition": '"long"', "created_at": "", "updated_at": "", **fields,
    }  # fmt: skip


def program(folder: Path, text: str) -> str:
    """``PATH`` with a protoc that is this script."""
    folder.mkdir()
    (folder / "protoc").write_text(text)
    (folder / "protoc").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("name", "options", "sent"),
    [
        ("order.avsc", (), {"kind": "avro", "definition": '"long"', "message": None}),
        (
            "order.desc",
            ("--message", "shop.Order"),
            {"kind": "protobuf", "definition": "Imxvbmci", "message": "shop.Order"},
        ),
    ],
)
async def test_set_sends_the_definition(
    tmp_path: Path, name: str, options: tuple[str, ...], sent: Json
) -> None:
    file = tmp_path / name
    file.write_text('"long"')
    async with service_double() as double:
        double.answers.append(Answer(201, schema(**sent)))
        ended = await mqservice("schema", "set", "orders", str(file), *options, double=double)
        assert (ended.code, ended.out) == (0, b"")
        assert ended.line.startswith("the console decodes bodies of orders as ")
        (request,) = double.requests
        assert (request.method, request.path) == ("PUT", PATH)
        assert msgspec.json.decode(request.body) == sent


async def test_a_proto_file_is_compiled_with_what_it_imports(tmp_path: Path) -> None:
    file = tmp_path / "order.proto"
    path = program(tmp_path / "bin", _PROTOC)
    async with service_double() as double:
        double.answers.append(Answer(201, schema(kind="protobuf", message="shop.Order")))
        ended = await mqservice(
            "schema", "set", "orders", str(file), "--proto-path", "/more", double=double, PATH=path
        )
        assert ended.line.endswith("as protobuf, message shop.Order")
        (request,) = double.requests
        given = base64.b64decode(msgspec.json.decode(request.body)["definition"]).decode().split()
        assert given[0] == "--include_imports"
        assert given[2:] == [f"--proto_path={tmp_path}", "--proto_path=/more", str(file)]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("absent.avsc", "cannot read"),
        ("large.desc", "has more than 1,048,576 bytes"),
        ("binary.avsc", "is not text"),
        ("order.proto", "protoc failed: order.proto:1:1: Expected ;"),
    ],
)
async def test_a_file_that_is_no_schema_is_not_sent(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "large.desc").write_bytes(bytes(1024 * 1024 + 1))
    (tmp_path / "binary.avsc").write_bytes(b"\xff")
    path = program(tmp_path / "bin", _FAILING)
    async with service_double() as double:
        ended = await mqservice(
            "schema", "set", "orders", str(tmp_path / name), double=double, PATH=path
        )
        assert ended.code == 2
        assert told in ended.line
        assert double.requests == []


async def test_without_protoc_a_descriptor_set_is_asked_for(tmp_path: Path) -> None:
    async with service_double() as double:
        ended = await mqservice(
            "schema", "set", "orders", "order.proto", double=double, PATH=str(tmp_path)
        )
        assert ended.code == 2
        assert "protoc was not found" in ended.line


async def test_show_and_delete() -> None:
    async with service_double() as double:
        found = schema(kind="protobuf", message="shop.Order")
        double.answers += [Answer(200, found), Answer(200, found), Answer(204, None)]
        double.answers.append(problem(404, "SCHEMA_NOT_FOUND", detail="orders has no schema"))
        shown = await mqservice("schema", "show", "orders", double=double)
        assert "protobuf, message shop.Order" in shown.out.decode()
        as_json = await mqservice("schema", "show", "orders", "-o", "json", double=double)
        assert msgspec.json.decode(as_json.out) == found
        deleted = await mqservice("schema", "delete", "orders", "--yes", double=double)
        assert (deleted.code, deleted.line) == (0, "the schema of topic orders was deleted")
        absent = await mqservice("schema", "delete", "orders", "--yes", double=double)
        assert absent.code == 1
        assert "SCHEMA_NOT_FOUND" in absent.line
        assert [(each.method, each.path) for each in double.requests] == [
            ("GET", PATH), ("GET", PATH), ("DELETE", PATH), ("DELETE", PATH),
        ]  # fmt: skip
