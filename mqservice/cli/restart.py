"""``mqservice restart``: replaces processes of a running service, one after the other."""

from __future__ import annotations

import asyncio
import os
import sys
from enum import StrEnum
from typing import Annotated

import typer

from mqservice.cli import screen
from mqservice.cli.status import DataDirOption


class Kind(StrEnum):
    """Which processes; the databases are not among them."""

    ALL = "all"
    WEB = "web"
    CLOCK = "clock"
    WORKER = "worker"
    ANALYTICS = "analytics"
    BEAT = "beat"
    ENGINE = "engine"


def restart(
    kind: Annotated[Kind, typer.Argument(help="Which processes of `mqservice up` to restart.")],
    data_dir: DataDirOption = None,
) -> None:
    """Restart processes of the running service, each after the previous one is ready.

    Clients of WebSockets are told to come back; with two or more web processes the others take
    connections meanwhile. While the engine is away requests are answered 503, to be repeated.
    """
    # Here, for it costs every other command a part of its start.
    from mqservice.supervisor.config import data_dir_from_env
    from mqservice.supervisor.data_dir import DataDir
    from mqservice.supervisor.errors import SupervisorError
    from mqservice.supervisor.restarting import restart as replace

    place = DataDir(data_dir_from_env(os.environ) if data_dir is None else data_dir.absolute())
    try:
        asyncio.run(replace(place, kind.value, say=screen.notice))
    except SupervisorError as error:
        print(f"mqservice: {error}", file=sys.stderr)
        raise typer.Exit(error.exit_code) from None
