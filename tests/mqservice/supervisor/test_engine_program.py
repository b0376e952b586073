"""Lines to and from a program, and how it ended."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from mqservice.supervisor.engine_program import EngineProgram
from storage_engine.tools.program_lines import Line, ProgressLine

LINES = (
    '{"say": "step", "done_bytes": 1, "total_bytes": 2}',
    '{"say": "greeting", "text": "hello"}',
)
steps: list[tuple[int, int]] = []


class Greeting(Line, frozen=True, kw_only=True, tag="greeting"):
    text: str


class Failed(Exception):
    pass


def program(directory: Path, lines: tuple[str, ...], end: str) -> EngineProgram[Greeting]:
    """One that prints the lines, waits for one, and ends."""
    text = "".join(f"print({line!r}, flush=True)\n" for line in lines)
    (directory / "greeter.py").write_text(f"import sys\n{text}input()\n{end}\n")
    steps.clear()
    return EngineProgram(
        "greeter",
        [],
        env={**os.environ, "PYTHONPATH": str(directory)},
        lines=msgspec.json.Decoder(Greeting | ProgressLine),
        on_progress=lambda done, total: steps.append((done, total)),
        error=lambda code, words: Failed(f"{code}: {words}"),
    )


def test_progress_is_told_and_other_lines_are_returned(tmp_path: Path) -> None:
    with program(tmp_path, LINES, "") as greeter:
        assert greeter.expect(Greeting).text == "hello"
        assert steps == [(1, 2)]
        greeter.send(Greeting(text="you may end"))
        greeter.end()


def test_a_program_that_ends_badly_after_its_last_line_has_failed(tmp_path: Path) -> None:
    with program(tmp_path, LINES, "sys.exit('no room')") as greeter:
        greeter.receive()
        greeter.send(Greeting(text="you may end"))
        with pytest.raises(Failed, match="1: no room"):
            greeter.end()


def test_a_program_that_ends_before_it_says_anything_has_failed(tmp_path: Path) -> None:
    with program(tmp_path, (), "sys.exit(2)") as greeter:
        greeter.send(Greeting(text="you may end"))
        with pytest.raises(Failed, match="2: it ended with exit code 2, with no words"):
            greeter.receive()
