"""The lock that allows one engine per directory, and the epoch that tells its runs apart."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, LOCK_FILE
from storage_engine.errors import StoreInUse

_EPOCH_FILE: Final = "epoch"
_YEAR_2020_MS: Final = 1_577_836_800_000
_EPOCH_MS_MIN: Final = 120_000  # no store is started more often than this for years
# struct flock: type, whence, start, length, pid. RocketMQ locks the first byte.
_RECORD_LOCK = struct.Struct("hhqqi4x")
_FIRST_BYTE: Final = _RECORD_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)


class StoreLock:
    """Two locks on ``lock``; the kernel lets go of them when the process ends, however it ends.

    An flock keeps other engines of ours away. A record lock of the first byte is what RocketMQ
    takes (``DefaultMessageStore.start``: ``FileChannel.tryLock(0, 1, false)``), so that neither
    opens a store that the other has open. It belongs to the open file, not to the process, so that
    nothing else in this process can lose it by closing the same file.
    """

    def __init__(self, store_path: Path) -> None:
        self._path = store_path / LOCK_FILE
        self._descriptor = -1
        self._is_mine = False  # the file was not there before

    def acquire(self) -> None:
        """Take both, and write nothing yet. Raises ``StoreInUse`` when another process has one,
        with that process's id.
        """
        while True:
            is_new = not self._path.exists()
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._try_lock(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            if self._is_same_file(descriptor):
                break
            os.close(descriptor)  # an engine that was refused has taken its file away again
        self._descriptor, self._is_mine = descriptor, is_new

    def _try_lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise StoreInUse(
                f"store directory {self._path.parent} is in use by process {holder}, "
                "another engine; stop that engine first. Nothing was changed"
            ) from exc
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FIRST_BYTE)
        except (BlockingIOError, PermissionError) as exc:
            held = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _FIRST_BYTE)
            pid = _RECORD_LOCK.unpack(held)[4]
            holder = str(pid) if pid > 0 else "unknown"
            raise StoreInUse(
                f"store directory {self._path.parent} is in use by process {holder}, "
                "which holds RocketMQ's lock on it; stop the broker first "
                "(bin/mqshutdown broker). Nothing was changed"
            ) from exc

    def _is_same_file(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False

    def write_owner(self) -> None:
        """Write down who has it, now that the store may be changed."""
        owner = str(os.getpid()).encode()
        os.pwrite(self._descriptor, owner, 0)  # first: on a full disk it keeps the block it has
        os.ftruncate(self._descriptor, len(owner))
        self._is_mine = False

    def release(self) -> None:
        """Let go; a file that was made here and never signed goes too."""
        if self._descriptor >= 0:
            if self._is_mine:
                with contextlib.suppress(OSError):
                    self._path.unlink()
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
