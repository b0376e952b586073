"""Imports a RocketMQ store as a namespace of a new installation.

    inspect ─▶ report ── asked? ──▶ marker ─▶ database runs ─▶ rows possible?
        ─▶ store, aside, compared ─▶ rows, in one transaction ─▶ store's name ─▶ no marker

The data directory must be fresh, as for a restore, and for the same reason: a kill at any moment
leaves the marker, by which `mqservice up` refuses it and the next import begins anew. A database
that is not ours to make may have tables of this service, but no topics or groups other than those
that the same import has written before it was killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from mqservice.backups.errors import BackupRejected
from mqservice.backups.installation import find_database_url, store_dir
from mqservice.backups.manifest import sync_directory
from mqservice.backups.new_data_dir import embedded_database, reserved_data_dir
from mqservice.lib.names import NAME_CHARS_MAX, name_fault
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.operator_commands import run_command
from mqservice.supervisor.secrets_file import load_or_create_secrets
from mqservice.transfers.engine_program import Progress, run_program
from mqservice.transfers.errors import TransferError, TransferRejected
from storage_engine.tools.transfer.report import ImportReport

_COMMAND: Final = "import-store"
_DEFINITIONS_FILE: Final = "imported.json"
_QUEUE_COUNT_MAX: Final = 256  # of a topic, as ``topics/settings.py`` has it
_STORE_VARIABLE: Final = "MQ_ENGINE_STORE_DIR"


def inspect_store(
    environ: Mapping[str, str],
    source: Path,
    namespace: str,
    retention_ms: int,
    *,
    on_progress: Progress,
) -> ImportReport:
    """What an import would bring. Changes nothing. Raises TransferRejected, TransferError."""
    fault = name_fault(namespace)
    if fault is not None:
        raise TransferRejected(f"namespace {namespace!r}: {fault}")
    arguments = ["inspect", *_arguments(source, namespace, retention_ms)]
    report = run_program(arguments, ImportReport, env=environ, on_progress=on_progress)
    _require_names(report)
    return report


def import_store(
    environ: Mapping[str, str],
    data_dir: Path,
    source: Path,
    report: ImportReport,
    retention_ms: int,
    *,
    on_progress: Progress,
) -> ImportReport:
    """Bring the store that ``report`` is about into ``data_dir``; durable on return.

    ``DATABASE_URL`` of ``environ`` names the database, else the embedded one is made.

    Raises:
        TransferRejected: a place is not fresh, or the source cannot be read; nothing was done.
        TransferError, SupervisorError: there is nothing of it, or the next import removes it.
    """
    place, store = DataDir(data_dir), store_dir(environ, data_dir)
    try:
        with reserved_data_dir(place, store, command=_COMMAND) as aside:
            aside.mkdir(mode=0o700)
            done = asyncio.run(
                _bring_in(environ, place, aside, source, report, retention_ms, on_progress)
            )
            aside.rename(store)
            sync_directory(store.parent)
    except BackupRejected as error:
        raise TransferRejected(str(error)) from error
    except OSError as error:
        raise TransferError(f"cannot import the store: {error}") from error
    return done


async def _bring_in(
    environ: Mapping[str, str],
    place: DataDir,
    aside: Path,
    source: Path,
    report: ImportReport,
    retention_ms: int,
    on_progress: Progress,
) -> ImportReport:
    definitions = place.path / _DEFINITIONS_FILE
    definitions.write_bytes(msgspec.json.encode(report))
    async with _database(place, environ):

        async def command(*arguments: str) -> None:
            await asyncio.to_thread(run_command, environ, place.path, arguments)

        await command("migrate", "--no-input")
        await command("define_imported", "--check", str(definitions))
        arguments = ["import", *_arguments(source, report.namespace, retention_ms)]
        env = {**environ, _STORE_VARIABLE: str(aside)}
        done = await asyncio.to_thread(
            run_program, arguments, ImportReport, env=env, on_progress=on_progress
        )
        if (done.topics, done.groups) != (report.topics, report.groups):
            raise TransferRejected(f"{source} has changed since it was checked: import it again")
        await command("define_imported", str(definitions))
    definitions.unlink()
    return done


@asynccontextmanager
async def _database(place: DataDir, environ: Mapping[str, str]) -> AsyncIterator[None]:
    """Something answers where the environment of a service says that its database is."""
    if find_database_url(environ) is not None:
        if not (environ.get("MQ_SECRET_KEY") or environ.get("MQ_SECRET_KEY_FILE")):
            load_or_create_secrets(place.secrets)
        yield
        return
    async with embedded_database(place, environ):
        yield


def _arguments(source: Path, namespace: str, retention_ms: int) -> list[str]:
    return [
        str(source), f"--namespace={namespace}", f"--retention-ms={retention_ms}",
        f"--name-chars-max={NAME_CHARS_MAX}", f"--queue-count-max={_QUEUE_COUNT_MAX}",
    ]  # fmt: skip


def _require_names(report: ImportReport) -> None:
    """Raises TransferRejected: a topic or group has a name that the service keeps for itself."""
    named = [("topic", topic.name) for topic in report.topics]
    named += [("group", group.name) for group in report.groups]
    for what, name in named:
        fault = name_fault(name)
        if fault is not None:
            raise TransferRejected(f"{what} {name!r} of the store: {fault}")
