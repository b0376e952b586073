"""``mqservice scheduled``: list scheduled messages, cancel, send now or reschedule them.

list                GET …/scheduled, page by page ─▶ stdout: a line a message, or NDJSON
cancel, send, move  DELETE or POST …/scheduled/{recall handle} ─▶ whether it won
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import ClientError
from mqservice.cli.outputs import FormOption, Output, print_pages
from mqservice.cli.target import Target

app = typer.Typer(no_args_is_help=True, help="Scheduled messages: list, cancel, send, reschedule.")

LIMIT_DEFAULT: Final = 32
BODY_CHARS_MAX: Final = 80

HandlesArgument = Annotated[
    list[str],
    typer.Argument(metavar="HANDLE...", help="Recall handles, as printed by produce and list."),
]


class _Scheduled(msgspec.Struct, kw_only=True):
    id: str
    deliver_at: str
    recall_handle: str
    topic: str | None = None
    body: str | None = None
    body_json: msgspec.Raw = msgspec.Raw()
    body_b64: str | None = None


class _Done(msgspec.Struct):
    id: str
    state: str
    deliver_at: str | None = None
    recall_handle: str | None = None

    @property
    def line(self) -> str:
        parts = (self.id, self.state, self.deliver_at, self.recall_handle)
        return " ".join(filter(None, parts))


@app.command("list")
async def list_scheduled(
    target: Target,
    topic: Annotated[
        str | None, typer.Argument(help="Topic of the messages; by default all topics.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-c", min=1, help="Stop after this many messages.")
    ] = LIMIT_DEFAULT,
    form: FormOption = Output.TABLE,
) -> int:
    """List scheduled messages: time, ID, recall handle and body."""
    path = "scheduled" if topic is None else f"topics/{quote(topic, safe='')}/scheduled"
    async with RestClient(target) as client:
        return await print_pages(
            client, path, {}, _line, limit=limit, form=form, none="no scheduled messages"
        )


@app.command("cancel")
def cancel(target: Target, handles: HandlesArgument) -> None:
    """Cancel messages; those already delivered are reported, and the exit code is then 1."""
    screen.run(_each(target, handles, "DELETE", ""))


@app.command("send")
def send(target: Target, handles: HandlesArgument) -> None:
    """Deliver messages now."""
    screen.run(_each(target, handles, "POST", ":send"))


@app.command("move")
def move(
    target: Target,
    handles: HandlesArgument,
    delay: Annotated[str | None, typer.Option("--delay", help="Time from now, such as 2h.")] = None,
    deliver_at: Annotated[
        str | None, typer.Option("--deliver-at", metavar="TIME", help="Time, in RFC 3339.")
    ] = None,
) -> None:
    """Reschedule messages; those already delivered are reported."""
    given = {"delay": delay, "deliver_at": deliver_at}
    content = msgspec.json.encode({name: value for name, value in given.items() if value})
    screen.run(_each(target, handles, "POST", ":reschedule", content))


async def _each(
    target: Target, handles: list[str], method: str, verb: str, content: bytes | None = None
) -> int:
    failed = 0
    async with RestClient(target) as client:
        for handle in handles:
            path = f"scheduled/{quote(handle, safe='')}{verb}"
            try:
                done = await client.call(method, path, _Done, content=content)
            except ClientError as exc:
                if len(handles) == 1:
                    raise
                screen.warn(f"{handle}: {exc}")
                failed += 1
            else:
                typer.echo(screen.without_controls(done.line))
    return 1 if failed else 0


def _line(document: bytes) -> str:
    message = msgspec.json.decode(document, type=_Scheduled)
    body = message.body or bytes(message.body_json).decode() or message.body_b64 or ""
    shown = body if len(body) <= BODY_CHARS_MAX else body[: BODY_CHARS_MAX - 1] + "…"
    topic = screen.without_controls(message.topic or "")
    parts = (
        message.deliver_at,
        topic,
        message.id,
        message.recall_handle,
        screen.without_controls(shown),
    )
    return "  ".join(filter(None, parts))
