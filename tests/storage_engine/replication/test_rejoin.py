"""A former owner that comes back: it goes on with what it has in common with the next owner."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.clock import SystemClock
from storage_engine.config import HOUR_MS
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CHECKPOINT_FILE, COMMIT_LOG_DIR, REPLICATION_FILE
from storage_engine.disk.small_files import identities
from storage_engine.log.checkpoint import read_checkpoint
from storage_engine.recovery.warm_replica import WarmReplica
from storage_engine.replication.cut_off import keep
from storage_engine.replication.follower import Follower
from storage_engine.replication.tail import Tail, read_tail
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import (
    FaultyFiles,
    Killed,
    ManualClock,
    OpenStore,
    copy_store,
    fingerprint,
    message,
    tiny_config,
)
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replication.nodes import Node
from tests.storage_engine.replication.test_takeover import put_aside
from tests.storage_engine.test_store import wait_until
from tests.storage_engine.tools.test_backup import serious_findings


def cut_off(path: Path) -> list[Path]:
    """Copies of what former owners had more."""
    return sorted(path.glob("*.cut-*"))


def standby(path: Path, shared: SharedLog, files: Files | None = None) -> Follower:
    """A replica that fills its queues, on an empty directory or a former owner's."""
    files = files or Files()
    derived = WarmReplica(tiny_config(path), files, ManualClock())
    return Follower(MemoryLog(shared, SystemClock()), None, path, files, derived)


async def followed(path: Path, shared: SharedLog, files: Files | None = None) -> None:
    """A replica's run up to the present end of the log."""
    follower = standby(path, shared, files)
    await follower.read_on()
    await follower.flush()
    follower._derived.close()


def small_files(store: Path) -> dict[str, bytes]:
    """But for the checkpoint, which counts what each store has derived."""
    return {
        name: (store / name).read_bytes() for name in identities(store) if name != CHECKPOINT_FILE
    }


def log_of(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store / COMMIT_LOG_DIR).iterdir()))


async def forked(
    tmp_path: Path,
    shared: SharedLog,
    durability: Durability = Durability.SYNC,
    *,
    is_killed: bool = True,
) -> Node:
    """``a`` has two messages in common with ``b``, which owns the shard now, and two that ``b`` has
    not, besides a settle, a topic, and a checkpoint of it all; ``b`` has two of its own. Without
    ``is_killed``, ``a`` was cut off from the log and is told by it that it was replaced.
    """
    a = await Node(tmp_path / "a", shared).own()
    a.topic("t", durability)
    a.open.group()
    await a.open.put_bodies(b"one" * 99, b"two" * 99)
    await a.replicated()
    shared.hold()
    a.open.ack(a.open.receive(count=1))
    a.topic("extra", durability)
    for body in (b"only in a" * 50, b"only in a, too" * 50):
        a.open.start_put([message(body)])
    store = a.open.store
    await store.durability.durable_to(store.stats(0).append_offset)
    await store.checkpoint()
    if is_killed:
        await a.kill()
        shared.heal()
    taking_over = asyncio.ensure_future(Node(tmp_path / "b", shared).own())
    await wait_until(lambda: shared.epoch == 2)
    shared.heal()
    b = await taking_over
    if not is_killed:
        await a.stop()
    # As long as a's together, but not each.
    await b.open.put_bodies(b"only in b, too" * 50, b"only in b" * 50)
    await b.open.store.checkpoint()
    await b.replicated()
    return b


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("durability", [Durability.SYNC, Durability.REPLICATED])
async def test_a_former_owner_becomes_like_a_replica_that_never_owned_the_shard(
    tmp_path: Path, durability: Durability, is_killed: bool
) -> None:
    shared = SharedLog()
    b = await forked(tmp_path, shared, durability, is_killed=is_killed)
    segment = tmp_path / "a" / COMMIT_LOG_DIR / f"{0:020d}"
    inode = segment.stat().st_ino
    await followed(tmp_path / "a", shared)
    await followed(tmp_path / "c", shared)
    assert segment.stat().st_ino == inode
    assert not put_aside(tmp_path)
    assert small_files(tmp_path / "a") == small_files(tmp_path / "c")
    assert log_of(tmp_path / "a") == log_of(tmp_path / "c")
    assert read_tail(tmp_path / "a") == read_tail(tmp_path / "c")
    mark, other = (read_checkpoint(tmp_path / name / CHECKPOINT_FILE) for name in "ab")
    assert mark is not None
    assert other is not None
    assert (mark.dispatched_offset, mark.unit_count) == (other.dispatched_offset, other.unit_count)
    bodies = b.open.pull_bodies()
    await b.kill()
    again = await Node(tmp_path / "a", shared).own()
    assert again.open.pull_bodies() == bodies
    assert again.open.receive(count=1).bodies == bodies[:1]
    await again.stop()
    assert serious_findings(tmp_path / "a") == []
    # Nobody was told that a message of a replicated topic is stored which the log has not.
    assert len(cut_off(tmp_path)) == (durability is Durability.SYNC)
    for kept in cut_off(tmp_path):
        async with OpenStore(kept) as store:
            assert store.pull_bodies()[2:] == [b"only in a" * 50, b"only in a, too" * 50]


async def test_an_owner_that_gave_its_shard_up_has_nothing_to_compare(tmp_path: Path) -> None:
    shared = SharedLog()
    a = await Node(tmp_path / "a", shared).own()
    a.topic()
    await a.open.put_bodies(b"one")
    await a.stop()
    tail = read_tail(tmp_path / "a")
    assert tail is not None
    assert tail.position.sequence == shared.end
    b = await Node(tmp_path / "b", shared).own()
    await b.open.put_bodies(b"two")
    await b.kill()
    again = await Node(tmp_path / "a", shared).own()
    assert again.open.pull_bodies() == [b"one", b"two"]
    await again.stop()
    assert not cut_off(tmp_path)
    assert not put_aside(tmp_path)


