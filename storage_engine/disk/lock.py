"""One engine a directory, and a number that tells its runs apart."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from storage_engine.disk.files import Files
from storage_engine.errors import StoreInUse
from storage_engine.layout import CONFIG_DIR, LOCK_FILE

_EPOCH_FILE: Final = "epoch"
_YEAR_2020_MS: Final = 1_577_836_800_000
_EPOCH_MS_MIN: Final = 120_000  # no store is started more often than this for years


class StoreLock:
    """An flock on ``lock``; the kernel lets go of it when the process ends, however it ends."""

    def __init__(self, store_path: Path) -> None:
        self._path = store_path / LOCK_FILE
        self._descriptor = -1

    def acquire(self) -> None:
        """Raises ``StoreInUse`` when another process has it, with that process's id."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StoreInUse(
                f"store directory {self._path.parent} is in use by process {holder}"
            ) from exc
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def next_epoch(files: Files, store_path: Path, now_ms: int) -> int:
    """The number of this run of the engine, one higher than any before; durable on return.

    Lease generations begin with it, so that a receipt of an earlier run is never taken for a new
    one. When the file cannot be read, the number is one that no store has counted up to.
    """
    path = store_path / CONFIG_DIR / _EPOCH_FILE
    try:
        epoch = int(path.read_text()) + 1
    except FileNotFoundError:
        epoch = 1
    except ValueError:
        epoch = _uncounted_epoch(now_ms)
    files.replace_or_overwrite(path, str(epoch).encode())
    return epoch


def raise_epoch(files: Files, store_path: Path, now_ms: int) -> None:
    """Let the next run have a number above all that a store had by now; durable on return.

    For a store that was brought back: the one it is a copy of has counted on since.
    """
    path = store_path / CONFIG_DIR / _EPOCH_FILE
    try:
        epoch = int(path.read_text())
    except (FileNotFoundError, ValueError):
        epoch = 0
    files.replace(path, str(max(epoch, _uncounted_epoch(now_ms))).encode())


def _uncounted_epoch(now_ms: int) -> int:
    return max((now_ms - _YEAR_2020_MS) // _EPOCH_MS_MIN, 1)
