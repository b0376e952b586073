"""Shared by commands that work on files for minutes: one line for a failure, and a progress bar."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

import typer

from mqservice.cli import screen

TERMINATED: Final = 143


@contextlib.contextmanager
def exit_on_error(kind: type[Exception]) -> Iterator[None]:
    """One line for what went wrong: an error of ``kind``, which has an ``exit_code``, or the
    supervisor's. A service manager's SIGTERM ends it as an error does.
    """
    from mqservice.supervisor.errors import SupervisorError

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except (kind, SupervisorError) as error:
        line = " ".join(screen.without_controls(str(error)).split())
        print(f"mqservice: {line}", file=sys.stderr)
        raise typer.Exit(getattr(error, "exit_code", 1)) from None
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, where that is a terminal; gives what takes bytes done and bytes in all."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    # Here, for it costs every other use a third of its start.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn(what),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
