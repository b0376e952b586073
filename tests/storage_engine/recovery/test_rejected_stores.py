"""Stores that are not opened: what was found and what to do is said, and no byte has changed."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage_engine.disk.files import Files
from storage_engine.errors import StoreCorrupt, StoreInUse
from storage_engine.log.checkpoint import Checkpoint, write_checkpoint
from tests.storage_engine.doubles import SEGMENT_BYTES, OpenStore, fingerprint
from tests.storage_engine.recovering import BODIES, filled, poke, pulled
from tests.storage_engine.rocketmq_store import RocketmqStore

Damage = Callable[[Path], None]


async def ours(path: Path) -> None:
    """A store of this engine with several segments, stopped in order."""
    await (await filled(path)).close()


def theirs(path: Path, *, count: int = 40, is_clean: bool = True) -> int:
    """A store of RocketMQ with several segments; where its log ends."""
    store = RocketmqStore(queue_file_units=4)
    for number in range(count):
        store.add(b"%d" % number + bytes(200), queue_id=number % 2)
    store.offsets = {"t@g": {0: 3, 1: 4}}
    store.write(path, is_clean=is_clean)
    return store.end_offset


def segments(path: Path) -> list[Path]:
    return sorted((path / "commitlog").iterdir())


def cut_short(path: Path, length: int) -> None:
    os.truncate(path, length)


def newer_version(path: Path) -> None:
    checkpoint = path / "checkpoint"
    content = bytearray(checkpoint.read_bytes())
    content[48:52] = (99).to_bytes(4)
    content[52:56] = zlib.crc32(bytes(content[:52])).to_bytes(4)
    checkpoint.write_bytes(bytes(content))


def newer_journal(path: Path) -> None:
    rest = struct.pack(">B3xIIqI", 77, 0, 0, 0, 0)
    journal = path / "offsets.journal"
    journal.write_bytes(journal.read_bytes() + struct.pack(">I", zlib.crc32(rest)) + rest)


def journal_without_names(path: Path) -> None:
    rest = struct.pack(">B3xIIqI", 2, 9, 0, 0, 1)
    (path / "offsets.journal").write_bytes(struct.pack(">I", zlib.crc32(rest)) + rest)


def write(name: str, content: bytes) -> Damage:
    def put(path: Path) -> None:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(content)

    return put


def unreadable(name: str) -> Damage:
    return write(f"config/{name}", b'{"offsetTable":{')


OUR_DAMAGES: dict[str, tuple[Damage, str]] = {
    "newer checkpoint": (newer_version, "format version 99.*newer engine"),
    "newer journal": (newer_journal, "a newer engine wrote it"),
    "journal that names nobody": (journal_without_names, "has no group name"),
    "first segment missing": (
        lambda path: segments(path)[0].unlink(),
        "first segments are missing",
    ),
    "middle segment missing": (
        lambda path: segments(path)[1].unlink(),
        "is missing.*restore it",
    ),
    "last segment missing": (lambda path: segments(path)[-1].unlink(), "segments are missing"),
    "all segments missing": (
        lambda path: shutil.rmtree(path / "commitlog"),
        "segments are missing",
    ),
    "middle segment cut short": (
        lambda path: cut_short(segments(path)[1], 2_000),
        "not copied completely",
    ),
    "last segment cut short": (
        lambda path: cut_short(segments(path)[-1], 700),
        "not copied completely",
    ),
    "a segment too long": (
        lambda path: cut_short(segments(path)[0], 2 * SEGMENT_BYTES),
        "the files of the log have",
    ),
    "alien file in the log": (write("commitlog/notes.txt", b"x"), "move it out of the store"),
    "no configuration": (
        lambda path: shutil.rmtree(path / "config"),
        "copy the store's config directory",
    ),
    **{
        f"unreadable {name}": (unreadable(name), f"cannot read .*{name}")
        for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json")
    },
    "unreadable delayOffset.json": (unreadable("delayOffset.json"), "cannot read"),
}


@pytest.mark.parametrize("damage", OUR_DAMAGES)
async def test_a_damaged_store_of_ours_is_refused_untouched(tmp_path: Path, damage: str) -> None:
    await ours(tmp_path / "s")
    hurt, said = OUR_DAMAGES[damage]
    hurt(tmp_path / "s")
    before = fingerprint(tmp_path / "s")
    with pytest.raises(StoreCorrupt, match=said):
        OpenStore(tmp_path / "s").open()
    assert fingerprint(tmp_path / "s") == before


def middle_of_a_record(path: Path) -> None:
    segment = segments(path)[-1]
    cut_short(segment, len(segment.read_bytes().rstrip(b"\0")) - 30)


def remove_segments(path: Path) -> None:
    for segment in segments(path):
        segment.unlink()


def other_format(path: Path) -> None:
    for segment in segments(path):
        segment.write_bytes(b"\x01" + bytes(range(256)) * 15 + bytes(SEGMENT_BYTES - 3_841))


THEIR_DAMAGES: dict[str, tuple[Damage, str]] = {
    "middle segment missing": (
        lambda path: segments(path)[1].unlink(),
        "is missing.*restore it",
    ),
    "last segment missing": (lambda path: segments(path)[-1].unlink(), "last segments are missing"),
    "all segments missing": (remove_segments, "last segments are missing"),
    "middle segment cut short": (
        lambda path: cut_short(segments(path)[1], 2_000),
        "not copied completely",
    ),
    "last segment cut in a record": (middle_of_a_record, "not copied completely"),
    "another format": (other_format, "repair"),
    "alien file in the log": (write("commitlog/index.db", b"x"), "move it out of the store"),
    "no configuration": (
        lambda path: shutil.rmtree(path / "config"),
        "copy the store's config directory",
    ),
    "light message queues": (
        lambda path: (path / "consumequeue/%LMQ%a/0").mkdir(parents=True),
        "light message queues",
    ),
    "batch queues": (
        write(
            "config/topics.json",
            b'{"topicConfigTable":{"t":{"topicName":"t","readQueueNums":2,"writeQueueNums":2,'
            b'"attributes":{"queue.type":"BatchCQ"}}}}',
        ),
        "queue.type=BatchCQ",
    ),
    "a durability that nobody knows": (
        write(
            "config/topics.json",
            b'{"topicConfigTable":{"t":{"topicName":"t","readQueueNums":2,"writeQueueNums":2,'
            b'"attributes":{"mq.durability":"maybe"}}}}',
        ),
        "topic t",
    ),
    "unreadable consumerOffset.json": (unreadable("consumerOffset.json"), "cannot read"),
    "unreadable delayOffset.json": (unreadable("delayOffset.json"), "cannot read"),
}


@pytest.mark.parametrize("damage", THEIR_DAMAGES)
async def test_a_damaged_store_of_rocketmq_is_refused_untouched(
    tmp_path: Path, damage: str
) -> None:
    theirs(tmp_path / "s")
    hurt, said = THEIR_DAMAGES[damage]
    hurt(tmp_path / "s")
    before = fingerprint(tmp_path / "s")
    with pytest.raises(StoreCorrupt, match=said):
        OpenStore(tmp_path / "s").open()
    assert fingerprint(tmp_path / "s") == before


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("behind", "content"),
    [(0, b"\xda\xa3"), (0, b"\0\0\1\0\xda\xa3\x20\xa7torn"), (60, b"\x01"), (SEGMENT_BYTES, b"x")],
)
async def test_nothing_is_cut_from_a_store_that_we_did_not_write(
    tmp_path: Path, is_clean: bool, behind: int, content: bytes
) -> None:
    end = theirs(tmp_path / "s", count=12, is_clean=is_clean)
    following = (end // SEGMENT_BYTES + 1) * SEGMENT_BYTES
    if behind == SEGMENT_BYTES:
        (tmp_path / "s/commitlog" / f"{following:020d}").write_bytes(bytes(SEGMENT_BYTES))
    at = following if behind == SEGMENT_BYTES else end + behind
    path = tmp_path / "s/commitlog" / f"{at - at % SEGMENT_BYTES:020d}"
    log = bytearray(path.read_bytes())
    log[at % SEGMENT_BYTES : at % SEGMENT_BYTES + len(content)] = content
    path.write_bytes(log)
    before = fingerprint(tmp_path / "s")
    with pytest.raises(StoreCorrupt, match=f"ends at {end}.*--cut-at {end}"):
        OpenStore(tmp_path / "s").open()
    assert fingerprint(tmp_path / "s") == before


async def test_of_ours_no_more_is_cut_than_a_power_cut_can_leave(tmp_path: Path) -> None:
    running = await filled(tmp_path / "s", BODIES[:2])
    end = running.store.stats(0).append_offset
    await running.store.checkpoint()
    await running.put_bodies(*[bytes(900)] * 9)
    await running.close()
    shutil.copytree(tmp_path / "s", tmp_path / "again")
    for copy, limit, is_refused in (("s", 1_000, True), ("again", 1 << 20, False)):
        store_dir = tmp_path / copy
        early_checkpoint(store_dir, end)
        (store_dir / "abort").write_text("1\nanother boot\n")
        poke(store_dir, end, b"\xff\xff\xff\xff\xff\xff\xff\xff")
        before = fingerprint(store_dir)
        limits = {"unsynced_bytes_max": limit, "frame_bytes_max": 4_096}
        if is_refused:
            with pytest.raises(StoreCorrupt, match="a power cut leaves at most"):
                OpenStore(store_dir, limits=limits).open()
            assert fingerprint(store_dir) == before
        else:
            async with OpenStore(store_dir, limits=limits) as store:
                assert pulled(store) == BODIES[:2]


def early_checkpoint(store_dir: Path, flushed_offset: int) -> None:
    write_checkpoint(Files(), store_dir / "checkpoint", Checkpoint(flushed_offset=flushed_offset))


async def test_a_segment_that_lost_unused_bytes_is_extended_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await (await filled(tmp_path / "s", BODIES[:2])).close()
    (segment,) = segments(tmp_path / "s")
    cut_short(segment, SEGMENT_BYTES - 300)
    async with OpenStore(tmp_path / "s") as store:
        assert pulled(store) == BODIES[:2]
        await store.put_bodies(*[bytes(900)] * 5)
        assert store.pull_bodies(0)[1:] == [bytes(900)] * 5
    assert segment.stat().st_size == SEGMENT_BYTES
    assert any("extended" in record.message for record in caplog.records)


@pytest.mark.parametrize("count", [3, 40], ids=["one segment", "many segments"])
async def test_segments_of_another_size_than_configured_are_read_as_they_are(
    tmp_path: Path, count: int
) -> None:
    store = RocketmqStore(segment_bytes=8_192, queue_file_units=4)
    for number in range(count):
        store.add(b"%d" % number + bytes(300))
    store.write(tmp_path / "s")
    async with OpenStore(tmp_path / "s") as opened:
        assert opened.pull_bodies() == store.bodies
        await opened.put_bodies(*[bytes(900)] * 12)
    assert {path.stat().st_size for path in segments(tmp_path / "s")} == {8_192}
    async with OpenStore(tmp_path / "s") as opened:
        assert opened.pull_bodies()[count:] == [bytes(900)] * 12


async def test_a_directory_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StoreCorrupt, match=r"not a store and not empty.*thesis\.tex"):
        OpenStore(tmp_path).open()
    assert list(fingerprint(tmp_path)) == ["thesis.tex"]


async def test_an_empty_directory_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    async with OpenStore(tmp_path) as store:
        store.topic()
        await store.put_bodies(b"first")
    assert (tmp_path / "checkpoint").exists()


# Python's lockf is the record lock that Java's FileChannel.tryLock takes.
HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_rocketmq(path: Path) -> Iterator[int]:
    """Another process has RocketMQ's lock on the store; its id."""
    command = [sys.executable, "-c", HOLDER, str(path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield holder.pid
        holder.communicate()


@pytest.mark.parametrize("has_records", [True, False])
async def test_a_store_that_rocketmq_has_open_is_refused_with_its_process(
    tmp_path: Path, has_records: bool
) -> None:
    path = tmp_path / "s"
    if has_records:
        theirs(path)
    else:
        path.mkdir()
        (path / "lock").write_bytes(b"lock")
    with held_by_rocketmq(path) as pid:
        before = fingerprint(path)
        with pytest.raises(StoreInUse, match=f"process {pid}, which holds RocketMQ's lock"):
            OpenStore(path).open()
        assert fingerprint(path) == before
    async with OpenStore(path):
        pass


async def test_rocketmq_cannot_open_a_store_that_we_have_open(tmp_path: Path) -> None:
    def is_refused() -> bool:
        command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
        ran = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        return b"BlockingIOError" in ran.stderr

    async with OpenStore(tmp_path):
        assert is_refused()
        # Nothing in this process lets go of it by closing another descriptor of the file.
        os.close(os.open(tmp_path / "lock", os.O_RDWR))
        with pytest.raises(StoreInUse, match="another engine"):
            OpenStore(tmp_path).open()
        assert is_refused()
    assert not is_refused()


async def test_a_refused_store_keeps_no_lock_file_that_it_had_not(tmp_path: Path) -> None:
    theirs(tmp_path / "s")
    (tmp_path / "s" / "lock").unlink()
    segments(tmp_path / "s")[1].unlink()
    with pytest.raises(StoreCorrupt):
        OpenStore(tmp_path / "s").open()
    assert not (tmp_path / "s" / "lock").exists()
