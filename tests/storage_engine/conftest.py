"""Where the tests of the engine keep their files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from storage_engine.config import GIB
from tests.sizes import IS_TORTURE

_MEMORY: Final = Path("/dev/shm")
_ROOM_BYTES: Final = 2 * GIB  # they need less than a hundredth of it


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In ``make test`` it is in memory, where there is room: a store of this process is as good as
    dead when the test ends, and each of its syncs would wait for the disk. Engines that are
    processes, and all tests of ``make torture``, have their stores on the disk.
    """
    if IS_TORTURE or not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _ROOM_BYTES:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="mq-test-", dir=_MEMORY) as directory:
        path = Path(directory) / "files"  # some tests put something beside it
        path.mkdir()
        yield path
