"""``mqservice definitions``: what is asked, shown and written, and when nothing is done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import Answer, problem, service_double

Json = dict[str, Any]  # Any: a document of the API
PATH = "/v1/ns/-/definitions"
DOCUMENT: Json = {"version": 1, "topics": [{"name": "orders", "queues": 8}], "groups": []}
PREVIEW: Json = {
    "dry_run": True, "created": 1, "changed": 1, "unchanged": 1,
    "topics": [
        {"name": "orders", "action": "changed", "before": {"queues": 4}, "after": {"queues": 8}},
        {"name": "same", "action": "unchanged", "before": {}, "after": {}},
    ],
    "groups": [
        {
            "name": "billing", "action": "created", "before": None,
            "after": {"lease": "1m", "retry": {"policy": "list", "delays": ["1s"]}},
        },
    ],
}  # fmt: skip
SAME: Json = {
    "dry_run": True, "created": 0, "changed": 0, "unchanged": 1,
    "topics": [{"name": "orders", "action": "unchanged", "before": {}, "after": {}}],
    "groups": [],
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(DOCUMENT))
    return str(path)


async def test_an_export_is_written_for_people_to_read_and_compare(tmp_path: Path) -> None:
    async with service_double() as double:
        double.answers += [Answer(200, DOCUMENT), Answer(200, DOCUMENT)]
        ended = await mqservice("definitions", "export", double=double)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.decode() == json.dumps(DOCUMENT, indent=2) + "\n"
        kept = tmp_path / "kept.json"
        named = ("--prefix", "or&ders", "-f", str(kept))
        assert (await mqservice("definitions", "export", *named, double=double)).code == 0
        assert kept.read_bytes() == ended.out
        assert [(each.path, each.query) for each in double.requests] == [
            (PATH, ""),
            (PATH, "prefix=or%26ders"),
        ]


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (("-f", "kept.yaml"), "application/yaml"), (("-f", "kept.YML"), "application/yaml"),
        (("--format", "yaml"), "application/yaml"), ((), "application/json"),
        (("-f", "kept.yaml", "--format", "json"), "application/json"),
    ],
)  # fmt: skip
async def test_the_form_of_an_export_is_said_or_is_that_of_the_file(
    options: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    placed = [str(tmp_path / each) if each.startswith("kept") else each for each in options]
    async with service_double() as double:
        double.answers.append(Answer(200, DOCUMENT))
        assert (await mqservice("definitions", "export", *placed, double=double)).code == 0
        assert [each.headers["accept"] for each in double.requests] == [kind]


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("a.yaml", (), "application/yaml"), ("a.yml", (), "application/yaml"),
        ("a.json", (), "application/json"), ("a.txt", ("--format", "yaml"), "application/yaml"),
        ("a.yaml", ("--format", "json"), "application/json"),
    ],
)  # fmt: skip
async def test_the_form_of_an_import_is_said_or_is_that_of_the_file(
    name: str, options: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text("version: 1\n")
    async with service_double() as double:
        double.answers += [Answer(200, SAME), Answer(200, SAME)]
        ended = await mqservice("definitions", "import", str(file), *options, double=double)
        assert ended.code == 0
        assert [each.headers["content-type"] for each in double.requests] == [kind, kind]
        assert {each.body for each in double.requests} == {b"version: 1\n"}


async def test_an_import_is_shown_asked_for_and_done(file: str) -> None:
    async with service_double() as double:
        double.answers += [Answer(200, PREVIEW), Answer(200, PREVIEW | {"dry_run": False})]
        ended = await mqservice("definitions", "import", file, double=double, stdin=b"y\n")
        assert (ended.code, ended.out) == (0, b""), ended.err
        rows = [line.split() for line in ended.err.splitlines()]
        assert any({"orders", "changed", "queues", "4", "8"} <= set(row) for row in rows)
        assert any({"billing", "created", "lease", "1m"} <= set(row) for row in rows)
        assert "same" not in ended.err
        assert "1 created, 1 changed, 1 unchanged" in ended.err
        assert [(each.method, each.path, each.query) for each in double.requests] == [
            ("POST", f"{PATH}:import", "dry_run=true"),
            ("POST", f"{PATH}:import", ""),
        ]
        assert {each.body for each in double.requests} == {json.dumps(DOCUMENT).encode()}


@pytest.mark.parametrize("answer", [b"n\n", b""])
async def test_without_a_yes_nothing_is_sent_but_the_question(file: str, answer: bytes) -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, PREVIEW))
        ended = await mqservice("definitions", "import", file, double=double, stdin=answer)
        assert (ended.code, ended.out) == (1, b"")
        assert "nothing was changed" in ended.err
        assert [each.query for each in double.requests] == ["dry_run=true"]


async def test_a_dry_run_ends_with_the_preview(file: str) -> None:
    async with service_double() as double:
        double.answers.append(Answer(200, PREVIEW))
        ended = await mqservice(
            "definitions", "import", file, "--dry-run", "-o", "ndjson", double=double
        )
        assert ended.code == 0
        assert "would be: 1 created" in ended.err
        assert json.loads(ended.out)["topics"] == PREVIEW["topics"]
        assert [each.query for each in double.requests] == ["dry_run=true"]


async def test_what_changes_nothing_is_not_asked_about_and_sent_all_the_same(file: str) -> None:
    async with service_double() as double:
        double.answers += [Answer(200, SAME), Answer(200, SAME)]
        ended = await mqservice("definitions", "import", file, double=double)
        assert (ended.code, ended.line) == (0, "0 created, 0 changed, 1 unchanged")
        assert (double.requests[1].path, double.requests[1].query) == (f"{PATH}:import", "")


async def test_a_document_from_standard_input_needs_a_yes_beforehand() -> None:
    async with service_double() as double:
        refused = await mqservice("definitions", "import", "-", double=double, stdin=b"{}")
        assert refused.code != 0
        assert "--yes" in refused.line
        assert double.requests == []
        double.answers += [Answer(200, SAME), Answer(200, SAME)]
        done = await mqservice("definitions", "import", "-", "-y", double=double, stdin=b"{ }")
        assert done.code == 0
        assert double.requests[0].body == b"{ }"


async def test_faults_of_a_document_and_of_a_file_are_reported(file: str) -> None:
    async with service_double() as double:
        double.answers.append(problem(400, "ILLEGAL_SETTING", detail="/topics/0/queues: too many"))
        ended = await mqservice("definitions", "import", file, "-y", double=double)
        assert ended.code != 0
        assert "/topics/0/queues: too many" in ended.line
        absent = await mqservice("definitions", "import", f"{file}.absent", "-y", double=double)
        assert absent.code != 0
        assert "No such file" in absent.line
        assert len(double.requests) == 1
