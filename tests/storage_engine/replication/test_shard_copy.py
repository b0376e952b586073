"""Copies of a shard that are made of its bucket alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

import pytest

from storage_engine.clock import SystemClock
from storage_engine.config import HOUR_MS
from storage_engine.errors import DiskFull, StoreCorrupt
from storage_engine.reader import find_extent, read_columns
from storage_engine.replicated_log.bucket import Bucket
from storage_engine.replicated_log.errors import Trimmed
from storage_engine.replicated_log.port import Entry, Position
from storage_engine.replicated_log.snapshot_bucket import SNAPSHOTS_KEPT
from storage_engine.replication.shard_copy import ShardCopy, copy_shard
from storage_engine.tools.shard_copy.__main__ import main
from storage_engine.tools.shard_copy.report import EXIT_REFUSED, EXIT_UNREADABLE
from storage_engine.wire.snapshots import SnapshotRequest
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import message
from tests.storage_engine.independent_reader import read_log
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replicated_log.s3_server import BUCKET, options
from tests.storage_engine.replication.nodes import Node, snapshots_in
from tests.storage_engine.replication.test_snapshots import CountingBucket, begun, filled


async def copy(
    directory: Path,
    shared: SharedLog,
    bucket: Bucket | None,
    *,
    from_ms: int = 0,
    reach: int = 0,
    wait_ms: int = 60_000,
    leave_bytes: int = 0,
    log: MemoryLog | None = None,
) -> ShardCopy:
    clock = SystemClock()
    return await copy_shard(
        log or MemoryLog(shared, clock),
        None if bucket is None else snapshots_in(bucket, clock),
        directory,
        clock,
        from_ms=from_ms,
        reach=reach,
        wait_ms=wait_ms,
        leave_bytes=leave_bytes,
    )


def offsets_in(directory: Path, *, end_offset: int) -> list[int]:
    """Of the records of a copy, as Spark's reader finds them."""
    damages: list[int] = []
    found: list[int] = []
    extent = find_extent(directory, end_offset=end_offset)
    for segment in extent.segments:
        for columns in read_columns(
            segment,
            extent.start_offset,
            extent.end_offset,
            checks_crcs=True,
            damaged=lambda start, *_: damages.append(start),
        ):
            found += columns.physical_offset.tolist()
    assert damages == []
    return found


async def hours_of_messages(owner: Node, *, snapshots: int) -> list[int]:
    """Forty an hour, with a snapshot at the end of each of the first hours; when each began."""
    began: list[int] = []
    for number in range(snapshots + 1):
        owner.clock.advance(HOUR_MS)
        began.append(owner.clock.now_ms())
        await filled(owner, number * 40, 40)
        if number < snapshots:
            await owner.snapshotter.take()
    return began


async def test_a_copy_has_every_record_of_its_time_and_no_segment_of_before(
    tmp_path: Path,
) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    began = await hours_of_messages(owner, snapshots=SNAPSHOTS_KEPT + 1)
    log = list(read_log(tmp_path / "a"))
    sizes = []
    for number, from_ms in enumerate((0, *began)):
        copied = await copy(tmp_path / str(number), shared, bucket, from_ms=from_ms)
        found = offsets_in(tmp_path / str(number), end_offset=copied.end_offset)
        expected = [each for each in log if each.physical_offset >= copied.start_offset]
        assert found == [each.physical_offset for each in expected]
        assert copied.last_ms == log[-1].store_timestamp_ms
        # Whoever counts a time needs to know that nothing of it is missing at its beginning.
        older = [each for each in log if each.store_timestamp_ms < from_ms]
        assert copied.start_offset == 0 or expected[0] in older
        sizes.append(len(found))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0] / 3
    await owner.stop()


class SlowLog(MemoryLog):
    """What its owner has on the way arrives once somebody has read it to its end."""

    async def read(self, start: Position) -> AsyncIterator[Entry]:
        async for each in super().read(start):
            yield each
        self._shared.heal()


async def test_a_copy_goes_as_far_as_the_owner_says(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    owner.topic("local", Durability.SYNC)
    await filled(owner, 0, 3)
    await owner.snapshotter.take()
    shared.hold()
    await owner.open.put(message(b"on its way", topic="local"))
    shipping = asyncio.ensure_future(owner.replicated())
    held = owner.open.store.retention.snapshots.take(SnapshotRequest(lease_ms=1))
    reach = held.end_offset
    early = await copy(tmp_path / "early", shared, bucket, reach=reach, wait_ms=0)
    assert early.end_offset < reach
    log = SlowLog(shared, SystemClock())
    whole = await copy(tmp_path / "whole", shared, bucket, reach=reach, log=log)
    assert whole.end_offset == reach
    await shipping
    await owner.stop()


async def test_a_shard_of_which_nothing_was_shipped_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreCorrupt, match="neither a snapshot nor an entry"):
        await copy(tmp_path / "c", SharedLog(), CountingBucket())


async def test_a_log_that_goes_on_behind_a_snapshot_that_is_gone_is_refused(
    tmp_path: Path,
) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await hours_of_messages(owner, snapshots=SNAPSHOTS_KEPT)
    await owner.stop()
    for lost in (None, CountingBucket()):
        with pytest.raises(Trimmed, match="no snapshot has them"):
            await copy(tmp_path / "c", shared, lost)


async def test_a_copy_that_would_fill_the_disk_is_not_begun(tmp_path: Path) -> None:
    shared, bucket = SharedLog(), CountingBucket()
    owner = await begun(tmp_path, shared, bucket)
    await hours_of_messages(owner, snapshots=1)
    await owner.stop()
    with pytest.raises(DiskFull, match="are to stay so"):
        await copy(tmp_path / "c", shared, bucket, leave_bytes=1 << 60)
    assert not list((tmp_path / "c" / "commitlog").iterdir())


def exit_of(capsys: pytest.CaptureFixture[str], directory: Path) -> tuple[int, str]:
    code = main([str(directory)])
    return code, capsys.readouterr().err


class Refusal(BaseHTTPRequestHandler):
    """What S3 says of credentials that it does not know."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.end_headers()
        self.wfile.write(b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def refusing_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_wrong_credentials_and_wrong_places_are_told_apart_from_an_empty_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MQ_ENGINE_SHARD", "s2")
    monkeypatch.setenv("MQ_ENGINE_REPLICATED_LOG", (tmp_path / "none").as_uri())
    code, said = exit_of(capsys, tmp_path / "1")
    assert (code, "is no directory" in said) == (EXIT_REFUSED, True), said
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("MQ_ENGINE_REPLICATED_LOG", (tmp_path / "empty").as_uri())
    code, said = exit_of(capsys, tmp_path / "2")
    assert (code, "neither a snapshot" in said) == (EXIT_UNREADABLE, True), said
    monkeypatch.setenv("MQ_ENGINE_DEPLOYMENT", "another")
    code, said = exit_of(capsys, tmp_path / "3")
    assert (code, "belongs to deployment" in said) == (EXIT_REFUSED, True), said
    with refusing_server() as address:
        query = urlencode(options(address))
        monkeypatch.setenv("MQ_ENGINE_REPLICATED_LOG", f"s3://{BUCKET}/p?{query}")
        code, said = exit_of(capsys, tmp_path / "4")
        assert (code, "The object store refuses: " in said) == (EXIT_REFUSED, True), said
        assert "AccessDenied" in said
