"""``mqservice backup``: create, check and restore backups of the whole installation.

create  ─▶ a directory; stdout: its path      verify ─▶ what is wrong with one, a line each
restore ─▶ an empty data directory and database that hold what it holds
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mqservice.cli import screen
from mqservice.cli.long_work import exit_on_error, progress_bar
from mqservice.cli.status import DataDirOption

if TYPE_CHECKING:
    from mqservice.backups.manifest import Manifest

app = typer.Typer(no_args_is_help=True, help="Back up and restore the whole installation.")

FOUND: Final = 1
_RATE: Final = re.compile(r"(\d{1,9})(KiB|MiB|GiB)?", re.ASCII)
_UNITS: Final = {None: 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
BackupArgument = Annotated[Path, typer.Argument(help="Directory of a backup.")]


@app.command("create")
def create(
    directory: Annotated[
        Path, typer.Argument(help="Where to write it; the directory must be empty or not exist.")
    ],
    base: Annotated[
        Path | None,
        typer.Option(help="An earlier backup next to it: full segments are linked, not copied."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Maximum rate for copying the log, such as 50MiB per second.")
    ] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Back up the running service. The backup contains secrets: protect it like them."""
    from mqservice.backups.creating import create as make
    from mqservice.backups.errors import BackupError
    from mqservice.backups.installation import installation_of
    from mqservice.supervisor.operator_commands import service_environment

    with exit_on_error(BackupError), progress_bar("log") as on_progress:
        place = _place(data_dir)
        env = service_environment(os.environ, place)
        target = directory.absolute()
        manifest = make(
            env,
            installation_of(env, place),
            target,
            base=base,
            rate_bytes=_rate_bytes(rate),
            on_progress=on_progress,
        )
    _print_manifest(manifest)
    typer.echo(str(target))


@app.command("verify")
def verify(directory: BackupArgument) -> None:
    """Check every byte and every record of a backup, without changing it.

    Exit code 0: no errors; 1: errors, one line each; 2: it is not a backup; 3: its manifest is
    damaged.
    """
    from mqservice.backups.checking import check
    from mqservice.backups.errors import BackupError

    with exit_on_error(BackupError), progress_bar("backup") as on_progress:
        manifest, faults = check(directory.absolute(), on_progress=on_progress)
    for fault in faults:
        typer.echo(screen.without_controls(fault))
    if faults:
        raise typer.Exit(FOUND)
    _print_manifest(manifest)
    typer.echo("whole")


@app.command("restore")
def restore(directory: BackupArgument, data_dir: DataDirOption = None) -> None:
    """Restore a backup into an empty data directory and an empty database.

    Uses the database of DATABASE_URL, or else an embedded PostgreSQL as `mqservice up` does.
    """
    from mqservice.backups.restoring import restore as bring_back

    place = _place(data_dir)
    from mqservice.backups.errors import BackupError

    with exit_on_error(BackupError), progress_bar("backup") as on_progress:
        manifest = bring_back(os.environ, place, directory.absolute(), on_progress=on_progress)
    _print_manifest(manifest)
    screen.notice(f"{place} is ready to be started")


def _place(data_dir: Path | None) -> Path:
    from mqservice.supervisor.config import data_dir_from_env

    return data_dir_from_env(os.environ) if data_dir is None else data_dir.absolute()


def _rate_bytes(text: str | None) -> int:
    if text is None:
        return 0
    found = _RATE.fullmatch(text)
    if found is None or int(found.group(1)) == 0:
        raise typer.BadParameter(
            f"{text!r} is not a valid rate; write it like 50MiB", param_hint="--rate"
        )
    return int(found.group(1)) * _UNITS[found.group(2)]


def _print_manifest(manifest: Manifest) -> None:
    linked = sum(file.is_linked for file in manifest.files)
    screen.notice(
        f"backup of {manifest.made_at}: {len(manifest.files)} files ({linked} linked), "
        f"{manifest.byte_count:,} bytes, the log from {manifest.start_offset:,} to "
        f"{manifest.end_offset:,}"
    )
