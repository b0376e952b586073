"""``mqservice group``: how groups are doing, their progress, and moving one to another offset.

group seek ─▶ dry run ─▶ table on stderr ─▶ asked, or --yes ─▶ seek
group lag, group health  ─▶ table on stdout, or NDJSON
"""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import UsageError
from mqservice.cli.options import SureOption
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.progress import ClientLags, Retries, SeekResult, TopicLag
from mqservice.cli.tables import Table
from mqservice.cli.target import Target

app = typer.Typer(no_args_is_help=True, help="Consumer groups: settings, pauses, progress.")

DECLINED: Final = 1
_ENDS: Final = ("earliest", "latest")
_SHIFT: Final = re.compile(r"[+-][0-9]{1,18}", re.ASCII)
_UNKNOWN: Final = "?"

ClientOption = Annotated[
    str | None,
    typer.Option("--client-id", help="For broadcast groups: only this client."),
]
GroupArgument = Annotated[str, typer.Argument(help="Name of the group.")]


@app.command("seek")
async def seek(
    target: Target,
    group: GroupArgument,
    topic: Annotated[str, typer.Argument(help="Topic to move the group on.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PLACE",
            help=(
                "earliest, latest, a time in RFC 3339, an offset of one --queue, or a "
                "number of messages back or ahead on each queue: -100, +100."
            ),
        ),
    ],
    queues: Annotated[
        list[int] | None,
        typer.Option("--queue", min=0, help="Only this queue; repeatable."),
    ] = None,
    client_id: ClientOption = None,
    is_sure: SureOption = False,
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done.")
    ] = False,
) -> int:
    """Move a group to other offsets of a topic. Shows what that does, and asks first."""
    wanted = _wanted(to, queues or [])
    if client_id is not None:
        wanted["client_id"] = client_id
    async with RestClient(target) as client:
        _show(await client.seek(group, topic, wanted, is_dry_run=True))
        if is_dry_run:
            return 0
        if not is_sure and not screen.is_confirmed("Move the group there?"):
            screen.notice("nothing was changed")
            return DECLINED
        done = await client.seek(group, topic, wanted, is_dry_run=False)
    skipped, replayed = _text(done.skipped), _text(done.replayed)
    screen.notice(f"group {group} was moved: {skipped} skipped, {replayed} replayed")
    return 0


@app.command("lag")
async def lag(
    target: Target,
    group: GroupArgument,
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.")] = None,
    client_id: ClientOption = None,
    form: FormOption = Output.TABLE,
) -> int:
    """Show the lag of a group and the age of its oldest message. Unknown values are shown as ?."""
    async with RestClient(target) as client:
        found = await client.lag(group, topic, client_id)
    if prints(form, found.topics):
        return 0
    if not found.topics:
        screen.notice(f"group {group} has not read any topic yet: its lag is unknown")
    for each in found.topics:
        _show_lag(each)
    if found.clients is not None:
        _show_clients(found.clients)
    return 0


@app.command("health")
async def health(
    target: Target,
    group: Annotated[str, typer.Argument(help="Only this group.")] = "",
    form: FormOption = Output.TABLE,
) -> int:
    """Show how the groups are doing: healthy, falling behind, stalled, without members, paused."""
    async with RestClient(target) as client:
        found = await client.health(group)
    if prints(form, found.groups):
        return 0
    table = Table("group", "health", "lag", "oldest", "in flight", "members")
    for each in found.groups:
        table.add_row(
            each.group,
            each.health.replace("_", " "),
            _text(each.lag),
            "-" if not each.lag else _age(each.lag_ms),
            _text(each.inflight),
            _text(each.members),
        )
    screen.show(table)
    return 0


def _wanted(to: str, queues: list[int]) -> dict[str, object]:
    """The fields ``to`` and ``queues`` of the request. Raises UsageError."""
    if to.isascii() and to.isdigit():
        if len(queues) != 1:
            raise UsageError("an offset belongs to one queue: name it with --queue")
        return {"to": {"offset": int(to), "queue": queues[0]}}
    place: object = to if to in _ENDS else {"time": to}
    if _SHIFT.fullmatch(to):
        place = {"shift": int(to)}
    return {"to": place, "queues": queues} if queues else {"to": place}


def _show(preview: SeekResult) -> None:
    table = Table("queue", "readable", "from", "to", "skipped", "replayed", "in flight")
    for queue in preview.queues:
        table.add_row(
            str(queue.queue),
            f"[{queue.min_offset}, {queue.max_offset})",
            _text(queue.from_offset),
            str(queue.to_offset),
            _text(queue.skipped),
            _text(queue.replayed),
            str(queue.inflight),
        )
    screen.show_on_stderr(table)
    screen.notice(f"not changed: {_retries(preview.retry)}")


def _show_lag(topic: TopicLag) -> None:
    table = Table("topic", "queue", "offset", "end", "behind", "age", "ready", "in flight")
    for queue in topic.queues:
        table.add_row(
            topic.topic,
            str(queue.queue),
            str(queue.consumer_offset),
            str(queue.max_offset),
            str(queue.offset_lag),
            "-" if queue.ready + queue.inflight == 0 else _age(queue.lag_ms),
            str(queue.ready),
            str(queue.inflight),
        )
    age = "-" if topic.lag == 0 else _age(topic.lag_ms)
    totals = (_text(topic.offset_lag), age, _text(topic.ready), _text(topic.inflight))
    table.add_row(topic.topic, "all", "", "", *totals)
    screen.show(table)
    about = "about " if topic.lag_is == "estimated" else ""
    screen.notice(f"{topic.topic}: lag {about}{_text(topic.lag)}; {_retries(topic.retry)}")


def _show_clients(found: ClientLags) -> None:
    table = Table("client", "lag", "ready", "in flight", "dropped", "last seen")
    for client in found.clients:
        counts = client.ready, client.inflight, client.dropped
        table.add_row(client.client_id, _text(client.lag), *map(str, counts), client.seen_at)
    screen.show(table)
    screen.notice(f"{len(found.clients)} of {found.total} clients")


def _retries(retry: Retries) -> str:
    return f"{_text(retry.waiting)} are waiting for a retry, {_text(retry.scheduled)} are due later"


def _age(ms: int | None) -> str:
    return _UNKNOWN if ms is None else f"{ms / 1000:,.1f} s"


def _text(count: int | None) -> str:
    return _UNKNOWN if count is None else str(count)
