"""A run of equal-sized mapped files that together are one long array of bytes.

    offset ──▶ [MappedFiles dir] ──▶ MappedFile base_offset … base_offset + size_bytes ──▶ map

Invariants: files are named by base offset, follow each other without a gap, and have exactly
``size_bytes``. The run grows at its end and shrinks at both. The commit log and each consume queue
own one. Writer: the engine's loop thread; ``prepare`` may run on another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from storage_engine.disk.files import PAGE_BYTES, Files
from storage_engine.disk.layout import (
    LOST_AND_FOUND,
    TEMPORARY_SUFFIX,
    base_offset_of,
    segment_name,
)
from storage_engine.disk.mapped_file import MappedFile, MapPool
from storage_engine.errors import StoreCorrupt


class MappedFiles:
    """The run. ``files[i]`` follows ``files[i - 1]``.

    Without ``are_durable`` files are only marked: somebody else makes their names durable.
    """

    def __init__(
        self,
        access: Files,
        directory: Path,
        size_bytes: int,
        *,
        pool: MapPool | None = None,
        let_go: Callable[[], None] | None = None,
        are_durable: bool = True,
    ) -> None:
        self._access = access
        self._are_durable = are_durable
        self._pool = pool
        self._let_go = let_go
        self.directory = directory
        self.size_bytes = size_bytes
        self.files: list[MappedFile] = []
        self._prepared: MappedFile | None = None
        self._preparing = threading.Lock()
        self._leftovers: list[Path] = []

    def load(self) -> None:
        """Find the files that are there; one that was being made is deleted.

        Raises:
            StoreCorrupt: a file has another size, or one is missing in between. Nothing is changed.
        """
        self.close()
        self.files = []
        found, leftovers = [], []
        for path in self.directory.iterdir() if self.directory.is_dir() else ():
            base_offset = base_offset_of(path.name)
            if base_offset is not None:
                found.append((base_offset, path))
            elif path.name.endswith(TEMPORARY_SUFFIX):
                leftovers.append(path)
        found.sort()
        for base_offset, path in found:
            stat = path.stat()
            if stat.st_size != self.size_bytes:
                if stat.st_size == 0 and base_offset == found[-1][0] and len(found) > 1:
                    self._access.unlink(path)  # the machine stopped while the file was being made
                    continue
                raise StoreCorrupt(f"{path} has {stat.st_size} bytes, expected {self.size_bytes}")
            if self.files and base_offset != self.end_offset:
                raise StoreCorrupt(
                    f"{path} should start at {self.end_offset}: the file before it is missing"
                )
            # Only what is known to have disk behind it may be written through the map.
            allocated = self.size_bytes if stat.st_blocks * 512 >= stat.st_size else 0
            self.files.append(self._file(base_offset, allocated))
        for path in leftovers:
            self._access.unlink(path)

    def open_read_only(self) -> None:
        """Find the files that are there and change nothing, not even what is left over; one may be
        shorter than the others. ``tidy`` must follow.

        Raises:
            StoreCorrupt: something else is there, or one is missing in between.
        """
        self.close()
        self.files, self._leftovers = [], []
        found: list[tuple[int, Path, os.stat_result]] = []
        for path in sorted(self.directory.iterdir()) if self.directory.is_dir() else ():
            base_offset = base_offset_of(path.name)
            if base_offset is not None and path.is_file():
                found.append((base_offset, path, path.stat()))
            elif path.name.endswith(TEMPORARY_SUFFIX):
                self._leftovers.append(path)
            elif not path.name.startswith(".") and path.name != LOST_AND_FOUND:
                raise StoreCorrupt(
                    f"{path} is not a file of the log, whose names have 20 digits. "
                    "Nothing was changed: move it out of the store"
                )
        while found and not found[-1][2].st_size:
            self._leftovers.append(found.pop()[1])  # the machine stopped while it was being made
        for base_offset, path, stat in found:
            if stat.st_size > self.size_bytes:
                raise StoreCorrupt(
                    f"{path} has {stat.st_size} bytes, but the files of the log have "
                    f"{self.size_bytes}. Nothing was changed: restore the file from a "
                    "backup"
                )
            if self.files and base_offset != self.end_offset:
                raise StoreCorrupt(
                    f"{path} should start at {self.end_offset}: the file before it is "
                    "missing. Nothing was changed: restore it, for example from a "
                    "backup"
                )
            allocated = self.size_bytes if stat.st_blocks * 512 >= self.size_bytes else 0
            self.files.append(self._file(base_offset, allocated, stat.st_size))

    def tidy(self) -> None:
        """Extend the files that are shorter than the others; delete what ``open_read_only`` found
        left over.
        """
        for file in self.files:
            file.extend()
        for path in self._leftovers:
            self._access.unlink(path)
        self._leftovers = []

    def _file(
        self, base_offset: int, allocated_bytes: int, present_bytes: int | None = None
    ) -> MappedFile:
        path = self.directory / segment_name(base_offset)
        return MappedFile(
            self._access,
            path,
            base_offset,
            self.size_bytes,
            allocated_bytes,
            pool=self._pool,
            let_go=self._let_go,
            is_new=not self._are_durable,
            present_bytes=present_bytes,
        )

    @property
    def start_offset(self) -> int:
        return self.files[0].base_offset if self.files else 0

    @property
    def end_offset(self) -> int:
        return self.files[-1].base_offset + self.size_bytes if self.files else 0

    def find(self, offset: int) -> MappedFile | None:
        """The file that holds ``offset``, or None outside the run."""
        if not self.files or not self.files[0].base_offset <= offset < self.end_offset:
            return None
        return self.files[(offset - self.files[0].base_offset) // self.size_bytes]

    def roll(self, allocate_bytes: int | None = None, base_offset: int | None = None) -> MappedFile:
        """A new file at the end of the run, or the first one, at ``base_offset``.

        Raises ``DiskFull``.
        """
        with self._preparing:
            base = self.end_offset if self.files else base_offset or 0
            file, self._prepared = self._prepared, None
            if file is None or file.base_offset != base:
                wanted = self.size_bytes if allocate_bytes is None else allocate_bytes
                file = self._make(base, wanted)
            self.files.append(file)
        return file

    def _make(self, base_offset: int, allocate_bytes: int) -> MappedFile:
        durable = self._are_durable
        self._access.make_dirs(self.directory, durable=durable)
        file = self._file(base_offset, allocate_bytes)
        self._access.create(file.path, self.size_bytes, allocate_bytes, durable=durable)
        return file

    def prepare(self, base_offset: int) -> MappedFile | None:
        """Make the file that ``roll`` will want next; any thread. None when it is there already.

        Raises ``DiskFull``.
        """
        with self._preparing:
            if self._prepared is not None or base_offset < self.end_offset:
                return None
            self._prepared = self._make(base_offset, self.size_bytes)
            return self._prepared

    def drop_after(self, offset: int) -> None:
        """Delete the files that start at or after ``offset``."""
        while self.files and self.files[-1].base_offset >= offset:
            self._drop(self.files.pop())

    def remove_before(self, offset: int) -> list[MappedFile]:
        """Let go of the files that end at or before ``offset``, but never of the last.

        They are closed and no part of the run any more; ``delete`` must follow, in their order.
        """
        taken: list[MappedFile] = []
        while len(self.files) > 1 and self.files[0].base_offset + self.size_bytes <= offset:
            taken.append(self.files.pop(0))
            taken[-1].close()
        return taken

    def delete(self, taken: list[MappedFile]) -> None:
        """Delete files that were taken out of the run; any thread. Raises ``SyncFailed``."""
        for file in taken:
            self._unlink(file)

    def drop_all(self) -> None:
        """Delete every file in the directory that could belong to the run."""
        self.close()
        self.files = []
        for path in self.directory.iterdir() if self.directory.is_dir() else ():
            if base_offset_of(path.name) is not None:
                self._access.unlink(path)
        self._access.drop_leftovers(self.directory)

    def _drop(self, file: MappedFile) -> None:
        file.close()
        self._unlink(file)

    def _unlink(self, file: MappedFile) -> None:
        """One after the other also on the disk: a hole in the run would refuse the next start."""
        self._access.unlink(file.path)
        if self._are_durable:
            self._access.sync_dir(self.directory)

    def close(self) -> None:
        for file in self.files:
            file.close()
        if self._prepared is not None:
            self._prepared.close()


def file_size_of(directory: Path, expected_bytes: int) -> int:
    """How long each file of a run is that is there already; ``expected_bytes`` of a new one.

    Whoever made them may have chosen another size. Two names tell it, and one file alone its length
    where that is a number of whole pages: else it is one that was cut short.
    """
    found = []
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        base_offset = base_offset_of(path.name)
        if base_offset is not None and path.is_file() and path.stat().st_size:
            found.append((base_offset, path.stat().st_size))
    if not found:
        return expected_bytes
    longest = max(size for _, size in found)
    if longest == expected_bytes:
        return expected_bytes
    gaps = {after[0] - before[0] for before, after in pairwise(found)}
    if expected_bytes in gaps:
        return expected_bytes
    if longest % PAGE_BYTES:
        is_expected = longest < expected_bytes
        return expected_bytes if is_expected else -(-longest // PAGE_BYTES) * PAGE_BYTES
    return longest
