"""A disk that fills up, what goes on all the same, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.disk.disk_space import DiskState
from storage_engine.errors import DiskFull
from tests.storage_engine.doubles import FaultyFiles, OpenStore, message

RESERVE = {"reserve_bytes": 4_096}


@pytest.mark.parametrize("free", [0, 5, 10])
async def test_at_90_percent_puts_are_refused_and_taken_again_on_their_own(
    tmp_path: Path, free: int
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        await store.put_bodies(b"before")
        store.files.disk = (100, free)
        store.store.disk.measure()
        with pytest.raises(DiskFull, match="messages are accepted again below 90 %"):
            store.start_put([message(b"refused")])
        assert store.pull_bodies() == [b"before"]
        assert store.ack(store.receive()).acked_count == 1
        await store.store.checkpoint()
        store.files.disk = (100, 11)
        store.store.disk.measure()
        await store.put_bodies(b"after")
        assert store.pull_bodies() == [b"before", b"after"]


@pytest.mark.parametrize(
    ("free_gib", "state"),
    [
        (16, DiskState.FINE),
        (15, DiskState.CLEAN),
        (8, DiskState.CLEAN),
        (7, DiskState.FORCE),
        (4, DiskState.FORCE),
        (3, DiskState.FULL),
    ],
)
async def test_a_large_disk_deletes_before_it_refuses(
    tmp_path: Path, free_gib: int, state: DiskState
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.files.disk = (1 << 50, free_gib << 30)
        assert store.store.disk.measure() is state


@pytest.mark.parametrize(
    ("free_percent", "state"),
    [
        (26, DiskState.FINE),
        (25, DiskState.CLEAN),
        (16, DiskState.CLEAN),
        (15, DiskState.FORCE),
        (11, DiskState.FORCE),
        (10, DiskState.FULL),
    ],
)
async def test_a_small_disk_goes_by_its_percentages(
    tmp_path: Path, free_percent: int, state: DiskState
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.files.disk = (100 << 20, free_percent << 20)
        assert store.store.disk.measure() is state


class SmallDisk(FaultyFiles):
    """Journal and checkpoints find room only while the reserve has been given up."""

    def __init__(self, store_dir: Path) -> None:
        super().__init__()
        self._store_dir = store_dir
        self.is_full = False

    def _has_room(self) -> bool:
        return not self.is_full or not (self._store_dir / "reserve").exists()

    def _append(self, descriptor: int, path: Path, content: bytes) -> None:
        if not self._has_room():
            raise DiskFull("no room")
        super()._append(descriptor, path, content)

    def _write_temporary(self, path: Path, content: bytes) -> None:
        if not self._has_room():
            raise DiskFull("no room")
        super()._write_temporary(path, content)


async def test_settles_and_checkpoints_get_the_reserve_and_puts_wait_for_it(tmp_path: Path) -> None:
    files = SmallDisk(tmp_path / "s")
    async with OpenStore(tmp_path / "s", files=files, limits=RESERVE) as store:
        store.topic()
        store.group()
        await store.put_bodies(b"one", b"two")
        files.is_full = True
        files.disk = (1 << 40, 0)
        assert store.ack(store.receive(1)).acked_count == 1
        await store.store.checkpoint()
        assert not (tmp_path / "s" / "reserve").exists()
        with pytest.raises(DiskFull, match="the rest is reserved for settles"):
            store.start_put([message(b"refused")])
        files.is_full = False
        files.disk = (1 << 30, 1 << 30)
        store.store.disk.measure()
        assert (tmp_path / "s" / "reserve").stat().st_blocks * 512 >= 4_096
        await store.put_bodies(b"three")
        assert store.receive().bodies == [b"two", b"three"]


async def test_a_start_on_a_full_disk_lives_on_the_reserve(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=RESERVE) as store:
        store.topic()
        await store.put_bodies(b"kept")
    files = SmallDisk(tmp_path / "s")
    files.is_full = True
    files.disk = (1 << 40, 0)
    async with OpenStore(tmp_path / "s", files=files, limits=RESERVE) as store:
        assert store.pull_bodies() == [b"kept"]
        with pytest.raises(DiskFull):
            store.start_put([message(b"refused")])
        assert not store.store.stats(0).is_writable


async def test_a_stop_on_a_full_disk_lets_go_of_the_directory(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    await store.put_bodies(b"x")
    store.files.full = {"replace"}
    await store.close()
    async with OpenStore(tmp_path / "s") as again:
        assert again.pull_bodies() == [b"x"]


async def test_a_disk_without_room_for_a_reserve_takes_no_puts_until_there_is(
    tmp_path: Path,
) -> None:
    files = FaultyFiles()
    files.disk = (10_000, 8_192)
    async with OpenStore(tmp_path / "s", files=files, limits=RESERVE) as store:
        store.topic()
        with pytest.raises(DiskFull):
            store.start_put([message(b"refused")])
        files.disk = (10_000, 8_193)
        store.store.disk.measure()
        await store.put_bodies(b"taken")
