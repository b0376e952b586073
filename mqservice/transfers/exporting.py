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

from mqservice.backups.errors import BackupRejected
from mqservice.backups.installation import store_dir
from mqservice.backups.manifest import sync_directory
from mqservice.supervisor.data_dir import DataDir
from mqservice.transfers.engine_program import Progress, run_program
from mqservice.transfers.errors import TransferError, TransferRejected
from storage_engine.tools.transfer.report import ExportReport

_ASIDE_SUFFIX: Final = ".exporting"
_MARK: Final = "EXPORT-IS-NOT-COMPLETE"
_STORE: Final = "store"
_STORE_VARIABLE: Final = "MQ_ENGINE_STORE_DIR"


def export_store(
    environ: Mapping[str, str], data_dir: Path, target: Path, namespace: str, *, told: Progress
) -> ExportReport:
    """Write a namespace, or all for "", of the store of ``data_dir`` to ``target``; durable.

    Raises:
        TransferRejected: the engine runs, there is no such namespace, or the place is not empty.
        TransferError: it failed; ``target`` is not there.
    """
    source = store_dir(environ, data_dir)
    if not namespace and DataDir(data_dir).shards.is_dir() and not environ.get(_STORE_VARIABLE):
        raise TransferRejected(
            f"{data_dir} has the stores of several shards: set {_STORE_VARIABLE} to one of them, "
            "or name a namespace of the main one"
        )
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
            report = run_program(arguments, ExportReport, env=env, told=told)
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
