"""Commands, options, targets and variables that pages name exist, so that no page goes stale."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.check import all_pages
from tests.docs.commands import (
    SHELLS,
    arguments_of,
    command_fault,
    make_targets,
    shell_commands,
    spoken_commands,
    spoken_fault,
    unknown_variables,
)
from tests.docs.markdown import Page


def test_every_command_in_a_fence_is_one_that_the_program_takes() -> None:
    faults, count = [], 0
    for page in all_pages():
        for fence in page.fences:
            for command in shell_commands(fence.text) if fence.language in SHELLS else ():
                arguments = arguments_of(command)
                if arguments is not None:
                    count += 1
                    if (fault := command_fault(arguments)) is not None:
                        faults.append(f"{page.name}:{fence.line}: {' '.join(command)}: {fault}")

    assert faults == []
    assert count > 10


def test_every_command_in_the_prose_exists_with_its_options() -> None:
    spoken = [(page, *each) for page in all_pages() for each in spoken_commands(page)]

    faults = [
        f"{page.name}:{line}: {code}: {fault}"
        for page, line, code, arguments in spoken
        if (fault := spoken_fault(arguments)) is not None
    ]

    assert faults == []
    assert len(spoken) > 30


def test_every_target_of_make_that_a_page_names_exists() -> None:
    targets = make_targets()
    spoken = {
        (page.name, name)
        for page in all_pages()
        for text in (
            *(fence.text for fence in page.fences),
            *(code for _, code in page.inline_code),
        )
        for name in re.findall(r"^make ([a-z][a-z-]*)", text, re.MULTILINE)
    }

    assert {(page, name) for page, name in spoken if name not in targets} == set()
    assert {"run", "test", "docs", "bench-peers"} <= targets


def test_every_variable_that_a_page_names_is_read_somewhere() -> None:
    assert {page.name: names for page in all_pages() if (names := unknown_variables(page))} == {}


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("mqservice topic list", ["topic", "list"]),
        (".venv/bin/mqservice status  # which run", ["status"]),
        ("MQ_PORT=8001 mqservice up", ["up"]),
        ("docker compose exec web mqservice key list", ["key", "list"]),
        ("mqservice browse orders > orders.txt", ["browse", "orders"]),
        ("ls | mqservice produce orders 'a b'", ["produce", "orders", "a b"]),
        ("install x /etc/mqservice", None),
        ("chown mqservice x", None),
    ],
)
def test_what_is_given_to_the_program_is_found(line: str, arguments: list[str] | None) -> None:
    found = [
        each for command in shell_commands(line) if (each := arguments_of(command)) is not None
    ]

    assert found == ([] if arguments is None else [arguments])


@pytest.mark.parametrize(
    "line",
    ["mqservice topic make x", "mqservice topic create", "mqservice topic create x --colour red",
     "mqservice topic create x --queues many", "mqservice nothing"],
)  # fmt: skip
def test_a_command_that_the_program_would_refuse_is_a_fault(line: str) -> None:
    assert command_fault(line.split()[1:]) is not None


def test_a_command_cut_short_may_lack_its_arguments_but_not_be_another(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(
        "`mqservice topic create`, `mqservice key list|burn`, `mqservice usage --perr day`\n"
    )

    faults = [spoken_fault(arguments) for _, _, arguments in spoken_commands(Page(path))]

    assert faults == [None, None, "there is no command 'burn'", "usage has no option --perr"]


def test_a_variable_that_nobody_reads_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("`MQ_PORT`, `MQ_COLOUR`, `MQ_ENGINE_SEGMENT_BYTES`, `MQ_ENGINE_COLOUR`\n")

    assert unknown_variables(Page(path)) == ["MQ_COLOUR", "MQ_ENGINE_COLOUR"]
