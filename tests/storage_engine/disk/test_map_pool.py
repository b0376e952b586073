"""Thousands of queues with a handful of maps: what is closed comes back when it is needed."""

from __future__ import annotations

import os
from pathlib import Path

from tests.storage_engine.doubles import OpenStore, message

QUEUES = 40


def mapped_files(store_dir: Path) -> set[str]:
    """Consume queue files that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[-1] for line in lines if f"{store_dir}/consumequeue" in line}


async def test_no_more_maps_than_the_limit_and_every_unit_where_it_belongs(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits={"map_count_max": 3}) as store:
        store.topic(queues=QUEUES)
        store.group()
        descriptors = len(os.listdir("/proc/self/fd"))
        for turn in range(6):
            batch = [message(b"%d" % turn, queue_id=queue_id) for queue_id in range(QUEUES)]
            assert (await store.put(*batch)).offsets[0][0] == turn
            assert len(mapped_files(tmp_path / "s")) <= 3
        await store.store.checkpoint()
        for queue_id in range(QUEUES):
            assert store.pull_bodies(queue_id) == [b"%d" % turn for turn in range(6)]
            assert len(mapped_files(tmp_path / "s")) <= 3
        assert len(os.listdir("/proc/self/fd")) == descriptors
    async with OpenStore(tmp_path / "s", limits={"map_count_max": 1}) as store:
        for queue_id in (7, 0, QUEUES - 1):
            assert store.pull_bodies(queue_id) == [b"%d" % turn for turn in range(6)]
        assert len(mapped_files(tmp_path / "s")) <= 1


async def test_a_closed_store_keeps_no_map_and_no_descriptor(tmp_path: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    async with OpenStore(tmp_path / "s") as store:
        store.topic(queues=QUEUES)
        await store.put(*[message(b"x", queue_id=queue_id) for queue_id in range(QUEUES)])
        assert len(mapped_files(tmp_path / "s")) == QUEUES
    assert mapped_files(tmp_path / "s") == set()
    assert len(os.listdir("/proc/self/fd")) == descriptors


async def test_a_file_that_recovery_has_closed_is_not_closed_while_it_is_opened_again(
    tmp_path: Path,
) -> None:
    for turn in range(2):
        async with OpenStore(tmp_path / "s", limits={"map_count_max": 1}) as store:
            store.topic()
            await store.put_bodies(b"x")
            assert store.pull_bodies() == [b"x"] * (turn + 1)
