"""A log that was cut on request ends there, and nothing of what was cut is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from storage_engine.errors import BadRequest, DiskFull, StoreCorrupt, StoreInUse
from storage_engine.tools.repair import EXIT_IN_USE, EXIT_REFUSED, cut_log, main
from tests.storage_engine.doubles import SEGMENT_BYTES, FaultyFiles, Killed, OpenStore, fingerprint
from tests.storage_engine.recovering import BODIES, filled, poke, pulled
from tests.storage_engine.rocketmq_store import RocketmqStore

GARBAGE = b"\xda\xa3 nobody knows what this is"


def torn(path: Path, count: int = 12) -> tuple[RocketmqStore, int]:
    """A store of RocketMQ with garbage behind its end, and where that is."""
    store = RocketmqStore(queue_file_units=4)
    for number in range(count):
        store.add(b"%d" % number + bytes(200))
    store.write(path, is_clean=False)
    poke(path, store.end_offset, GARBAGE)
    return store, store.end_offset


async def test_a_refused_store_opens_once_it_is_cut_and_what_was_cut_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, end = torn(tmp_path / "s")
    before = fingerprint(tmp_path / "s")
    with pytest.raises(StoreCorrupt, match=f"--cut-at {end}"):
        OpenStore(tmp_path / "s").open()
    assert main([str(tmp_path / "s"), "--cut-at", str(end)]) == 0
    kept = tmp_path / f"s.cut-{end}"
    said = capsys.readouterr().out
    assert str(kept) in said
    assert f"{len(GARBAGE)} bytes" in said
    assert (kept / f"{end:020d}").read_bytes() == GARBAGE
    changed = fingerprint(tmp_path / "s")
    assert {name for name in before if changed[name] != before[name]} == {
        f"commitlog/{end - end % SEGMENT_BYTES:020d}"
    }
    async with OpenStore(tmp_path / "s") as store:
        assert store.pull_bodies() == theirs.bodies


async def test_whole_records_and_segments_can_be_cut_and_put_back(tmp_path: Path) -> None:
    await (await filled(tmp_path / "s")).close()
    before = fingerprint(tmp_path / "s" / "commitlog")
    cut_at = whole_records(tmp_path / "s", 4)
    cut = cut_log(tmp_path / "s", cut_at, FaultyFiles())
    assert cut.saved_in is not None
    shutil.copytree(tmp_path / "s", tmp_path / "put back")
    async with OpenStore(tmp_path / "s") as store:
        assert pulled(store) == BODIES[:4]
        await store.put_bodies(b"next")
        assert store.pull_bodies(0)[-1] == b"next"
    for path in cut.saved_in.glob("0*"):
        poke(tmp_path / "put back", int(path.name), path.read_bytes())
    assert fingerprint(tmp_path / "put back" / "commitlog") == before


def whole_records(store_dir: Path, count: int) -> int:
    """The physical offset behind the first records of the log."""
    content = (store_dir / "commitlog" / f"{0:020d}").read_bytes()
    at = 0
    for _ in range(count):
        at += int.from_bytes(content[at : at + 4])
    return at


def test_a_cut_inside_of_a_record_is_refused_and_says_where_it_may_be(tmp_path: Path) -> None:
    _, end = torn(tmp_path / "s")
    before = fingerprint(tmp_path / "s")
    record_at = whole_records(tmp_path / "s", 2)
    for wrong in (record_at + 1, end + 1, 1 << 40):
        with pytest.raises(BadRequest, match=r"inside the record from|the log goes from"):
            cut_log(tmp_path / "s", wrong, FaultyFiles())
    assert main([str(tmp_path / "s"), "--cut-at", str(end + 1)]) == EXIT_REFUSED
    assert fingerprint(tmp_path / "s") == before
    assert not list(tmp_path.glob("s.cut*"))


async def test_a_store_that_is_open_is_not_cut(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(b"a")
        with pytest.raises(StoreInUse):
            cut_log(tmp_path / "s", 0, FaultyFiles())
        assert main([str(tmp_path / "s"), "--cut-at", "0"]) == EXIT_IN_USE
        assert store.pull_bodies() == [b"a"]


def test_where_nothing_stands_nothing_is_changed(tmp_path: Path) -> None:
    store = RocketmqStore()
    store.add(b"a")
    store.write(tmp_path / "s")
    before = fingerprint(tmp_path / "s")
    assert main([str(tmp_path / "s"), "--cut-at", str(store.end_offset)]) == 0
    assert fingerprint(tmp_path / "s") == before
    assert main([str(tmp_path / "nothing"), "--cut-at", "0"]) == EXIT_REFUSED


@pytest.mark.parametrize("full", ["create", "replace"])
def test_without_room_for_what_is_cut_nothing_is_cut(tmp_path: Path, full: str) -> None:
    _, end = torn(tmp_path / "s")
    before = fingerprint(tmp_path)
    files = FaultyFiles()
    files.full = {full}
    with pytest.raises(DiskFull):
        cut_log(tmp_path / "s", end, files)
    assert fingerprint(tmp_path) == before


async def test_a_kill_at_any_step_leaves_what_was_cut_and_a_store_to_repair(tmp_path: Path) -> None:
    await (await filled(tmp_path / "whole")).close()
    cut_at = whole_records(tmp_path / "whole", 4)
    log = b"".join(fingerprint(tmp_path / "whole" / "commitlog").values())
    steps = 0
    while True:
        directory = tmp_path / f"at {steps}"
        shutil.copytree(tmp_path / "whole", directory / "s")
        files = FaultyFiles()
        files.kill_at = steps
        try:
            cut_log(directory / "s", cut_at, files)
        except Killed:
            steps += 1
        else:
            break
        kept = {int(path.name): path for path in directory.glob("s.cut*/0*")}
        here = b"".join(fingerprint(directory / "s" / "commitlog").values())
        whole = bytearray(here)
        for offset, path in kept.items():
            content = path.read_bytes()
            whole[offset : offset + len(content)] = content
        assert bytes(whole) == log
        cut_log(directory / "s", cut_at, FaultyFiles())
        async with OpenStore(directory / "s") as store:
            assert pulled(store) == BODIES[:4]
    assert steps > 5
