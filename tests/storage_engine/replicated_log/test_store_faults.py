"""An S3 server that fails as S3 does: nothing is lost, nothing is doubled, and the log says why."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from storage_engine.clock import SystemClock
from storage_engine.replicated_log import object_requests
from storage_engine.replicated_log.errors import Damaged, Misconfigured, Trimmed, Unavailable
from storage_engine.replicated_log.object_format import Kind, LogObject, decode, encode
from storage_engine.replicated_log.opening import open_log
from storage_engine.replicated_log.port import START, Position, ReplicatedLog
from tests.clock import ManualClock
from tests.storage_engine.replicated_log.interleaved_bucket import InterleavedBucket
from tests.storage_engine.replicated_log.log_kinds import (
    SHARD,
    Views,
    bucket_log,
    contents_of,
    entries_of,
    new_s3_bucket,
    s3,
    s3_views,
    url_views,
)
from tests.storage_engine.replicated_log.s3_server import Fault

WANTED = [b"%d" % number for number in range(24)]


async def append_all(log: ReplicatedLog) -> list[Position]:
    positions: list[Position] = []
    for at in range(0, len(WANTED), 8):
        positions += await asyncio.gather(*[log.append(entry) for entry in WANTED[at : at + 8]])
    return positions


def trouble_of(log: ReplicatedLog) -> str:
    return log.trouble.reason if log.trouble else ""


def every(number: int, fault: Fault, method: str = "") -> Callable[[str, str], Fault | None]:
    """The fault for each request of a method whose count is a multiple of ``number``."""
    counted = itertools.count(1)

    def choose(asked: str, _path: str) -> Fault | None:
        return fault if method in ("", asked) and next(counted) % number == 0 else None

    return choose


@pytest.mark.parametrize(
    "fault",
    [
        Fault.UNAVAILABLE,
        Fault.CONFLICT,
        Fault.DONE_503,
        Fault.DONE_UNSAID,
        Fault.SLOW,
        Fault.FORBIDDEN,
        Fault.EXPIRED,
    ],
)
async def test_no_fault_of_a_write_loses_or_doubles_an_entry(fault: Fault) -> None:
    server, _ = s3()
    async with s3_views() as views:
        writer = await views.opened(1)
        server.choose = every(3, fault, "PUT")

        positions = await append_all(writer)

        assert server.fired[fault] >= len(WANTED) // 3
        server.heal()
        found = await entries_of(views.view())
        assert [entry.content for entry in found] == WANTED
        assert [entry.position for entry in found] == positions


@pytest.mark.parametrize(
    "fault",
    [Fault.UNAVAILABLE, Fault.TRUNCATED, Fault.TRUNCATED_WHOLE, Fault.DONE_UNSAID, Fault.SLOW],
)
async def test_no_fault_of_a_read_hides_or_changes_an_entry(fault: Fault) -> None:
    server, _ = s3()
    async with s3_views() as views:
        await append_all(await views.opened(1))
        reader = views.view()
        server.choose = every(3, fault, "GET")

        assert await contents_of(reader) == WANTED
        assert server.fired[fault] > 3


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.DONE_503, Fault.DONE_UNSAID])
async def test_a_log_opens_though_the_store_fails_at_first(fault: Fault) -> None:
    server, _ = s3()
    async with s3_views() as views:
        await append_all(await views.opened(1))
        server.choose = every(4, fault)

        successor = await views.opened(2)

        assert server.fired[fault] > 3
        await successor.append(b"more")
        server.heal()
        assert await contents_of(views.view()) == [*WANTED, b"more"]


async def test_a_list_that_lags_only_leaves_rubbish_for_the_next_trim() -> None:
    server, _ = s3()
    async with s3_views() as views:
        writer = await views.opened(1)
        positions = await append_all(writer)
        await writer.trim(positions[2])
        server.choose = every(1, Fault.LAGGING, "GET")

        await writer.trim(positions[10])

        assert server.fired[Fault.LAGGING] > 0
        assert await contents_of(views.view(), positions[10]) == WANTED[10:]
        successor = await views.opened(2)
        await successor.append(b"more")
        assert (await contents_of(views.view(), positions[10]))[-1] == b"more"


async def test_a_store_that_does_not_answer_is_trouble_and_nothing_is_lost() -> None:
    url, options = new_s3_bucket()
    server, _ = s3()
    clock = ManualClock()
    writer = open_log(url, shard=SHARD, deployment="d1", options=options, clock=clock)
    await writer.open(1)
    server.choose = every(1, Fault.EXPIRED, "PUT")

    waiting = writer.append(b"a")
    while not server.fired:
        await asyncio.sleep(0.01)
    assert trouble_of(writer) == ""
    clock.advance(2_000)

    assert trouble_of(writer)
    while "ExpiredToken" not in trouble_of(writer):  # once the refusal has arrived
        await asyncio.sleep(0.01)
    server.heal()
    await waiting
    assert trouble_of(writer) == ""
    assert await contents_of(writer) == [b"a"]
    await writer.close()


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        (Fault.FORBIDDEN, Misconfigured, "AccessDenied"),
        (Fault.EXPIRED, Misconfigured, "ExpiredToken"),
        (Fault.UNAVAILABLE, Unavailable, "SlowDown"),
    ],
)
async def test_a_log_that_cannot_be_opened_says_why(
    fault: Fault, error: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_requests, "PATIENCE_MS", 100)
    server, _ = s3()
    async with s3_views() as views:
        server.choose = every(1, fault)

        with pytest.raises(error, match=says):
            await views.view().open(1)


async def test_a_bucket_that_does_not_exist_is_named() -> None:
    _, options = new_s3_bucket()
    views = url_views("s3://no-such-bucket/prefix", options)

    with pytest.raises(Misconfigured, match="NoSuchBucket"):
        await views.view().open(1)


async def test_a_directory_that_does_not_exist_is_named(tmp_path: Path) -> None:
    views = url_views(f"file://{tmp_path}/missing")

    with pytest.raises(Misconfigured, match="missing is no directory"):
        await views.view().open(1)


@pytest.mark.parametrize("url", ["http://x/y", "ftp:", "", "s3:///no-bucket", "s3://b?no_option=1"])
def test_a_url_that_names_no_log_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured):
        open_log(url, shard=SHARD, deployment="d", options={}, clock=SystemClock())


@pytest.mark.parametrize(("url", "extra"), [("s3://b", "object-store"), ("kafka://h/p", "kafka")])
def test_a_library_that_is_missing_is_named(
    url: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("obstore", "confluent_kafka"):
        monkeypatch.setitem(sys.modules, module, None)
    for module in ("obstore_bucket", "kafka_log"):
        monkeypatch.delitem(sys.modules, f"storage_engine.replicated_log.{module}", raising=False)

    with pytest.raises(Misconfigured, match=f"extra {extra}"):
        open_log(url, shard=SHARD, deployment="d", options={}, clock=SystemClock())


def quiet_bucket() -> InterleavedBucket:
    return InterleavedBucket(Random(0), fault_rate=0)


@pytest.mark.parametrize("cut", [0, 20, 47, 48, -1])
async def test_an_object_that_is_damaged_in_the_store_is_named(cut: int) -> None:
    bucket = quiet_bucket()
    views = Views(lambda deployment: bucket_log(bucket, deployment))
    writer = await views.opened(1)
    position = await writer.append(b"entry")
    name = f"wal/{SHARD}/{position.sequence:020}"
    found = bucket.objects[name]
    bucket.objects[name] = found._replace(content=found.content[:cut])

    with pytest.raises(Damaged, match=f"{position.sequence:020}"):
        await contents_of(views.view())


async def test_what_others_put_into_the_bucket_is_refused() -> None:
    bucket = quiet_bucket()
    await bucket.put("deployment", b"something else that has this name", version=None)

    with pytest.raises(Damaged, match="deployment"):
        await bucket_log(bucket).open(1)


async def test_a_log_of_a_newer_version_is_named_and_left_alone() -> None:
    bucket = quiet_bucket()
    await bucket_log(bucket).open(1)
    name = f"wal/{SHARD}/boundary"
    found = bucket.objects[name]
    bucket.objects[name] = found._replace(content=b"MQRL\x02" + found.content[5:])
    known = dict(bucket.objects)

    with pytest.raises(Damaged, match=r"boundary has version 2.*start the newer engine"):
        await bucket_log(bucket).open(2)

    assert bucket.objects == known


async def test_a_process_killed_between_put_and_answer_leaves_a_whole_entry() -> None:
    bucket = quiet_bucket()
    views = Views(lambda deployment: bucket_log(bucket, deployment))
    writer = await views.opened(1)
    end = await writer.open(1)
    entry = LogObject(Kind.ENTRY, 1, end.sequence, _writer_of(bucket), b"stored, not acknowledged")
    await bucket.put(f"wal/{SHARD}/{end.sequence:020}", encode(entry), version=None)

    successor = await views.opened(2)

    assert await contents_of(successor) == [b"stored, not acknowledged"]


async def test_a_trim_that_was_killed_before_it_deleted_is_finished_by_the_next() -> None:
    bucket = quiet_bucket()
    views = Views(lambda deployment: bucket_log(bucket, deployment))
    writer = await views.opened(1)
    positions = [await writer.append(b"%d" % number) for number in range(10)]
    boundary = bucket.objects[f"wal/{SHARD}/boundary"]
    moved = decode(boundary.content, "boundary")._replace(sequence=positions[5].sequence)
    bucket.objects[f"wal/{SHARD}/boundary"] = boundary._replace(content=encode(moved))

    assert await views.view().oldest() == positions[5].sequence
    await writer.trim(positions[6])

    left = sorted(name[-20:] for name in bucket.objects if name[-1].isdigit())
    assert left[0] == f"{positions[6].sequence:020}"
    with pytest.raises(Trimmed):
        await contents_of(views.view(), START)


def _writer_of(bucket: InterleavedBucket) -> bytes:
    return decode(bucket.objects[f"wal/{SHARD}/boundary"].content, "boundary").writer
