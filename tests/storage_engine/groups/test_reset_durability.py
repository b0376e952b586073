"""A reset that was answered survives kills; one that was refused has done nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import (
    DiskFull,
    SyncFailed,
)
from storage_engine.tools.verify.files import read_offsets
from storage_engine.tools.verify.report import Report
from storage_engine.wire.offsets import ResetTo
from tests.storage_engine.doubles import FaultyFiles, Killed, OpenStore
from tests.storage_engine.groups.resetting import (
    assert_void,
    consumer_offsets,
    filled,
    reset,
)
from tests.storage_engine.power_cuts import SyncedFiles
from tests.storage_engine.stopping import kill


async def test_on_a_full_disk_nothing_is_reset(tmp_path: Path) -> None:
    files = FaultyFiles()
    async with OpenStore(tmp_path / "s", files=files) as store:
        await filled(store, 3, queues=2)
        leased = store.receive()
        files.full.add("append")
        with pytest.raises(DiskFull):
            reset(store, ResetTo.LATEST)
        files.full.clear()
        assert consumer_offsets(store) == [0, 0]
        assert store.ack(leased).acked_count == 6


async def test_a_reset_that_is_not_durable_says_so_and_is_done_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3)
        leased = store.receive()
        with monkeypatch.context() as patch:
            patch.setattr(store.store._consumer_offsets._journal, "sync", refuse)
            with pytest.raises(SyncFailed):
                reset(store, ResetTo.OFFSET, 1)
        assert_void(store, leased)
        assert store.receive().bodies == [b"1", b"2"]


async def test_a_reset_survives_a_power_cut_that_comes_with_the_answer(tmp_path: Path) -> None:
    files = SyncedFiles()
    store = await filled(OpenStore(tmp_path / "s", files=files).open(), 3)
    store.ack(store.receive())
    await store.store.checkpoint()
    reset(store, ResetTo.OFFSET, 1)
    cut = files.cut_power(tmp_path / "s", tmp_path / "cut")
    await store.close()
    async with OpenStore(cut) as again:
        assert consumer_offsets(again) == [1]
        assert again.receive().bodies == [b"1", b"2"]


async def test_a_kill_at_any_step_leaves_a_reset_done_or_not_begun(tmp_path: Path) -> None:
    is_done = False
    for step in range(20):
        path = tmp_path / str(step)
        files = FaultyFiles()
        store = await filled(OpenStore(path, files=files).open(), 3, queues=2)
        store.ack(store.receive())
        await store.store.checkpoint()
        files.kill_at = step
        try:
            reset(store, ResetTo.OFFSET, 1)
            await store.store.checkpoint()
            is_done = True
        except Killed:
            pass
        files.kill_at = None
        kill(store.store)
        async with OpenStore(path) as again:
            left = consumer_offsets(again)
            assert left in ([3, 3], [1, 1]), step
            assert left == [1, 1] or not is_done
            assert len(again.receive().bodies) == 2 * (3 - left[0])
        if is_done:
            break
    assert is_done


@pytest.mark.parametrize("is_saved", [False, True])
async def test_a_reset_and_what_was_settled_since_survive_a_kill(
    tmp_path: Path, is_saved: bool
) -> None:
    store = await filled(OpenStore(tmp_path / "s").open(), 5)
    store.ack(store.receive())
    await store.store.checkpoint()
    reset(store, ResetTo.OFFSET, 1)
    store.ack(store.receive(), 1, 3)
    if is_saved:
        await store.store.checkpoint()
    for _ in range(2):
        kill(store.store)
        store = OpenStore(tmp_path / "s").open()
        assert consumer_offsets(store) == [2]
        assert store.receive().bodies == [b"2", b"4"]
    await store.close()


@pytest.mark.parametrize("is_saved", [False, True])
async def test_the_check_of_a_store_understands_resets(tmp_path: Path, is_saved: bool) -> None:
    store = await filled(OpenStore(tmp_path / "s").open(), 5)
    store.ack(store.receive())
    reset(store, ResetTo.OFFSET, 1)
    store.ack(store.receive(), 1)
    if is_saved:
        await store.store.checkpoint()
    kill(store.store)
    report = Report(store="s")
    assert read_offsets(tmp_path / "s", report) == {("g", "t", 0): 2}
    assert report.findings == []


def refuse() -> None:
    raise SyncFailed("injected")
