"""What a power cut leaves of files that are only appended to: as much of each as was synced.

Maps, names and lengths are the crash explorer's business; here a single answer is asked for what
it promises. Everything else of the store is as a kill would leave it.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.storage_engine.doubles import FaultyFiles, copy_store


class SyncedFiles(FaultyFiles):
    """Knows how much of each appended file the disk has."""

    def __init__(self) -> None:
        super().__init__()
        self._synced_bytes: dict[Path, int] = {}

    def append(self, descriptor: int, path: Path, content: bytes) -> None:
        self._synced_bytes.setdefault(path, os.fstat(descriptor).st_size)
        super().append(descriptor, path, content)

    def sync_file(self, descriptor: int, path: Path) -> None:
        super().sync_file(descriptor, path)
        self._synced_bytes[path] = os.fstat(descriptor).st_size

    def cut_power(self, source: Path, target: Path) -> Path:
        """The store in ``source``, as a cut at this moment leaves it."""
        copy_store(source, target)
        for path, synced_bytes in self._synced_bytes.items():
            place = target / path.relative_to(source)
            if place.exists():
                os.truncate(place, min(synced_bytes, place.stat().st_size))
        return target
