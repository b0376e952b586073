"""``mqservice consume``: messages of a topic, pushed over WebSocket, to stdout.

    service ─▶ Consumer ─▶ [consume] ─▶ stdout: bodies, JSON, or what --format says
               or Reader       └─▶ stderr: progress, reconnects, totals

Without ``--ack`` this only looks: what was shown goes back to the group when the command ends.
``--from`` without a group reads by offsets, for which the service keeps nothing; with a group it
moves the group first.
Exit codes: 0 ended as asked; 1 refused, or fewer than ``--count`` came, or an ack was refused;
2 the command line makes no sense; 3 some acks were not confirmed, so their messages may come again;
130 interrupted.
"""

from __future__ import annotations

import asyncio
import enum
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

import typer
from mqservice_client import Sql
from mqservice_client.protocol.frames import Subprotocol
from mqservice_client.values import Filter

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.consumer import ConsumeLimits, Consumer, Totals
from mqservice.cli.errors import ClientError, UsageError
from mqservice.cli.messages import Delivered, encode_line
from mqservice.cli.messaging import PATIENCE, connected
from mqservice.cli.options import takes
from mqservice.cli.reader import BEGINNING, Reader, parse_position
from mqservice.cli.target import (
    Target,
    find_quickstart,
)
from mqservice.cli.templates import Template

EXIT_UNCONFIRMED: Final = 3
UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


class BodyOutput(enum.StrEnum):
    TEXT = "text"
    RAW = "raw"
    JSON = "json"
    NDJSON = "ndjson"


@dataclass(frozen=True, kw_only=True)
class _Options:
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Consumer group. Default: the demo group of quickstart.json.",
            show_default=False,
        ),
    ] = None
    client_id: Annotated[
        str | None,
        typer.Option("--client-id", help="For broadcast groups: which client this is."),
    ] = None
    ack: Annotated[bool, typer.Option("--ack", help="Ack each message after it was printed.")] = (
        False
    )
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, help="Stop after this many messages.")
    ] = None
    idle_exit: Annotated[
        str | None,
        typer.Option(
            "--idle-exit",
            metavar="DURATION",
            help="Stop when no message has arrived for this long, e.g. 5s or 500ms.",
        ),
    ] = None
    place: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help=(
                "Where to start reading: beginning, end, an offset, -10 (the last 10 of "
                "each queue), or a time in RFC 3339. Without --group nothing changes on "
                "the service; with it the group is moved there first."
            ),
        ),
    ] = None
    queue: Annotated[
        int | None, typer.Option("--queue", min=0, help="With --from: only this queue.")
    ] = None
    output: Annotated[
        BodyOutput,
        typer.Option(
            "--output",
            "-o",
            help=(
                "text: one body per line; raw: bodies with nothing in between; json, "
                "ndjson: all fields."
            ),
        ),
    ] = BodyOutput.TEXT
    template: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="TEXT",
            help="Print this for each message, with %s body, %k keys, %t topic, %p queue, "
            "%o offset, %T time, %h properties and more; \\n ends a line.",
        ),
    ] = None
    tags: Annotated[
        str | None,
        typer.Option("--filter", "-f", help="Only these tags: 'created || paid'."),
    ] = None
    sql: Annotated[
        str | None,
        typer.Option("--sql", help="Only messages that match an SQL92 condition: 'amount > 10'."),
    ] = None
    window: Annotated[
        int,
        typer.Option("--window", min=1, max=1_000, help="Maximum number of messages in flight."),
    ] = 256
    json_frames: Annotated[
        bool, typer.Option("--json-frames", help="Use mq.v1.json instead of MessagePack.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print totals.")] = False

    @property
    def has_no_group(self) -> bool:
        return self.place is not None and self.group is None

    def parse_start(self) -> str | int | datetime | None:
        """Where to start reading. Raises ``UsageError`` for options that do not go together."""
        if self.queue is not None and self.place is None:
            raise UsageError("--queue requires --from")
        needs_group = self.ack or self.json_frames or (self.sql, self.client_id) != (None, None)
        if self.has_no_group and needs_group:
            raise UsageError("--ack, --sql, --client-id and --json-frames require --group")
        start = None if self.place is None else parse_position(self.place)
        if self.group is not None and isinstance(start, int) and (start < 0 or self.queue is None):
            raise UsageError(
                "to move a group to an offset, name one --queue; use `mqservice "
                "group seek` to move it by a number of messages"
            )
        return start

    def limits(self) -> ConsumeLimits:
        return ConsumeLimits(
            window_messages=self.window,
            messages_max=self.count,
            idle_exit_ms=None if self.idle_exit is None else parse_duration_ms(self.idle_exit),
            does_ack=self.ack,
            filter=_filter(self.tags, self.sql),
        )


