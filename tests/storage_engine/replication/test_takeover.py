"""Who takes a shard over: what it finds, what it refuses, and what it keeps aside."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from storage_engine.clock import SystemClock
from storage_engine.config import HOUR_MS
from storage_engine.disk.files import Files
from storage_engine.errors import ConfigInvalid, NotLeader, StoreCorrupt
from storage_engine.replicated_log.port import START, Position
from storage_engine.replication.changes import Change
from storage_engine.replication.entry import Kind, ReplicatedEntry, Section, decode, encode
from storage_engine.replication.follower import Follower, follow, take_over
from storage_engine.replication.replica import Replica
from storage_engine.replication.tail import Tail, read_tail
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import WAIT_S, OpenStore, fingerprint, message
from tests.storage_engine.replicated_log.memory_log import MemoryLog, Record, SharedLog
from tests.storage_engine.replication.nodes import Node
from tests.storage_engine.test_store import wait_until
from tests.storage_engine.tools.test_backup import serious_findings


async def entries_of(shared: SharedLog) -> list[tuple[Position, ReplicatedEntry]]:
    """All that the log has, with where reading goes on behind each."""
    return [
        (each.end, decode(each.content))
        async for each in MemoryLog(shared, SystemClock()).read(START)
    ]


def put_aside(path: Path) -> list[Path]:
    """Stores that differed from their log."""
    return list(path.glob("*.aside-*"))


async def test_a_replica_has_what_was_acknowledged_and_what_was_settled(tmp_path: Path) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    owner.open.group()
    bodies = [b"%d" % number * 300 for number in range(40)]
    await owner.open.put_bodies(*bodies)
    leased = owner.open.receive(count=5)
    owner.open.ack(leased)
    await owner.replicated()
    await owner.kill()
    heir = await Node(tmp_path / "b", shared).own()
    assert heir.open.pull_bodies() == bodies
    assert heir.open.receive().bodies == bodies[5:21]
    await heir.open.put_bodies(b"more")
    assert heir.open.pull_bodies()[-1] == b"more"
    await heir.stop()
    assert serious_findings(tmp_path / "b") == []


async def test_settles_reach_the_log_by_themselves(tmp_path: Path) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    owner.open.group()
    await owner.open.put_bodies(b"one", b"two")
    owner.open.ack(owner.open.receive(count=1))
    number = owner.replication._shipper.number
    await wait_until(lambda: owner.replication._shipper.number > number)
    await owner.kill()
    heir = await Node(tmp_path / "b", shared).own()
    assert heir.open.receive().bodies == [b"two"]
    await heir.stop()


async def test_an_owner_that_starts_again_ships_what_the_log_lacks(tmp_path: Path) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic("s", Durability.SYNC)
    await owner.replicated()
    shared.hold()
    assert (await owner.open.put(message(b"only here", topic="s"))).error is None
    await owner.kill()
    shared.heal()
    again = await Node(tmp_path / "a", shared).own()
    assert again.replication.epoch == 2
    assert again.replication.confirmed_offset == again.open.store.stats(0).append_offset
    await again.stop()
    heir = await Node(tmp_path / "b", shared).own()
    assert heir.open.store.topic_stats("s").queues[0].max_offset == 1
    await heir.stop()
    assert not put_aside(tmp_path)


async def test_entries_that_arrive_after_the_owner_died_are_known_as_its_own(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    await owner.replicated()
    shared.hold()
    owner.open.start_put([message(b"unknown")])
    await owner.open.store.durability.durable_to(owner.open.store.stats(0).append_offset)
    await owner.replication._shipper.ship()
    await owner.kill(arriving=1)
    shared.heal()
    again = await Node(tmp_path / "a", shared).own()
    assert again.open.pull_bodies() == [b"unknown"]
    await again.stop()
    assert not put_aside(tmp_path)


async def test_a_deposed_owner_keeps_what_differs_aside_and_follows(tmp_path: Path) -> None:
    shared = SharedLog()
    first = await Node(tmp_path / "a", shared).own()
    first.topic("s", Durability.SYNC)
    await first.open.put(message(b"both", topic="s"))
    await first.replicated()
    shared.hold()
    await first.open.put(message(b"only in a", topic="s"))
    await first.kill()
    shared.heal()
    second = await Node(tmp_path / "b", shared).own()
    await second.open.put(message(b"only in b", topic="s"))
    await second.stop()
    third = await Node(tmp_path / "a", shared).own()
    assert third.open.store.topic_stats("s").queues[0].max_offset == 2
    await third.stop()
    async with OpenStore(tmp_path / "a.cut-1") as kept:
        assert kept.store.topic_stats("s").queues[0].max_offset == 2
    logs = [(tmp_path / name / "commitlog" / f"{0:020d}").read_bytes() for name in ("a", "b")]
    assert logs[0] == logs[1]
    assert b"only in b" in logs[0]
    assert b"only in a" not in logs[0]


async def test_a_store_of_its_own_is_not_mixed_with_a_log_that_has_another(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    await owner.stop()
    async with OpenStore(tmp_path / "embedded") as store:
        store.topic()
        await store.put_bodies(b"one")
    with pytest.raises(StoreCorrupt, match="belong together"):
        await Node(tmp_path / "embedded", shared).own()
    async with OpenStore(tmp_path / "embedded") as store:
        assert store.pull_bodies() == [b"one"]


async def test_an_embedded_store_is_shipped_whole(tmp_path: Path) -> None:
    shared = SharedLog()
    bodies = [b"%d" % number * 500 for number in range(30)]
    async with OpenStore(tmp_path / "a") as store:
        store.topic()
        store.group()
        await store.put_bodies(*bodies)
        store.ack(store.receive(count=3))
    owner = await Node(tmp_path / "a", shared).own()
    await owner.kill()
    heir = await Node(tmp_path / "b", shared).own()
    assert heir.open.pull_bodies() == bodies
    assert heir.open.receive(count=1).bodies == [bodies[3]]
    await heir.stop()


async def test_an_epoch_that_the_log_has_seen_is_refused(tmp_path: Path) -> None:
    shared = SharedLog()
    await (await Node(tmp_path / "a", shared).own(epoch=7)).stop()
    with pytest.raises(NotLeader, match="MQ_ENGINE_SHARD_EPOCH"):
        await Node(tmp_path / "b", shared).own(epoch=7)
    tail = read_tail(tmp_path / "a")
    assert tail is not None
    assert tail.epochs == [7]


async def test_a_replica_refuses_a_gap_a_repetition_and_another_order(tmp_path: Path) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    for number in range(4):
        await owner.open.put_bodies(b"%d" % number)
        await owner.replicated()
    await owner.stop()
    found = await entries_of(shared)
    assert len(found) >= 5
    for good, bad in (([0], 2), ([0, 1], 1), ([], 1), ([0, 1, 2], 0)):
        replica = Replica(Files(), tmp_path / f"{len(good)}-{bad}", Tail())
        for index in good:
            replica.apply(found[index][1], found[index][0])
        with pytest.raises(StoreCorrupt, match="does not follow"):
            replica.apply(found[bad][1], found[bad][0])
        assert replica.tail.number == len(good)


async def test_retention_waits_for_what_the_log_lacks(tmp_path: Path) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic("s", Durability.SYNC)
    await owner.replicated()
    shared.cut_off()
    for _ in range(12):
        await owner.open.put(message(bytes(900), topic="s"))
    owner.clock.advance(200 * HOUR_MS)
    assert await owner.open.store.retention.run() == 0
    shared.heal()
    await owner.replicated()
    assert await owner.open.store.retention.run() > 0
    await owner.replicated()
    await owner.kill()
    heir = await Node(tmp_path / "b", shared).own()
    start_offset = heir.open.store.parts.commit_log.start_offset
    assert start_offset == owner.open.store.parts.commit_log.start_offset > 0
    await heir.stop()


async def test_a_cancelled_ship_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ships next would read the same files through the same descriptor."""
    owner = await Node(tmp_path / "a", SharedLog()).own(is_shipping=False)
    gate, running = threading.Event(), threading.Event()
    take = owner.replication._reader.take

    def slow_take(*, is_whole: bool) -> Change:
        running.set()
        gate.wait(WAIT_S)
        running.clear()
        return take(is_whole=is_whole)

    monkeypatch.setattr(owner.replication._reader, "take", slow_take)
    shipping = asyncio.ensure_future(owner.replication._shipper.ship())
    await wait_until(running.is_set)
    shipping.cancel()
    await asyncio.sleep(0)
    assert not shipping.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await shipping
    assert not running.is_set()
    await owner.stop()


