"""``mqservice engine verify``: shows the results of the engine's checker, run as its own process.

storage_engine.tools.verify STORE ── lines of JSON ──▶ [progress bar], then [the report]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Annotated

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.long_work import progress_bar
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.supervisor.config import data_dir_from_env
from mqservice.supervisor.data_dir import DataDir
from storage_engine.tools.verify.report import Progress, Report, lines


def verify(
    store: Annotated[
        Path | None,
        typer.Argument(help="Directory of the store; by default that of MQ_DATA_DIR, or of ./var."),
    ] = None,
    form: FormOption = Output.TABLE,
    index_slots: Annotated[
        int | None,
        typer.Option(min=1, help="Slots of an index file, where its size does not tell."),
    ] = None,
) -> None:
    """Check every record, queue, index entry and offset of a store, without changing it.

    Exit code 0: clean; 1: findings; 2: it cannot be read.
    """
    place = store if store is not None else DataDir(data_dir_from_env(os.environ)).store
    command = [sys.executable, "-m", "storage_engine.tools.verify", "--json", "--progress"]
    command += [f"--index-slots={index_slots}"] if index_slots else []
    with subprocess.Popen([*command, "--", str(place)], stdout=subprocess.PIPE) as checker:
        assert checker.stdout is not None
        try:
            last = _follow(checker.stdout)
        except KeyboardInterrupt:
            checker.terminate()
            raise
        code = checker.wait()
    if last and not prints(form, msgspec.Raw(last)):
        for line in lines(msgspec.json.decode(last, type=Report)):
            typer.echo(screen.without_controls(line))
    raise typer.Exit(code)


def _follow(source: IO[bytes]) -> bytes:
    """Draw the steps, on a terminal; the line that is none of them."""
    last = b""
    with progress_bar("log") as on_progress:
        for line in source:
            try:
                step = msgspec.json.decode(line, type=Progress)
            except msgspec.ValidationError:
                last = line
            else:
                on_progress(step.done_bytes, step.total_bytes)
    return last
