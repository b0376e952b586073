"""``mqservice browse``: show messages of a topic without affecting their delivery.

    service ─▶ RestClient.browse, page by page ─▶ [browse] ─▶ stdout: a line a message, or NDJSON
                                                      └─▶ stderr: whether there is more

The lines of ``-o ndjson`` are those of ``consume -o ndjson`` and can be given to ``produce``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Annotated, Final

import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import UsageError
from mqservice.cli.messages import BrowsedPage, Delivered, encode_line
from mqservice.cli.outputs import PAGE_MESSAGES_MAX, Documents, FormOption, Output
from mqservice.cli.target import Target

LIMIT_DEFAULT: Final = 32
BODY_CHARS_MAX: Final = 120  # of one line in a list; --id shows all of it


async def browse(
    target: Target,
    topic: Annotated[str, typer.Argument(help="Topic to browse.")],
    message_key: Annotated[
        str | None,
        typer.Option("--key", "-k", help="Only messages with this key, newest first."),
    ] = None,
    message_id: Annotated[
        str | None, typer.Option("--id", help="Only the message with this ID, with its whole body.")
    ] = None,
    from_time: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Stored at or after this time, in RFC 3339."),
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="Stored at or before this time, in RFC 3339."),
    ] = None,
    queue: Annotated[int | None, typer.Option("--queue", min=0, help="Only this queue.")] = None,
    offset: Annotated[
        int | None, typer.Option("--offset", min=0, help="Start at this offset of the queue.")
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", help="Only this tag, or several: 'a || b'.")
    ] = None,
    condition: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="SQL", help="Only messages whose properties match: 'a > 5'."
        ),
    ] = None,
    contains: Annotated[
        str | None,
        typer.Option(
            "--contains", metavar="TEXT", help="Only messages whose body contains this text."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-c", min=1, help="Stop after this many messages.")
    ] = LIMIT_DEFAULT,
    form: FormOption = Output.TABLE,
) -> int:
    """Show messages of a topic, oldest first; their delivery to groups is not affected."""
    conditions = {
        "key": message_key,
        "from": from_time,
        "to": to_time,
        "queue": None if queue is None else str(queue),
        "offset": None if offset is None else str(offset),
        "tag": tag,
        "sql": condition,
        "contains": contains,
    }
    query = {name: value for name, value in conditions.items() if value is not None}
    if message_id is None:
        return await _browse(target, topic, query, limit, form=form)
    if query:
        raise UsageError("--id selects one message and cannot be combined with other conditions")
    return await _show(target, topic, message_id, form=form)


async def _show(target: Target, topic: str, message_id: str, *, form: Output) -> int:
    async with RestClient(target) as client:
        message = await client.message(topic, message_id)
    with Documents(form) as documents:
        documents.write(encode_line(message, topic=topic), _line(message, None))
    return 0


async def _browse(
    target: Target, topic: str, query: dict[str, str], limit: int, *, form: Output
) -> int:
    async with RestClient(target) as client:
        return await show_pages(partial(client.browse, topic), query, limit, form, topic=topic)


async def show_pages(
    fetch: Callable[[dict[str, str]], Awaitable[BrowsedPage]],
    query: dict[str, str],
    limit: int,
    form: Output,
    *,
    topic: str = "",
) -> int:
    """Show what pages have, at most ``limit`` messages; ``topic``: of those that do not say."""
    count = 0
    with Documents(form) as documents:
        async for message in _messages(fetch, query, limit):
            if count == limit:
                screen.notice(f"there are more than these {limit:,}; raise --limit to see more")
                return 0
            line = encode_line(message, topic=message.topic or topic)
            documents.write(line, _line(message, BODY_CHARS_MAX))
            count += 1
    if not count:
        screen.notice("message not found")
    return 0


async def _messages(
    fetch: Callable[[dict[str, str]], Awaitable[BrowsedPage]], query: dict[str, str], limit: int
) -> AsyncIterator[Delivered]:
    """The messages of one page after another; one more than ``limit`` if there is one."""
    left = limit + 1
    while left > 0:
        page = await fetch({**query, "limit": str(min(left, PAGE_MESSAGES_MAX))})
        for message in page.messages:
            yield message
        left -= len(page.messages)
        if page.next_cursor is None:
            return
        query = {**query, "cursor": page.next_cursor}


def _line(message: Delivered, body_chars_max: int | None) -> str:
    """When, where, which, and the body, in one line unless the whole body is wanted."""
    body = message.body.decode("utf-8", "backslashreplace")
    if body_chars_max is not None:
        is_cut = len(body) > body_chars_max
        body = " ".join(body[:body_chars_max].splitlines()) + ("…" if is_cut else "")
    marks = [message.tag or "-", ",".join(message.keys) or "-"]
    place = f"{message.queue}:{message.offset}"
    return screen.without_controls("  ".join([message.stored_at, place, message.id, *marks, body]))
