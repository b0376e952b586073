"""What people see of store files, whole and damaged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.tools.dump import dump, main
from tests.storage_engine.doubles import OpenStore, fingerprint, message, tiny_config
from tests.storage_engine.independent_reader import read_log
from tests.storage_engine.recovering import filled, log_path


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    async def fill() -> None:
        store = await filled(tmp_path / "store")
        store.receive(16)
        await store.close()

    asyncio.run(fill())
    return tmp_path / "store"


def lines(path: Path) -> list[str]:
    return list(dump(path, index_slots=tiny_config(path).index_slots))


def places(path: Path) -> list[int]:
    return [int(line.split()[0]) for line in lines(path)]


def test_a_segment_shows_each_record_and_its_end(store_dir: Path) -> None:
    first, *_, last = sorted((store_dir / "commitlog").iterdir())
    records = [r for r in read_log(store_dir) if r.physical_offset < 4_096]
    shown = lines(first)
    assert places(first)[:-1] == [record.physical_offset for record in records]
    assert "t/0@0" in shown[0]
    assert "born=1700000000000" in shown[0]
    assert "body[1]=b'0'" in shown[0]
    assert "BLANK" in shown[-1]
    assert lines(last)[-1].endswith("bytes free")


def test_damage_is_named_and_the_dump_continues_behind_it(store_dir: Path) -> None:
    records = list(read_log(store_dir))
    path, at = log_path(store_dir, records[2].physical_offset)
    whole = places(path)
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF  # its length: nothing says where the next one stands
    path.write_bytes(bytes(content))
    assert places(path) == whole
    assert f"DAMAGED {records[2].record_bytes} bytes: the record says" in lines(path)[2]


def test_a_segment_of_rubbish_ends(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}"
    path.write_bytes(b"\xda\xa3\x20\xa7rubbish" * 100)
    (line,) = lines(path)
    assert "DAMAGED 1100 bytes" in line
    path.write_bytes(b"")
    assert lines(path) == ["empty"]


def test_units_entries_and_small_files(store_dir: Path) -> None:
    queue = store_dir / "consumequeue" / "t" / "0"
    assert places(max(queue.iterdir())) == [8, 9, 10]
    assert lines(max(queue.iterdir()))[-1].endswith("end, 2 units free")
    header, *entries = lines(min((store_dir / "index").iterdir()))
    assert "next_number=8" in header
    assert [int(entry.split()[0]) for entry in entries] == [1, 2, 3, 4, 5, 6, 7]
    assert "flushed_offset" in lines(store_dir / "checkpoint")[0]
    assert '"topicConfigTable"' in lines(store_dir / "config" / "topics.json")[0]


async def test_a_journal_names_groups_and_its_torn_tail(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "store") as store:
        store.topic()
        store.group()
        await store.put(message(b"x"))
        store.ack(store.receive())
        content = (tmp_path / "store" / "offsets.journal").read_bytes()
    path = tmp_path / "offsets.journal"
    path.write_bytes(content + b"torn")
    shown = lines(path)
    assert shown[0] == "name 0 is group g on topic t"
    assert "first=0, count=1" in shown[-2]
    assert shown[-1].endswith("DAMAGED 4 bytes that are not a whole entry")


def test_a_directory_is_dumped_file_by_file_past_unreadable_ones(store_dir: Path) -> None:
    (store_dir / "config" / "topics.json").write_text("{")
    before = fingerprint(store_dir)
    shown = lines(store_dir)
    names = [line.removeprefix("== ") for line in shown if line.startswith("== ")]
    assert {Path(name).parts[0] for name in names} >= {"commitlog", "consumequeue", "index"}
    assert sum(line.startswith("DAMAGED") for line in shown) == 1
    assert fingerprint(store_dir) == before


def test_exit_codes(store_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(store_dir / "checkpoint")]) == 0
    assert main([str(store_dir / "lock")]) == 1
    assert main([str(store_dir / "nothing")]) == 1
    index = str(min((store_dir / "index").iterdir()))
    assert main([index]) == 1
    assert "--index-slots" in capsys.readouterr().err
    assert main([index, "--index-slots=5"]) == 0
