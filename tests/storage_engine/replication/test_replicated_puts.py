"""Puts to replicated topics: when they are answered and seen, and what others notice of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.config import KIB
from storage_engine.disk.layout import REPLICATION_FILE
from storage_engine.errors import (
    ConfigInvalid,
    NoReplicatedLog,
    NotLeader,
    OutcomeUnknown,
    ReplicationUnavailable,
    StoreError,
)
from storage_engine.log.checkpoint import read_checkpoint
from storage_engine.replication import replication
from storage_engine.wire.put_once import PutOnceReply, PutOnceRequest
from storage_engine.wire.topics import Durability
from tests.storage_engine.dedup.test_idempotent_puts import marked
from tests.storage_engine.doubles import OpenStore, message
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replication.nodes import Node
from tests.storage_engine.test_store import wait_until


async def test_a_replicated_message_is_answered_and_seen_when_the_log_has_it(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.topic()
    node.open.group()
    shared.hold()
    future = node.open.start_put([message(b"one")])
    await node.open.store.durability.durable_to(node.open.store.stats(0).append_offset)
    assert node.open.receive().bodies == []
    assert node.open.pull_bodies() == []
    assert not future.done()
    shared.heal()
    assert (await future).error is None
    assert node.open.pull_bodies() == [b"one"]
    assert node.open.receive().bodies == [b"one"]
    await node.stop()


async def test_other_topics_do_not_wait_for_the_log(tmp_path: Path) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.topic("r")
    node.topic("t", Durability.SYNC)
    node.topic("a", Durability.ASYNC)
    shared.cut_off()
    waiting = node.open.start_put([message(b"r", topic="r")])
    await node.open.put_bodies(b"sync")
    assert (await node.open.put(message(b"async", topic="a"))).error is None
    assert node.open.pull_bodies() == [b"sync"]
    await node.open.store.durability.durable_to(node.open.store.stats(0).append_offset)
    await wait_until(lambda: node.open.store.topic_stats("a").queues[0].max_offset == 1)
    assert node.open.store.topic_stats("r").queues[0].max_offset == 0
    await node.open.store.checkpoint()
    assert not waiting.done()
    shared.heal()
    assert (await waiting).error is None
    assert node.open.store.topic_stats("r").queues[0].max_offset == 1
    await node.stop()


async def test_a_log_that_does_not_answer_refuses_replicated_puts_and_heals(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.topic()
    node.topic("s", Durability.SYNC)
    shared.cut_off()
    waiting = node.open.start_put([message(b"unknown")])
    await wait_until(lambda: node.replication._shipper.waiting_since_ms is not None)
    node.clock.advance(3_999)
    node.replication.tick()
    assert not waiting.done()
    node.clock.advance(1)
    node.replication.tick()
    assert isinstance((await waiting).error, OutcomeUnknown)
    refused = await node.open.put(message(b"refused"), message(b"taken", topic="s"))
    assert refused.offsets == [(-ReplicationUnavailable.code, 0), (0, refused.offsets[1][1])]
    shared.heal()
    await wait_until(lambda: node.open.pull_bodies() == [b"unknown"])
    node.replication.tick()
    await node.open.put_bodies(b"later")
    assert node.open.pull_bodies() == [b"unknown", b"later"]
    await node.stop()


async def gathering(store_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """An owner that has just given an entry to a log with a pause of a minute."""
    node = await Node(store_dir, SharedLog()).own()
    node.topic()
    await node.replicated()
    monkeypatch.setattr(MemoryLog, "linger_ms", 60_000)
    node.clock.advance(60_000)
    await node.open.put_bodies(b"alone")
    return node


async def test_an_entry_goes_at_once_after_a_pause_and_the_next_is_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await gathering(tmp_path / "a", monkeypatch)
    gathered = [node.open.start_put([message(body)]) for body in (b"one", b"two")]
    await node.open.store.durability.durable_to(node.open.store.stats(0).append_offset)
    await wait_until(lambda: len(node.replication._waiting) == 2)
    number = node.replication._shipper.number
    await asyncio.sleep(0)
    assert not any(future.done() for future in gathered)
    await node.stop()
    assert [(await future).error for future in gathered] == [None, None]
    assert node.replication._shipper.number == number + 1


async def test_enough_for_an_entry_does_not_wait_for_the_log_s_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replication, "_AT_ONCE_BYTES", 2 * KIB)
    node = await gathering(tmp_path / "a", monkeypatch)
    gathered = [node.open.start_put([message(b"x" * KIB)])]
    await wait_until(lambda: len(node.replication._waiting) == 1)
    await asyncio.sleep(0)
    assert not gathered[0].done()
    gathered.append(node.open.start_put([message(b"x" * KIB)]))
    assert [(await future).error for future in gathered] == [None, None]
    await node.stop()


@pytest.mark.parametrize("steps", range(5))
async def test_shipping_ends_when_it_is_cancelled_as_something_comes(
    tmp_path: Path, steps: int
) -> None:
    """``asyncio.wait_for`` of Python 3.11 loses a cancellation ``steps`` after the event."""
    node = await Node(tmp_path / "a", SharedLog()).own()
    run = node.run
    assert run is not None
    await asyncio.sleep(0)
    node.replication._wanted.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    run.cancel()
    await asyncio.wait([run], timeout=10)
    assert run.cancelled()
    await node.stop()


async def test_a_scheduled_message_of_a_replicated_topic_waits_for_the_log(tmp_path: Path) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.topic()
    shared.hold()
    at_ms = node.clock.now_ms() + 5_000
    delayed = message(b"later", topic="SCHEDULE_TOPIC_XXXX", queue_id=18, properties={
        "REAL_TOPIC": "t", "REAL_QID": "0", "TIMER_DELIVER_MS": str(at_ms),
    })  # fmt: skip
    future = node.open.start_put([delayed])
    await node.open.store.durability.durable_to(node.open.store.stats(0).append_offset)
    assert not future.done()
    # It may become due meanwhile, and is not seen either.
    await node.open.pass_time(6_000)
    assert node.open.pull_bodies() == []
    shared.heal()
    assert (await future).error is None
    await wait_until(lambda: node.open.pull_bodies() == [b"later"])
    await node.stop()


async def test_a_topic_that_is_replicated_no_more_hides_what_was_put_before(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.topic()
    shared.hold()
    first = node.open.start_put([message(b"first")])
    node.topic(durability=Durability.SYNC)
    assert (await node.open.put(message(b"second"))).error is None
    assert node.open.pull_bodies() == []
    shared.heal()
    assert (await first).error is None
    await wait_until(lambda: node.open.pull_bodies() == [b"first", b"second"])
    await node.stop()


async def test_a_duplicate_of_a_replicated_message_waits_as_the_first_does(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.topic()
    shared.hold()
    answers: list[tuple[PutOnceReply | None, StoreError | None]] = []
    request = PutOnceRequest(records=marked("key", b"one"))
    for _ in range(2):
        node.open.store.once_puts.put(request, lambda *answer: answers.append(answer))
    await node.open.store.durability.durable_to(node.open.store.stats(0).append_offset)
    assert answers == []
    shared.heal()
    await wait_until(lambda: len(answers) == 2)
    assert all(error is None for _, error in answers)
    await node.stop()


async def test_a_checkpoint_counts_what_cannot_be_seen_yet(tmp_path: Path) -> None:
    """Else the next start would take the consume queues for exchanged, and read the whole log."""
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.topic()
    node.topic("s", Durability.SYNC)
    shared.hold()
    node.open.start_put([message(b"hidden")])
    assert (await node.open.put(message(b"seen", topic="s"))).error is None
    await node.open.store.checkpoint()
    mark = read_checkpoint(tmp_path / "a" / "checkpoint")
    assert mark is not None
    assert mark.dispatched_offset == node.open.store.stats(0).append_offset
    assert mark.unit_count == 2
    shared.heal()
    await node.stop()


async def test_without_a_log_no_topic_can_be_replicated(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        with pytest.raises(NoReplicatedLog, match="MQ_ENGINE_REPLICATED_LOG"):
            store.topic(durability=Durability.REPLICATED)


async def test_a_store_that_lost_its_log_refuses_what_was_replicated(tmp_path: Path) -> None:
    node = await Node(tmp_path / "a", SharedLog()).own()
    node.topic()
    node.topic("s", Durability.SYNC)
    once = PutOnceRequest(records=marked("key", b"one"))
    answers: list[tuple[PutOnceReply | None, StoreError | None]] = []
    node.open.store.once_puts.put(once, lambda *answer: answers.append(answer))
    await wait_until(lambda: len(answers) == 1)
    assert node.open.store.stats(0).degraded == []
    await node.stop()
    with pytest.raises(ConfigInvalid, match=f"delete {tmp_path / 'a' / REPLICATION_FILE}"):
        OpenStore(tmp_path / "a").open()
    (tmp_path / "a" / REPLICATION_FILE).unlink()
    async with OpenStore(tmp_path / "a") as store:
        put = await store.put(message(b"two"), message(b"sync", topic="s"))
        assert put.offsets == [(-NoReplicatedLog.code, 0), (0, put.offsets[1][1])]
        store.store.once_puts.put(once, lambda *answer: answers.append(answer))
        reply, _ = answers[1]
        assert reply is not None
        assert reply.places[0].code == NoReplicatedLog.code
        assert store.pull_bodies() == [b"one"]
        assert store.store.stats(0).degraded == ["replication"]
        # It stays as it is in all but its puts, and becomes another one.
        store.topic(queues=3, durability=Durability.REPLICATED)
        store.topic(queues=3)
        assert store.store.stats(0).degraded == []
        assert (await store.put(message(b"two"))).error is None


async def test_a_fenced_owner_acknowledges_nothing_more(tmp_path: Path) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own(is_shipping=False)
    node.topic()
    node.topic("s", Durability.SYNC)
    waiting = node.open.start_put([message(b"replicated")])
    await Node(tmp_path / "b", shared).own()
    with pytest.raises(NotLeader, match="taken over"):
        await node.replication.run()
    assert isinstance((await waiting).error, NotLeader)
    with pytest.raises(NotLeader):
        node.open.start_put([message(b"late", topic="s")])
