"""Every way a stop can leave the files, and what a start makes of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import zlib
from pathlib import Path

import pytest

from storage_engine.disk.files import Files
from storage_engine.errors import DiskFull, StoreCorrupt
from storage_engine.log.checkpoint import (
    FORMAT_VERSION,
    Checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from storage_engine.wire.topics import Durability
from tests.sizes import sized
from tests.storage_engine.doubles import (
    SEGMENT_BYTES,
    FaultyFiles,
    Killed,
    OpenStore,
    Put,
    copy_store,
    fingerprint,
    message,
)
from tests.storage_engine.recovering import BODIES, RUN_FILES, filled, poke, pulled


async def test_a_clean_restart_keeps_everything_and_continues(tmp_path: Path) -> None:
    store = await filled(tmp_path / "s")
    store.ack(store.receive(7))
    await store.close()
    async with OpenStore(tmp_path / "s") as store:
        assert pulled(store) == BODIES
        assert len(store.receive().records) == 13
        await store.put_bodies(b"next")
        assert store.pull_bodies(0)[-1] == b"next"


async def test_a_crash_while_running_keeps_everything_acknowledged(tmp_path: Path) -> None:
    running = await filled(tmp_path / "s")
    leased = running.receive(7)
    running.ack(leased)
    copy = copy_store(tmp_path / "s", tmp_path / "copy")
    await running.close()
    async with OpenStore(copy) as store:
        assert pulled(store) == BODIES
        assert len(store.receive().records) == 13


@pytest.mark.sized
async def test_a_log_cut_within_its_last_records_ends_before_the_cut(
    tmp_path: Path,
) -> None:
    running = await filled(tmp_path / "s", BODIES[:6])
    ends = []
    for body in (b"x" * 10, b"y" * 5):
        ends.append(running.store.stats(0).append_offset)
        await running.put_bodies(body)
    ends.append(running.store.stats(0).append_offset)
    image = copy_store(tmp_path / "s", tmp_path / "image")
    await running.close()
    cuts = {
        *range(ends[0], ends[-1], sized(7, torture=1)),
        *ends[:-1],
        *(end - 1 for end in ends[1:]),
    }
    for cut in sorted(cuts):
        copy = copy_store(image, tmp_path / "cut")
        poke(copy, cut, bytes(SEGMENT_BYTES))
        async with OpenStore(copy) as store:
            kept = sum(end <= cut for end in ends[1:])
            assert store.store.stats(0).append_offset == ends[kept]
            assert store.pull_bodies(0)[3:] == [b"x" * 10, b"y" * 5][:kept]
        shutil.rmtree(copy)


async def test_a_stale_checkpoint_leads_to_the_same_bytes(tmp_path: Path) -> None:
    running = await filled(tmp_path / "s", BODIES[:6])
    await running.store.checkpoint()
    stale = (tmp_path / "s" / "checkpoint").read_bytes()
    for body in BODIES[6:]:
        await running.put_bodies(body)
    await running.close()
    before = fingerprint(tmp_path / "s", without=RUN_FILES)
    (tmp_path / "s" / "checkpoint").write_bytes(stale)
    async with OpenStore(tmp_path / "s"):
        pass
    assert fingerprint(tmp_path / "s", without=RUN_FILES) == before


@pytest.mark.parametrize("content", [None, b"", b"short", bytes(4_096), b"\xff" * 4_096])
async def test_without_a_believable_checkpoint_everything_is_read_again(
    tmp_path: Path, content: bytes | None
) -> None:
    await (await filled(tmp_path / "s")).close()
    before = fingerprint(tmp_path / "s", without=RUN_FILES)
    (tmp_path / "s" / "checkpoint").unlink()
    if content is not None:
        (tmp_path / "s" / "checkpoint").write_bytes(content)
    async with OpenStore(tmp_path / "s") as store:
        assert pulled(store) == BODIES
    assert fingerprint(tmp_path / "s", without=RUN_FILES) == before


async def test_a_checkpoint_of_a_newer_format_is_refused_untouched(tmp_path: Path) -> None:
    await (await filled(tmp_path / "s")).close()
    path = tmp_path / "s" / "checkpoint"
    content = bytearray(path.read_bytes())
    content[48:52] = (FORMAT_VERSION + 1).to_bytes(4)
    content[52:56] = zlib.crc32(bytes(content[:52])).to_bytes(4)
    path.write_bytes(bytes(content))
    before = fingerprint(tmp_path / "s", without=("lock",))
    with pytest.raises(StoreCorrupt, match=f"version {FORMAT_VERSION + 1}"):
        OpenStore(tmp_path / "s").open()
    assert fingerprint(tmp_path / "s", without=("lock",)) == before


@pytest.mark.parametrize(
    "deleted",
    ["consumequeue", "consumequeue/t/0", "consumequeue/t/1", f"consumequeue/t/0/{0:020d}"],
)
@pytest.mark.parametrize("is_clean", [True, False])
async def test_deleted_consume_queues_come_back_with_the_same_bytes(
    tmp_path: Path, deleted: str, is_clean: bool
) -> None:
    running = await filled(tmp_path / "s")
    await running.store.checkpoint()
    copy = copy_store(tmp_path / "s", tmp_path / "copy")
    await running.close()
    where = tmp_path / "s" if is_clean else copy
    before = fingerprint(where, without=RUN_FILES)
    if (where / deleted).is_dir():
        shutil.rmtree(where / deleted)
    else:
        (where / deleted).unlink()
    async with OpenStore(where) as store:
        assert pulled(store) == BODIES
        await store.put_bodies(b"next")
        assert store.pull_bodies(0)[-1] == b"next"
        assert store.store.topic_stats("t").queues[0].max_offset == 11
    after = fingerprint(where, without=RUN_FILES)
    for name, content in before.items():
        if name.startswith("consumequeue/t/1"):
            assert after[name] == content


async def test_recovering_twice_is_recovering_once(tmp_path: Path) -> None:
    running = await filled(tmp_path / "s")
    end = running.store.stats(0).append_offset
    copy = copy_store(tmp_path / "s", tmp_path / "copy")
    await running.close()
    poke(copy, end, b"\x00\x00\x01\x00\xda\xa3\x20\xa7torn")
    for number in ("once", "twice"):
        files = FaultyFiles()
        store = OpenStore(copy, files=files).open()
        assert pulled(store) == BODIES
        copy_store(copy, tmp_path / number)
        store.store._lock.release()  # as a kill would
    without = (*RUN_FILES, "offsets.journal")
    once, twice = (fingerprint(tmp_path / name, without=without) for name in ("once", "twice"))
    assert once == twice


async def test_no_torn_record_comes_back_after_appends_and_another_crash(tmp_path: Path) -> None:
    """Old bytes behind a cut tail must never line up with a shorter new record before them."""
    running = await filled(tmp_path / "s", [])
    await running.put_bodies(b"first", queue_id=0)
    torn_at = running.store.stats(0).append_offset
    await running.put_bodies(b"A" * 100, b"B" * 100, b"C" * 100, queue_id=0)
    copy = copy_store(tmp_path / "s", tmp_path / "copy")
    await running.close()
    poke(copy, torn_at + 90, b"\xff")  # A is damaged; B and C behind it are whole
    async with OpenStore(copy, files=_after_power_cut("second boot")) as store:
        assert store.pull_bodies(0) == [b"first"]
        await store.put_bodies(b"D" * 100, queue_id=0)
        second = copy_store(copy, tmp_path / "second")
    async with OpenStore(second, files=_after_power_cut("third boot")) as store:
        assert store.pull_bodies(0) == [b"first", b"D" * 100]


def _after_power_cut(medium: str) -> FaultyFiles:
    files = FaultyFiles()
    files.medium = medium
    return files


@pytest.mark.parametrize("is_same_boot", [True, False])
@pytest.mark.parametrize("hurt", range(6))
async def test_a_damaged_record_below_the_watermark_costs_only_itself(
    tmp_path: Path, hurt: int, is_same_boot: bool
) -> None:
    running = await filled(tmp_path / "s", BODIES[:6])
    places = [queue.unit(i)[0] for i in range(3) for queue in running.store._queues]
    await running.store.checkpoint()
    await running.close()
    (tmp_path / "s" / "abort").write_text("1\nfirst boot\n")
    mark = read_checkpoint(tmp_path / "s" / "checkpoint")
    assert mark is not None
    early = Checkpoint(flushed_offset=mark.flushed_offset)  # all of the log is read again
    write_checkpoint(Files(), tmp_path / "s" / "checkpoint", early)
    queues = fingerprint(tmp_path / "s" / "consumequeue")
    poke(tmp_path / "s", places[hurt] + 30, b"\xff")
    files = _after_power_cut("first boot" if is_same_boot else "second boot")

    async with OpenStore(tmp_path / "s", files=files) as store:
        bodies = store.receive().bodies
        later = await store.put(message(b"later", queue_id=hurt % 2))

    assert sorted(bodies) == sorted(body for at, body in enumerate(BODIES[:6]) if at != hurt)
    assert later.offsets[0][0] == 3
    assert {name: fingerprint(tmp_path / "s" / "consumequeue")[name][:60] for name in queues} == {
        name: content[:60] for name, content in queues.items()
    }
    alarm = json.loads((tmp_path / "s" / "config" / "quarantine.json").read_text())
    assert [entry["physicalOffset"] for entry in alarm["entries"]] == [places[hurt]]


async def test_what_a_power_cut_tore_above_the_watermark_is_cut_with_all_behind_it(
    tmp_path: Path,
) -> None:
    running = await filled(tmp_path / "s", BODIES[:4])
    place = next(iter(running.store._queues)).unit(1)[0]
    killed = copy_store(tmp_path / "s", tmp_path / "killed")
    cut = copy_store(tmp_path / "s", tmp_path / "cut")
    await running.close()
    for store_dir in (killed, cut):
        poke(store_dir, place + 100, b"\xff\xff")
    async with OpenStore(killed) as store:
        assert store.receive().bodies == [BODIES[0], BODIES[1], BODIES[3]]
    async with OpenStore(cut, files=_after_power_cut("second boot")) as store:
        assert store.receive().bodies == [BODIES[0], BODIES[1]]
        assert not (cut / "config" / "quarantine.json").exists()


async def test_damage_in_an_early_segment_never_deletes_later_ones_without_a_checkpoint(
    tmp_path: Path,
) -> None:
    await (await filled(tmp_path / "s")).close()
    (tmp_path / "s" / "checkpoint").unlink()
    poke(tmp_path / "s", 100, b"\xff")
    before = sorted(path.name for path in (tmp_path / "s" / "commitlog").iterdir())
    assert len(before) > 2
    try:
        async with OpenStore(tmp_path / "s"):
            pass
    except StoreCorrupt:
        pass
    assert sorted(path.name for path in (tmp_path / "s" / "commitlog").iterdir()) == before


async def test_missing_segments_are_refused(tmp_path: Path) -> None:
    await (await filled(tmp_path / "s")).close()
    segments = sorted((tmp_path / "s" / "commitlog").iterdir())
    copy = copy_store(tmp_path / "s", tmp_path / "copy")
    segments[-1].unlink()
    with pytest.raises(StoreCorrupt, match="segments are missing"):
        OpenStore(tmp_path / "s").open()
    (copy / "commitlog" / segments[1].name).unlink()
    with pytest.raises(StoreCorrupt, match="missing"):
        OpenStore(copy).open()


async def test_a_refused_store_can_be_opened_again_by_the_same_process(tmp_path: Path) -> None:
    await (await filled(tmp_path / "s", BODIES[:2])).close()
    path = tmp_path / "s" / "config" / "topics.json"
    good = path.read_bytes()
    path.write_bytes(b"{")
    with pytest.raises(StoreCorrupt, match=r"topics\.json"):
        OpenStore(tmp_path / "s").open()
    assert path.read_bytes() == b"{"
    path.write_bytes(good)
    async with OpenStore(tmp_path / "s") as store:
        assert pulled(store) == BODIES[:2]


@pytest.mark.parametrize("size", [0, 20, 60])
@pytest.mark.parametrize("kind", ["commitlog", "consumequeue/t/0"])
async def test_a_file_whose_making_was_interrupted_does_not_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: int
) -> None:
    """kill -9 while a file is being allocated and before it has its whole size."""
    store = await filled(tmp_path / "s", BODIES[:2])
    await store.close()
    real = os.posix_fallocate

    def partly(descriptor: int, offset: int, length: int, /) -> None:
        if kind in os.readlink(f"/proc/self/fd/{descriptor}"):
            if size:
                real(descriptor, offset, size)
            raise Killed
        real(descriptor, offset, length)

    monkeypatch.setattr(os, "posix_fallocate", partly)
    store = OpenStore(tmp_path / "s").open()
    store.topic(queues=2, durability=Durability.ASYNC)
    with pytest.raises(Killed):
        for _ in range(6):
            store.start_put([message(bytes(1_000))])
    monkeypatch.undo()
    copy = copy_store(tmp_path / "s", tmp_path / "copy")
    await store.close()
    async with OpenStore(copy) as again:
        assert again.pull_bodies(0)[:1] == BODIES[:1]
        await again.put_bodies(*[bytes(1_000)] * 6)


async def test_a_put_refused_for_a_full_disk_is_not_there_after_a_crash(tmp_path: Path) -> None:
    """Nothing of a definite failure may be found in the log, not even behind its end."""
    running = await filled(tmp_path / "s", [])
    await running.put_bodies(b"kept", queue_id=0)
    running.files.full = {"create", "allocate"}
    refused = [message(b"refused 0"), message(b"refused 1", queue_id=1)]
    put: Put | None = None
    with contextlib.suppress(DiskFull):
        put = await running.put(*refused)
    if put is None:
        first = copy_store(tmp_path / "s", tmp_path / "first")
        await running.put_bodies(b"stored 0", queue_id=0)
        second = copy_store(tmp_path / "s", tmp_path / "second")
        for copy, expected in ((first, [b"kept"]), (second, [b"kept", b"stored 0"])):
            async with OpenStore(copy) as store:
                assert (store.pull_bodies(0), store.pull_bodies(1)) == (expected, [])
    running.files.full = set()
    await running.close()