@takes(_Options)
def consume(
    options: _Options,
    target: Target,
    topic: Annotated[str, typer.Argument(help="Topic to receive from.")],
) -> None:
    """Receive messages and print them.

    With --ack each message is settled once it was printed. Without it nothing is settled: the
    messages go back to the group when the command ends.

    \b
    Examples:
      mqservice consume orders --group billing --ack --count 10
      mqservice consume orders --from beginning --idle-exit 1s
      mqservice consume orders --from end --format '%p:%o %k %s\\n'
    """
    try:
        start = options.parse_start()
        template = None if options.template is None else Template(options.template)
        writer = _Writer(options.output, topic, template)
        limits = options.limits()
        group = options.group or (None if options.has_no_group else _group_default())
    except ClientError as exc:
        screen.fail(exc)
    if group is None:
        assert start is not None
        screen.run(_read(target, topic, start, limits, writer, options))
    screen.run(_consume(target, topic, group, start, limits, writer, options))


def _seek_order(
    start: str | int | datetime, queue: int | None, client_id: str | None
) -> dict[str, object]:
    """The fields of a seek to that place."""
    place: object
    match start:
        case datetime():
            place = {"time": start.isoformat()}
        case int() if start < 0:
            raise AssertionError("checked before")
        case int():
            place = {"offset": start, "queue": queue}
        case _:
            place = "earliest" if start == BEGINNING else "latest"
    order: dict[str, object] = {"to": place}
    if queue is not None and not isinstance(start, int):
        order["queues"] = [queue]
    if client_id is not None:
        order["client_id"] = client_id
    return order


def _filter(tags: str | None, sql: str | None) -> Filter | None:
    if tags is not None and sql is not None:
        raise UsageError("a group has one filter: give either --filter or --sql")
    return tags if sql is None else Sql(sql)


def parse_duration_ms(text: str) -> int:
    """``5s``, ``500ms``, ``2m`` or ``1h`` in milliseconds; a bare number is refused."""
    number = text.rstrip("msh")
    unit = UNIT_MS.get(text[len(number) :])
    if unit is None or not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise UsageError(f"{text!r} is not a duration; write it like 5s, 500ms or 2m")
    return int(number) * unit


def _group_default() -> str:
    quickstart = find_quickstart()
    if quickstart is None:
        raise UsageError("name the consumer group with --group")
    return quickstart.group


async def _consume(
    target: Target,
    topic: str,
    group: str,
    start: str | int | datetime | None,
    limits: ConsumeLimits,
    writer: _Writer,
    options: _Options,
) -> int:
    """``start``: where the group is moved first."""
    if start is not None:
        wanted = _seek_order(start, options.queue, options.client_id)
        async with RestClient(target) as rest:
            await rest.seek(group, topic, wanted, is_dry_run=False)
    subprotocol = Subprotocol.JSON if options.json_frames else Subprotocol.MSGPACK
    client = connected(target, timeout=PATIENCE, subprotocol=subprotocol)
    consumer = Consumer(
        client,
        topic,
        group,
        limits=limits,
        on_messages=writer.write,
        on_notice=screen.warn,
        client_id=options.client_id,
    )
    interrupted = _stop_on_signal(consumer.stop)
    try:
        async with client:
            await consumer.run()
        writer.end()
    except BrokenPipeError:
        _detach_stdout()
        return 0
    finally:
        # A command that was refused at once has only its error to tell.
        if not options.quiet and (sys.exc_info()[0] is None or consumer.totals.received):
            _print_totals(consumer.totals, does_ack=limits.does_ack)
    totals = consumer.totals
    if interrupted:
        return screen.INTERRUPTED
    if _missing_count(totals.received, limits) or totals.ack_failed:
        return 1
    return EXIT_UNCONFIRMED if totals.unconfirmed else 0


