"""``mqservice engine``: look into store files with the engine's own tools, as own processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from mqservice.cli.verify import verify

app = typer.Typer(no_args_is_help=True, help="Tools for the store's files.")
app.command("verify")(verify)


@app.callback()
def engine() -> None:
    """Tools for the store's files."""


@app.command(
    "dump",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def dump(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file of the store, or a directory of them.")],
) -> None:
    """Print the records, units, entries or settings of store files. They are only read."""
    command = [sys.executable, "-m", "storage_engine.dump", str(file), *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
