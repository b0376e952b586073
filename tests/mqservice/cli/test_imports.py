"""Commands load what they need and no more, for loading is most of what they cost."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

import pytest

# What costs tens of milliseconds each, and what no command of a client needs.
HEAVY: Final = frozenset(
    {"celery", "channels", "django", "httpx", "numpy", "pydantic", "rich", "urllib.request",
     "websockets", "yaml"}
)  # fmt: skip
PROGRAM: Final = """
import json, sys
from mqservice.cli.main import app
sys.argv = ["mqservice", *json.loads(sys.argv[1])]
try:
    app()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends. Nobody listens at the address."""
    environ = {
        "MQ_BASE_URL": "http://127.0.0.1:1",
        "MQ_API_KEY": "mqk_none",
        "XDG_CONFIG_HOME": "/nonexistent",
    }
    command = [sys.executable, "-c", PROGRAM, json.dumps(arguments)]
    ended = subprocess.run(command, env=environ, capture_output=True, check=False)
    return set(json.loads(ended.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("topic", "list"),
        ("topic", "create", "--help"),
        ("group", "lag", "g"),
        ("produce", "orders", "hello", "--batch", "10"),
        ("browse", "orders", "--limit", "3"),
        ("profile", "list", "-o", "json"),
        ("shard", "split", "--help"),
        ("status",),
    ],
)
def test_a_command_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    modules = loaded(*arguments)

    assert "typer" in modules
    assert modules & HEAVY == set()


def test_a_command_loads_no_other_command() -> None:
    modules = loaded("topic", "list")

    commands = {"alert", "consume", "dlq", "group", "produce", "schedule", "up"}
    assert "mqservice.cli.topic" in modules
    assert modules & {f"mqservice.cli.{name}" for name in commands} == set()


def test_consume_alone_loads_what_websockets_need() -> None:
    assert "websockets" in loaded("consume", "orders", "--group", "g")
