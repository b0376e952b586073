"""Keeps the number of mapped consume queue files within a limit.

    MappedFile ── opened(file) ──▶ [MapPool] ── close ──▶ the file that was not used for longest

A store may have 10,000 queues and more; a map costs the kernel memory, and a process may only have
65,530 of them. Second chance: a file that was used since it was last looked at stays. Loop thread
only.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage_engine.disk.mapped_file import MappedFile


class MapPool:
    """See the module's docstring."""

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
