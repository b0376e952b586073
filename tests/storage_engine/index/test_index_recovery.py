"""The index after every kind of stop: cut to what was durable, or built again with the same
bytes.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from isal.isal_zlib import crc32

from storage_engine.index.index_files import IndexFiles
from storage_engine.log.checkpoint import read_checkpoint
from tests.storage_engine.doubles import (
    FaultyFiles,
    Killed,
    ManualClock,
    OpenStore,
    copy_store,
    fingerprint,
    tiny_config,
)
from tests.storage_engine.index.keyed import SLOTS, index_files, keyed, look_up, pages
from tests.storage_engine.recovering import poke
from tests.storage_engine.stopping import kill

ENTRIES_AT = 40 + SLOTS * 4
COUNT = 20


async def fill(store: OpenStore, start: int = 0, count: int = COUNT) -> None:
    """Messages with an id and now and then a key; every second one a moment later."""
    for index in range(start, start + count):
        store.clock.advance(index % 2 * 700)
        await store.put(keyed(f"id-{index}", ["k"] if index % 3 == 0 else []))


async def filled(store_dir: Path, files: FaultyFiles | None = None) -> OpenStore:
    store = OpenStore(store_dir, clock=ManualClock(), files=files).open()
    store.topic()
    await fill(store)
    store.store.tick()
    return store


def assert_complete(store: OpenStore, count: int = COUNT) -> None:
    for index in range(count):
        assert len(pages(store, f"id-{index}")) == 1, index
    assert len(pages(store, "k", messages_max=2)) == len(range(0, count, 3))


def index_bytes(store_dir: Path) -> dict[str, bytes]:
    return fingerprint(store_dir / "index")


async def reopened(store_dir: Path) -> dict[str, bytes]:
    """Open as after a kill, look, and the bytes of the index then."""
    async with OpenStore(store_dir) as store:
        assert_complete(store)
        return index_bytes(store_dir)


async def test_index_that_was_deleted_comes_back_with_the_same_bytes(tmp_path: Path) -> None:
    await (await filled(tmp_path)).close()
    before = index_bytes(tmp_path)
    assert len(before) == 4
    shutil.rmtree(tmp_path / "index")

    assert await reopened(tmp_path) == before


async def test_index_of_a_killed_engine_comes_back_with_the_same_bytes(tmp_path: Path) -> None:
    store = await filled(tmp_path / "live")
    await store.store.checkpoint()
    await fill(store, COUNT, 9)
    killed = copy_store(tmp_path / "live", tmp_path / "killed")
    without = copy_store(killed, tmp_path / "without")
    shutil.rmtree(without / "index")
    store.store.tick()
    expected = index_bytes(tmp_path / "live")
    await store.close()

    for store_dir in (killed, without):
        async with OpenStore(store_dir) as again:
            assert_complete(again, COUNT + 9)
            assert index_bytes(store_dir) == expected


async def test_index_whose_last_file_is_full_is_believed(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put(*[keyed(f"id-{index}") for index in range(14)])
    files = FaultyFiles()

    async with OpenStore(tmp_path, files=files) as store:
        assert "create" not in files.operations
        await store.put(keyed("id-14"))
        assert [len(pages(store, f"id-{index}")) for index in range(15)] == [1] * 15


async def test_log_read_in_parts_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage_engine.index.indexer._WALK_MESSAGES", 3)
    await (await filled(tmp_path)).close()
    before = index_bytes(tmp_path)
    shutil.rmtree(tmp_path / "index")

    assert await reopened(tmp_path) == before


async def test_entries_of_records_that_were_cut_off_are_zeroed(tmp_path: Path) -> None:
    store = await filled(tmp_path / "live")
    await store.store.checkpoint()
    killed = copy_store(tmp_path / "live", tmp_path / "killed")
    put = await store.put(keyed("lost"))
    store.store.tick()
    after = copy_store(tmp_path / "live", tmp_path / "after")
    await store.close()
    poke(after, put.offsets[0][1], bytes(200))

    async with OpenStore(killed):
        expected = index_bytes(killed)
    async with OpenStore(after) as again:
        assert pages(again, "lost") == []
        assert index_bytes(after) == expected


@pytest.mark.parametrize("chosen", [0, 1, -1])
async def test_index_that_lost_a_file_is_built_again(tmp_path: Path, chosen: int) -> None:
    await (await filled(tmp_path)).close()
    before = index_bytes(tmp_path)
    index_files(tmp_path)[chosen].unlink()

    assert await reopened(tmp_path) == before


def _fill(path: Path, number: int, byte: bytes) -> None:
    """Overwrite one entry, but not the last."""
    content = bytearray(path.read_bytes())
    at = ENTRIES_AT + number * 20
    content[at : at + 20] = byte * 20
    path.write_bytes(content)


def _swap(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes())


DAMAGES: dict[str, Callable[[Path], object]] = {
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "shorter": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "hole": lambda path: _fill(path, 2, b"\0"),
    "later": lambda path: _fill(path, 2, b"\x7f"),
    "another": lambda path: _swap(path, index_files(path.parent.parent)[0]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_index_with_exchanged_files_is_built_again(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    await (await filled(tmp_path)).close()
    before = index_bytes(tmp_path)
    damage(index_files(tmp_path)[-1])

    assert await reopened(tmp_path) == before


async def test_slots_and_header_torn_by_a_power_cut_are_rebuilt(tmp_path: Path) -> None:
    await (await filled(tmp_path)).close()
    before = index_bytes(tmp_path)
    last = index_files(tmp_path)[-1]
    content = bytearray(last.read_bytes())
    # The checkpoint waited for the entries only.
    content[40:ENTRIES_AT] = struct.pack(f">{SLOTS}i", 7, -1, 0, 3, 99)
    content[8:16], content[24:40] = bytes(8), bytes(16)
    last.write_bytes(content)
    assert last.stat().st_size == len(before[last.name])

    assert await reopened(tmp_path) == before


async def test_entries_above_the_checkpoint_are_not_believed(tmp_path: Path) -> None:
    store = await filled(tmp_path / "live")
    await store.store.checkpoint()
    await fill(store, COUNT, 6)
    store.store.tick()
    expected = index_bytes(tmp_path / "live")
    killed = copy_store(tmp_path / "live", tmp_path / "killed")
    await store.close()
    # A power cut left garbage where the newest entries were, in the file of before and a new one.
    for path in index_files(killed)[-2:]:
        content = bytearray(path.read_bytes())
        held = _durable_entries(killed, path)
        content[ENTRIES_AT + (held + 1) * 20 :] = b"\xa5" * (160 - (held + 1) * 20)
        path.write_bytes(bytes(content))

    async with OpenStore(killed) as again:
        assert_complete(again, COUNT + 6)
        assert index_bytes(killed) == expected


def _durable_entries(store_dir: Path, path: Path) -> int:
    """How many entries of a file the checkpoint counts."""
    mark = read_checkpoint(store_dir / "checkpoint")
    assert mark is not None
    before = 7 * index_files(store_dir).index(path)
    return min(max(mark.index_entry_count - before, 0), 7)


async def test_recovering_twice_is_recovering_once(tmp_path: Path) -> None:
    store = await filled(tmp_path / "live")
    await store.store.checkpoint()
    await fill(store, COUNT, 6)
    killed = copy_store(tmp_path / "live", tmp_path / "killed")
    await store.close()
    once = OpenStore(killed).open()
    first = index_bytes(killed)
    twice = copy_store(killed, tmp_path / "twice")
    await once.close()

    async with OpenStore(twice):
        assert index_bytes(twice) == first


async def test_kill_at_any_point_of_building_again_is_recovered(tmp_path: Path) -> None:
    await (await filled(tmp_path / "whole")).close()
    expected = index_bytes(tmp_path / "whole")
    index_files(tmp_path / "whole")[1].unlink()
    names = [path.name for path in index_files(tmp_path / "whole")]
    step = 0
    while True:
        store_dir = copy_store(tmp_path / "whole", tmp_path / f"step-{step}")
        files = FaultyFiles()
        files.kill_at = step
        store = OpenStore(store_dir, files=files)
        try:
            store.open()
        except Killed:
            if set(index_files(store_dir)) != {store_dir / "index" / name for name in names}:
                # Files of the same names will come back that no sync has covered.
                mark = read_checkpoint(store_dir / "checkpoint")
                assert mark is not None
                assert mark.index_entry_count == 0
            assert await reopened(store_dir) == expected
            step += 1
            continue
        files.kill_at = None
        await store.close()
        break
    assert step > 8


async def test_store_of_a_version_without_index_gets_one(tmp_path: Path) -> None:
    await (await filled(tmp_path)).close()
    before = index_bytes(tmp_path)
    shutil.rmtree(tmp_path / "index")
    path = tmp_path / "checkpoint"
    body = path.read_bytes()[:48] + struct.pack(">I", 1)
    path.write_bytes((body + struct.pack(">I", crc32(body))).ljust(4_096, b"\0"))
    mark = read_checkpoint(path)
    assert mark is not None
    assert mark.indexed_offset == mark.index_entry_count == 0

    assert await reopened(tmp_path) == before


async def test_index_without_believable_checkpoint_is_built_again(tmp_path: Path) -> None:
    await (await filled(tmp_path)).close()
    before = index_bytes(tmp_path)
    (tmp_path / "checkpoint").unlink()

    assert await reopened(tmp_path) == before


async def test_start_that_believes_the_checkpoint_reads_only_what_is_new(tmp_path: Path) -> None:
    await (await filled(tmp_path)).close()
    files = FaultyFiles()

    async with OpenStore(tmp_path, files=files) as store:
        assert "create" not in files.operations
        assert store.store.indexer.index.entry_count == COUNT + 7


async def test_an_index_that_found_no_room_at_the_start_still_knows_what_is_damaged(
    tmp_path: Path,
) -> None:
    store = OpenStore(tmp_path).open()
    store.topic()
    put = await store.put(*[keyed(f"id-{index}") for index in range(6)])
    await store.store.checkpoint()
    await store.put(keyed("late"))
    kill(store.store)
    poke(tmp_path, put.offsets[2][1], b"\xff" * 8)
    shutil.rmtree(tmp_path / "index")
    files = FaultyFiles()
    files.full_dirs.add("index")
    async with OpenStore(tmp_path, files=files) as store:
        files.full_dirs.clear()
        head, records = look_up(store, "late")
        assert (head.is_complete, len(records)) == (True, 1)


async def test_failed_sync_of_the_index_keeps_the_last_good_mark(tmp_path: Path) -> None:
    store = await filled(tmp_path)
    await store.store.checkpoint()
    good = read_checkpoint(tmp_path / "checkpoint")
    assert good is not None
    assert good.indexed_offset > 0
    await fill(store, COUNT, 6)
    store.store.tick()
    store.files.broken_syncs.add("index")

    await store.store.checkpoint()
    store.files.broken_syncs.clear()
    await store.store.checkpoint()

    mark = read_checkpoint(tmp_path / "checkpoint")
    assert mark is not None
    assert (mark.indexed_offset, mark.index_entry_count) == (
        good.indexed_offset,
        good.index_entry_count,
    )
    assert mark.dispatched_offset > good.dispatched_offset
    await store.close()
    async with OpenStore(tmp_path) as again:
        assert_complete(again, COUNT + 6)


async def test_files_of_records_that_are_gone_are_deleted_but_the_last(tmp_path: Path) -> None:
    store = await filled(tmp_path)
    last_offset = struct.unpack(">q", index_files(tmp_path)[0].read_bytes()[24:32])[0]
    indexer = store.store.indexer
    before = indexer.index.entry_count

    assert indexer.drop_below(last_offset) == 0
    assert indexer.drop_below(last_offset + 1) == 1
    assert (len(index_files(tmp_path)), indexer.index.entry_count) == (3, before - 7)
    assert pages(store, "k")[0].message_id == "id-18"
    assert indexer.drop_below(1 << 40) == 2
    assert len(index_files(tmp_path)) == 1
    await store.close()

    files = FaultyFiles()
    async with OpenStore(tmp_path, files=files) as store:
        assert store.store.indexer.index.entry_count == before - 21
        assert "create" not in files.operations


@pytest.mark.parametrize("has_keys", [False, True])
async def test_missing_file_counts_when_the_log_has_its_records(
    tmp_path: Path, has_keys: bool
) -> None:
    """Retention may have deleted it since the checkpoint, and the records with it."""
    await (await filled(tmp_path)).close()
    index_files(tmp_path)[0].unlink()
    mark = read_checkpoint(tmp_path / "checkpoint")
    assert mark is not None
    index = IndexFiles(tiny_config(tmp_path), FaultyFiles())

    is_kept = index.load(
        indexed_offset=mark.indexed_offset,
        entry_count=mark.index_entry_count,
        stamp_at=lambda _: None,
        has_keys=lambda above, below: has_keys and above < 0 < below,
    )

    assert is_kept is not has_keys
    assert index.entry_count == (0 if has_keys else mark.index_entry_count - 7)
    index.close()
