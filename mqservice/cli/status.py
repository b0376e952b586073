"""``mqservice status`` and ``mqservice stop``: show or stop a running service."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.supervisor.config import data_dir_from_env
from mqservice.supervisor.data_dir import DataDir, find_owner_pid
from mqservice.supervisor.quickstart import find_quickstart

STOP_WAIT_S: Final = 90  # the sum of the supervisor's own limits, with some room
POLL_WAIT_S: Final = 0.1
READY_TIMEOUT_MS: Final = 5_000

DataDirOption = Annotated[
    Path | None,
    typer.Option(help="The service's data directory; by default MQ_DATA_DIR, or ./var."),
]


class ProcessStatus(msgspec.Struct, frozen=True):
    name: str
    pid: int
    is_up: bool


class ServiceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """``readiness`` is what /readyz said, or why it said nothing."""

    base_url: str
    is_ready: bool
    readiness: str
    processes: list[ProcessStatus]


def status(data_dir: DataDirOption = None, form: FormOption = Output.TABLE) -> None:
    """Show the processes and whether the service is ready; the exit code is 0 only when it is."""
    place = _data_dir(data_dir)
    pid = find_owner_pid(place)
    if pid is None:
        print(f"mqservice: no service is running in {place.path}", file=sys.stderr)
        raise typer.Exit(1)
    quickstart = find_quickstart(place.quickstart)
    if quickstart is None:
        print(f"mqservice: process {pid} is still starting the service", file=sys.stderr)
        raise typer.Exit(1)
    processes = [
        ProcessStatus(name, child_pid, Path(f"/proc/{child_pid}").exists())
        for name, child_pid in quickstart.pids.items()
    ]
    is_ready, answer = _get_readiness(quickstart.base_url)
    found = ServiceStatus(
        base_url=quickstart.base_url, is_ready=is_ready, readiness=answer, processes=processes
    )
    if not prints(form, found):
        table = Table("process", "pid", "state")
        for each in processes:
            table.add_row(each.name, str(each.pid), "up" if each.is_up else "down")
        screen.show(table)
        typer.echo(f"{quickstart.base_url}/readyz: {answer}")
    raise typer.Exit(0 if is_ready else 1)


def stop(data_dir: DataDirOption = None) -> None:
    """Stop the service cleanly, and wait until it has stopped."""
    place = _data_dir(data_dir)
    pid = find_owner_pid(place)
    if pid is None:
        print(f"mqservice: no service is running in {place.path}")
        return
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it ended in between
    except PermissionError:
        print(f"mqservice: process {pid} belongs to another user", file=sys.stderr)
        raise typer.Exit(1) from None
    deadline = time.monotonic() + STOP_WAIT_S
    while find_owner_pid(place) == pid:
        if time.monotonic() > deadline:
            print(f"mqservice: process {pid} did not stop within {STOP_WAIT_S} s", file=sys.stderr)
            raise typer.Exit(1)
        time.sleep(POLL_WAIT_S)
    print(f"mqservice: stopped (process {pid})")


def _data_dir(given: Path | None) -> DataDir:
    return DataDir(given.absolute() if given is not None else data_dir_from_env(os.environ))


def _get_readiness(base_url: str) -> tuple[bool, str]:
    """Whether the service says it is ready, and its words."""
    # Here, for it costs every other command a part of its start.
    from mqservice.cli.http import Connections, HttpError, Response

    async def ask() -> Response:
        # The service is asked directly, whatever proxy the environment names for the world outside.
        connections = Connections(
            base_url,
            headers={},
            connections_max=1,
            connect_timeout_ms=READY_TIMEOUT_MS,
            may_use_proxy=False,
        )
        try:
            return await connections.request("GET", "/readyz", timeout_ms=READY_TIMEOUT_MS)
        finally:
            await connections.aclose()

    try:
        answer = asyncio.run(ask())
    except HttpError as error:
        return False, f"no response ({error})"
    return answer.is_success, f"{answer.status} {answer.content.decode('utf-8', 'replace').strip()}"
