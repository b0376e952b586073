"""``mqservice engine``: look into store files with the engine's own tool, as its own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Tools for the store's files.")


@app.callback()
def engine() -> None:
    """Tools for the store's files."""


@app.command(
    "dump",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def dump(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A commit log, consume queue or index file.")],
) -> None:
    """Print the records, units or index entries of a store file. It is only read."""
    command = [sys.executable, "-m", "storage_engine.dump", str(file), *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
