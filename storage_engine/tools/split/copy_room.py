"""Whether the disk of a new shard has room for the copy of a store.

STORE's files ── without its cache of the bucket ──┐
segments that only the bucket has ─────────────────┴─▶ [plan_copy] ──▶ CopyPlan
disk of TARGET, what an attempt before has left ───────┘
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from storage_engine.disk.adopted_store import incoming_path
from storage_engine.disk.files import Files
from storage_engine.disk.layout import BUCKET_DIR
from storage_engine.log.bucket_files import read_bucket_files
from storage_engine.tools.backup.take_backup import BackupFailed
from storage_engine.tools.split.protocol_lines import CopyPlan

_BLOCK_BYTES: Final = 512  # of ``st_blocks``, whatever the file system has


def gone_path(incoming: Path) -> Path:
    """Where a copy is while it is deleted."""
    return incoming.with_name(f"{incoming.name}.gone")


def plan_copy(store: Path, target: Path, files: Files) -> CopyPlan:
    """``target``: the store that the other shard has now. While retention of ``store`` is held, or
    a segment may be in neither place for a moment.

    Looks at every file once. Raises ``StoreCorrupt``, ``OSError``.
    """
    incoming = incoming_path(target)
    left_bytes = sum(_size_bytes(path) for path in (incoming, gone_path(incoming)))
    return CopyPlan(
        local_bytes=_size_bytes(store, without=BUCKET_DIR),
        fetched_bytes=sum(each.size_bytes for each in read_bucket_files(store)),
        free_bytes=files.disk_usage(incoming.parent)[1] + left_bytes,
    )


def reject_without_room(plan: CopyPlan, target: Path) -> None:
    """Raises ``BackupFailed``."""
    if not plan.has_room:
        raise BackupFailed(
            f"the copy needs {plan.needed_bytes} bytes on the disk of {target}, "
            f"{plan.fetched_bytes} of them for segments that only the bucket has, but only "
            f"{plan.free_bytes} are free"
        )


def _size_bytes(directory: Path, *, without: str = "") -> int:
    """What its files take of the disk. Those that are deleted meanwhile take nothing."""
    found = 0
    for place, directories, names in os.walk(directory):
        if without in directories:
            directories.remove(without)
        for name in names:
            try:
                found += os.stat(os.path.join(place, name)).st_blocks * _BLOCK_BYTES
            except FileNotFoundError:
                continue
    return found
