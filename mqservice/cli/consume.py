"""``mqservice consume``: messages of a topic, pushed over WebSocket, to stdout.

    service ─▶ Consumer ─▶ [consume] ─▶ stdout: bodies, or NDJSON
                               └─▶ stderr: progress, reconnects, totals

Without ``--ack`` this only looks: what was shown goes back to the group when the command ends.
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
from random import Random
from typing import Annotated, Final

import typer

from mqservice.cli import screen
from mqservice.cli.consumer import ConsumeLimits, Consumer, Totals
from mqservice.cli.errors import ClientError, UsageRefused
from mqservice.cli.frames import Subprotocol
from mqservice.cli.messages import Delivered, encode_line
from mqservice.cli.target import (
    BaseUrlOption,
    KeyOption,
    NamespaceOption,
    Target,
    find_quickstart,
    find_target,
)

EXIT_UNCONFIRMED: Final = 3
UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


class BodyOutput(enum.StrEnum):
    TEXT = "text"
    RAW = "raw"
    NDJSON = "ndjson"


def consume(
    topic: Annotated[str, typer.Argument(help="Topic to receive from.")],
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Consumer group. Default: the demo group of quickstart.json.",
            show_default=False,
        ),
    ] = None,
    client_id: Annotated[
        str | None,
        typer.Option("--client-id", help="Which client of a group that broadcasts this is."),
    ] = None,
    ack: Annotated[
        bool, typer.Option("--ack", help="Settle each message once it was written out.")
    ] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, help="Stop after so many messages.")
    ] = None,
    idle_exit: Annotated[
        str | None,
        typer.Option(
            "--idle-exit",
            metavar="DURATION",
            help="Stop when nothing came for so long, e.g. 5s or 500ms.",
        ),
    ] = None,
    output: Annotated[
        BodyOutput,
        typer.Option(
            "--output",
            "-o",
            help="text: a body a line; raw: bodies with nothing between; ndjson: all fields.",
        ),
    ] = BodyOutput.TEXT,
    tags: Annotated[
        str | None,
        typer.Option("--filter", "-f", help="Only these tags: 'created || paid'."),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql", help="Only what fits an SQL92 condition: 'amount > 10'."),
    ] = None,
    window: Annotated[
        int, typer.Option("--window", min=1, max=1_000, help="Messages under way at a time.")
    ] = 256,
    json_frames: Annotated[
        bool, typer.Option("--json-frames", help="Speak mq.v1.json, not MessagePack.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No totals.")] = False,
    base_url: BaseUrlOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
) -> None:
    """Receive messages and print them."""
    try:
        target = find_target(base_url, key, namespace)
        limits = ConsumeLimits(
            window_messages=window,
            messages_max=count,
            idle_exit_ms=None if idle_exit is None else parse_duration_ms(idle_exit),
            does_ack=ack,
            filter=_filter(tags, sql),
        )
        group = group or _group_default()
    except ClientError as exc:
        screen.fail(exc)
    screen.run(
        _consume(
            target,
            topic,
            group,
            limits,
            Subprotocol.JSON if json_frames else Subprotocol.MSGPACK,
            output,
            client_id=client_id,
            is_quiet=quiet,
        )
    )


def _filter(tags: str | None, sql: str | None) -> str | dict[str, str]:
    if tags is not None and sql is not None:
        raise UsageRefused("a group has one filter: give --filter or --sql")
    return {"sql": sql} if sql is not None else "*" if tags is None else tags


def parse_duration_ms(text: str) -> int:
    """``5s``, ``500ms``, ``2m`` or ``1h`` in milliseconds; a bare number is refused."""
    number = text.rstrip("msh")
    unit = UNIT_MS.get(text[len(number) :])
    if unit is None or not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise UsageRefused(f"{text!r} is no duration; write it like 5s, 500ms or 2m")
    return int(number) * unit


def _group_default() -> str:
    quickstart = find_quickstart()
    if quickstart is None:
        raise UsageRefused("give the consumer group with --group")
    return quickstart.group


async def _consume(
    target: Target,
    topic: str,
    group: str,
    limits: ConsumeLimits,
    subprotocol: Subprotocol,
    output: BodyOutput,
    *,
    client_id: str | None,
    is_quiet: bool,
) -> int:
    writer = _Writer(output, topic)
    consumer = Consumer(
        target,
        topic,
        group,
        subprotocol=subprotocol,
        limits=limits,
        random=Random(),
        on_messages=writer.write,
        on_notice=screen.warn,
        client_id=client_id,
    )
    interrupted: list[int] = []

    def interrupt(number: int) -> None:
        interrupted.append(number)
        consumer.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt, number)
    try:
        await consumer.run()
    except BrokenPipeError:
        # The reader has enough, as `| head` does. What it did not take was not acked.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        # A command that was refused at once has only its error to tell.
        if not is_quiet and (sys.exc_info()[0] is None or consumer.totals.received):
            _say_totals(consumer.totals, does_ack=limits.does_ack)
    totals = consumer.totals
    if interrupted:
        return screen.INTERRUPTED
    if limits.messages_max is not None and totals.received < limits.messages_max:
        screen.warn(f"only {totals.received:,} of {limits.messages_max:,} messages came")
        return 1
    if totals.ack_failed:
        return 1
    return EXIT_UNCONFIRMED if totals.unconfirmed else 0


class _Writer:
    """Writes bodies to stdout and flushes, so that an ack never runs ahead of the output."""

    def __init__(self, output: BodyOutput, topic: str) -> None:
        self._output = output
        self._topic = topic
        self._is_terminal = sys.stdout.isatty()

    def write(self, messages: list[Delivered]) -> None:
        sys.stdout.buffer.write(b"".join(self._encode(message) for message in messages))
        sys.stdout.buffer.flush()

    def _encode(self, message: Delivered) -> bytes:
        if self._output is BodyOutput.NDJSON:
            return encode_line(message, topic=self._topic)
        if self._output is BodyOutput.RAW:
            return message.body
        if self._is_terminal:
            text = screen.harmless(message.body.decode("utf-8", "backslashreplace"))
            return text.encode("utf-8") + b"\n"
        return message.body + b"\n"


def _say_totals(totals: Totals, *, does_ack: bool) -> None:
    parts = [f"{totals.received:,} received"]
    if does_ack:
        parts.append(f"{totals.acked:,} acked")
    if totals.ack_failed:
        parts.append(f"{totals.ack_failed:,} acks refused")
    if totals.unconfirmed:
        parts.append(f"{totals.unconfirmed:,} acks not confirmed (these may come again)")
    if totals.repeated:
        parts.append(f"{totals.repeated:,} came again and were acked without being shown")
    if totals.lost:
        parts.append(f"{totals.lost:,} leases lost")
    if totals.reconnects:
        parts.append(f"{totals.reconnects:,} reconnects")
    screen.notice(", ".join(parts))
