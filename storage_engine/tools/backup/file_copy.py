"""Copies files in chunks: bounded memory, limited rate, and the SHA-256 of each file.

source ── 1 MiB ──▶ hash ──▶ target ──▶ fsync; what was read and written leaves the page cache
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from storage_engine.clock import measured_ns
from storage_engine.disk.files import Files
from storage_engine.tools.backup.protocol_lines import CopiedFile

PIECE_BYTES: Final = 1024 * 1024
_ZEROS: Final = bytes(PIECE_BYTES)
_NS: Final = 1_000_000_000


class Pace:
    """Holds whoever copies to ``rate_bytes`` a second; 0: no limit. ``wait`` takes seconds."""

    def __init__(self, rate_bytes: int = 0, wait: Callable[[float], object] | None = None) -> None:
        self._rate_bytes = rate_bytes
        # A second at most between two pieces: a lease is kept, an end is noticed.
        self.piece_bytes = min(PIECE_BYTES, rate_bytes) or PIECE_BYTES
        self._began_ns = measured_ns()
        self._bytes = 0
        self._wait = wait or threading.Event().wait

    def passed(self, byte_count: int) -> None:
        """So many bytes more were copied; returns when the next may follow."""
        self._bytes += byte_count
        if self._rate_bytes:
            due_ns = self._bytes * _NS // self._rate_bytes
            self._wait(max(0, due_ns - (measured_ns() - self._began_ns)) / _NS)


def copy_file(
    source: Path,
    target: Path,
    *,
    name: str,
    data_bytes: int | None = None,
    pace: Pace | None = None,
    passed: Callable[[int], None] | None = None,
) -> CopiedFile:
    """A copy of ``source`` as it is now, durable on return but for its name.

    Args:
        data_bytes: behind so many bytes the copy holds zeros, up to the size of the source.
        passed: told of each piece's size.

    Raises OSError; ``target`` may hold a part then.
    """
    digest = hashlib.sha256()
    piece_bytes = pace.piece_bytes if pace is not None else PIECE_BYTES
    with source.open("rb") as reader, open(target, "xb", opener=_private) as writer:
        stat = os.fstat(reader.fileno())
        size = stat.st_size
        left = size if data_bytes is None else min(size, data_bytes)
        zeros = size - left
        at = 0
        while left:
            piece = reader.read(min(left, piece_bytes))
            if not piece:
                raise OSError(f"{source} ended at byte {at}, {left} bytes before its expected end")
            digest.update(piece)
            writer.write(piece)
            # What is mapped by the engine stays; the rest would push out what it needs.
            os.posix_fadvise(reader.fileno(), at, len(piece), os.POSIX_FADV_DONTNEED)
            at, left = at + len(piece), left - len(piece)
            if passed is not None:
                passed(len(piece))
            if pace is not None:
                pace.passed(len(piece))
        writer.truncate(size)
        for first in range(0, zeros, PIECE_BYTES):
            digest.update(_ZEROS[: min(PIECE_BYTES, zeros - first)])
        writer.flush()
        os.fsync(writer.fileno())
        os.posix_fadvise(writer.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return CopiedFile(
        path=name,
        size_bytes=size,
        sha256=digest.hexdigest(),
        source_inode=stat.st_ino,
        source_mtime_ns=stat.st_mtime_ns,
    )


def write_file(target: Path, content: bytes, *, name: str) -> CopiedFile:
    """Make ``target`` with ``content``; durable on return but for its name. Raises OSError."""
    with open(target, "xb", opener=_private) as writer:
        writer.write(content)
        writer.flush()
        os.fsync(writer.fileno())
    digest = hashlib.sha256(content).hexdigest()
    return CopiedFile(path=name, size_bytes=len(content), sha256=digest)


def sync_directories(root: Path) -> None:
    """Make the names of all files below durable. Raises SyncFailed."""
    for directory, _, _ in os.walk(root):
        Files().sync_dir(Path(directory))


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
