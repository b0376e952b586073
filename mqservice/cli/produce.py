"""``mqservice produce``: send strings, files, lines or NDJSON to a topic.

    arguments, files, stdin ─▶ inputs ─▶ [produce] ─▶ Sender ─▶ service
                                            ├─▶ stderr: progress, failures, totals
                                            └─▶ stdout: ids (a line each), or results as NDJSON

Exit codes: 0 everything stored; 1 something was refused; 2 the command line or an input line makes
no sense; 3 the outcome of some messages is unknown and none was refused; 130 interrupted.
"""

from __future__ import annotations

import asyncio
import enum
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from mqservice_client import MQError, Stored

from mqservice.cli import screen
from mqservice.cli.errors import ClientError, UsageError
from mqservice.cli.inputs import Common, Format, count_ahead, from_bodies, from_files
from mqservice.cli.library_errors import explain
from mqservice.cli.messages import Outgoing
from mqservice.cli.messaging import connected
from mqservice.cli.options import takes
from mqservice.cli.sender import Sender, SendLimits, Totals, Verdict
from mqservice.cli.target import (
    Target,
)
from mqservice.cli.values import parse_properties

if TYPE_CHECKING:
    from rich.progress import Progress

BATCH_MESSAGES_MAX: Final = 1_000
FAILURES_SHOWN_MAX: Final = 10
REQUEST_TIMEOUT: Final = "30s"
EXIT_REFUSED: Final = 1
EXIT_UNKNOWN: Final = 3


class ResultOutput(enum.StrEnum):
    NONE = "none"
    IDS = "ids"
    NDJSON = "ndjson"


