"""A record that cannot be read any more, met while all consume queues come back from the log."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.storage_engine.doubles import OpenStore, copy_store, message
from tests.storage_engine.recovering import poke


async def test_a_damaged_record_keeps_its_offset_when_another_topic_is_rebuilt(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.topic("other")
        await store.put_bodies(b"0")
        await store.put(message(b"x", topic="other"))
        await store.store.checkpoint()
        await store.put_bodies(b"1")
        await store.put(message(b"y", topic="other"))
        at = store.store.catalog.get_queues("t")[0].unit(1)[0]
        copy = copy_store(tmp_path / "s", tmp_path / "copy")
    poke(copy, at, b"\xff" * 100)
    shutil.rmtree(copy / "consumequeue/other")
    async with OpenStore(copy) as store:
        assert (await store.put(message(b"2"))).offsets[0][0] == 2
