"""Runs a command of the operator on the service's machine, for the commands that need no key."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer


def run_operator_command(data_dir: Path | None, arguments: list[str], **more: str) -> str:
    """What a Django command prints. Exits where it fails, with its words on stderr."""
    # Here, for it costs every other command a part of its start.
    from mqservice.supervisor.config import data_dir_from_env
    from mqservice.supervisor.errors import SupervisorError
    from mqservice.supervisor.operator_commands import run_command

    place = data_dir_from_env(os.environ) if data_dir is None else data_dir.absolute()
    try:
        return run_command(os.environ, place, arguments, **more)
    except SupervisorError as error:
        print(f"mqservice: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
