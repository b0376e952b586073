"""A disk without a byte left, its reserve gone: retention makes room all the same."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage_engine.errors import DiskFull
from tests.storage_engine.doubles import OpenStore, copy_store
from tests.storage_engine.faults import machine

BODY = bytes(800)  # four records a segment
LIMITS = {"reserve_bytes": 256 * 1_024, "retention_files_max": 3}
FULL = (100, 0)
FINE = (1 << 30, 1 << 29)


@contextlib.contextmanager
def mounted(kind: str) -> Iterator[Path]:
    machine.need_mounts()
    if kind == "tmpfs":
        with machine.tmpfs(4 * machine.MIB) as path:
            yield path
    else:
        with machine.ext4() as disk:
            yield disk.path


def fill(ballast: Path) -> None:
    """Take what is left of the disk, to the last byte."""
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 20, 4_096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as exc:
                if exc.errno != errno.ENOSPC:
                    raise


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
async def test_the_oldest_segments_go_though_nothing_new_can_be_written(kind: str) -> None:
    with mounted(kind) as disk:
        ballast = disk / "ballast"
        async with OpenStore(disk / "s", limits=LIMITS) as store:
            store.topic()
            store.group()
            await store.put_bodies(*[b"%d" % n + BODY for n in range(24)])
            store.ack(store.receive(1), 0)
            await store.store.checkpoint()
            await store.store.retention.run()
            assert (disk / "s" / "spare").stat().st_size == 16 * 1_024

            fill(ballast)
            assert store.store.disk.release()
            fill(ballast)
            store.files.disk = FULL
            with pytest.raises(DiskFull):
                await store.store.checkpoint()
            assert await store.store.retention.run() == 1
            assert [body[:2] for body in store.pull_bodies(queue_offset=4)][:2] == [b"4\0", b"5\0"]
            queue = store.store.catalog.get_queues("t")[0]
            assert queue.min_offset == 4
            assert not (disk / "s" / "spare").exists()
            assert [body[:2] for body in store.receive(1).bodies] == [b"4\0"]
            # There is room again: what could not be settled is, and the spare file comes back.
            ballast.unlink()
            store.files.disk = FINE
            await store.store.retention.run()
            assert store.store.retention.lost_message_count == 3
            assert (disk / "s" / "spare").exists()
        async with OpenStore(disk / "s", limits=LIMITS) as store:
            assert store.store.catalog.get_queues("t")[0].min_offset == 4
            assert len(store.pull_bodies(queue_offset=4)) == 20


async def test_a_kill_after_it_leaves_where_the_queues_begin() -> None:
    with mounted("tmpfs") as disk:
        store = OpenStore(disk / "s", limits=LIMITS).open()
        store.topic()
        await store.put_bodies(*[BODY] * 24)
        await store.store.checkpoint()
        await store.store.retention.run()
        fill(disk / "ballast")
        assert store.store.disk.release()
        fill(disk / "ballast")
        store.files.disk = FULL
        assert await store.store.retention.run() == 1
        (disk / "ballast").unlink()
        killed = disk / "killed"
        copy_store(disk / "s", killed)
        for derived in ("consumequeue", "index"):
            shutil.rmtree(killed / derived)
        async with OpenStore(killed, limits=LIMITS) as again:
            queue = again.store.catalog.get_queues("t")[0]
            assert (queue.min_offset, queue.max_offset) == (4, 24)
        await store.close()
