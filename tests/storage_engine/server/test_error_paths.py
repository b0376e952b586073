"""Errors in unexpected places: nothing is left half changed, and nobody else is hurt."""

from __future__ import annotations

import asyncio
import errno
import os
import struct
import threading
from pathlib import Path

import pytest

from storage_engine.client import AsyncStoreClient
from storage_engine.delivery.offset_journal import OffsetJournal
from storage_engine.disk.files import Files, Mapping
from storage_engine.disk.mapped_files import MappedFiles
from storage_engine.errors import OutcomeUnknown, StoreBusy, StoreError, SyncFailed
from storage_engine.records.record import SYSFLAG_AT, encode_record
from storage_engine.server.server import Server
from storage_engine.wire.operations import Op
from storage_engine.wire.protocol import CheckpointReply, Empty
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import (
    WAIT_S,
    FaultyFiles,
    OpenStore,
    copy_store,
    fingerprint,
    message,
)
from tests.storage_engine.recovering import poke


async def test_a_record_too_short_for_its_own_head_is_refused(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        short = bytearray(struct.pack(">I", 91) + bytes(87))
        short[SYSFLAG_AT : SYSFLAG_AT + 4] = (16).to_bytes(4)
        answers: list[list[int]] = []
        good = encode_record(message(b"good"))
        store.store.put(good + short, lambda appended, *_: answers.append(appended.offsets))
        await store.put_bodies(b"next")
        assert answers == [[0, 0, -8, 0]]


class NoMoreMaps(FaultyFiles):
    """The kernel has no map to give, from the one of a number on."""

    maps_left = 1_000

    def map(self, path: Path, size_bytes: int) -> Mapping:
        if self.maps_left == 0:
            raise OSError(errno.ENOMEM, "injected")
        self.maps_left -= 1
        return super().map(path, size_bytes)


async def test_a_put_that_finds_no_map_leaves_nothing(tmp_path: Path) -> None:
    files = NoMoreMaps()
    async with OpenStore(tmp_path / "s", files=files) as store:
        store.topic()
        await store.put_bodies(b"0", b"1")
        files.maps_left = 0
        with pytest.raises((OSError, StoreError)):
            await store.put(*[message(b"lost %d" % at) for at in range(4)])
        files.maps_left = 1_000
        await store.put_bodies(b"2", b"3", b"4")
        assert store.pull_bodies() == [b"0", b"1", b"2", b"3", b"4"]
        copy = copy_store(tmp_path / "s", tmp_path / "copy")
    async with OpenStore(copy) as store:
        assert store.pull_bodies() == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_store_that_is_closed_writes_nothing_any_more(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    await store.put_bodies(b"0")
    store.files.sync_failures = 1
    store.files.sync_gate = gate = threading.Event()
    store.files.syncing.clear()
    put = store.start_put([message(b"1")])
    await asyncio.to_thread(store.files.syncing.wait, WAIT_S)
    gate.set()  # the loop hears of the failure only when the store is being closed
    await store.close()
    assert isinstance((await put).error, SyncFailed)
    count = len(store.files.operations)
    before = {path.name: path.stat().st_ino for path in (tmp_path / "s/commitlog").iterdir()}
    await asyncio.sleep(0.2)
    assert store.files.operations[count:] == []
    after = {path.name: path.stat().st_ino for path in (tmp_path / "s/commitlog").iterdir()}
    assert after == before


async def test_closing_waits_for_the_rewriting_of_a_segment(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    await store.put_bodies(b"0")
    begun, gate = threading.Event(), threading.Event()
    create = store.files.create

    def slowly(path: Path, *args: object, **named: object) -> None:
        begun.set()
        gate.wait(WAIT_S)
        create(path, *args, **named)  # type: ignore[arg-type]

    store.files.create = slowly  # type: ignore[method-assign]
    store.files.sync_failures = 1
    put = store.start_put([message(b"1")])
    await asyncio.to_thread(begun.wait, WAIT_S)
    asyncio.get_running_loop().call_later(0.1, gate.set)
    await store.close()
    assert gate.is_set()
    await put


async def test_closing_waits_for_the_checkpoint_under_way(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    await store.put_bodies(b"0")
    begun, gate = threading.Event(), threading.Event()
    sync_path = store.files.sync_path

    def slowly(path: Path) -> None:
        begun.set()
        gate.wait(WAIT_S)
        sync_path(path)

    store.files.sync_path = slowly  # type: ignore[method-assign]
    checkpoint = asyncio.ensure_future(store.store.checkpoint())
    await asyncio.to_thread(begun.wait, WAIT_S)
    store.files.sync_failures = 1_000
    put = store.start_put([message(b"1")])
    asyncio.get_running_loop().call_later(0.1, gate.set)
    await store.close()
    before = fingerprint(tmp_path / "s")
    await asyncio.gather(checkpoint, put, return_exceptions=True)
    assert fingerprint(tmp_path / "s") == before


async def test_closing_lets_go_of_the_directory_when_the_checkpoint_fails(tmp_path: Path) -> None:
    store = OpenStore(tmp_path / "s").open()
    store.topic()
    await store.put_bodies(b"0")
    store.files.full.add("replace")
    await store.close()
    async with OpenStore(tmp_path / "s") as store:
        assert store.pull_bodies() == [b"0"]


async def test_a_checkpoint_that_cannot_be_written_says_so_and_the_next_one_can(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(b"0")
        store.files.broken = {"replace"}
        with pytest.raises(SyncFailed, match=r"cannot write consumer offsets: .*injected"):
            await store.store.checkpoint()
        store.files.broken = set()
        reply = await store.store.checkpoint()
        assert reply.flushed_offset == store.store.stats(0).append_offset


async def test_a_disk_that_refuses_while_a_client_waits_is_named_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> CheckpointReply:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    async with OpenStore(tmp_path / "s") as store:
        monkeypatch.setattr(store.store, "checkpoint", refuse)
        server = Server(store.store)
        path = str(tmp_path / "socket")
        await server.start(path)
        client = AsyncStoreClient(path, client_name="test")
        await client.wait_connected(10_000)
        with pytest.raises(OutcomeUnknown, match=r"the disk refused .*not permitted"):
            await client.call(Op.CHECKPOINT, Empty())
        await client.aclose()
        await server.stop()


async def test_a_reserve_that_cannot_be_made_ends_nothing(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits={"reserve_bytes": 4_096}) as store:
        assert store.store.disk.release()
        store.files.dir_sync_failures = 1
        store.store.disk.measure()
        assert store.store.disk.refusal is not None
        store.store.disk.measure()
        assert store.store.disk.refusal is None


@pytest.mark.parametrize("operation", ["replace", "append"])
async def test_a_damaged_record_costs_itself_only_on_a_full_disk_too(
    tmp_path: Path, operation: str
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        await store.put_bodies(b"0", b"damaged", b"2")
        at = store.store.catalog.get_queues("t")[0].unit(1)[0]
        poke(tmp_path / "s", at + 90, b"\xff\xff\xff")
        store.receive(1, lease_ms=1_000)
        await store.pass_time(1_001)
        store.files.full.add(operation)
        assert sorted(store.receive().bodies) == [b"0", b"2"]
        store.files.full.clear()


async def test_a_tick_with_a_damaged_record_and_a_full_disk_continues(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        await store.put_bodies(b"0", b"damaged", b"2")
        at = store.store.catalog.get_queues("t")[0].unit(1)[0]
        store.receive(lease_ms=1_000)
        answers, _ = store.park(3, wait_ms=10_000)
        poke(tmp_path / "s", at + 90, b"\xff\xff\xff")
        store.files.full |= {"replace", "append"}
        store.clock.advance(1_001)
        store.store.tick()
        assert answers == []  # nobody gets what cannot be moved to the retry topic
        store.files.full.clear()
        await store.settled()
        assert [leased.bodies for leased in answers] == [[b"0", b"2"]]


class OneBadSync(Files):
    """The next sync of a file fails, and the one after it says that all is well."""

    is_bad = False

    def sync_file(self, descriptor: int, path: Path) -> None:
        if self.is_bad:
            self.is_bad = False
            raise SyncFailed("injected")
        super().sync_file(descriptor, path)


def test_a_journal_whose_sync_failed_is_not_believed_again(tmp_path: Path) -> None:
    files = OneBadSync()
    journal = OffsetJournal(files, tmp_path / "offsets.journal")
    journal.open()
    journal.write_positions("g", "t", {0: 7})
    files.is_bad = True
    with pytest.raises(SyncFailed):
        journal.sync()
    with pytest.raises(SyncFailed):
        journal.sync()  # the kernel has forgotten what it could not write
    journal.restart([], [])
    journal.sync()
    journal.close()


class CountedSyncs(Files):
    count = 0

    def sync_file(self, descriptor: int, path: Path) -> None:
        self.count += 1
        super().sync_file(descriptor, path)


def test_a_journal_is_synced_for_what_was_appended_and_once(tmp_path: Path) -> None:
    """Five syncs a second of an idle engine would keep a disk awake."""
    files = CountedSyncs()
    journal = OffsetJournal(files, tmp_path / "offsets.journal")
    journal.open()
    assert not journal.is_durable  # what a killed engine has left may be in the page cache only
    for number in range(1, 4):
        journal.sync()
        journal.sync()
        assert (journal.is_durable, files.count) == (True, number)
        journal.write_positions("g", "t", {0: number})
        assert not journal.is_durable
    journal.close()


def test_cutting_a_queue_takes_no_more_disk_than_it_has(tmp_path: Path) -> None:
    size_bytes = 6_000_000
    run = MappedFiles(Files(), tmp_path / "q", size_bytes, are_durable=False)
    file = run.roll(64 * 1_024)
    file.view[:40] = b"x" * 40
    path = file.path
    run.close()
    before = os.stat(path).st_blocks
    run.load()
    run.files[0].zero_after(20)
    run.close()
    assert os.stat(path).st_blocks == before


async def test_a_message_in_a_new_queue_wakes_who_waits(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic(queues=1)
        store.group()
        answers, _ = store.park()
        store.topic(queues=2)
        await store.put_bodies(b"0", queue_id=1)
        assert [leased.bodies for leased in answers] == [[b"0"]]


async def test_async_puts_wait_for_the_disk_too(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits={"unsynced_bytes_max": 8_192}) as store:
        store.topic(durability=Durability.ASYNC)
        store.files.sync_gate = gate = threading.Event()
        store.store.flush_async()
        try:
            with pytest.raises(StoreBusy):
                for _ in range(100):
                    await store.put(message(bytes(800)))
        finally:
            gate.set()
        while store.store.unsynced_bytes:
            store.store.flush_async()
            await asyncio.sleep(0.01)
        await store.put(message(bytes(800)))
