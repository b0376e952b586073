"""Keeps the number of mapped consume queue files within a limit.

    MappedFile ── opened(file) ──▶ [MapPool] ── close_map ──▶ the file that was not used for longest

A store may have 10,000 queues and more; a map costs the kernel memory, and a process may only have
65,530 of them. Second chance: a file that was used since it was last looked at stays. Loop thread
only.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage_engine.disk.mapped_file import MappedFile


class MapPool:
    """See the module's docstring."""

    def __init__(self, count_max: int) -> None:
        assert count_max > 0
        self._count_max = count_max
        self._open: deque[MappedFile] = deque()

    @property
    def open_count(self) -> int:
        return sum([file.is_open for file in self._open])

    def opened(self, file: MappedFile) -> None:
        """``file`` has just been mapped; another one may be closed for it."""
        opened = self._open
        while len(opened) >= self._count_max:
            candidate = opened.popleft()
            if candidate is file:
                continue  # from when it was open before; somebody else than the pool closed it
            if candidate.is_open and candidate.was_used:
                candidate.was_used = False
                opened.append(candidate)
            else:
                candidate.close()
        opened.append(file)
