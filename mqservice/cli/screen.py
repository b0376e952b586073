"""What the commands print: messages for people on stderr, results on stdout.

Nothing that came from the service or from a message reaches a terminal with its control
characters alive.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from mqservice.cli.errors import ClientError
from mqservice.cli.tables import Table
from mqservice.cli.target import Target, find_target

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED: Final = 130
_CONTROLS: Final = {
    code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))
}
_RED: Final = "31"
_YELLOW: Final = "33"


def without_controls(text: str) -> str:
    """``text`` with control characters other than tab and newline spelt out."""
    return text.translate(_CONTROLS)


def notice(text: str) -> None:
    print(without_controls(text), file=sys.stderr)


def warn(text: str) -> None:
    print(_coloured(without_controls(text), _YELLOW), file=sys.stderr)


def show(table: Table) -> None:
    """A table that is the command's result."""
    sys.stdout.write(without_controls(table.text()))


def show_on_stderr(table: Table) -> None:
    """A table that is there to be read before answering a question."""
    sys.stderr.write(without_controls(table.text()))


def progress_console() -> Console:
    """Where progress is drawn: stderr. Loads ``rich``, so ask ``is_watched`` first."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def is_watched() -> bool:
    """Whether somebody sees what is drawn on stderr."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def is_confirmed(question: str) -> bool:
    """Asked on stderr, so that stdout stays for results; no answer is a no."""
    print(f"{without_controls(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def fail(exc: ClientError) -> NoReturn:
    """Say it in one line and leave with the error's exit code."""
    print_error(str(exc))
    raise typer.Exit(exc.exit_code)


def print_error(text: str) -> None:
    """One line on stderr, whatever the text holds."""
    line = " ".join(without_controls(text).split())
    print(f"{_coloured('error:', _RED)} {line}", file=sys.stderr)


def target_of(**given: str | None) -> Target:
    """``find_target``; says why and leaves when that is not known."""
    try:
        return find_target(**given)
    except ClientError as exc:
        fail(exc)


def run(work: Coroutine[Any, Any, int]) -> NoReturn:  # reason: nothing is sent to or yielded by it
    """Run a command's coroutine and leave with the exit code it returns."""
    import asyncio

    try:
        code = asyncio.run(work)
    except ClientError as exc:
        fail(exc)
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise typer.Exit(code)


def _coloured(text: str, colour: str) -> str:
    if not is_watched() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"
