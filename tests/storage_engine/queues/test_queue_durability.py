"""A consume queue is made without a sync; what a checkpoint counts is durable all the same."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from storage_engine.disk.mapped_file import MappedFile
from storage_engine.queues import consume_queues
from storage_engine.queues.consume_queues import SYNC_EACH_MAX
from tests.storage_engine.crash.disk_model import DIRECTORY
from tests.storage_engine.crash.recorder import Recorder
from tests.storage_engine.doubles import FaultyFiles, OpenStore, message


@pytest.mark.parametrize("each_max", [0, SYNC_EACH_MAX], ids=["one sync", "a sync of each"])
def test_a_checkpoint_makes_new_queue_files_and_their_names_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each_max: int
) -> None:
    monkeypatch.setattr(consume_queues, "SYNC_EACH_MAX", each_max)
    recorder = Recorder(tmp_path / "s")
    (tmp_path / "s").mkdir()

    async def put_and_checkpoint() -> tuple[set[str], set[str]]:
        async with OpenStore(tmp_path / "s") as store:
            store.topic(queues=3)
            for queue_id in range(3):
                await store.put(*[message(b"x", queue_id=queue_id) for _ in range(6)])
            before = _not_durable(recorder)
            await store.store.checkpoint()
            return before, _not_durable(recorder)

    with recorder.recording():
        before, after = asyncio.run(put_and_checkpoint())
        recorder.check()

    assert {path.partition("/consumequeue/")[2] for path in before} >= {
        f"t/{queue_id}/{name:020d}" for queue_id in range(3) for name in (0, 80)
    }
    assert after == set()


def _not_durable(recorder: Recorder) -> set[str]:
    """Paths of consume queues whose name or content a power cut may still take."""
    recorder.check()
    model = recorder.model
    return {
        path
        for path, node in model.names.items()
        if "/consumequeue" in path
        and (
            model.durable_names.get(path) != node
            or (node != DIRECTORY and model.nodes[node].is_pending)
        )
    }


async def test_a_failed_sync_of_the_whole_disk_is_not_believed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume_queues, "SYNC_EACH_MAX", 0)
    files = FaultyFiles()
    async with OpenStore(tmp_path / "s", files=files) as store:
        store.topic()
        await store.put_bodies(b"a", b"b")
        files.broken_syncs.add("s")
        await store.store.checkpoint()
        files.broken_syncs.clear()
        await store.store.checkpoint()
        counted = store.store._checkpointer._derived
    assert counted == (0, 0)
    async with OpenStore(tmp_path / "s") as store:
        assert store.pull_bodies() == [b"a", b"b"]
        await store.store.checkpoint()
        assert store.store._checkpointer._derived[1] == 2


async def test_a_checkpoint_that_is_asked_for_during_another_covers_what_came_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(b"a")
        is_syncing, go_on = threading.Event(), threading.Event()
        sync = store.store._queues.sync

        def held(files: list[MappedFile]) -> None:
            is_syncing.set()
            assert go_on.wait(60)
            sync(files)

        monkeypatch.setattr(store.store._queues, "sync", held)
        first = asyncio.ensure_future(store.store.checkpoint())
        await asyncio.to_thread(is_syncing.wait, 60)
        await store.put_bodies(b"b")
        later = [asyncio.ensure_future(store.store.checkpoint()) for _ in range(2)]
        await asyncio.sleep(0)
        go_on.set()
        early = await first
        second, third = await asyncio.gather(*later)
        assert early.flushed_offset < second.flushed_offset == store.store.stats(0).append_offset
        assert second == third  # one run