async def test_a_kill_at_any_step_of_coming_back_loses_nothing(tmp_path: Path) -> None:
    shared = SharedLog()
    b = await forked(tmp_path, shared)
    bodies = b.open.pull_bodies()
    await b.kill()
    template, store, at = tmp_path / "a", tmp_path / "x", 0
    whole = copy_store(template, tmp_path / "whole")
    await followed(whole, shared)
    while True:
        directory = tmp_path / str(at)
        copy_store(template, directory)
        files = FaultyFiles()
        files.kill_at = at
        try:
            await followed(directory, shared, files)
            is_over = True
        except Killed:
            is_over = False
            await followed(directory, shared)
        assert small_files(directory) == small_files(whole)
        assert log_of(directory) == log_of(whole)
        assert b"only in a, too" in log_of(tmp_path / f"{at}.cut-1")
        if is_over:
            break
        at += 1
    assert at > 20
    copy_store(tmp_path / str(at // 2), store)
    heir = await Node(store, shared).own()
    assert heir.open.pull_bodies() == bodies
    await heir.stop()


async def test_files_of_a_next_owner_that_are_not_whole_count_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was lost before its first change was in the log, which goes on with a third owner."""
    monkeypatch.setattr(MemoryLog, "entry_bytes_max", 700)
    shared = SharedLog()
    a = await Node(tmp_path / "a", shared).own()
    a.topic()
    a.open.group()
    await a.open.put_bodies(b"one" * 99, b"two" * 99)
    await a.open.store.checkpoint()
    await a.replicated()
    shared.hold()
    a.open.ack(a.open.receive(count=1))
    await a.kill()
    shared.heal()
    owned_to = shared.end
    await (await Node(tmp_path / "b", shared).own()).kill()
    assert shared.end - owned_to > 4
    while shared.end > owned_to + 2:  # the fence, and the first entry
        shared.records.pop()
    copy_store(tmp_path / "a", tmp_path / "c")
    await followed(tmp_path / "a", shared)
    await followed(tmp_path / "a", shared)
    tail = read_tail(tmp_path / "a")
    assert tail is not None
    assert tail.has_own_files
    third = await Node(tmp_path / "a", shared).own()
    assert third.open.receive(count=2).bodies == [b"one" * 99, b"two" * 99]
    await third.stop()
    assert [path.name for path in put_aside(tmp_path)] == ["a.aside-2"]
    await followed(tmp_path / "c", shared)
    await followed(tmp_path / "d", shared)
    assert small_files(tmp_path / "c") == small_files(tmp_path / "d")


async def test_a_former_owner_that_lacks_a_segment_of_the_next_one_is_built_anew(
    tmp_path: Path,
) -> None:
    """Its retention deleted one, and it was lost before the log heard of it."""
    shared = SharedLog()
    a = await Node(tmp_path / "a", shared).own()
    a.topic()
    for number in range(12):
        await a.open.put_bodies(b"%d" % number * 400)
    await a.replicated()
    shared.hold()
    a.clock.advance(200 * HOUR_MS)
    assert await a.open.store.retention.run() > 0
    await a.kill()
    shared.heal()
    b = await Node(tmp_path / "b", shared).own()
    bodies = b.open.pull_bodies()
    await b.kill()
    again = await Node(tmp_path / "a", shared).own()
    assert again.open.pull_bodies() == bodies
    await again.stop()
    assert len(put_aside(tmp_path)) == 1


async def test_the_last_three_copies_stay_and_whole_stores_always(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "a") as store:
        store.topic()
        await store.put_bodies(b"one")
    others = [tmp_path / name for name in ("a.aside-1", "a.cut-off", "ab.cut-1")]
    for path in others:
        path.mkdir()
    for epoch in range(8, 13):
        keep(Files(), tmp_path / "a", 0, epoch)
    assert [path.name for path in cut_off(tmp_path) if path not in others] == [
        f"a.cut-{epoch}" for epoch in (10, 11, 12)
    ]
    assert all(path.exists() for path in others)


async def test_small_files_of_many_entries_are_written_once(tmp_path: Path) -> None:
    shared = SharedLog()
    a = await Node(tmp_path / "a", shared).own()
    a.topic()
    a.open.group()
    for number in range(30):
        await a.open.put_bodies(b"%d" % number)
        a.open.ack(a.open.receive(count=1))
        a.topic(f"t{number}")
        await a.replicated()
    names: list[str] = []

    class NotingFiles(Files):
        def replace(self, path: Path, content: bytes) -> None:
            names.append(path.name)
            super().replace(path, content)

    await followed(tmp_path / "b", shared, NotingFiles())
    assert names.count("topics.json") == 1
    assert names.count(REPLICATION_FILE) == 2  # one of them before the first entry
    assert small_files(tmp_path / "a") == small_files(tmp_path / "b")
    await a.stop()
    assert read_tail(tmp_path / "b") != Tail()


async def test_nothing_is_kept_where_there_is_nothing_more(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "a") as store:
        store.topic()
        await store.put_bodies(b"one")
        end = store.store.stats(0).append_offset
    found = fingerprint(tmp_path)
    keep(Files(), tmp_path / "a", end, 1)
    assert fingerprint(tmp_path) == found
