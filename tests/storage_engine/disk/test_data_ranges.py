"""Which parts of a file may hold something else than zeros."""

from __future__ import annotations

import os
from pathlib import Path

from storage_engine.disk.files import Files

PART_BYTES = 1024 * 1024


def written(descriptor: int, at: int) -> None:
    os.pwrite(descriptor, b"x" * 4_096, at)
    os.fsync(descriptor)


def test_ranges_are_those_of_the_moment_and_not_of_what_is_read_meanwhile(tmp_path: Path) -> None:
    """To a file system, pages that were read ahead are data."""
    path = tmp_path / "segment"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.ftruncate(descriptor, 4 * PART_BYTES)
        written(descriptor, 0)
        ranges = Files().data_ranges(path, 0, 4 * PART_BYTES)
        written(descriptor, 3 * PART_BYTES)
    finally:
        os.close(descriptor)
    found = [(start, end) for start, end in ranges if start < end]
    assert found
    # A file system that cannot tell gives the whole, which is one range.
    assert all(start < 3 * PART_BYTES for start, _ in found)
