"""``mqservice topic``: create, list, purge and delete topics of a namespace."""

from __future__ import annotations

import enum
from typing import Annotated
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.cli.target import BaseUrlOption, KeyOption, NamespaceOption, Target

app = typer.Typer(no_args_is_help=True, help="Create, list, purge and delete topics.")


class Durability(enum.StrEnum):
    SYNC = "sync"
    ASYNC = "async"


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Letters, digits, - and _; up to 64.")],
    queues: Annotated[int, typer.Option("--queues", min=1, help="How many queues.")] = 4,
    durability: Annotated[
        Durability,
        typer.Option("--durability", help="sync: on disk before the answer; async: soon after."),
    ] = Durability.SYNC,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Create a topic. Creating it again with the same settings changes nothing."""
    screen.run(_create(screen.target_of(base_url, key, namespace), name, queues, durability))


@app.command("list")
def list_topics(
    form: FormOption = Output.TABLE,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """List the topics of the namespace."""
    screen.run(_list(screen.target_of(base_url, key, namespace), form=form))


@app.command("delete")
def delete(
    name: Annotated[str, typer.Argument(help="The topic.")],
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Delete a topic with its messages."""
    target = screen.target_of(base_url, key, namespace)
    if not is_sure:
        typer.confirm(f"Delete topic {name} with its messages?", abort=True, err=True)
    screen.run(_delete(target, name))


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
def purge(
    name: Annotated[str, typer.Argument(help="The topic.")],
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be dropped.")
    ] = False,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Drop all messages of a topic. Shows how many those are, and asks first.

    The topic, its groups, dead letters and scheduled messages stay.
    """
    target = screen.target_of(base_url, key, namespace)
    screen.run(_purge(target, name, is_sure=is_sure, is_dry_run=is_dry_run))


async def _purge(target: Target, name: str, *, is_sure: bool, is_dry_run: bool) -> int:
    path = f"topics/{quote(name, safe='')}:purge"
    async with RestClient(target) as client:
        found = await client.call("POST", path, _Purged, content=b'{"dry_run":true}')
        screen.notice(f"topic {name} has {found.text}")
        if is_dry_run:
            return 0
        if not is_sure:
            typer.confirm("Drop them all, for every group?", abort=True, err=True)
        done = await client.call("POST", path, _Purged)
    screen.notice(f"topic {name} is empty: {done.text} were dropped")
    return 0


async def _create(target: Target, name: str, queues: int, durability: Durability) -> int:
    async with RestClient(target) as client:
        topic = await client.create_topic(name, queues=queues, durability=durability)
    screen.notice(f"topic {topic.name} with {topic.queues} queues is there")
    return 0


async def _delete(target: Target, name: str) -> int:
    async with RestClient(target) as client:
        await client.delete_topic(name)
    screen.notice(f"topic {name} is deleted")
    return 0


async def _list(target: Target, *, form: Output) -> int:
    async with RestClient(target) as client:
        topics = await client.topics()
    if prints(form, topics):
        return 0
    table = Table("topic", "queues", "durability", "type")
    for topic in topics:
        table.add_row(topic.name, str(topic.queues), topic.durability, topic.type)
    screen.show(table)
    return 0
