"""``-o`` of every command that shows something is the same option."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from typer import Context
from typer.main import get_command

from mqservice.cli.main import app
from mqservice.supervisor.data_dir import DataDir, DataDirLock
from mqservice.supervisor.quickstart import Quickstart, write_quickstart
from tests.mqservice.cli.commands import mqservice

# Verbs that show something and do nothing besides.
SHOWING = frozenset(
    {
        "list", "show", "lag", "history", "search", "next", "status", "usage", "browse", "clients",
        "trace",
    }
)  # fmt: skip


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Words of each command that has no commands below it."""
    # Any: typer's own classes of commands are not public
    if not hasattr(command, "list_commands"):
        yield path
        return
    context = Context(command)
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), (*path, name))


def test_every_command_that_shows_something_has_it() -> None:
    tree = get_command(app)
    showing = [path for path in commands(tree) if path[-1] in SHOWING]
    assert ("topic", "list") in showing
    for path in showing:
        if path != ("browse",):  # bodies have forms besides
            assert choices_of(tree, path) == ["table", "json", "ndjson"], path
    assert {"json", "ndjson"} < set(choices_of(tree, ("browse",)))


def choices_of(command: Any, path: tuple[str, ...]) -> list[str]:
    """What ``-o`` of the command takes."""
    for name in path:
        command = command.get_command(Context(command), name)
    [option] = [each for each in command.params if "-o" in each.opts]
    return str(option.metavar).split("|")


async def test_status_says_the_same_as_table_and_as_json(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "data")
    data_dir.create()
    lock = DataDirLock(data_dir)
    lock.acquire()
    facts = Quickstart(
        base_url="http://127.0.0.1:1", ws_url="", console_url="", namespace="demo", topic="orders",
        group="billing", api_key="k", username="admin", password="p",
        pids={"engine": os.getpid(), "web-1": 2**22 + 1},
    )  # fmt: skip
    write_quickstart(data_dir.quickstart, facts)
    try:
        table = await mqservice("status", MQ_DATA_DIR=str(data_dir.path))
        document = await mqservice("status", "-o", "json", MQ_DATA_DIR=str(data_dir.path))
    finally:
        lock.release()
    assert (table.code, document.code) == (1, 1)
    rows = [line.split() for line in table.out.decode().splitlines()]
    assert rows[1:3] == [["engine", str(os.getpid()), "up"], ["web-1", str(2**22 + 1), "down"]]
    found = msgspec.json.decode(document.out)
    assert [each["is_up"] for each in found["processes"]] == [True, False]
    assert not found["is_ready"]
    assert "no response" in found["readiness"]
