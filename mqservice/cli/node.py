"""``mqservice node``: runs the engines of shards on this machine, until Ctrl-C."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from mqservice.supervisor.config import config_from_env
from mqservice.supervisor.errors import SupervisorError


def node(
    data_dir: Annotated[
        Path | None, typer.Option(help="Data directory; by default MQ_DATA_DIR, or ./var.")
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Write the output of the processes only to log files."),
    ] = False,
) -> None:
    """Run the engines of the shards that MQ_SHARDS names, and tell DATABASE_URL where they are.

    The rest of the service runs elsewhere.
    """
    # Here, for it costs every other command a third of its start.
    from mqservice.supervisor.node import run_node

    try:
        config = config_from_env(os.environ)
        if data_dir is not None:
            config = dataclasses.replace(config, data_dir=data_dir.absolute())
        exit_code = run_node(config, os.environ, is_quiet=quiet)
    except SupervisorError as error:
        print(f"mqservice: {error}", file=sys.stderr)
        exit_code = error.exit_code
    raise typer.Exit(exit_code)
