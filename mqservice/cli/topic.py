"""``mqservice topic``: create, list, show, change, purge and delete topics of a namespace."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import UsageError
from mqservice.cli.options import SureOption, asks
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.setting_options import Body, takes_settings
from mqservice.cli.tables import Table
from mqservice.cli.target import Target
from mqservice.topics.settings import SETTINGS

app = typer.Typer(no_args_is_help=True, help="Create, list, show, change, purge and delete topics.")


class Queue(msgspec.Struct):
    """The readable range of one queue is [min_offset, max_offset)."""

    queue: int
    min_offset: int
    max_offset: int


class TopicDetail(msgspec.Struct, kw_only=True):
    """A topic as the service shows it; ``queue_offsets`` is None where they are unknown."""

    name: str
    namespace: str = ""
    type: str
    queues: int
    durability: str
    retention: str
    retention_ms: int
    body_bytes_max: int
    created_at: str
    updated_at: str
    queue_offsets: list[Queue] | None = None


@app.command("create")
@takes_settings(SETTINGS)
def create(
    body: Body,
    target: Target,
    name: Annotated[str, typer.Argument(help="Up to 64 letters, digits, - and _.")],
) -> None:
    """Create a topic. Creating it again with the same settings changes nothing."""
    screen.run(_put(target, name, body, is_new=True))


@app.command("list")
async def list_topics(target: Target, form: FormOption = Output.TABLE) -> int:
    """List the topics of the namespace."""
    async with RestClient(target) as client:
        topics = await client.topics()
    if prints(form, topics):
        return 0
    table = Table("topic", "queues", "durability", "type")
    for topic in topics:
        table.add_row(topic.name, str(topic.queues), topic.durability, topic.type)
    screen.show(table)
    return 0


@app.command("show")
async def show(
    target: Target,
    name: Annotated[str, typer.Argument(help="Name of the topic.")],
    form: FormOption = Output.TABLE,
) -> int:
    """Show the settings of a topic and the contents of its queues."""
    async with RestClient(target) as client:
        topic = await client.call("GET", _path(name), TopicDetail)
    if prints(form, topic):
        return 0
    facts = Table("", "")
    for setting, value in (
        ("topic", topic.name),
        ("type", topic.type),
        ("queues", str(topic.queues)),
        ("durability", topic.durability),
        ("retention", topic.retention),
        ("largest body", f"{topic.body_bytes_max:,} bytes"),
        ("created", topic.created_at),
        ("changed", topic.updated_at),
    ):
        facts.add_row(setting, value)
    screen.show(facts)
    if topic.queue_offsets is None:
        screen.warn("the contents of its queues are unknown: the storage engine is not responding")
        return 0
    typer.echo()
    queues = Table("queue", "first offset", "next offset", "messages")
    for each in topic.queue_offsets:
        count = each.max_offset - each.min_offset
        queues.add_row(str(each.queue), str(each.min_offset), str(each.max_offset), str(count))
    screen.show(queues)
    return 0


@app.command("update")
@takes_settings(SETTINGS)
def update(
    body: Body, target: Target, name: Annotated[str, typer.Argument(help="Name of the topic.")]
) -> None:
    """Change an existing topic. Settings that are not given are left unchanged."""
    if not body:
        screen.fail(UsageError("nothing to change: give at least one setting"))
    screen.run(_put(target, name, body, is_new=False))


@app.command("delete")
@asks("Delete topic {name} with its messages?")
async def delete(
    target: Target, name: Annotated[str, typer.Argument(help="Name of the topic.")]
) -> int:
    """Delete a topic with its messages."""
    async with RestClient(target) as client:
        await client.delete_topic(name)
    screen.notice(f"topic {name} was deleted")
    return 0


class _Purged(msgspec.Struct):
    messages: int
    inflight: int
    retries: int

    @property
    def text(self) -> str:
        return (
            f"{self.messages:,} messages and {self.retries:,} retries, "
            f"{self.inflight:,} of them in flight"
        )


@app.command("purge")
async def purge(
    target: Target,
    name: Annotated[str, typer.Argument(help="Name of the topic.")],
    is_sure: SureOption = False,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be deleted.")
    ] = False,
) -> int:
    """Delete all messages of a topic. Shows how many there are, and asks first.

    The topic, its groups, dead letters and scheduled messages stay.
    """
    path = f"topics/{quote(name, safe='')}:purge"
    async with RestClient(target) as client:
        found = await client.call("POST", path, _Purged, content=b'{"dry_run":true}')
        screen.notice(f"topic {name} has {found.text}")
        if is_dry_run:
            return 0
        if not is_sure:
            typer.confirm("Delete them all, for every group?", abort=True, err=True)
        done = await client.call("POST", path, _Purged)
    screen.notice(f"topic {name} is empty: {done.text} were deleted")
    return 0


async def _put(target: Target, name: str, body: Body, *, is_new: bool) -> int:
    async with RestClient(target) as client:
        if not is_new:
            await client.call("GET", _path(name), TopicDetail)  # a change does not make a topic
        content = msgspec.json.encode(body)
        topic = await client.call("PUT", _path(name), TopicDetail, content=content)
    did = f"with {topic.queues} queues was created" if is_new else "was changed"
    screen.notice(f"topic {topic.name} {did}")
    return 0


def _path(name: str) -> str:
    return f"topics/{quote(name, safe='')}"
