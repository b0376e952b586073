"""What the user sees after everything has started."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from mqservice.supervisor.quickstart import Quickstart, curl_line


class _Screen(Console):
    """One whose reader may go away: rich would end the program then, and the service with it."""

    def on_broken_pipe(self) -> None:
        # What is buffered cannot be written either, and would fail once more at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_panel(quickstart: Quickstart, data_dir: Path, *, took_ms: int) -> None:
    """Addresses, log-in and key in a frame; what to do next below it."""
    console = _Screen(highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("Console", quickstart.console_url)
    table.add_row("Log in", f"{quickstart.username} / {quickstart.password}")
    table.add_row("REST", f"{quickstart.base_url}/v1")
    table.add_row("WebSocket", quickstart.ws_url)
    table.add_row("API key", quickstart.api_key)
    table.add_row(
        "Demo",
        f"namespace {quickstart.namespace}, topic {quickstart.topic}, group {quickstart.group}",
    )
    title = f"mqservice is ready ({took_ms / 1000:.1f} s)"
    try:
        console.print(Panel(table, title=title, expand=False, border_style="green"))
        console.print("Next:", style="bold")
        for what, command in next_steps(quickstart, data_dir):
            console.print(f"\n  {what}")
            # Soft wrapping leaves a command in one piece, for pasting.
            console.print(f"    {command}", soft_wrap=True, markup=False)
        console.print("\nLogs of the processes are in", str(data_dir / "log"), style="dim")
        console.print("Ctrl-C stops the service cleanly.", style="dim")
    except OSError:
        return  # nobody reads our output; quickstart.json has the same facts


def next_steps(quickstart: Quickstart, data_dir: Path) -> list[tuple[str, str]]:
    """What a newcomer does, each with a command that works when pasted into another terminal there,
    or an address.
    """
    program = _program(data_dir)
    consume = f"consume {quickstart.topic} --group {quickstart.group} --ack --count 1"
    return [
        ("Send a message", f"{program} produce {quickstart.topic} 'hello, queue'"),
        ("Receive it and acknowledge it", f"{program} {consume}"),
        ("Send one over HTTP, as a program would", curl_line(quickstart)),
        ("See it in the console, signed in as above", quickstart.console_url),
        ("Read about the API and try it", f"{quickstart.base_url}/docs"),
    ]


def _program(data_dir: Path) -> str:
    """The command line as it is called here, with the data directory unless it finds that."""
    own = Path(sys.executable).with_name("mqservice")
    found = shutil.which("mqservice")
    if found is not None and Path(found) == own:
        program = "mqservice"
    else:
        program = str(own.relative_to(Path.cwd())) if own.is_relative_to(Path.cwd()) else str(own)
    if data_dir == Path.cwd() / "var":
        return shlex.quote(program)
    return f"MQ_DATA_DIR={shlex.quote(str(data_dir))} {shlex.quote(program)}"
