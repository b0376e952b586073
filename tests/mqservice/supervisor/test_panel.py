"""What a newcomer is shown when the service is ready."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mqservice.supervisor.panel import next_steps, print_panel
from mqservice.supervisor.quickstart import Quickstart

QUICKSTART = Quickstart(
    base_url="http://127.0.0.1:8000",
    own_url="http://127.0.0.1:8000",
    ws_url="ws://127.0.0.1:8000/v1/ws",
    console_url="http://127.0.0.1:8000/",
    engine_metrics_url="",
    namespace="demo",
    topic="orders",
    group="billing",
    api_key="mqk_" + "k" * 50,
    username="admin",
    password="p",
    pids={},
)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with an environment in it that is not on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.delenv("MQ_DATA_DIR", raising=False)
    return tmp_path


def consume_line(data_dir: Path) -> str:
    (line,) = [command for _, command in next_steps(QUICKSTART, data_dir) if "consume" in command]
    return line


def test_commands_are_those_of_this_place(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consume = "consume orders --group billing --ack --count 1"
    assert consume_line(checkout / "var") == f".venv/bin/mqservice {consume}"
    monkeypatch.setenv("MQ_DATA_DIR", "var")  # as make has it: what the program finds by itself
    assert consume_line(checkout / "var") == f".venv/bin/mqservice {consume}"
    elsewhere = checkout / "my data"
    assert consume_line(elsewhere) == f"MQ_DATA_DIR='{elsewhere}' .venv/bin/mqservice {consume}"


def test_an_installed_program_is_called_by_its_name(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = checkout / ".venv/bin/mqservice"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    assert consume_line(checkout / "var").startswith("mqservice consume")


def test_commands_are_printed_in_one_piece(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    print_panel(QUICKSTART, checkout / "var", took_ms=3_100)
    lines = capsys.readouterr().out.splitlines()
    for _, command in next_steps(QUICKSTART, checkout / "var"):
        assert f"    {command}" in lines
    assert "3.1 s" in lines[0]


def test_the_service_outlives_whoever_read_its_first_lines(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering=1) as closed, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", closed)
        print_panel(QUICKSTART, checkout / "var", took_ms=1)  # rich would end the program here
