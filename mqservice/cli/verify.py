"""``mqservice engine verify``: shows the results of the engine's checker, run as its own process.

storage_engine.tools.verify STORE ── lines of JSON ──▶ [progress bar], then [tables of a report]
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Annotated

import msgspec
import typer

from mqservice.cli import screen
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.tables import Table
from mqservice.supervisor.config import data_dir_from_env
from mqservice.supervisor.data_dir import DataDir


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far the checker is."""

    done_bytes: int
    total_bytes: int


class Finding(msgspec.Struct, frozen=True):
    kind: str
    severity: str
    path: str
    offset: int | None
    what: str
    advice: str


class FileCount(msgspec.Struct, frozen=True):
    file_count: int
    byte_count: int
    item_count: int


class Report(msgspec.Struct, frozen=True):
    """What the checker says at its end."""

    store: str
    verified_offset: int
    byte_count: int
    duration_ms: int
    counts: dict[str, FileCount]
    findings: list[Finding]
    finding_counts: dict[str, int]
    notes: list[str]


def verify(
    store: Annotated[
        Path | None,
        typer.Argument(help="Directory of the store; by default that of MQ_DATA_DIR, or of ./var."),
    ] = None,
    form: FormOption = Output.TABLE,
    index_slots: Annotated[
        int | None,
        typer.Option(min=1, help="Slots of an index file, where its size does not tell."),
    ] = None,
) -> None:
    """Check every record, queue, index entry and offset of a store, without changing it.

    Exit code 0: clean; 1: findings; 2: it cannot be read.
    """
    place = store if store is not None else DataDir(data_dir_from_env(os.environ)).store
    command = [sys.executable, "-m", "storage_engine.tools.verify", "--json", "--progress"]
    command += [f"--index-slots={index_slots}"] if index_slots else []
    with subprocess.Popen([*command, "--", str(place)], stdout=subprocess.PIPE) as checker:
        assert checker.stdout is not None
        try:
            last = _follow(checker.stdout)
        except KeyboardInterrupt:
            checker.terminate()
            raise
        code = checker.wait()
    if last and not prints(form, msgspec.Raw(last)):
        _draw(msgspec.json.decode(last, type=Report))
    raise typer.Exit(code)


def _follow(source: IO[bytes]) -> bytes:
    """Draw the steps, on a terminal; the line that is none of them."""
    last = b""
    with _bar() as told:
        for line in source:
            try:
                step = msgspec.json.decode(line, type=Step)
            except msgspec.ValidationError:
                last = line
            else:
                told(step)
    return last


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[Step], None]]:
    if not screen.is_watched():
        yield lambda step: None
        return
    # Here, for it costs every other use a third of its start.
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("log"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen.progress_console()) as progress:
        task = progress.add_task("log", total=None)
        yield lambda step: progress.update(task, completed=step.done_bytes, total=step.total_bytes)


def _draw(report: Report) -> None:
    table = Table("files", "count", "bytes", "items")
    for what, count in report.counts.items():
        numbers = (count.file_count, count.byte_count, count.item_count)
        table.add_row(what, *(f"{number:,}" for number in numbers))
    screen.show(table)
    seconds = max(report.duration_ms, 1) / 1_000
    log = report.counts.get("commit log")
    records = log.item_count if log is not None else 0
    typer.echo(
        f"log read to {report.verified_offset:,} in {seconds:.1f} s: "
        f"{report.byte_count / seconds / 1e6:,.0f} MB/s, {records / seconds:,.0f} records/s"
    )
    for note in report.notes:
        _print_line(f"note: {note}")
    for finding in report.findings:
        place = "" if finding.offset is None else f" at {finding.offset}"
        _print_line(f"{finding.kind} {finding.path}{place}: {finding.what}")
        _print_line(f"    {finding.advice}")
    shown = len(report.findings)
    total = sum(report.finding_counts.values())
    if total > shown:
        _print_line(f"and {total - shown:,} more of the same kinds")
    typer.echo(f"{total:,} findings" if total else "clean")


def _print_line(text: str) -> None:
    typer.echo(screen.without_controls(text))
