"""What a snapshot keeps from retention, for how long, and how its end is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.errors import BadRequest, StoreBusy
from storage_engine.reader import find_extent
from storage_engine.wire.snapshots import SnapshotRelease, SnapshotReply, SnapshotRequest
from storage_engine.wire.sync_client import StoreClient
from tests.storage_engine.doubles import SEGMENT_BYTES, OpenStore
from tests.storage_engine.engines import Engine

HOUR_MS = 3_600_000
LIMITS = {"retention_ms": HOUR_MS, "retention_files_max": 100, "snapshot_count_max": 2}
BODY = bytes(800)  # four records a segment


def take(store: OpenStore, *, lease_ms: int = HOUR_MS, start_offset: int = 0) -> SnapshotReply:
    request = SnapshotRequest(lease_ms=lease_ms, start_offset=start_offset)
    return store.store.retention.snapshots.take(request)


def release(store: OpenStore, taken: SnapshotReply) -> bool:
    return store.store.retention.snapshots.release(taken.snapshot_id)


def start_of(store: OpenStore) -> int:
    return find_extent(store.store_dir).start_offset


async def expire(store: OpenStore) -> None:
    """Everything is older than its retention; a pass deletes a tenth of the log at most."""
    for _ in range(40):
        store.clock.advance(HOUR_MS // 20)
        await store.store.retention.run()


async def test_held_segments_stay_though_expired_and_go_after_the_release(tmp_path: Path) -> None:
    async with OpenStore(
        tmp_path / "s", limits={**LIMITS, "snapshot_lease_ms_max": 9 * HOUR_MS}
    ) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 12)
        taken = take(store, lease_ms=9 * HOUR_MS)
        await expire(store)
        assert start_of(store) == taken.start_offset == 0
        assert store.store.topic_stats("t").queues[0].min_offset == 12  # messages expire as ever
        assert release(store, taken)
        await expire(store)
        assert start_of(store) > 0
        assert not release(store, taken)


async def test_a_lease_that_ends_holds_nothing_and_its_release_says_so(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 12)
        taken = take(store, lease_ms=HOUR_MS)
        await expire(store)
        await expire(store)
        assert start_of(store) > 0
        assert not release(store, taken)


async def test_the_size_limit_waits_for_a_snapshot_and_continues_after_it(tmp_path: Path) -> None:
    limits = {"retention_bytes": 2 * SEGMENT_BYTES, "retention_files_max": 100}
    async with OpenStore(tmp_path / "s", limits=limits) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 16)
        taken = take(store)
        await store.store.retention.run()
        assert start_of(store) == 0
        assert store.store.topic_stats("t").queues[0].min_offset == 0  # nothing lost for nothing
        assert release(store, taken)
        await store.store.retention.run()
        assert start_of(store) == 2 * SEGMENT_BYTES


async def test_a_full_disk_ends_snapshots_and_frees_their_segments(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 12)
        taken = take(store)
        store.files.disk = (100, 14)  # 86 % used
        await store.store.retention.run()
        assert start_of(store) == SEGMENT_BYTES
        assert not release(store, taken)


async def test_a_snapshot_from_an_offset_lets_go_what_lies_below(tmp_path: Path) -> None:
    limits = {**LIMITS, "snapshot_lease_ms_max": 9 * HOUR_MS}
    async with OpenStore(tmp_path / "s", limits=limits) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 16)
        taken = take(store, start_offset=2 * SEGMENT_BYTES, lease_ms=9 * HOUR_MS)
        assert taken.start_offset == 2 * SEGMENT_BYTES
        await expire(store)
        assert start_of(store) == 2 * SEGMENT_BYTES


async def test_a_snapshot_taken_while_segments_go_does_not_promise_them(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        await store.put_bodies(*[BODY] * 12)
        store.clock.advance(2 * HOUR_MS)
        taken: list[SnapshotReply] = []
        forward = store.store.retention._forward

        async def forward_slowly(below_offset: int) -> None:
            taken.append(take(store))
            await asyncio.sleep(0)
            await forward(below_offset)

        store.store.retention._forward = forward_slowly
        for _ in range(40):
            store.clock.advance(HOUR_MS // 20)
            if await store.store.retention.run():
                break
        assert taken
        assert all(snapshot.start_offset >= start_of(store) for snapshot in taken)
        assert start_of(store) == SEGMENT_BYTES


async def test_what_is_appended_later_lies_outside_of_a_snapshot(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        store.topic()
        await store.put_bodies(BODY)
        taken = take(store)
        await store.put_bodies(BODY)
        assert taken.end_offset < store.store.stats(0).flushed_offset


@pytest.mark.parametrize(
    ("lease_ms", "start_offset"), [(0, 0), (-1, 0), (6 * HOUR_MS + 1, 0), (1, -1), (1, 1 << 40)]
)
async def test_impossible_snapshots_are_refused(
    tmp_path: Path, lease_ms: int, start_offset: int
) -> None:
    async with OpenStore(tmp_path / "s") as store:
        with pytest.raises(BadRequest):
            take(store, lease_ms=lease_ms, start_offset=start_offset)


async def test_only_so_many_are_held_at_once(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        first = take(store)
        take(store)
        with pytest.raises(StoreBusy):
            take(store)
        assert release(store, first)
        take(store)


async def test_an_id_of_an_earlier_run_releases_nothing(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        before = take(store)
    async with OpenStore(tmp_path / "s") as store:
        take(store)
        assert not release(store, before)


def test_a_snapshot_is_taken_and_released_over_the_socket() -> None:
    with Engine() as engine, StoreClient(engine.socket, client_name="test") as client:
        taken = client.snapshot(SnapshotRequest(lease_ms=60_000))
        assert taken.segment_bytes == 65_536
        assert client.snapshot_release(SnapshotRelease(snapshot_id=taken.snapshot_id)).was_held
        assert not client.snapshot_release(SnapshotRelease(snapshot_id=taken.snapshot_id)).was_held
        with pytest.raises(BadRequest):
            client.snapshot(SnapshotRequest(lease_ms=0))