async def _read(
    target: Target,
    topic: str,
    start: str | int | datetime,
    limits: ConsumeLimits,
    writer: _Writer,
    options: _Options,
) -> int:
    """Without a group."""
    async with RestClient(target) as client:
        reader = Reader(
            client,
            topic,
            place=start,
            queue=options.queue,
            tag=options.tags,
            messages_max=limits.messages_max,
            idle_exit_ms=limits.idle_exit_ms,
            on_messages=writer.write,
            on_notice=screen.warn,
        )
        interrupted = _stop_on_signal(reader.stop)
        try:
            await reader.run()
            writer.end()
        except BrokenPipeError:
            _detach_stdout()
            return 0
    if not options.quiet:
        screen.notice(f"{reader.received:,} read; no group was changed")
    if interrupted:
        return screen.INTERRUPTED
    return _missing_count(reader.received, limits)


def _stop_on_signal(stop: Callable[[], None]) -> list[int]:
    """Call ``stop`` on Ctrl-C and SIGTERM; the list then has the signal's number."""
    interrupted: list[int] = []

    def interrupt(number: int) -> None:
        interrupted.append(number)
        stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt, number)
    return interrupted


def _detach_stdout() -> None:
    """The reader has enough, as `| head` does. What it did not take was not acked."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _missing_count(received: int, limits: ConsumeLimits) -> int:
    """1, with a word why, where fewer came than were asked for; else 0."""
    if limits.messages_max is None or received >= limits.messages_max:
        return 0
    screen.warn(f"only {received:,} of {limits.messages_max:,} messages were received")
    return 1


class _Writer:
    """Writes messages to stdout and flushes, so that an ack never runs ahead of the output."""

    def __init__(self, output: BodyOutput, topic: str, template: Template | None) -> None:
        self._output = output
        self._topic = topic
        self._template = template
        self._is_terminal = sys.stdout.isatty()
        self._count = 0

    def end(self) -> None:
        """Close what ``--output json`` opened."""
        if self._is_array:
            sys.stdout.buffer.write(b"\n]\n" if self._count else b"[]\n")
            sys.stdout.buffer.flush()

    @property
    def _is_array(self) -> bool:
        return self._template is None and self._output is BodyOutput.JSON

    def write(self, messages: list[Delivered]) -> None:
        sys.stdout.buffer.write(b"".join(self._encode(message) for message in messages))
        sys.stdout.buffer.flush()

    def _encode(self, message: Delivered) -> bytes:
        if self._template is not None:
            content = self._template.write(message, self._topic)
            return self._harmless(content) if self._is_terminal else content
        if self._output is BodyOutput.NDJSON:
            return encode_line(message, topic=self._topic)
        if self._output is BodyOutput.JSON:
            self._count += 1
            line = encode_line(message, topic=self._topic).rstrip()
            return (b"[\n" if self._count == 1 else b",\n") + line
        if self._output is BodyOutput.RAW:
            return message.body
        if self._is_terminal:
            return self._harmless(message.body) + b"\n"
        return message.body + b"\n"

    @staticmethod
    def _harmless(content: bytes) -> bytes:
        return screen.without_controls(content.decode("utf-8", "backslashreplace")).encode("utf-8")


def _print_totals(totals: Totals, *, does_ack: bool) -> None:
    parts = [f"{totals.received:,} received"]
    if does_ack:
        parts.append(f"{totals.acked:,} acked")
    if totals.ack_failed:
        parts.append(f"{totals.ack_failed:,} acks rejected")
    if totals.unconfirmed:
        parts.append(
            f"{totals.unconfirmed:,} acks not confirmed (these messages may be redelivered)"
        )
    if totals.repeated:
        parts.append(f"{totals.repeated:,} redelivered and acked without being printed again")
    if totals.lost:
        parts.append(f"{totals.lost:,} leases lost")
    if totals.reconnects:
        parts.append(f"{totals.reconnects:,} reconnects")
    screen.notice(", ".join(parts))
