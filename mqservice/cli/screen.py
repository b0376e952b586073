"""What the commands say: messages for people on stderr, results on stdout.

Nothing that came from the service or from a message reaches a terminal with its control
characters alive, and ``rich`` never reads markup in it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, Final, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from mqservice.cli.errors import ClientError
from mqservice.cli.target import Target, find_target

INTERRUPTED: Final = 130
_CONTROLS: Final = {
    code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))
}

notices = Console(stderr=True, highlight=False, soft_wrap=True)
results = Console(highlight=False)


def harmless(text: str) -> str:
    """``text`` with control characters other than tab and newline spelt out."""
    return text.translate(_CONTROLS)


def notice(text: str) -> None:
    notices.print(escape(harmless(text)))


def warn(text: str) -> None:
    notices.print(f"[yellow]{escape(harmless(text))}[/yellow]")


def is_confirmed(question: str) -> bool:
    """Asked on stderr, so that stdout stays for results; no answer is a no."""
    notices.print(f"{escape(harmless(question))} \\[y/N] ", end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def fail(exc: ClientError) -> NoReturn:
    """Say it in one line and leave with the error's exit code."""
    line = " ".join(harmless(str(exc)).split())
    notices.print(f"[red]error:[/red] {escape(line)}")
    raise typer.Exit(exc.exit_code)


def target_of(base_url: str | None, key: str | None, namespace: str | None) -> Target:
    """Where to go and as whom; says why and leaves when that is not known."""
    try:
        return find_target(base_url, key, namespace)
    except ClientError as exc:
        fail(exc)


def run(work: Coroutine[Any, Any, int]) -> NoReturn:  # reason: nothing is sent to or yielded by it
    """Run a command's coroutine and leave with the exit code it returns."""
    try:
        code = asyncio.run(work)
    except ClientError as exc:
        fail(exc)
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise typer.Exit(code)