class _ResultLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of ``--output ndjson``."""

    number: int
    outcome: str
    id: str = ""
    queue: int | None = None
    offset: int | None = None
    stored_at: str = ""
    deliver_at: str | None = None
    recall_handle: str | None = None
    code: str = ""
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class _Options:
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="Read messages from a file (repeatable); - is stdin."),
    ] = None
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="What makes one message. Default: whole for --file, ndjson for stdin.",
            show_default=False,
        ),
    ] = None
    tag: Annotated[str | None, typer.Option("--tag", help="Tag of the messages.")] = None
    message_keys: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="Message key (repeatable).")
    ] = None
    message_group: Annotated[
        str | None,
        typer.Option(
            "--message-group", "--group", help="Message group: its messages are delivered in order."
        ),
    ] = None
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", "-p", metavar="NAME=VALUE", help="Property (repeatable)."),
    ] = None
    delay: Annotated[
        str | None, typer.Option("--delay", help="Deliver after a delay: 500ms, 30s, 15m, 12h, 7d.")
    ] = None
    delay_level: Annotated[
        int | None, typer.Option("--delay-level", help="Delay level of RocketMQ, 1 to 18.")
    ] = None
    deliver_at: Annotated[
        str | None,
        typer.Option("--deliver-at", metavar="TIME", help="Deliver at this time, in RFC 3339."),
    ] = None
    dedup_id: Annotated[
        str | None,
        typer.Option(
            "--dedup-id",
            metavar="KEY",
            help=(
                "Store the message only once, however often it is sent with this key "
                "within 10 minutes. For one message; with NDJSON, each line has its own "
                "dedup_id."
            ),
        ),
    ] = None
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=BATCH_MESSAGES_MAX, help="Messages per request.")
    ] = 100
    in_flight: Annotated[
        int,
        typer.Option("--in-flight", min=1, max=32, help="Maximum number of concurrent requests."),
    ] = 4
    attempts: Annotated[
        int,
        typer.Option(
            "--attempts", min=1, max=100, help="Attempts per message, including the first."
        ),
    ] = 8
    retry_unknown: Annotated[
        bool,
        typer.Option(
            "--retry-unknown",
            help="Send again even if the outcome is unknown; may store a message twice.",
        ),
    ] = False
    output: Annotated[
        ResultOutput | None,
        typer.Option(
            "--output",
            "-o",
            help="What to print on stdout. Default: ids for one message, else none.",
        ),
    ] = None
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not print progress or totals.")
    ] = False

    def common(self) -> Common:
        """What all messages have in common."""
        return Common(
            tag=self.tag,
            keys=self.message_keys or [],
            message_group=self.message_group,
            properties=parse_properties(self.properties or []),
            delay=self.delay,
            delay_level=self.delay_level,
            deliver_at=self.deliver_at,
            dedup_id=self.dedup_id,
        )

    def limits(self) -> SendLimits:
        return SendLimits(
            batch_messages_max=self.batch,
            requests_in_flight_max=self.in_flight,
            attempts_max=self.attempts,
            retry_unknown=self.retry_unknown,
        )


@takes(_Options)
def produce(
    options: _Options,
    target: Target,
    topic: Annotated[str, typer.Argument(help="Topic to send to.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]...", help="Each TEXT is one message.", show_default=False),
    ] = None,
) -> None:
    """Send messages to a topic."""
    files, form, output = options.files or [], options.form, options.output
    try:
        common = options.common()
        if common.dedup_id is not None and not _is_one_message(texts or [], files, form):
            raise UsageError(
                "--dedup-id is for one message: give one TEXT, or one --file as a "
                "whole; with NDJSON, each line has its own dedup_id"
            )
        source, total = _source(texts or [], files, form, common)
    except ClientError as exc:
        screen.fail(exc)
    if output is None:
        output = ResultOutput.IDS if total == 1 else ResultOutput.NONE
    report = _Report(output, total=total, is_quiet=options.quiet or total == 1)
    screen.run(_produce(target, topic, source, options.limits(), report))


def _is_one_message(texts: list[str], files: list[Path], form: Format | None) -> bool:
    if texts:
        return len(texts) == 1 and not files
    is_whole = form is Format.WHOLE or (form is None and files != [Path("-")])
    return len(files) == 1 and is_whole


def _source(
    texts: list[str], files: list[Path], form: Format | None, common: Common
) -> tuple[AsyncIterator[list[Outgoing]], int | None]:
    """The messages to send, and how many where that is known."""
    if texts and files:
        raise UsageError("give TEXT arguments or --file, not both")
    if texts:
        if form is not None:
            raise UsageError("--format is only for files and stdin; each TEXT is one message")
        # What the shell passed byte for byte, also where it is no valid UTF-8.
        bodies = [text.encode("utf-8", "surrogateescape") for text in texts]
        return from_bodies(bodies, common), len(bodies)
    if files:
        form = form or Format.WHOLE
        return from_files(files, form, common), count_ahead(files, form)
    if sys.stdin.isatty():
        raise UsageError("nothing to send: give TEXT or --file, or pipe messages into stdin")
    form = form or Format.NDJSON
    stdin = [Path("-")]
    return from_files(stdin, form, common), count_ahead(stdin, form)


async def _produce(
    target: Target,
    topic: str,
    source: AsyncIterator[list[Outgoing]],
    limits: SendLimits,
    report: _Report,
) -> int:
    error: ClientError | None = None
    is_interrupted = False
    async with connected(target, timeout=REQUEST_TIMEOUT) as client:
        sender = Sender(client, topic, limits=limits, on_verdict=report.add)
        with report:
            work = asyncio.create_task(sender.send_all(source))
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, work.cancel)
            try:
                await work
            except ClientError as exc:
                error = exc
            except asyncio.CancelledError:
                is_interrupted = True
    report.close(sender.totals)
    if error is not None:
        screen.fail(error)
    if is_interrupted:
        return screen.INTERRUPTED
    if sender.totals.failed:
        return EXIT_REFUSED
    return EXIT_UNKNOWN if sender.totals.unknown else 0


class _Report:
    """Shows verdicts as they come and the sum of them at the end."""

    def __init__(self, output: ResultOutput, *, total: int | None, is_quiet: bool) -> None:
        self._output = output
        self._is_quiet = is_quiet
        self._shown = 0
        self._hidden = 0
        self._started = time.monotonic()
        self._progress = None if is_quiet or not screen.is_watched() else _progress(total)
        self._done = 0

    def __enter__(self) -> None:
        self._started = time.monotonic()
        if self._progress is not None:
            self._progress.start()

    def __exit__(self, *_exc: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def add(self, number: int, verdict: Verdict) -> None:
        self._done += 1
        if self._progress is not None:
            elapsed = max(time.monotonic() - self._started, 0.001)
            for task in self._progress.task_ids:
                self._progress.update(task, completed=self._done, rate=self._done / elapsed)
        if isinstance(verdict, MQError):
            self._show_failure(number, verdict)
        if self._output is ResultOutput.IDS and isinstance(verdict, Stored):
            typer.echo(screen.without_controls(verdict.id))
        elif self._output is ResultOutput.NDJSON:
            typer.echo(msgspec.json.encode(_result_line(number, verdict)))

    def close(self, totals: Totals) -> None:
        if self._hidden:
            screen.warn(
                f"... and {self._hidden:,} more that were not stored or whose outcome is unknown"
            )
        done = totals.stored + totals.failed + totals.unknown
        if not done or (self._is_quiet and not (totals.failed or totals.unknown)):
            return
        seconds = max(time.monotonic() - self._started, 0.001)
        parts = [f"{totals.stored:,} stored"]
        if totals.failed:
            parts.append(f"{totals.failed:,} failed")
        if totals.unknown:
            parts.append(f"{totals.unknown:,} with unknown outcome")
        if totals.retried:
            parts.append(f"{totals.retried:,} retried")
        rate = totals.stored / seconds
        screen.notice(f"{', '.join(parts)} in {seconds:.1f} s ({rate:,.0f} msg/s)")

    def _show_failure(self, number: int, error: MQError) -> None:
        if self._shown >= FAILURES_SHOWN_MAX:
            self._hidden += 1
            return
        self._shown += 1
        what = "outcome unknown" if error.stored is None else "not stored"
        screen.warn(f"message {number} {what}: {': '.join(explain(error))}")


def _progress(total: int | None) -> Progress:
    # Here, for it costs every other use a third of its start.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    progress = Progress(
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:,.0f} msg/s"),
        console=screen.progress_console(),
        transient=True,
    )
    progress.add_task("produce", total=total, rate=0.0)
    return progress


def _result_line(number: int, verdict: Verdict) -> _ResultLine:
    if isinstance(verdict, Stored):
        return _ResultLine(
            number=number,
            outcome="stored",
            id=verdict.id,
            queue=verdict.queue,
            offset=verdict.offset,
            stored_at=verdict.stored_at,
            deliver_at=verdict.deliver_at,
            recall_handle=verdict.recall_handle,
        )
    code, detail = explain(verdict)
    outcome = "unknown" if verdict.stored is None else "failed"
    return _ResultLine(number=number, outcome=outcome, code=code, detail=detail)
