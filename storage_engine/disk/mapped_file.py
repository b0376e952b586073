"""One preallocated file of a run, mapped when it is first touched.

Invariant: disk stands behind every byte that is written through the map, so that a full disk is an
error of ``allocate_to`` and never a signal. Writer: the engine's loop thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from storage_engine.disk.files import PAGE_BYTES, Files, Mapping, ReadOnlyFiles

_STEP_BYTES: Final = 256 * PAGE_BYTES
_ZEROS: Final = bytes(_STEP_BYTES + PAGE_BYTES)


class MappedFile:
    """See the module's docstring. ``let_go`` is called when the pool closes the map; while
    ``is_new`` the file's name may not be durable. A file that was found with fewer than
    ``size_bytes`` is as long as ``present_bytes`` until ``extend``.
    """

    __slots__ = (
        "_files",
        "_let_go",
        "_mapping",
        "_pool",
        "allocated_bytes",
        "base_offset",
        "is_new",
        "path",
        "present_bytes",
        "size_bytes",
        "was_used",
    )

    is_local = True  # its bytes are on this disk

    def __init__(
        self,
        files: Files,
        path: Path,
        base_offset: int,
        size_bytes: int,
        allocated_bytes: int,
        *,
        pool: MapPool | None = None,
        let_go: Callable[[], None] | None = None,
        is_new: bool = False,
        present_bytes: int | None = None,
    ) -> None:
        self._files = files
        self._mapping: Mapping | None = None
        self._pool = pool
        self._let_go = let_go
        self.path = path
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.present_bytes = size_bytes if present_bytes is None else present_bytes
        self.allocated_bytes = allocated_bytes
        self.was_used = False
        self.is_new = is_new

    @property
    def mapping(self) -> Mapping:
        mapping = self._mapping
        if mapping is None:
            mapping = self._mapping = self._files.map(self.path, self.present_bytes)
            if self._pool is not None:
                self._files.disable_read_ahead(mapping)
                self._pool.opened(self)
        self.was_used = True
        return mapping

    @property
    def view(self) -> memoryview:
        """The bytes of the file; position 0 is ``base_offset``. Not to be kept: the pool may close
        it.
        """
        return self.mapping.view

    @property
    def is_open(self) -> bool:
        return self._mapping is not None

    def extend(self) -> None:
        """Give the file its whole size, where it is shorter; durable on return."""
        if self.present_bytes < self.size_bytes:
            self.close()
            self._files.extend(self.path, self.size_bytes)
            self.present_bytes = self.size_bytes

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

    def sync_whole(self) -> None:
        """Make all that was written durable, without a map; any thread. Raises ``SyncFailed``."""
        self._files.sync_path(self.path)

    def rewrite(self, start: int, end: int) -> None:
        """Write positions ``[start, end)`` again as they are, and make them durable.

        After a sync that failed, maybe in an earlier run, the kernel takes lost pages for clean
        ones and would not write them. Raises ``SyncFailed``.
        """
        view = self.view
        for first in range(start, end, _STEP_BYTES):
            last = min(first + _STEP_BYTES, end)
            view[first:last] = bytes(view[first:last])
        self.sync(start, end)

    def replace(self, used_bytes: int) -> None:
        """Put a new file in the place of this one, with the same first ``used_bytes``; any thread.

        Nothing durable depends on the old file from then on; ``close`` must follow, so that the
        next touch maps the new one. Raises ``DiskFull``, ``SyncFailed``: this map still has all of
        it, and it may be tried again.
        """
        content = self.view[:used_bytes]
        self._files.create(self.path, self.size_bytes, self.size_bytes, content)
        self.allocated_bytes = self.size_bytes

    def prefault(self, start: int, length_bytes: int) -> None:
        """Give pages their memory ahead of use."""
        length_bytes = min(length_bytes, self.size_bytes - start)
        if length_bytes > 0:
            self._files.prefault(self.mapping, start, length_bytes)

    def memory_release(self, end: int) -> Callable[[], None] | None:
        """What takes the pages below position ``end`` out of memory, on any thread; None where the
        file is not mapped. Until it has run the address range is kept, even after ``close``.
        """
        mapping = self._mapping
        if mapping is None:
            return None
        held = mapping.view[:0]

        def release() -> None:
            with held:
                self._files.release_memory(mapping, min(end, self.present_bytes))

        return release

    def data_ranges(self, start: int) -> list[tuple[int, int]]:
        """Parts from position ``start`` on that may hold something else than zeros, in order."""
        return self._files.data_ranges(self.path, start, self.present_bytes)

    def nonzero_end(self, start: int) -> int:
        """Position behind the last byte from ``start`` on that is not zero; ``start`` without
        one.
        """
        end = start
        for first, last in self.data_ranges(start):
            for at in range(first, last, _STEP_BYTES):
                chunk = bytes(self.view[at : min(at + _STEP_BYTES, last)])
                if not are_zeros(chunk):
                    end = at + len(chunk.rstrip(b"\0"))
        return end

    def zero_after(self, position: int) -> int:
        """Write zeros over everything from ``position`` on that is not zero yet; how many bytes.

        Old bytes behind a truncated tail could pass for records after the next crash.
        """
        dirty_bytes = 0
        for first, end in self.data_ranges(position):
            for start in range(first, end, _STEP_BYTES):
                stop = min(start + _STEP_BYTES, end)
                chunk = bytes(self.view[start:stop])
                if not are_zeros(chunk):
                    dirty_bytes += len(chunk) - chunk.count(0)
                    self.allocate_to(stop, PAGE_BYTES)  # what is not zero has its disk already
                    self.view[start:stop] = bytes(stop - start)
                    self.sync(start, stop)
        return dirty_bytes

    def close(self) -> None:
        """Let go of the map; it is opened again when it is next touched."""
        mapping, self._mapping = self._mapping, None
        if mapping is not None:
            if self._let_go is not None:
                self._let_go()
            mapping.close()


def read_only(path: Path, base_offset: int, size_bytes: int = 0) -> MappedFile:
    """A file as tools look at it; ``size_bytes`` where it should be longer than it is."""
    present_bytes = path.stat().st_size
    return MappedFile(
        ReadOnlyFiles(), path, base_offset, size_bytes or present_bytes, 0,
        present_bytes=present_bytes,
    )  # fmt: skip


def are_zeros(content: bytes) -> bool:
    """Whether there is nothing but zeros, as behind the end of a log; at most a MiB and a
    page. Ten times as fast as counting.
    """
    assert len(content) <= len(_ZEROS)
    return _ZEROS.startswith(content)


class MapPool:
    """Keeps the number of mapped consume queue files within a limit.

        MappedFile ── opened(file) ──▶ [MapPool] ── close ──▶ the file that was not used for longest

    A store may have 10,000 queues and more; a map costs the kernel memory, and a process may only
    have 65,530 of them. Second chance: a file that was used since it was last looked at stays.
    """

    def __init__(self, count_max: int) -> None:
        assert count_max > 0
        self._count_max = count_max
        # Ordered by when each was opened, or last found in use. Some may be closed by now.
        self._open: OrderedDict[MappedFile, None] = OrderedDict()

    @property
    def open_count(self) -> int:
        return sum([file.is_open for file in self._open])

    def opened(self, file: MappedFile) -> None:
        """``file`` has just been mapped; another one may be closed for it."""
        opened = self._open
        opened.pop(file, None)  # from when it was open before; not the pool closed it
        while len(opened) >= self._count_max:
            candidate, _ = opened.popitem(last=False)
            if candidate.is_open and candidate.was_used:
                candidate.was_used = False
                opened[candidate] = None
            else:
                candidate.close()
        opened[file] = None
