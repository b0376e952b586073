"""A run of equal-sized mapped files that together are one long array of bytes.

    offset ──▶ [MappedFiles dir] ──▶ MappedFile base_offset … base_offset + size_bytes ──▶ map

Invariants: files are named by base offset, follow each other without a gap, and have exactly
``size_bytes``; disk stands behind every byte that is written through a map. The commit log and each
consume queue own one run. Writer: the engine's loop thread. Maps are opened when first touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from storage_engine.errors import StoreCorrupt
from storage_engine.files import PAGE_BYTES, Files, Mapping
from storage_engine.layout import base_offset_of, segment_name

_ZERO_STEP_BYTES: Final = 256 * PAGE_BYTES


class MappedFile:
    """One file of the run."""

    __slots__ = ("_files", "_mapping", "allocated_bytes", "base_offset", "path", "size_bytes")

    def __init__(
        self, files: Files, path: Path, base_offset: int, size_bytes: int, allocated: int
    ) -> None:
        self._files = files
        self._mapping: Mapping | None = None
        self.path = path
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.allocated_bytes = allocated

    @property
    def mapping(self) -> Mapping:
        if self._mapping is None:
            self._mapping = self._files.map(self.path, self.size_bytes)
        return self._mapping

    @property
    def view(self) -> memoryview:
        """The bytes of the file; position 0 is ``base_offset``."""
        return self.mapping.view

    @property
    def is_open(self) -> bool:
        return self._mapping is not None

    def allocate_to(self, end: int, step_bytes: int) -> None:
        """Put disk behind the file up to position ``end``, in steps. Raises ``DiskFull``."""
        if end <= self.allocated_bytes:
            return
        target = min(self.size_bytes, -(-end // step_bytes) * step_bytes)
        self._files.allocate(self.path, self.allocated_bytes, target - self.allocated_bytes)
        self.allocated_bytes = target

    def sync(self, start: int, end: int) -> None:
        """Make positions ``[start, end)`` durable. Raises ``SyncFailed``."""
        if end > start:
            self._files.sync_map(self.mapping, self.path, start, end - start)

    def prefault(self, start: int, length_bytes: int) -> None:
        length_bytes = min(length_bytes, self.size_bytes - start)
        if length_bytes > 0:
            self._files.prefault(self.mapping, start, length_bytes)

    def zero_after(self, position: int) -> int:
        """Write zeros over everything from ``position`` on that is not zero yet; how many bytes.

        Old bytes behind a truncated tail could pass for records after the next crash.
        """
        view = self.view
        dirty_bytes = 0
        for first, end in self._files.data_ranges(self.path, position, self.size_bytes):
            for start in range(first, end, _ZERO_STEP_BYTES):
                stop = min(start + _ZERO_STEP_BYTES, end)
                chunk = bytes(view[start:stop])
                not_zero_bytes = len(chunk) - chunk.count(0)
                if not_zero_bytes:
                    dirty_bytes += not_zero_bytes
                    self.allocate_to(stop, _ZERO_STEP_BYTES)
                    view[start:stop] = bytes(stop - start)
                    self.sync(start, stop)
        return dirty_bytes

    def close(self) -> None:
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None


class MappedFiles:
    """The run. ``files[i]`` follows ``files[i - 1]``."""

    def __init__(self, access: Files, directory: Path, size_bytes: int) -> None:
        self._access = access
        self.directory = directory
        self.size_bytes = size_bytes
        self.files: list[MappedFile] = []

    def load(self) -> None:
        """Find the files that are there.

        Raises:
            StoreCorrupt: a file has another size, or one is missing in between. Nothing is changed.
        """
        self.close()
        self.files = []
        found = []
        for path in self.directory.iterdir() if self.directory.is_dir() else ():
            base_offset = base_offset_of(path.name)
            if base_offset is not None:
                found.append((base_offset, path))
        found.sort()
        for base_offset, path in found:
            stat = path.stat()
            if stat.st_size != self.size_bytes:
                if stat.st_size == 0 and base_offset == found[-1][0] and len(found) > 1:
                    self._access.unlink(path)  # the machine stopped while the file was being made
                    continue
                raise StoreCorrupt(f"{path} has {stat.st_size} bytes, expected {self.size_bytes}")
            if self.files and base_offset != self.files[-1].base_offset + self.size_bytes:
                raise StoreCorrupt(
                    f"{path} should start at {self.files[-1].base_offset + self.size_bytes}: "
                    "a file of the run is missing"
                )
            # Only what is known to have disk behind it may be written through the map.
            allocated = self.size_bytes if stat.st_blocks * 512 >= stat.st_size else 0
            self.files.append(
                MappedFile(self._access, path, base_offset, self.size_bytes, allocated)
            )

    @property
    def start_offset(self) -> int:
        return self.files[0].base_offset if self.files else 0

    @property
    def end_offset(self) -> int:
        """Where the next file would start."""
        return self.files[-1].base_offset + self.size_bytes if self.files else 0

    def find(self, offset: int) -> MappedFile | None:
        """The file that holds ``offset``, or None outside the run."""
        if not self.files or not self.files[0].base_offset <= offset < self.end_offset:
            return None
        return self.files[(offset - self.files[0].base_offset) // self.size_bytes]

    def roll(self, allocate_bytes: int | None = None) -> MappedFile:
        """A new file at the end of the run; durable. Raises ``DiskFull``."""
        base_offset = self.end_offset
        allocate_bytes = self.size_bytes if allocate_bytes is None else allocate_bytes
        self._access.make_dirs(self.directory)
        path = self.directory / segment_name(base_offset)
        self._access.create(path, self.size_bytes, allocate_bytes)
        self.files.append(
            MappedFile(self._access, path, base_offset, self.size_bytes, allocate_bytes)
        )
        return self.files[-1]

    def drop_after(self, offset: int) -> None:
        """Delete the files that start at or after ``offset``."""
        while self.files and self.files[-1].base_offset >= offset:
            file = self.files.pop()
            file.close()
            self._access.unlink(file.path)

    def close(self) -> None:
        for file in self.files:
            file.close()
