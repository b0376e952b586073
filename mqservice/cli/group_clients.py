"""``mqservice group clients``: the current consumers of a group, and which queues each of them
has.
"""

from __future__ import annotations

from typing import Annotated

import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.rest_groups import GroupClients, TopicClients, group_path
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer()


@app.command("clients")
async def clients(
    target: Target,
    name: Annotated[str, typer.Argument(help="Name of the group.")],
    form: FormOption = Output.TABLE,
) -> int:
    """List the current consumers of a group by topic, last seen first."""
    async with RestClient(target) as client:
        found = await client.call("GET", f"{group_path(name)}/clients", GroupClients)
    if prints(form, found.topics):
        return 0
    if not found.topics:
        screen.notice(f"group {name} has not read any topic yet")
    for topic in found.topics:
        _show(topic)
    return 0


def _show(topic: TopicClients) -> None:
    table = Table("topic", "consumer", "queues", "in flight", "zone", "last seen", "state")
    for client in topic.clients:
        table.add_row(
            topic.topic,
            screen.without_controls(client.shown_name),
            "any" if client.queues is None else ", ".join(map(str, client.queues)) or "none",
            str(client.inflight),
            client.zone or "-",
            client.heard_at,
            "waits" if client.waiting else "away",
        )
    screen.show(table)
    if topic.generation is not None:
        screen.notice(f"{topic.topic}: generation {topic.generation} of the assignment")
    if topic.unassigned:
        queues = ", ".join(map(str, topic.unassigned))
        screen.warn(f"{topic.topic}: no consumer reads queue {queues}")
    if not topic.is_complete:
        screen.warn(f"{topic.topic}: these are the latest; there are more")
