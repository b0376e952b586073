"""``mqservice report``: list reports, download their files, and request runs.

run        POST reports:run ─▶ the run's id on stdout; --wait: asked for until it has ended
list       GET reports ─▶ stdout: a table
download   GET reports/NAME.csv, daily.html ─▶ stdout, or a file that is there whole or not at all
recipients GET, PUT reports/recipients ─▶ stdout: an address a line
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote, urlencode

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import UsageError
from mqservice.cli.outputs import FAILED, FileOption, FormOption, Output, prints, write_output
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer(no_args_is_help=True, help="Nightly reports.")

POLL_PAUSE_S: Final = 1.0
PAGE: Final = "page"
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


class Recipients(msgspec.Struct, frozen=True, kw_only=True):
    emails: list[str]
    are_owners: bool
    is_mail_on: bool


@app.command("run")
async def run(
    target: Target,
    from_date: Annotated[str, typer.Option("--from", metavar="DATE", help="First day.")],
    to_date: Annotated[str, typer.Option("--to", metavar="DATE", help="Day after the last day.")],
    is_waited_for: Annotated[
        bool, typer.Option("--wait", "-w", help="Wait until the run has finished.")
    ] = False,
) -> int:
    """Request the reports of a range of days; existing ones are replaced."""
    order = msgspec.json.encode({"from": from_date, "to": to_date})
    async with RestClient(target) as client:
        made = await client.call("POST", "reports:run", Run, content=order)
        typer.echo(made.id)
        said = ""
        while is_waited_for and made.state in ACTIVE_STATES:
            await asyncio.sleep(POLL_PAUSE_S)
            made = await client.call("GET", f"reports/runs/{made.id}", Run)
            state = f"{made.state} {made.done}/{made.total} {made.step}".strip()
            if state != said:
                screen.notice(state)
            said = state
    if made.state == "failed":
        screen.warn(f"the run failed after {made.attempts} attempts: {made.error}")
        return FAILED
    return 0


@app.command("list")
async def list_reports(target: Target, form: FormOption = Output.TABLE) -> int:
    """List the reports and their days."""
    async with RestClient(target) as client:
        found = await client.call("GET", "reports", ReportList)
    if prints(form, found.reports):
        return 0
    table = Table("report", "says", "from", "to", "days")
    for each in found.reports:
        row = each.from_date or "-", each.to_date or "-", str(each.days)
        table.add_row(each.name, each.title, *row)
    screen.show(table)
    screen.notice(f"made at {found.at} ({found.zone})" if found.at else "nightly reports are off")
    if found.why_none:
        screen.warn(f"there is no report of the last night: {found.why_none}")
    return 0


@app.command("download")
def download(
    target: Target,
    name: Annotated[
        str, typer.Argument(help="A report, such as dlq_daily, as CSV; or page: one day as HTML.")
    ],
    from_date: Annotated[
        str | None, typer.Option("--from", metavar="DATE", help="First day; by default the newest.")
    ] = None,
    to_date: Annotated[
        str | None, typer.Option("--to", metavar="DATE", help="Day after the last day.")
    ] = None,
    file: FileOption = None,
) -> None:
    """Download a report: rows for a range of days, or one day as a page."""
    if name == PAGE:
        if to_date is not None:
            screen.fail(UsageError("a page covers one day: give only --from"))
        path, given = "reports/daily.html", {"date": from_date}
    else:
        path, given = f"reports/{quote(name, safe='')}.csv", {"from": from_date, "to": to_date}
    query = urlencode({field: value for field, value in given.items() if value is not None})
    screen.run(_download(target, f"{path}?{query}" if query else path, file))


@app.command("recipients")
async def recipients(
    target: Target,
    emails: Annotated[
        list[str] | None, typer.Argument(help="New addresses; without any, print the current ones.")
    ] = None,
    are_owners: Annotated[
        bool, typer.Option("--owners", help="Send to the owners of the tenant again.")
    ] = False,
    is_nobody: Annotated[bool, typer.Option("--nobody", help="Nobody.")] = False,
) -> int:
    """Show or set who gets the nightly summary by email."""
    if bool(emails) + are_owners + is_nobody > 1:
        screen.fail(UsageError("give only one of addresses, --owners and --nobody"))
    order: bytes | None = None
    if emails or are_owners or is_nobody:
        order = msgspec.json.encode({"emails": None if are_owners else emails or []})
    async with RestClient(target) as client:
        method = "GET" if order is None else "PUT"
        found = await client.call(method, "reports/recipients", Recipients, content=order)
    for address in found.emails:
        typer.echo(address)
    if found.are_owners:
        screen.notice("the recipients are the owners of the tenant")
    if not found.is_mail_on:
        screen.warn("this service cannot send email: MQ_EMAIL_URL is not set")
    return 0


async def _download(target: Target, path: str, file: Path | None) -> int:
    async with RestClient(target) as client:
        content = await client.download(path)
    return write_output(content, file)
