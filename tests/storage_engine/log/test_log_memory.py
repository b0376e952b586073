"""The log's old pages are the page cache's, not the engine's, and are read as before."""

from __future__ import annotations

import re
from pathlib import Path

from storage_engine.disk.files import PAGE_BYTES, Files
from storage_engine.disk.mapped_file import MappedFile
from tests.storage_engine.doubles import OpenStore, message

MIB = 1024 * 1024
BODY = bytes(range(256)) * 400
LARGE = {
    "segment_bytes": MIB,
    "warm_bytes": MIB // 2,
    "body_bytes_max": MIB // 8,
    "frame_bytes_max": MIB,
}


def resident_bytes(store_dir: Path) -> int:
    """Of all the maps of the log's segments in this process."""
    log_dir = re.escape(str(store_dir / "commitlog"))
    found = re.findall(
        rf"{log_dir}/\d{{20}}\n.*?^Rss: +(\d+) kB",
        Path("/proc/self/smaps").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert found, "no segment is mapped"
    return sum(map(int, found)) * 1024


def read(store: OpenStore) -> list[bytes]:
    """All bodies; a pull gives a MiB of them at most."""
    bodies: list[bytes] = []
    while found := store.pull_bodies(queue_offset=len(bodies)):
        bodies += found
    return bodies


async def test_what_is_durable_and_old_leaves_memory_and_reads_the_same(tmp_path: Path) -> None:
    bodies = [bytes([number]) + BODY for number in range(30)]  # three segments
    async with OpenStore(tmp_path / "s", limits=LARGE) as store:
        store.topic()
        for body in bodies:
            assert (await store.put(message(body))).error is None
        before = resident_bytes(tmp_path / "s")

        await store.store.release_memory()

        assert before > 2 * MIB
        assert resident_bytes(tmp_path / "s") <= MIB // 2 + MIB  # what is warm, and prefaulted
        assert read(store) == bodies
        assert resident_bytes(tmp_path / "s") > 2 * MIB  # an old reader maps them again ...
        await store.store.release_memory()
        assert resident_bytes(tmp_path / "s") <= MIB // 2 + MIB  # ... until the next time


def test_dirty_pages_are_kept_and_a_map_closed_meanwhile_harms_nothing(tmp_path: Path) -> None:
    files = Files()
    path = tmp_path / "file"
    files.create(path, 4 * PAGE_BYTES, 4 * PAGE_BYTES)
    file = MappedFile(files, path, 0, 4 * PAGE_BYTES, 4 * PAGE_BYTES)
    file.view[:] = b"x" * (4 * PAGE_BYTES)  # not synced
    release = file.memory_release(2 * PAGE_BYTES + 1)
    assert release is not None

    file.close()
    release()

    assert file.memory_release(PAGE_BYTES) is None
    assert bytes(file.view) == b"x" * (4 * PAGE_BYTES)
    file.close()
