"""Prepares a restored store so that an engine can start on it.

Its files must take their room on the disk before they are mapped, and its next run must have a
number that no run of the lost store had: receipts of that one must mean nothing here.
"""

from __future__ import annotations

import os
from pathlib import Path

from storage_engine.clock import SystemClock
from storage_engine.disk.files import Files
from storage_engine.disk.layout import COMMIT_LOG_DIR, base_offset_of
from storage_engine.disk.lock import raise_epoch
from storage_engine.tools.backup.file_copy import sync_directories


def adopt(store: Path) -> None:
    """Durable on return, the names of what was copied too. Raises OSError, DiskFull, SyncFailed."""
    for path in sorted((store / COMMIT_LOG_DIR).iterdir()):
        if base_offset_of(path.name) is None:
            continue
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, 0, os.fstat(descriptor).st_size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    raise_epoch(Files(), store, SystemClock().now_ms())
    sync_directories(store)