async def test_a_replica_forgets_what_a_deposed_owner_wrote_too_far(tmp_path: Path) -> None:
    """The next owner may have cut off the end of the log that it took over."""
    head = [Section(Kind.LOG, 0, b"a" * 3_000), Section(Kind.LOG, 3_000, b"b" * 6_000)]
    tables = [Section(Kind.FILE, 0, b"{}", "config/topics.json")]
    replica = Replica(Files(), tmp_path / "r", Tail())
    replica.apply(ReplicatedEntry(1, 1, 0, 9_000, 4_096, head, is_first=True), Position(1, 1))
    after = ReplicatedEntry(2, 2, 0, 3_002, 4_096, [Section(Kind.LOG, 3_000, b"cc"), *tables], True)
    replica.apply(after, Position(2, 2))
    path = tmp_path / "r" / "commitlog"
    content = b"".join((path / f"{base:020d}").read_bytes() for base in (0, 4_096, 8_192))
    assert content == b"a" * 3_000 + b"cc" + bytes(3 * 4_096 - 3_002)
    assert replica.tail.log_end == 3_002


async def test_half_a_record_at_the_end_of_the_log_is_taken_back_by_the_next_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner was killed when only the first of two entries had arrived."""
    monkeypatch.setattr(MemoryLog, "entry_bytes_max", 700)
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    await owner.open.put_bodies(b"whole")
    await owner.replicated()
    shared.hold()
    owner.open.start_put([message(bytes(1_500))])
    await owner.open.store.durability.durable_to(owner.open.store.stats(0).append_offset)
    await owner.replication._shipper.ship()
    await owner.kill(arriving=1)
    shared.heal()
    replica = Replica(Files(), tmp_path / "c", Tail())
    for end, entry in await entries_of(shared):
        replica.apply(entry, end)
    second = await Node(tmp_path / "b", shared).own()
    await second.open.put_bodies(b"more")
    await second.kill()
    for path in (tmp_path / "c", tmp_path / "d"):
        heir = await Node(path, shared).own()
        assert heir.open.pull_bodies() == [b"whole", b"more"]
        await heir.stop()
    assert not put_aside(tmp_path)


async def test_what_was_taken_over_is_durable_before_it_is_written_down(tmp_path: Path) -> None:
    """The next start does not read it again."""
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    await owner.replicated()
    await owner.kill()
    last = (await entries_of(shared))[-1][1]
    bytes_only = ReplicatedEntry(
        1,
        last.number + 1,
        0,
        last.log_end + 9,
        4_096,
        [Section(Kind.LOG, last.log_end, b"unsynced!")],
    )
    follower = Follower(MemoryLog(shared, SystemClock()), None, tmp_path / "b", Files())
    await follower.read_on()
    await follower.flush()
    shared.records.append(Record(1, encode(bytes_only)))
    done: list[str] = []

    class NotingFiles(Files):
        def sync_path(self, path: Path) -> None:
            done.append(path.name)
            super().sync_path(path)

        def replace(self, path: Path, content: bytes) -> None:
            done.append(path.name)
            super().replace(path, content)

    place = await take_over(
        MemoryLog(shared, SystemClock()), None, tmp_path / "b", NotingFiles(), epoch=0
    )
    assert place.tail.log_end == last.log_end + 9
    assert done[-2:] == [f"{0:020d}", "replication.json"]


async def test_entries_applied_again_after_a_kill_change_nothing(tmp_path: Path) -> None:
    """A replica that was killed anywhere begins at the last place that it wrote down."""
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    owner.open.group()
    for number in range(6):
        await owner.open.put_bodies(b"%d" % number * 700)
        owner.open.ack(owner.open.receive(count=1))
        await owner.replicated()
        if number == 3:
            await owner.open.store.checkpoint()
    await owner.kill()
    found = await entries_of(shared)
    path = tmp_path / "b"
    replica = Replica(Files(), path, Tail())
    for end, entry in found:
        replica.apply(entry, end)
        replica.flush()
        tail = read_tail(path)
        again = Replica(Files(), path, tail or Tail())
        for later_end, later in found:
            if later.number > again.tail.number and later.number <= entry.number:
                again.apply(later, later_end)
        replica = again
    heir = await Node(path, shared).own()
    assert heir.open.pull_bodies() == [b"%d" % number * 700 for number in range(6)]
    assert heir.open.receive().bodies == []
    await heir.stop()


async def test_large_tables_travel_in_several_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryLog, "entry_bytes_max", 1_500)
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    for number in range(20):
        owner.topic(f"t{number}")
    owner.topic()
    bodies = [b"%d" % number * 600 for number in range(20)]
    await owner.open.put_bodies(*bodies)
    await owner.kill()
    assert any(entry.is_cut for _, entry in await entries_of(shared))
    heir = await Node(tmp_path / "b", shared).own()
    assert heir.open.pull_bodies() == bodies
    assert len(heir.open.store.catalog.topics) == 21
    await heir.stop()


async def test_a_replica_that_was_killed_before_its_first_tables_begins_again(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    await owner.open.put_bodies(b"one")
    await owner.kill()
    replica = Replica(Files(), tmp_path / "b", Tail())
    bytes_only = ReplicatedEntry(1, 1, 0, 7, 4_096, [Section(Kind.LOG, 0, b"killed!")], True)
    replica.apply(bytes_only, Position(1, 1))
    heir = await Node(tmp_path / "b", shared).own()
    assert heir.open.pull_bodies() == [b"one"]
    await heir.stop()


async def test_an_owner_starts_again_after_retention_has_deleted_what_the_log_still_has(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    for number in range(12):
        await owner.open.put_bodies(b"%d" % number * 400)
    await owner.replicated()
    owner.clock.advance(200 * HOUR_MS)
    assert await owner.open.store.retention.run() > 0
    await owner.open.put_bodies(b"new")
    await owner.kill()
    again = await Node(tmp_path / "a", shared).own()
    assert again.open.store.topic_stats("t").queues[0].max_offset == 13
    await again.stop()
    assert not put_aside(tmp_path)


async def test_a_store_whose_segments_are_all_gone_is_not_taken_for_one_that_retention_cut(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    await owner.open.put_bodies(b"one")
    await owner.kill()
    shutil.rmtree(tmp_path / "a" / "commitlog")
    again = await Node(tmp_path / "a", shared).own()
    assert again.open.pull_bodies() == [b"one"]
    await again.stop()
    assert len(put_aside(tmp_path)) == 1


async def test_a_replica_is_not_served_without_its_log(tmp_path: Path) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own()
    owner.topic()
    await owner.open.put_bodies(b"one")
    await owner.stop()
    following = asyncio.ensure_future(
        follow(
            MemoryLog(shared, SystemClock()),
            None,
            tmp_path / "b",
            Files(),
            interval_ms=1,
            caught_up=lambda _: None,
            wanted_epoch=asyncio.get_running_loop().create_future(),
        )
    )
    await wait_until(lambda: read_tail(tmp_path / "b") not in (None, Tail()))
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    found = fingerprint(tmp_path / "b")
    with pytest.raises(ConfigInvalid, match=r"is a replica.*MQ_ENGINE_REPLICATED_LOG"):
        OpenStore(tmp_path / "b").open()
    assert fingerprint(tmp_path / "b") == found
    heir = await Node(tmp_path / "b", shared).own()
    await heir.stop()
    with pytest.raises(ConfigInvalid, match="another machine may own its shard by now"):
        OpenStore(tmp_path / "b").open()


async def test_putting_a_store_aside_goes_on_where_a_kill_ended_it(tmp_path: Path) -> None:
    shared = SharedLog()
    first = await Node(tmp_path / "a", shared).own()
    first.topic()
    await first.open.put_bodies(b"both")
    await first.kill()
    second = await Node(tmp_path / "b", shared).own()
    await second.open.put_bodies(b"more")
    await second.stop()
    kept = fingerprint(tmp_path / "a", without=["lock"])
    aside = tmp_path / "a.aside-1"
    aside.mkdir()
    for name in ("checkpoint", "commitlog"):
        (tmp_path / "a" / name).rename(aside / name)
    third = await Node(tmp_path / "a", shared).own()
    assert third.open.pull_bodies() == [b"both", b"more"]
    await third.stop()
    assert put_aside(tmp_path) == [aside]
    assert fingerprint(aside) == kept
