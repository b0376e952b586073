"""``mqservice import-store`` and ``export-store``: import and export stores of RocketMQ.

import ─▶ a namespace of a new installation     export ─▶ a directory that a broker opens

Without ``--yes`` an import shows what would come and asks, or ends where nobody can answer.
Exit code 0: done, or shown; 1: it failed, nothing is left; 2: refused, nothing was done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqservice.cli import screen
from mqservice.cli.long_work import exit_on_error, progress_bar
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.status import DataDirOption

if TYPE_CHECKING:
    from storage_engine.tools.transfer.report import DelayedReport, ExportReport, ImportReport

_RETENTION_MS_MIN: Final = 60_000
_RETENTION_MS_MAX: Final = 30 * 24 * 3_600_000


def import_store(
    directory: Annotated[
        Path, typer.Argument(help="storePathRootDir of a stopped broker, or a copy of it.")
    ],
    namespace: Annotated[
        str,
        typer.Option(help="Namespace to import the topics and groups into.", show_default=False),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be imported; never ask.")
    ] = False,
    is_agreed: Annotated[
        bool, typer.Option("--yes", help="Import without asking for confirmation.")
    ] = False,
    retention: Annotated[
        str, typer.Option(help="Age at which messages expire, such as 12h or 30d; at most 30d.")
    ] = "3d",
    form: FormOption = Output.TABLE,
    data_dir: DataDirOption = None,
) -> None:
    """Import a RocketMQ store into an empty data directory, without changing the store.

    Shows topics, groups, messages, delayed messages and what does not come, then asks. With
    DATABASE_URL the rows go into that database, else into an embedded PostgreSQL.
    """
    from mqservice.supervisor.config import data_dir_from_env
    from mqservice.transfers.errors import TransferError
    from mqservice.transfers.importing import import_store as bring_in
    from mqservice.transfers.importing import inspect_store

    place = data_dir_from_env(os.environ) if data_dir is None else data_dir.absolute()
    retention_ms = _retention_ms(retention)
    source = directory.absolute()
    with exit_on_error(TransferError):
        with progress_bar("reading") as on_progress:
            report = inspect_store(
                os.environ, source, namespace, retention_ms, on_progress=on_progress
            )
        if not is_agreed or form is Output.TABLE:
            _show(report, retention_ms, form)
        if not _is_wanted(report, place, dry_run=dry_run, is_agreed=is_agreed):
            return
        with progress_bar("importing") as on_progress:
            done = bring_in(
                os.environ, place, source, report, retention_ms, on_progress=on_progress
            )
    prints(form, done)
    screen.notice(
        f"imported and compared: {done.verified_messages:,} messages in "
        f"{done.verified_queues:,} queues match those of {source}"
    )
    screen.notice(
        f"{place} is ready: start it with `mqservice up`, then give the namespace an owner with "
        f"`mqservice admin create-owner NAME --tenant {namespace}`"
    )


def export_store(
    directory: Annotated[
        Path, typer.Argument(help="Where to write it; the directory must be empty or not exist.")
    ],
    namespace: Annotated[
        str,
        typer.Option(
            help="Only this namespace, with names without its prefix.", show_default=False
        ),
    ] = "",
    is_all: Annotated[
        bool, typer.Option("--all", help="All namespaces, with names such as acme%orders.")
    ] = False,
    shard: Annotated[
        str,
        typer.Option(help="Shard that has them, where there are several.", show_default=False),
    ] = "",
    form: FormOption = Output.TABLE,
    data_dir: DataDirOption = None,
) -> None:
    """Export a stopped service's messages as a store that a RocketMQ broker can open.

    The service's own store is only read. Says what RocketMQ will not do with it.
    """
    from mqservice.supervisor.config import data_dir_from_env
    from mqservice.transfers.errors import TransferError
    from mqservice.transfers.exporting import export_store as write_out

    if bool(namespace) is is_all:
        raise typer.BadParameter("give either --namespace or --all", param_hint="--namespace")
    place = data_dir_from_env(os.environ) if data_dir is None else data_dir.absolute()
    target = directory.absolute()
    with exit_on_error(TransferError), progress_bar("exporting") as on_progress:
        report = write_out(
            os.environ, place, target, namespace, on_progress=on_progress, shard=shard
        )
    if not prints(form, report):
        _show_export(report)
    screen.notice(
        f"exported and compared: {report.verified_messages:,} messages in "
        f"{report.verified_queues:,} queues; give {target} to a broker as storePathRootDir"
    )


def _show_export(report: ExportReport) -> None:
    topics = [(topic.name, str(topic.queues), f"{topic.messages:,}") for topic in report.topics]
    _print_rows(("topic", "queues", "messages"), topics)
    typer.echo(f"groups: {' '.join(report.groups) or 'none'}")
    _print_delayed("delayed", report.delayed)
    typer.echo(f"{report.retries:,} retries, {report.dead_letters:,} dead letters")
    for note in report.notes:
        typer.echo(screen.without_controls(f"note: {note}"))


def _is_wanted(report: ImportReport, place: Path, *, dry_run: bool, is_agreed: bool) -> bool:
    if dry_run:
        return False
    if is_agreed:
        return True
    if not sys.stdin.isatty():
        screen.notice("nothing was imported: add --yes to import it")
        return False
    if screen.is_confirmed(f"Import this into {place} as namespace {report.namespace}?"):
        return True
    screen.notice("nothing was imported")
    return False


def _retention_ms(text: str) -> int:
    from mqservice.lib.durations import parse_duration_ms

    try:
        found = parse_duration_ms(text)
    except ValueError as exc:
        raise typer.BadParameter(str(exc), param_hint="--retention") from exc
    if not _RETENTION_MS_MIN <= found <= _RETENTION_MS_MAX:
        raise typer.BadParameter("must be 1m to 30d", param_hint="--retention")
    return found


def _show(report: ImportReport, retention_ms: int, form: Output) -> None:
    if prints(form, report):
        return
    _print_tables(report)
    log_bytes = report.log_end - report.log_start
    typer.echo(
        f"{report.messages:,} messages, {report.bytes:,} bytes, of {report.record_count:,} records "
        f"and {log_bytes:,} bytes of log"
    )
    _print_delayed("delayed by level", report.delayed)
    _print_delayed("in the timing wheel", report.timers)
    typer.echo(f"{report.retries:,} retries, {report.dead_letters:,} dead letters")
    oldest_ms = min((each.oldest_ms for each in report.topics if each.messages), default=0)
    if oldest_ms and datetime.now(UTC).timestamp() * 1000 - oldest_ms > retention_ms:
        typer.secho(
            f"the oldest message is of {_moment(oldest_ms)}: messages older than "
            "--retention expire shortly after the start",
            fg=typer.colors.YELLOW,
        )
    for left in report.left_behind:
        text = f"left behind: {left.what}" + (f", {left.count:,}" if left.count else "")
        colour = typer.colors.YELLOW if left.is_loss else None
        typer.secho(screen.without_controls(f"{text}: {left.why}"), fg=colour)
    for note in report.notes:
        typer.echo(screen.without_controls(f"note: {note}"))


def _print_tables(report: ImportReport) -> None:
    topics = [
        (
            topic.name, topic.type, str(topic.queues), f"{topic.messages:,}", f"{topic.bytes:,}",
            _moment(topic.oldest_ms), _moment(topic.newest_ms),
        )
        for topic in report.topics
    ]  # fmt: skip
    headings = ("topic", "type", "queues", "messages", "bytes", "oldest", "newest")
    _print_rows(headings, topics)
    groups = []
    for group in report.groups:
        attempts = "for ever" if group.max_reconsume_times < 0 else group.max_reconsume_times + 1
        groups.append(
            (
                group.name, " ".join(group.topics), str(group.offsets), f"{group.retries:,}",
                f"{group.dead_letters:,}", str(attempts),
            )
        )  # fmt: skip
    _print_rows(("group", "reads", "offsets", "retries", "dead letters", "attempts"), groups)


def _print_rows(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Columns two spaces apart, below their headings."""
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        typer.echo(screen.without_controls("  ".join(cells).rstrip()))


def _print_delayed(what: str, delayed: DelayedReport) -> None:
    text = f"{delayed.messages:,} {what}"
    if delayed.messages:
        text += f", due from {_moment(delayed.first_due_ms)} to {_moment(delayed.last_due_ms)}"
    typer.echo(text)


def _moment(at_ms: int) -> str:
    if not at_ms:
        return "-"
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")
