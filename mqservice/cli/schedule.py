"""``mqservice schedule``: messages sent repeatedly, at times of a cron expression.

list, show            GET …/schedules… ─▶ stdout: a table, JSON or NDJSON
next                  POST …/schedules:preview ─▶ stdout: a time a line
set, delete           PUT or DELETE …/schedules/{name}
pause, resume, send   POST …/schedules/{name}:pause, :resume, :send
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote, urlencode

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import ClientError, UsageError
from mqservice.cli.options import asks
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.setting_options import Body, takes_settings
from mqservice.cli.tables import Table
from mqservice.cli.target import Target
from mqservice.cli.values import parse_properties
from mqservice.schedules.settings import SETTINGS

app = typer.Typer(
    no_args_is_help=True, help="Schedules: messages sent at times of a cron expression."
)

PAGE_MAX: Final = 100
FILE_BYTES_MAX: Final = 1024 * 1024  # the service takes less, and says how much
_STDIN: Final = Path("-")

NameArgument = Annotated[str, typer.Argument(help="Name of the schedule.")]


class _Run(msgspec.Struct):
    planned_at: str
    message_id: str | None = None
    error: str | None = None


class _Schedule(msgspec.Struct, kw_only=True):
    name: str
    topic: str
    cron: str
    time_zone: str
    state: str
    error: str | None = None
    last_run: _Run | None = None
    next_run_at: str | None = None
    next_runs: list[str] | None = None


class _Page(msgspec.Struct):
    schedules: list[msgspec.Raw]
    next: str | None = None


class _Times(msgspec.Struct):
    next_runs: list[str]


class _Sent(msgspec.Struct):
    id: str


@app.command("list")
async def list_schedules(target: Target, form: FormOption = Output.TABLE) -> int:
    """List the schedules, their next runs, and the results of their last runs."""
    found: list[msgspec.Raw] = []
    table = Table("schedule", "cron", "time zone", "topic", "state", "next run", "last run")
    async with RestClient(target) as client:
        after: str | None = ""
        while after is not None:
            query = urlencode({"limit": PAGE_MAX, "after": after})
            page = await client.call("GET", f"schedules?{query}", _Page)
            for document in page.schedules:
                found.append(document)
                _add(table, msgspec.json.decode(document, type=_Schedule))
            after = page.next
    if not prints(form, found):
        screen.show(table)
    return 0


@app.command("show")
async def show(target: Target, name: NameArgument, form: FormOption = Output.TABLE) -> int:
    """Show one schedule, with its message and its next ten runs."""
    async with RestClient(target) as client:
        content = await client.download(_path(name))
    if prints(form, msgspec.Raw(content)):
        return 0
    facts = Table("", "")
    for field, value in msgspec.json.decode(content, type=dict[str, object]).items():
        facts.add_row(field.replace("_", " "), _text_of(value))
    screen.show(facts)
    return 0


@app.command("next")
async def next_(
    target: Target,
    cron: Annotated[
        str, typer.Argument(help="Cron expression, such as '0 9 * * mon-fri' or @daily.")
    ],
    time_zone: Annotated[
        str, typer.Option("--time-zone", help="Time zone, such as Europe/Berlin.")
    ] = "UTC",
    form: FormOption = Output.TABLE,
) -> int:
    """Show the next runs of a cron expression, without a schedule."""
    content = msgspec.json.encode({"cron": cron, "time_zone": time_zone})
    async with RestClient(target) as client:
        found = await client.call("POST", "schedules:preview", _Times, content=content)
    if not prints(form, found):
        for text in found.next_runs:
            typer.echo(text)
    return 0


@app.command("set")
@takes_settings(SETTINGS)
def set_schedule(
    change: Body,
    target: Target,
    name: NameArgument,
    body: Annotated[str | None, typer.Argument(help="Body of the message, as text.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read the body from this file; - is stdin.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Tag of the message.")] = None,
    keys: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="Key of the message (repeatable).")
    ] = None,
    message_group: Annotated[
        str | None, typer.Option("--message-group", help="Message group of the message.")
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", help="Property, as NAME=VALUE (repeatable)."),
    ] = None,
    queue: Annotated[int | None, typer.Option("--queue", min=0, help="Queue to send to.")] = None,
) -> None:
    """Create a schedule, or change the given settings of it. A body replaces the whole message."""
    try:
        message = _message(
            _body(body, file),
            tag=tag,
            keys=keys,
            message_group=message_group,
            queue=queue,
            properties=parse_properties(properties) if properties else None,
        )
    except ClientError as exc:
        screen.fail(exc)
    if message is not None:
        change["message"] = message
    screen.run(_set(target, name, change))


@app.command("pause")
def pause(target: Target, name: NameArgument) -> None:
    """Pause a schedule until it is resumed."""
    screen.run(_switch(target, name, "pause"))


@app.command("resume")
def resume(target: Target, name: NameArgument) -> None:
    """Resume a schedule from now on; missed runs are not sent."""
    screen.run(_switch(target, name, "resume"))


@app.command("send")
async def send(target: Target, name: NameArgument) -> int:
    """Send a schedule's message once now, in addition to its runs; prints the message's ID."""
    async with RestClient(target) as client:
        sent = await client.call("POST", f"{_path(name)}:send", _Sent)
    typer.echo(sent.id)
    return 0


@app.command("delete")
@asks("Delete schedule {name}?")
async def delete(target: Target, name: NameArgument) -> int:
    """Delete a schedule; messages already sent are not deleted."""
    async with RestClient(target) as client:
        await client.call("DELETE", _path(name))
    screen.notice(f"schedule {name} was deleted")
    return 0


def _add(table: Table, schedule: _Schedule) -> None:
    last = "" if schedule.last_run is None else schedule.last_run.planned_at
    table.add_row(
        screen.without_controls(schedule.name),
        screen.without_controls(schedule.cron),
        schedule.time_zone,
        screen.without_controls(schedule.topic),
        screen.without_controls(": ".join(filter(None, (schedule.state, schedule.error)))),
        schedule.next_run_at or "",
        last,
    )


def _text_of(value: object) -> str:
    """A text as it is, texts a line each, anything else as JSON; nothing for null."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    if value is None or isinstance(value, str):
        return value or ""
    return msgspec.json.encode(value).decode()


