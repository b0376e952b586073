"""``mqservice report``: what reports there are, and runs by hand.

run    POST reports:run ─▶ the run's id on stdout; --wait: asked for until it has ended
list   GET reports ─▶ stdout: a table
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import msgspec
import typer
from rich.table import Table

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.target import BaseUrlOption, KeyOption, NamespaceOption, Target

app = typer.Typer(no_args_is_help=True, help="Reports that Spark makes each night.")

FAILED: Final = 1
ASK_PAUSE_S: Final = 1.0
ACTIVE_STATES: Final = frozenset({"pending", "running"})


class Run(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: str
    step: str
    done: int
    total: int
    attempts: int
    complete: bool
    error: str | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    days: int
    from_date: str | None = msgspec.field(name="from")
    to_date: str | None = msgspec.field(name="to")


class ReportList(msgspec.Struct, frozen=True, kw_only=True):
    reports: list[Report]
    at: str | None
    zone: str
    why_none: str | None


@app.command("run")
def run(
    from_date: Annotated[str, typer.Option("--from", metavar="DATE", help="First day.")],
    to_date: Annotated[str, typer.Option("--to", metavar="DATE", help="The day after the last.")],
    is_waited_for: Annotated[
        bool, typer.Option("--wait", "-w", help="Until it has ended.")
    ] = False,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Make the reports of a range of days, again where there are some."""
    target = screen.target_of(base_url, key, namespace)
    screen.run(_run(target, from_date, to_date, is_waited_for=is_waited_for))


@app.command("list")
def list_reports(
    base_url: BaseUrlOption = None, key: KeyOption = None, namespace: NamespaceOption = None
) -> None:
    """Show which reports there are, and of which days."""
    screen.run(_list(screen.target_of(base_url, key, namespace)))


async def _run(target: Target, from_date: str, to_date: str, *, is_waited_for: bool) -> int:
    order = msgspec.json.encode({"from": from_date, "to": to_date})
    async with RestClient(target) as client:
        made = await client.call("POST", "reports:run", Run, content=order)
        typer.echo(made.id)
        said = ""
        while is_waited_for and made.state in ACTIVE_STATES:
            await asyncio.sleep(ASK_PAUSE_S)
            made = await client.call("GET", f"reports/runs/{made.id}", Run)
            state = f"{made.state} {made.done}/{made.total} {made.step}".strip()
            if state != said:
                screen.notice(state)
            said = state
    if made.state == "failed":
        screen.warn(f"the run failed after {made.attempts} attempts: {made.error}")
        return FAILED
    return 0


async def _list(target: Target) -> int:
    async with RestClient(target) as client:
        found = await client.call("GET", "reports", ReportList)
    table = Table("report", "says", "from", "to", "days")
    for each in found.reports:
        row = each.from_date or "-", each.to_date or "-", str(each.days)
        table.add_row(each.name, each.title, *row)
    screen.results.print(table)
    screen.notice(f"made at {found.at} ({found.zone})" if found.at else "nightly reports are off")
    if found.why_none:
        screen.warn(f"the last night has none: {found.why_none}")
    return 0
