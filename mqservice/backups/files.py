"""Reads and copies files of a backup, and compares each with its manifest.

manifest ──▶ [check_file] ──▶ what is wrong      manifest ──▶ [copy_checked] ──▶ the same file
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from mqservice.backups.errors import BackupDamaged
from mqservice.backups.manifest import FileEntry

PIECE_BYTES: Final = 1024 * 1024
_ZEROS: Final = bytes(PIECE_BYTES)


def entry_of(directory: Path, path: str) -> FileEntry:
    """The entry of a file that is there; reads it once, and makes it durable."""
    with (directory / path).open("rb") as file:
        size, sha256 = _read(file, lambda _: None)
        os.fsync(file.fileno())
    return FileEntry(path=path, size_bytes=size, sha256=sha256)


def check_file(directory: Path, entry: FileEntry, *, passed: Callable[[int], None]) -> str:
    """What is wrong with the file; empty when it is as its entry says. Reads it once."""
    try:
        with (directory / entry.path).open("rb") as file:
            size, sha256 = _read(file, passed)
    except OSError as error:
        return f"{entry.path}: {error.strerror}"
    return _fault(entry, size, sha256)


def copy_checked(
    directory: Path, entry: FileEntry, target: Path, *, passed: Callable[[int], None]
) -> None:
    """Copy a file of the backup to ``target``, durable on return but for its name.

    Raises BackupDamaged: it is not what its entry says; OSError.
    """
    digest, size = hashlib.sha256(), 0
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        reader = (directory / entry.path).open("rb")
    except FileNotFoundError as error:
        raise BackupDamaged(f"the backup is damaged: {entry.path} is missing") from error
    with reader, open(target, "xb", opener=_private) as writer:
        while piece := reader.read(PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
            if piece == _ZEROS[: len(piece)]:
                writer.seek(len(piece), os.SEEK_CUR)  # the last segment is mostly that
            else:
                writer.write(piece)
            passed(len(piece))
        writer.truncate(size)
        writer.flush()
        os.fsync(writer.fileno())
    fault = _fault(entry, size, digest.hexdigest())
    if fault:
        raise BackupDamaged(f"the backup is damaged: {fault}")


def _read(file: BinaryIO, passed: Callable[[int], None]) -> tuple[int, str]:
    """Its size, and its SHA-256."""
    digest, size = hashlib.sha256(), 0
    while piece := file.read(PIECE_BYTES):
        digest.update(piece)
        size += len(piece)
        passed(len(piece))
    return size, digest.hexdigest()


def _fault(entry: FileEntry, size: int, sha256: str) -> str:
    if size != entry.size_bytes:
        return f"{entry.path}: has {size} bytes, but the manifest says {entry.size_bytes}"
    if sha256 != entry.sha256:
        return f"{entry.path}: its SHA-256 differs from the one in the manifest"
    return ""


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