async def _set(target: Target, name: str, change: dict[str, object]) -> int:
    async with RestClient(target) as client:
        content = msgspec.json.encode(change)
        schedule = await client.call("PUT", _path(name), _Schedule, content=content)
    _print_schedule(schedule)
    return 0


async def _switch(target: Target, name: str, verb: str) -> int:
    async with RestClient(target) as client:
        _print_schedule(await client.call("POST", f"{_path(name)}:{verb}", _Schedule))
    return 0


def _print_schedule(schedule: _Schedule) -> None:
    following = f", next run at {schedule.next_run_at}" if schedule.next_run_at else ""
    screen.notice(f"schedule {schedule.name} is {schedule.state}{following}")


def _message(content: dict[str, object] | None, **fields: object) -> dict[str, object] | None:
    """``content``: its body; None leaves the whole message as it is. Raises UsageError."""
    given = _without_none(fields)
    if content is None and given:
        raise UsageError("the message is always replaced as a whole: give its body as well")
    return None if content is None else content | given


def _body(text: str | None, file: Path | None) -> dict[str, object] | None:
    """The field of the body that was given; as bytes where it is no text. Raises UsageError."""
    if text is not None and file is not None:
        raise UsageError("give the body either as text or as a file, not both")
    if file is None:
        return None if text is None else {"body": text}
    try:
        if file == _STDIN:
            content = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
        else:
            with file.open("rb") as stream:
                content = stream.read(FILE_BYTES_MAX + 1)
    except OSError as exc:
        raise UsageError(f"cannot read {file}: {(exc.strerror or str(exc)).lower()}") from exc
    if len(content) > FILE_BYTES_MAX:
        raise UsageError(f"{file} is larger than the largest body of a schedule's message")
    try:
        return {"body": content.decode()}
    except UnicodeDecodeError:
        return {"body_b64": base64.b64encode(content).decode()}


def _without_none(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _path(name: str) -> str:
    return f"schedules/{quote(name, safe='')}"
