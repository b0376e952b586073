"""``mqservice up``: runs the whole service in the foreground, until Ctrl-C."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from mqservice.supervisor.config import PORT_MAX, config_from_env
from mqservice.supervisor.errors import SupervisorError


def up(
    data_dir: Annotated[
        Path | None, typer.Option(help="Data directory; by default MQ_DATA_DIR, or ./var.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=PORT_MAX, help="Public port; by default MQ_PORT, or 8000."),
    ] = None,
    workers: Annotated[
        bool,
        typer.Option(
            "--workers",
            help="Run the scheduler and each kind of background work in its own process.",
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Write the output of the processes only to log files."),
    ] = False,
) -> None:
    """Start the whole service and supervise it.

    Without DATABASE_URL and VALKEY_URL, PostgreSQL and Valkey are started too.
    """
    # Here, for it costs every other command a third of its start.
    from mqservice.supervisor.supervisor import run_service

    try:
        config = config_from_env(os.environ)
        if data_dir is not None:
            config = dataclasses.replace(config, data_dir=data_dir.absolute())
        if port is not None:
            config = dataclasses.replace(config, port=port)
        if workers:
            config = dataclasses.replace(config, has_separate_workers=True)
        exit_code = run_service(config, os.environ, is_quiet=quiet)
    except SupervisorError as error:
        print(f"mqservice: {error}", file=sys.stderr)
        exit_code = error.exit_code
    raise typer.Exit(exit_code)
