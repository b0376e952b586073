"""Checks a backup without restoring it: every byte, every record, the dump's contents.

manifest ─▶ sizes, SHA-256 ─▶ nothing else there ─▶ storage_engine.tools.verify ─▶ pg_restore --list
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from mqservice.backups.database import check_dump
from mqservice.backups.files import check_file
from mqservice.backups.manifest import (
    DUMP,
    MANIFEST,
    MANIFEST_SUM,
    STORE,
    Manifest,
    read_manifest,
)
from mqservice.supervisor.binaries import find_postgres_clients
from mqservice.supervisor.processes import PYTHON

# A backup has neither consume queues nor index: a start makes them of the log.
_NOT_COPIED: Final = ("queue_file_", "index_")
_UNREADABLE: Final = 2


class _Finding(msgspec.Struct, frozen=True):
    kind: str
    path: str
    offset: int | None
    what: str


class _Report(msgspec.Struct, frozen=True):
    findings: list[_Finding]


def check(
    directory: Path, *, on_progress: Callable[[int, int], None]
) -> tuple[Manifest, list[str]]:
    """The manifest, and what is wrong, a sentence each. Reads everything twice.

    Raises BackupRejected: it is no backup, or of a newer format; BackupDamaged: its manifest is.
    """
    manifest = read_manifest(directory)
    done_bytes = 0

    def passed(byte_count: int) -> None:
        nonlocal done_bytes
        done_bytes += byte_count
        on_progress(done_bytes, manifest.byte_count)

    faults = [check_file(directory, file, passed=passed) for file in manifest.files]
    known = {file.path for file in manifest.files} | {MANIFEST, MANIFEST_SUM}
    there = {str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()}
    faults += [f"{path}: not listed in the manifest" for path in sorted(there - known)]
    faults += _faults_of_store(directory / STORE)
    if (directory / DUMP).is_file():
        fault = check_dump(find_postgres_clients(manifest.postgres_version), directory / DUMP)
        faults.append(f"{DUMP}: {fault}" if fault else "")
    return manifest, [fault for fault in faults if fault]


def _faults_of_store(store: Path) -> list[str]:
    """What the engine's own check finds; it reads the files and changes none."""
    done = subprocess.run(
        [*PYTHON, "storage_engine.tools.verify", "--json", "--", str(store)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode == _UNREADABLE or not done.stdout:
        return [f"{STORE}: {done.stderr.decode('utf-8', 'replace').strip()}"]
    report = msgspec.json.decode(done.stdout.splitlines()[-1], type=_Report)
    return [
        f"{STORE}/{found.path}{'' if found.offset is None else f' at {found.offset}'}: {found.what}"
        for found in report.findings
        if not found.kind.startswith(_NOT_COPIED)
    ]
