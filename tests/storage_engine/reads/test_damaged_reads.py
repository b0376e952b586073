"""One flipped bit costs its own message and no other, and nobody ever sees it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from storage_engine.disk.files import Files
from storage_engine.errors import DiskFull, StoreError, SyncFailed
from storage_engine.records.record_run import decode_records
from storage_engine.wire.reads import PullRequest, PullStatus
from tests.storage_engine.doubles import OpenStore


@pytest.mark.parametrize("others", [1, 20], ids=["each asked alone", "under one seal"])
async def test_every_single_flipped_bit_of_a_record_is_noticed(tmp_path: Path, others: int) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(b"first", b"hurt", *[b"later"] * others)
        log = store.store._commit_log
        queue = store.store.catalog.get_queues("t")[0]
        places = [unit[:2] for unit in queue.units(0, others + 2)]
        start, size = places[1]
        view = log.segments()[0].view
        whole = log.read_many(places)
        rest = log.read_many([places[0], *places[2:]])
        assert (log.damaged(places), log.read_checked(places)) == ([], (whole, []))
        for bit in range(size * 8):
            view[start + bit // 8] ^= 1 << bit % 8
            assert log.damaged(places) == [1], bit
            assert log.read_checked(places) == (rest, [1]), bit
            view[start + bit // 8] ^= 1 << bit % 8
        assert (log.damaged(places), log.read_checked(places)) == ([], (whole, []))


@pytest.mark.parametrize("others", [1, 20], ids=["each asked alone", "under one seal"])
async def test_places_without_a_record_are_damaged_and_cost_no_other(
    tmp_path: Path, others: int
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(b"first", *[b"later"] * others)
        log = store.store._commit_log
        queue = store.store.catalog.get_queues("t")[0]
        first, *later = [unit[:2] for unit in queue.units(0, others + 1)]
        last = later[0]
        size_bytes = log.segments()[0].size_bytes
        beyond = (first[0], size_bytes + 1)
        elsewhere = (1 << 50, first[1])
        for place in (beyond, elsewhere, (last[0] - 1, last[1]), (last[0], last[1] + 1), (0, 0)):
            found = log.read_checked([first, place, *later])
            assert found == (log.read_many([first, *later]), [1]), place


@pytest.mark.parametrize("at", [0, 5, 13, 27, 35, 40, 84, 90, -30, -15, -5, -1])
async def test_readers_pass_over_a_damaged_record_and_an_alarm_stays(
    tmp_path: Path, at: int
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        await store.put_bodies(b"first", b"hurt", b"last")
        start, size, _ = store.store.catalog.get_queues("t")[0].unit(1)
        store.store._commit_log.segments()[0].view[start + at % size] ^= 0x10
        assert store.receive().bodies == [b"first", b"last"]
        assert pulled(store, 1, 1) == (PullStatus.NO_MATCHED_MSG, 2, [])
        assert pulled(store, 0, 9) == (PullStatus.FOUND, 3, [b"first", b"last"])
        (queue,) = store.store.consumption.group_stats("g").queues
        assert queue.inflight_count == 2
        alarm = json.loads((tmp_path / "s/config/quarantine.json").read_text())
        assert [entry["physicalOffset"] for entry in alarm["entries"]] == [start]
    async with OpenStore(tmp_path / "s") as store:
        assert store.store.parts.quarantine.count == 1
        assert store.store.stats(0).quarantined_count == 1
        assert store.receive().bodies == [b"first", b"last"]


@pytest.mark.parametrize("full", ["replace", "append"])
async def test_a_full_disk_does_not_keep_readers_from_what_stands_beside_a_damaged_record(
    tmp_path: Path, full: str
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        store.group()
        await store.put_bodies(b"before")
        store.ack(store.receive())
        await store.put_bodies(b"first", b"hurt", b"last")
        start, _, _ = store.store.catalog.get_queues("t")[0].unit(2)
        store.store._commit_log.segments()[0].view[start + 90] ^= 0x10
        store.files.full = {full}
        assert store.receive().bodies == [b"first", b"last"]
        assert pulled(store, 1, 9) == (PullStatus.FOUND, 4, [b"first", b"last"])
        assert store.store.parts.quarantine.count == 1
        store.files.full = set()
        pulled(store, 1, 9)
        alarm = json.loads((tmp_path / "s/config/quarantine.json").read_text())
        assert [entry["physicalOffset"] for entry in alarm["entries"]] == [start]


def pulled(store: OpenStore, offset: int, count: int) -> tuple[PullStatus, int, list[bytes]]:
    request = PullRequest(
        topic="t", queue_id=0, queue_offset=offset, messages_max=count, bytes_max=1 << 20
    )
    head, records = store.store.pull(request)
    bodies = [record.body for record in decode_records(store.store.read_records(records))]
    return head.status, head.next_offset, bodies


@pytest.mark.parametrize(
    ("call", "code", "error"),
    [
        ("open", errno.ENOSPC, DiskFull),
        ("posix_fallocate", errno.ENOSPC, DiskFull),
        ("fsync", errno.ENOSPC, DiskFull),
        ("fsync", errno.EIO, SyncFailed),
        ("posix_fallocate", errno.EIO, SyncFailed),
    ],
)
def test_a_file_that_cannot_be_made_says_why_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    code: int,
    error: type[StoreError],
) -> None:
    def failing(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(error, match="file"):
        Files().create(tmp_path / "file", 4_096, 4_096)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\0\0", b"-", b"seven"])
async def test_a_run_whose_number_was_lost_takes_one_that_no_run_has_had(
    tmp_path: Path, content: bytes
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        assert store.store.epoch == 1
    (tmp_path / "s" / "config" / "epoch").write_bytes(content)
    async with OpenStore(tmp_path / "s") as store:
        lost = store.store.epoch
        assert 1_000_000 < lost < 1 << 23
    async with OpenStore(tmp_path / "s") as store:
        assert store.store.epoch == lost + 1


async def test_an_alarm_that_could_not_be_taken_back_ends_with_the_next_start(
    tmp_path: Path,
) -> None:
    """The list finds no room when the segment has just been deleted."""
    limits = {"retention_bytes": 2 * 4_096}
    path = tmp_path / "s/config/quarantine.json"
    async with OpenStore(tmp_path / "s", limits=limits) as store:
        store.topic()
        await store.put_bodies(b"hurt", *[bytes(1_000)] * 14)
        store.store._commit_log.segments()[0].view[90] ^= 0x10
        assert pulled(store, 0, 1) == (PullStatus.NO_MATCHED_MSG, 1, [])
        listed = path.read_bytes()
        await store.store.retention.run()
        assert store.store.parts.quarantine.count == 0
    path.write_bytes(listed)
    async with OpenStore(tmp_path / "s", limits=limits) as store:
        assert store.store.parts.quarantine.count == 0
