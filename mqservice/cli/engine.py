"""``mqservice engine``: inspect and repair store files with the engine's own tools, run as
separate processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from mqservice.cli.verify import verify
from mqservice.supervisor.config import data_dir_from_env
from mqservice.supervisor.data_dir import DataDir

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
    file: Annotated[
        Path, typer.Argument(help="A file of the store, or a directory of such files.")
    ],
) -> None:
    """Print the records, units, entries or settings of store files, without changing them."""
    command = [sys.executable, "-m", "storage_engine.tools.dump", str(file), *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


@app.command("repair")
def repair(
    cut_at: Annotated[
        int,
        typer.Option(
            "--cut-at",
            min=0,
            help="Offset at which the log will end, as named in the engine's error.",
        ),
    ],
    store: Annotated[
        Path | None,
        typer.Argument(help="Directory of the store; by default that of MQ_DATA_DIR, or of ./var."),
    ] = None,
) -> None:
    """Cut off the end of a stopped store's log. What is cut off is kept in files beside it.

    Exit code 0: done; 2: it cannot be done; 3: an engine or a broker has the store open.
    """
    place = store if store is not None else DataDir(data_dir_from_env(os.environ)).store
    command = [
        sys.executable,
        "-m",
        "storage_engine.tools.repair",
        f"--cut-at={cut_at}",
        "--",
        str(place),
    ]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
