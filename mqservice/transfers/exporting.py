"""Exports a namespace of a stopped service to a directory that a RocketMQ broker can open.

    data directory ── engine's program ──▶ DIRECTORY.exporting ── compared, renamed ──▶ DIRECTORY

What is written stands under its name only when it is whole. A kill leaves DIRECTORY.exporting,
which the next export into the same place removes.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mqservice.backups.database import other_shards
from mqservice.backups.errors import BackupRejected
from mqservice.backups.installation import find_database_url, store_dir
from mqservice.backups.manifest import sync_directory
from mqservice.lib.names import MAIN_SHARD
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.shard_engines import place_of_shard
from mqservice.transfers.engine_program import Progress, run_program
from mqservice.transfers.errors import TransferError, TransferRejected
from storage_engine.tools.transfer.report import ExportReport

_ASIDE_SUFFIX: Final = ".exporting"
_MARK: Final = "EXPORT-IS-NOT-COMPLETE"
_STORE: Final = "store"
_STORE_VARIABLE: Final = "MQ_ENGINE_STORE_DIR"


def export_store(
    environ: Mapping[str, str],
    data_dir: Path,
    target: Path,
    namespace: str,
    *,
    on_progress: Progress,
    shard: str = "",
) -> ExportReport:
    """Write a namespace, or all for "", of the store of ``data_dir`` to ``target``; durable.

    Args:
        shard: the one that has it; "" for the main one, unless there are others to choose from.

    Raises:
        ConfigInvalid: ``shard`` cannot be the name of one.
        TransferRejected: the engine runs, there is no such namespace, or the place is not empty.
        TransferError: it failed; ``target`` is not there.
    """
    source = _source(environ, data_dir, shard, is_all=not namespace)
    aside = target.with_name(target.name + _ASIDE_SUFFIX)
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise TransferRejected(f"{target} is not empty; name an empty or new directory")
        if aside.exists() and not (aside / _MARK).exists():
            raise TransferRejected(
                f"{aside} already exists and is not part of an export: move it away"
            )
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(mode=0o700, parents=True)
        try:
            (aside / _MARK).touch()
            env = {**environ, _STORE_VARIABLE: str(aside / _STORE)}
            arguments = ["export", str(source), f"--namespace={namespace}"]
            try:
                report = run_program(arguments, ExportReport, env=env, on_progress=on_progress)
            except TransferRejected as error:
                raise _with_shards(error, environ, data_dir, shard) from error
            if target.exists():
                target.rmdir()
            (aside / _STORE).rename(target)
            sync_directory(target.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except BackupRejected as error:
        raise TransferRejected(str(error)) from error
    except OSError as error:
        raise TransferError(f"cannot export the store: {error}") from error
    return report


def _source(environ: Mapping[str, str], data_dir: Path, shard: str, *, is_all: bool) -> Path:
    """The store to export. Raises TransferRejected: it is one of several, and nobody says which."""
    if shard not in ("", MAIN_SHARD):
        return place_of_shard(shard, DataDir(data_dir)).store
    is_chosen = shard or environ.get(_STORE_VARIABLE)
    others = [] if is_chosen or not is_all else _other_shards(environ, data_dir)
    if others:
        raise TransferRejected(
            f"the messages are in several shards, {', '.join([MAIN_SHARD, *others])}, and an "
            "export has those of one: name it with --shard, on the machine that has its store, "
            "and export each"
        )
    return store_dir(environ, data_dir)


def _other_shards(environ: Mapping[str, str], data_dir: Path) -> list[str]:
    """Besides the main one, of this machine and as the database knows them, if it is named."""
    found = set(_stores_here(data_dir))
    url = find_database_url(environ)
    if url is not None:
        try:
            found.update(other_shards(url))
        except BackupRejected as error:
            raise TransferRejected(
                f"cannot ask the database which shards there are: {error}. To export the main one "
                "all the same, add --shard main"
            ) from error
    return sorted(found)


def _stores_here(data_dir: Path) -> list[str]:
    """Shards besides the main one whose stores are on this machine."""
    return sorted(path.parent.name for path in DataDir(data_dir).shards.glob("*/store"))


def _with_shards(
    error: TransferRejected, environ: Mapping[str, str], data_dir: Path, shard: str
) -> TransferRejected:
    """Where the namespace may be, if this store does not have it."""
    others = [] if shard or environ.get(_STORE_VARIABLE) else _stores_here(data_dir)
    if not others:
        return error
    return TransferRejected(
        f"{error}. The other shards of this machine are {', '.join(others)}: name one with --shard"
    )
