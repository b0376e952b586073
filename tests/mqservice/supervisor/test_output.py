"""Lines of the children on a terminal, in a pipe and in the log files."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from mqservice.supervisor.output import Output, readable

LOGGED = '{"at":"2026-11-24T02:00:06.556Z","level":"INFO","logger":"x","message":"Listening"}'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (LOGGED, "Listening"),
        (
            '{"at_ms":1,"level":"warning","logger":"x","message":"disk is full","action":"a",'
            '"free_bytes":12}',
            "WARNING disk is full (free_bytes=12)",
        ),
        (
            '{"level":"ERROR","message":"lost","traceback":"Traceback …","error":"no route"}',
            "ERROR lost (error=no route)",
        ),
        ("plain words", "plain words"),
        ('{"not":"a log line"}', '{"not":"a log line"}'),
        ("[1, 2]", "[1, 2]"),
        ("   ", ""),
    ],
)
def test_a_line_of_a_log_reads_as_a_sentence(line: str, shown: str) -> None:
    assert readable(line) == shown


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_gets_sentences_and_all_else_the_line(is_terminal: bool, tmp_path: Path) -> None:
    console = Terminal() if is_terminal else io.StringIO()
    output = Output(tmp_path, is_quiet=False, console=console)
    output.write("web-1", LOGGED)
    output.write("worker", "")
    output.close()
    shown = console.getvalue()
    if is_terminal:
        assert "web-1" in shown
        assert "\x1b[0m Listening\n" in shown
        assert shown.count("\n") == 1, "nothing for the empty line"
    else:
        assert shown == f"web-1     | {LOGGED}\nworker    | \n"
    assert (tmp_path / "web-1.log").read_text() == f"{LOGGED}\n"
