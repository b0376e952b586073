"""``mqservice message``: what happened to one message, and its state for each group.

message trace ID ─▶ GET messages/{id}/trace ─▶ stdout: a line an event, then a table, or JSON
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlencode

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer(no_args_is_help=True, help="Show what happened to a message.")


class Event(msgspec.Struct, kw_only=True):
    """What happened to the message; None where it does not belong to that."""

    event: str
    at: str
    topic: str | None = None
    queue: int | None = None
    offset: int | None = None
    group: str | None = None
    attempt: int | None = None
    consumer: str | None = None
    reason: str | None = None
    delivered_at: str | None = None
    due_at: str | None = None


class GroupState(msgspec.Struct, kw_only=True):
    """What the message is to a group."""

    group: str
    topic: str
    state: str
    attempts: int
    consumer: str | None = None
    lease_until: str | None = None
    client_id: str | None = None
    due_at: str | None = None


class Trace(msgspec.Struct, kw_only=True):
    id: str
    events: list[Event]
    groups: list[GroupState]
    is_complete: bool = True


@app.callback()
def message() -> None:
    """Show what happened to a message."""


@app.command("trace")
async def trace(
    target: Target,
    message_id: Annotated[
        str, typer.Argument(metavar="ID", help="ID of the message, as printed by produce.")
    ],
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Only search this topic, which is faster.")
    ] = None,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only this group.")] = None,
    form: FormOption = Output.TABLE,
) -> int:
    """Show what happened to a message, and its state for each group."""
    conditions = {"topic": topic, "group": group}
    query = {name: value for name, value in conditions.items() if value is not None}
    path = f"messages/{quote(message_id, safe='')}/trace"
    if query:
        path += f"?{urlencode(query)}"
    async with RestClient(target) as client:
        found = await client.call("GET", path, Trace)
    if prints(form, found):
        return 0
    for event in found.events:
        typer.echo(screen.without_controls(_line(event)))
    if found.groups:
        _show_groups(found.groups)
    if not found.is_complete:
        screen.warn("this may be incomplete: there are too many events, or the newest are missing")
    return 0


def _line(event: Event) -> str:
    """When, what, and all that is known of it, in one line."""
    parts = [event.at, f"{event.event.replace('_', ' '):<16}"]
    if event.group is not None:
        parts.append(f"group {event.group}")
    if event.topic is not None:
        place = "" if event.queue is None else f" {event.queue}:{event.offset}"
        parts.append(f"topic {event.topic}{place}")
    if event.attempt is not None:
        parts.append(f"attempt {event.attempt}")
    if event.consumer is not None:
        parts.append(f"by {event.consumer}")
    if event.delivered_at is not None:
        parts.append(f"delivered {event.delivered_at}")
    if event.due_at is not None:
        parts.append(f"due {event.due_at}")
    if event.reason is not None:
        parts.append(" ".join(event.reason.splitlines()))
    return "  ".join(parts)


def _show_groups(groups: list[GroupState]) -> None:
    table = Table("group", "topic", "state", "attempts", "consumer", "until")
    for group in groups:
        client = "" if group.client_id is None else f", client {group.client_id}"
        table.add_row(
            group.group + client,
            group.topic,
            group.state.replace("_", " "),
            str(group.attempts),
            screen.without_controls(group.consumer or "-"),
            group.lease_until or group.due_at or "-",
        )
    screen.show(table)
