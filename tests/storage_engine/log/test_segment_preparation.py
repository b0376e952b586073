"""The next segment is there before it is needed, and harms nobody when it is not used."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.storage_engine.doubles import FaultyFiles, OpenStore, copy_store, message
from tests.storage_engine.test_store import wait_until

AHEAD = {"prepare_segments": 1}
BODY = bytes(800)  # four records a segment


def segments(store_dir: Path) -> list[int]:
    return sorted(int(p.name) // 4_096 for p in (store_dir / "commitlog").glob("0*[0-9]"))


class Maker(FaultyFiles):
    """Notes which thread makes which file."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[str, str]] = []

    def create(
        self,
        path: Path,
        size_bytes: int,
        allocate_bytes: int,
        content: bytes | memoryview = b"",
        *,
        durable: bool = True,
    ) -> None:
        if path.parent.name == "commitlog":
            self.made.append((path.name[-5:], threading.current_thread().name))
        super().create(path, size_bytes, allocate_bytes, content, durable=durable)


async def test_a_segment_half_full_has_the_next_one_made_on_another_thread(tmp_path: Path) -> None:
    files = Maker()
    async with OpenStore(tmp_path / "s", files=files, limits=AHEAD) as store:
        store.topic()
        await store.put_bodies(BODY, BODY)
        assert segments(tmp_path / "s") == [0]
        await store.put_bodies(BODY)
        await wait_until(lambda: segments(tmp_path / "s") == [0, 1])
        await store.put_bodies(BODY, BODY)
        assert [name for name, _ in files.made] == ["00000", "04096"]
        assert files.made[0][1] != "prefaulter" == files.made[1][1]
        assert store.store.stats(0).segment_count == 2


async def test_a_start_beside_a_prepared_segment_continues_where_the_log_ends(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s", limits=AHEAD) as store:
        store.topic()
        await store.put_bodies(BODY, BODY, BODY)
        await wait_until(lambda: segments(tmp_path / "s") == [0, 1])
        killed = copy_store(tmp_path / "s", tmp_path / "killed")
    for store_dir in (tmp_path / "s", killed):
        async with OpenStore(store_dir, limits=AHEAD) as store:
            assert store.pull_bodies() == [BODY] * 3
            await store.put_bodies(BODY, BODY)
            assert store.pull_bodies() == [BODY] * 5


async def test_no_room_ahead_is_no_trouble_before_it_is_needed(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=AHEAD) as store:
        store.topic()
        await store.put_bodies(BODY, BODY)
        store.files.full.add("create")
        await store.put_bodies(BODY, BODY)
        store.files.full.clear()
        assert (await store.put(message(BODY))).error is None
        assert store.pull_bodies() == [BODY] * 5
