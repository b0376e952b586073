"""A file that reserves disk space, to be overwritten when there is none for a new file.

    retention, when the disk has room ── keep ──▶ [SpareFile]
    retention, when it has none ── replace(path, content) ──▶ overwritten, cut, renamed to path

The reserve (``disk_space.py``) may be gone by then, and somebody else may have taken what it gave.
Only what makes room may use this one. Loop thread only.
"""

from __future__ import annotations

import logging
from pathlib import Path

from storage_engine.disk.files import Files
from storage_engine.errors import DiskFull, StoreError

log = logging.getLogger(__name__)


class SpareFile:
    """See the module's docstring. ``size_bytes``: of content that fits; 0: none is kept."""

    def __init__(self, files: Files, path: Path, size_bytes: int) -> None:
        self._files = files
        self._path = path
        self._size_bytes = size_bytes

    def prepare(self) -> None:
        """Have one again, where the disk has room."""
        if not self._size_bytes or self._exists():
            return
        try:
            # Written, not only allocated: some file systems need more room for a first write.
            content = bytes(self._size_bytes)
            self._files.create(self._path, self._size_bytes, self._size_bytes, content)
        except (StoreError, OSError) as exc:
            log.info(
                "Could not create the spare file yet",
                extra={"action": "spare_file_missing", "reason": str(exc)},
            )

    def replace(self, path: Path, content: bytes) -> None:
        """Give ``path`` new content, all or nothing, durable on return, without new room.

        Raises ``DiskFull``: it is not there, or too small.
        """
        if len(content) > self._size_bytes or not self._exists():
            raise DiskFull(
                f"cannot write {len(content)} bytes for {path}: the disk is full and "
                "there is no spare file"
            )
        self._files.overwrite(self._path, content)
        self._files.rename(self._path, path)
        self._files.sync_dir(path.parent)
        if self._path.parent != path.parent:
            self._files.sync_dir(self._path.parent)
        log.warning(
            "The disk is full; used the spare file to replace a file",
            extra={"action": "spare_file_used", "path": str(path)},
        )

    def _exists(self) -> bool:
        try:
            return self._path.stat().st_size == self._size_bytes
        except FileNotFoundError:
            return False
