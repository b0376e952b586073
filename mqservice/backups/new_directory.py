"""A directory that gets its final name only when it is complete.

[new_directory] ──▶ NAME.partial, locked ──▶ filled ──▶ NAME
                          └── failed: removed; killed: removed by the next one
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mqservice.backups.errors import BackupRejected
from mqservice.backups.manifest import sync_directory

PARTIAL_SUFFIX: Final = ".partial"


@contextlib.contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """A private directory to fill, which is ``target`` afterwards; after a failure nothing is left.

    Raises BackupRejected: there is something at the place, or another process fills it.
    """
    if target.is_symlink() or (target.exists() and not _is_empty(target)):
        raise BackupRejected(
            f"{target} already exists; name a directory that is empty or does not exist"
        )
    require_no_mount(target)
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise BackupRejected(f"cannot create {target}: {error}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupRejected(f"another process is writing to {partial}") from None
        _clear(partial)  # what one that was killed has left
        try:
            yield partial
            sync_directory(partial)
            partial.rename(target)
            sync_directory(target.parent)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    finally:
        os.close(descriptor)


def require_no_mount(path: Path) -> None:
    """Raises BackupRejected: nothing can be given that name by a rename."""
    if os.path.ismount(path):
        raise BackupRejected(f"{path} is a mount point; name a directory in it")


def _clear(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
