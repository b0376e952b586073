"""Index files, byte for byte, and what fills them while messages are stored."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from storage_engine.errors import DiskFull
from storage_engine.index.index_file import Entries, IndexFile
from storage_engine.index.index_files import IndexFiles
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import FaultyFiles, ManualClock, OpenStore, tiny_config
from tests.storage_engine.index.keyed import (
    ENTRIES,
    FILE_BYTES,
    SLOTS,
    index_files,
    index_hash,
    keyed,
    look_up,
    parse,
)
from tests.storage_engine.recovering import poke

NOW_MS = 1_700_000_001_000  # 2023-11-14 22:13:21 UTC


def make(path: Path, slots: int = 2, entries: int = 6) -> IndexFile:
    files = FaultyFiles()
    size_bytes = 40 + slots * 4 + entries * 20
    files.create(path, size_bytes, size_bytes)
    return IndexFile(
        files,
        path,
        0,
        slots=slots,
        entries=entries,
        allocate_bytes=64,
        allocated_bytes=size_bytes,
    )


def entries(*rows: tuple[int, int, int]) -> Entries:
    return Entries(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def test_bytes_are_those_of_rocketmq(tmp_path: Path) -> None:
    file = make(tmp_path / "f")

    # Hashes 7 and 9 share slot 1 of 2; stamps 0.0 s, 2.999 s and 3.000 s after the first.
    file.put(entries((7, 0, 10_000), (4, 200, 12_999), (9, 400, 13_000)))

    expected = struct.pack(">qqqqii", 10_000, 13_000, 0, 400, 2, 4)  # two slots used, next is 4
    expected += struct.pack(">ii", 2, 3)  # newest entry of slot 0, of slot 1
    expected += bytes(20)  # entry 0 is never used
    expected += struct.pack(">iqii", 7, 0, 0, 0)
    expected += struct.pack(">iqii", 4, 200, 2, 0)
    expected += struct.pack(">iqii", 9, 400, 3, 1)  # the entry before it in its slot is number 1
    expected += bytes(40)
    assert (tmp_path / "f").read_bytes() == expected
    assert file.room == 2
    file.close()


def test_seconds_are_clamped_as_in_rocketmq(tmp_path: Path) -> None:
    file = make(tmp_path / "f")

    file.put(entries((1, 0, 5_000), (1, 1, 4_000), (1, 2, 5_000 + (2**31 + 5) * 1_000)))

    assert [file.entry(number).seconds for number in (1, 2, 3)] == [0, 0, 2**31 - 1]
    file.close()


def test_file_that_begins_at_time_zero_has_no_seconds(tmp_path: Path) -> None:
    file = make(tmp_path / "f")

    file.put(entries((1, 0, 0), (1, 1, 9_000)))

    assert file.entry(2).seconds == 0
    file.close()


@pytest.mark.parametrize("garbage", [-3, 99])
def test_slot_that_cannot_be_counts_as_empty(tmp_path: Path, garbage: int) -> None:
    file = make(tmp_path / "f")
    with (tmp_path / "f").open("r+b") as raw:
        raw.seek(40)
        raw.write(struct.pack(">i", garbage))
    assert file.newest_number(0) == 0

    file.put(entries((2, 0, 1_000)))

    assert file.entry(1).previous_number == 0
    assert (file.newest_number(0), file.used_slot_count) == (1, 1)
    file.close()


def test_one_batch_and_many_make_the_same_bytes(tmp_path: Path) -> None:
    rows = [(index * 7 % 11, index * 100, 5_000 + index * 700) for index in range(40)]
    one, many = (_run(tmp_path / name) for name in ("one", "many"))

    one.put(entries(*rows))
    for start, stop in ((0, 1), (1, 3), (3, 20), (20, 40)):
        many.put(entries(*rows[start:stop]))

    contents = [[path.read_bytes() for path in index_files(tmp_path / n)] for n in ("one", "many")]
    names = [[path.name for path in index_files(tmp_path / n)] for n in ("one", "many")]
    assert contents[0] == contents[1]
    assert names[0] == names[1]
    assert len(names[0]) == 6  # seven entries each
    assert one.entry_count == 40
    one.close()
    many.close()


def test_full_disk_puts_all_entries_or_none(tmp_path: Path) -> None:
    files = FaultyFiles()
    run = IndexFiles(tiny_config(tmp_path), files)
    run.put(entries((1, 0, 1_000)))
    before = index_files(tmp_path)[0].read_bytes()
    files.full.add("create")

    with pytest.raises(DiskFull):
        run.put(entries(*[(1, 100 + index, 2_000) for index in range(ENTRIES)]))

    assert index_files(tmp_path)[0].read_bytes() == before
    files.full.clear()
    run.put(entries(*[(1, 100 + index, 2_000) for index in range(ENTRIES)]))
    assert run.entry_count == 1 + ENTRIES
    run.close()


def test_file_that_cannot_be_mapped_leaves_nothing_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _run(tmp_path)
    run.put(entries((1, 0, 1_000)))
    rows = [(1, 100 + index, 2_000) for index in range(ENTRIES)]

    def refuse(*_: object) -> None:
        raise OSError(12, "injected")

    with monkeypatch.context() as broken:
        broken.setattr(FaultyFiles, "map", refuse)
        with pytest.raises(OSError, match="injected"):
            run.put(entries(*rows))
    assert run.entry_count == 1

    run.put(entries(*rows))
    assert run.entry_count == 1 + ENTRIES
    assert len(index_files(tmp_path)) == 2
    run.close()


def test_files_of_one_moment_have_names_in_their_order(tmp_path: Path) -> None:
    run = _run(tmp_path)

    run.put(entries(*[(1, index, NOW_MS) for index in range(15)]))

    assert [path.name for path in index_files(tmp_path)] == [
        "20231114221321000",
        "20231114221321001",
        "20231114221321002",
    ]
    run.close()


async def test_stored_message_is_in_the_index_by_id_and_keys(tmp_path: Path) -> None:
    async with OpenStore(tmp_path, clock=ManualClock(NOW_MS)) as store:
        store.topic()
        await store.put(keyed("id-1", ["Aa", "BB"]))
        store.clock.advance(1_500)
        await store.put(keyed("01" * 17))
        store.store.tick()

        (path,) = index_files(tmp_path)
        header, slots, found = parse(path)

    hashes = [index_hash("t", key) for key in ("id-1", "Aa", "BB", "01" * 17)]
    second = found[4][1]
    assert hashes[1] == hashes[2]
    assert [entry[0] for entry in found[1:5]] == hashes
    assert [entry[1] for entry in found[1:5]] == [0, 0, 0, second]
    assert second > 0
    assert [entry[2] for entry in found[1:5]] == [0, 0, 0, 1]
    assert found[3][3] == 2  # "BB" follows "Aa" in their slot
    used = len({value % SLOTS for value in hashes})
    assert header == (NOW_MS, NOW_MS + 1_500, 0, second, used, 5)
    assert slots[hashes[3] % SLOTS] == 4
    assert path.stat().st_size == FILE_BYTES


async def test_only_visible_messages_are_in_the_index(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        store.topic("a", durability=Durability.ASYNC)
        waiting = store.start_put([keyed("1" * 34)])  # the disk does not have it yet
        store.store.tick()
        assert index_files_or_none(tmp_path) == []

        await waiting
        store.store.tick()
        assert len(index_files_or_none(tmp_path)) == 1


async def test_full_disk_stops_the_index_and_nothing_else(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put(*[keyed(f"id-{index}") for index in range(6)])
        store.store.tick()
        store.files.full_dirs.add("index")

        await store.put(*[keyed(f"id-{index}") for index in range(6, 9)])
        store.store.tick()
        await store.put(keyed("late"))
        head, records = look_up(store, "late")
        assert (head.is_complete, records) == (False, [])
        assert len(store.pull_bodies()) == 10

        store.files.full_dirs.clear()
        head, records = look_up(store, "late")
        assert head.is_complete
        assert [record.message_id for record in records] == ["late"]
        for index in range(9):
            assert len(look_up(store, f"id-{index}")[1]) == 1


async def test_backlog_ends_while_messages_keep_coming(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        store.files.full_dirs.add("index")
        await store.put(*[keyed(f"id-{index}") for index in range(10)])
        store.store.tick()
        store.files.full_dirs.clear()
        store.store.indexer.flush()  # goes on, and is not stalled any more
        store.store.indexer.flush()

        await store.put(keyed("next"))

        assert store.store.indexer.indexed_offset > 0
        assert look_up(store, "next")[0].is_complete


async def test_damaged_record_keeps_no_other_from_the_index(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        store.files.full_dirs.add("index")
        put = await store.put(*[keyed(f"id-{index}") for index in range(6)])
        store.store.tick()
        for index, garbage in ((2, bytes(8)), (4, b"\xff" * 8)):
            poke(tmp_path, put.offsets[index][1], garbage)
        store.files.full_dirs.clear()

        for _ in range(4):
            store.store.tick()

        assert [len(look_up(store, f"id-{index}")[1]) for index in range(6)] == [1, 1, 0, 1, 0, 1]
        assert look_up(store, "id-0")[0].is_complete


def _run(store_dir: Path) -> IndexFiles:
    return IndexFiles(tiny_config(store_dir), FaultyFiles())


def index_files_or_none(store_dir: Path) -> list[Path]:
    return index_files(store_dir) if (store_dir / "index").is_dir() else []
