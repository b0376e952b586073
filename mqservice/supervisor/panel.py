"""What the user sees once everything runs."""

from __future__ import annotations

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from mqservice.supervisor.quickstart import Quickstart, curl_line


def print_panel(quickstart: Quickstart, *, took_ms: int) -> None:
    """Addresses, log-in and key in a frame; the curl line outside of it, for pasting."""
    console = Console(highlight=False)
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
        console.print("Send a first message:\n", style="bold")
        # Without soft wrapping rich would break the command into lines of the terminal's width.
        console.print(f"  {curl_line(quickstart)}\n", soft_wrap=True, markup=False)
        console.print("Stop with Ctrl-C or `make stop`.", style="dim")
    except OSError:
        return  # nobody reads our output; quickstart.json has the same facts
