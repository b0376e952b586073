"""``mqservice dlq``: list the dead letters of a group, redrive them, purge them.

list            GET dlq, page by page ─▶ stdout: a line a message, or NDJSON
redrive, purge  POST dlq:… ─▶ task ─▶ its id on stdout; --wait: asked for until it has ended
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import UsageError
from mqservice.cli.options import takes
from mqservice.cli.outputs import FormOption, Output, print_pages
from mqservice.cli.target import Target
from mqservice.cli.tasks import DeadLetter, DryRun, Task, TaskOrder

app = typer.Typer(no_args_is_help=True, help="Dead letters: list, redrive, purge.")

LIMIT_DEFAULT: Final = 32
BODY_CHARS_MAX: Final = 120
POLL_PAUSE_S: Final = 0.5
SHOWN_FAILURES_MAX: Final = 20
FAILED: Final = 1

GroupArgument = Annotated[str, typer.Argument(help="Group whose dead letters to use.")]
IdOption = Annotated[
    list[str] | None, typer.Option("--id", help="The message with this ID; repeatable.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All existing dead letters.")]
MessageKeyOption = Annotated[
    str | None, typer.Option("--key", "-k", help="Only messages with this key.")
]
TagOption = Annotated[
    str | None, typer.Option("--tag", help="Only this tag, or several: 'a || b'.")
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Dead-lettered at or after this time, in RFC 3339."
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Dead-lettered at or before this time, in RFC 3339."),
]
ReasonOption = Annotated[
    str | None,
    typer.Option(
        "--reason", help="Dead-lettered for this reason; numbers, IDs and quoted text may differ."
    ),
]
RateOption = Annotated[
    int | None, typer.Option("--rate", min=1, help="Messages per second.", show_default=False)
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count the matching messages.")]
WaitOption = Annotated[bool, typer.Option("--wait", "-w", help="Wait until the task has finished.")]


@app.command("list")
async def list_dead_letters(
    target: Target,
    group: GroupArgument,
    message_key: MessageKeyOption = None,
    tag: TagOption = None,
    from_time: FromOption = None,
    to_time: ToOption = None,
    reason: ReasonOption = None,
    limit: Annotated[
        int, typer.Option("--limit", "-c", min=1, help="Stop after this many messages.")
    ] = LIMIT_DEFAULT,
    form: FormOption = Output.TABLE,
) -> int:
    """List the dead letters of a group with their reasons, oldest first (--key: newest first)."""
    query = _conditions(message_key, tag, from_time, to_time, reason)
    path = f"groups/{quote(group, safe='')}/dlq"
    async with RestClient(target) as client:
        return await print_pages(
            client, path, query, _line, limit=limit, form=form, none="no dead letters"
        )


@dataclass
class Order:
    """Which dead letters, and how they are moved; the options of ``redrive`` and ``purge``."""

    ids: IdOption = None
    is_all: AllOption = False
    message_key: MessageKeyOption = None
    tag: TagOption = None
    from_time: FromOption = None
    to_time: ToOption = None
    reason: ReasonOption = None
    rate: RateOption = None
    is_dry_run: DryRunOption = False
    is_waited_for: WaitOption = False

    def task(self, target_topic: str | None = None) -> TaskOrder:
        """What is sent; ends the command when it does not say which messages are meant."""
        conditions = _conditions(
            self.message_key, self.tag, self.from_time, self.to_time, self.reason
        )
        if bool(self.ids) + self.is_all + bool(conditions) != 1:
            screen.fail(
                UsageError(
                    "say which dead letters: give --id, or --all, or conditions "
                    "(--key, --tag, --reason, --from, --to), but not more than one "
                    "of these three"
                )
            )
        return TaskOrder(
            ids=self.ids or None,
            all=self.is_all or None,
            filter=conditions or None,
            target=target_topic,
            rate=self.rate,
            dry_run=self.is_dry_run,
        )


@app.command("redrive")
@takes(Order)
def redrive(
    order: Order,
    target: Target,
    group: GroupArgument,
    target_topic: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", help="Topic to send to; by default the one each message came from."
        ),
    ] = None,
) -> None:
    """Redrive dead letters: those with --id, those that match, or --all."""
    task = order.task(target_topic)
    screen.run(_run(target, group, "redrive", task, is_waited_for=order.is_waited_for))


@app.command("purge")
@takes(Order)
def purge(order: Order, target: Target, group: GroupArgument) -> None:
    """Delete dead letters permanently: those with --id, those that match, or --all."""
    screen.run(_run(target, group, "purge", order.task(), is_waited_for=order.is_waited_for))


def _conditions(
    message_key: str | None,
    tag: str | None,
    from_time: str | None,
    to_time: str | None,
    reason: str | None,
) -> dict[str, str]:
    conditions = {
        "key": message_key, "tag": tag, "from": from_time, "to": to_time, "reason": reason
    }  # fmt: skip
    return {name: value for name, value in conditions.items() if value is not None}


def _line(document: bytes) -> str:
    """When, which, from where, how often, why, and the body."""
    letter = msgspec.json.decode(document, type=DeadLetter)
    body = letter.body_text
    shown = body[:BODY_CHARS_MAX] + ("…" if len(body) > BODY_CHARS_MAX else "")
    attempts = f"{letter.attempts} attempts"
    parts = [letter.stored_at, letter.id, letter.topic, attempts, letter.reason or "-", shown]
    return screen.without_controls("  ".join(" ".join(part.splitlines()) for part in parts))


async def _run(
    target: Target, group: str, verb: str, order: TaskOrder, *, is_waited_for: bool
) -> int:
    async with RestClient(target) as client:
        answer = await client.create_task(group, verb, order)
        if isinstance(answer, DryRun):
            _show_count(answer, verb)
            return 0
        typer.echo(answer.id)
        if not is_waited_for:
            return 0
        task = await _wait(client, answer)
        if task.failed or task.skipped:
            await _show_failures(client, task)
    return 0 if task.state == "done" and not task.failed else FAILED


async def _wait(client: RestClient, task: Task) -> Task:
    """Ask for the task until it has ended; say how far it is whenever that has changed."""
    said = ""
    while True:
        line = _progress(task)
        if line != said:
            screen.notice(line)
            said = line
        if not task.is_active:
            return task
        await asyncio.sleep(POLL_PAUSE_S)
        task = await client.task(task.id)


def _progress(task: Task) -> str:
    done = "purged" if task.kind == "purge" else "moved"
    parts = [
        f"{task.state}: {task.moved:,} {done}, {task.skipped:,} skipped, {task.failed:,} failed",
        f"checked {task.looked_at:,} of {task.to_look_at:,}",
    ]
    if task.eta_ms:
        parts.append(f"about {-(-task.eta_ms // 1_000):,} s left")
    if task.error:
        parts.append(task.error)
    return "; ".join(parts)


def _show_count(found: DryRun, verb: str) -> None:
    more = "" if found.is_complete else " or more (counting stopped there)"
    done = "purged" if verb == "purge" else "moved"
    screen.notice(f"{found.count:,}{more} would be {done}; nothing was changed")
    for topic in found.topics:
        name = topic.topic or "(unknown topic)"
        gone = "" if topic.exists or verb == "purge" else "  does not exist: would not be moved"
        typer.echo(screen.without_controls(f"{topic.count}  {name}{gone}"))
    for message_id in found.not_found:
        screen.warn(f"{message_id}: not found")


async def _show_failures(client: RestClient, task: Task) -> None:
    page = await client.task_failures(task.id, limit=SHOWN_FAILURES_MAX)
    for failure in page.failures:
        place = "" if failure.offset is None else f" at offset {failure.offset}"
        screen.warn(f"{failure.id or 'unreadable message'}{place}: {failure.outcome}")
    more = task.failed + task.skipped - len(page.failures)
    if more > 0:
        screen.warn(f"and {more:,} more")
