"""An owner that gives its shard up: what it confirms until its end, the next one has, and what it
refuses, its clients ask the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest

from storage_engine.client import (
    Durability,
    LeaseRef,
    ReceiveRequest,
    SettleRequest,
    ShuttingDown,
    StoreError,
)
from storage_engine.disk.small_files import FilesKeptChanging
from storage_engine.records.record import encode_record
from storage_engine.replication.changes import Change, ChangeReader
from storage_engine.replication.shipper import Shipper
from storage_engine.server.server import Server
from tests.storage_engine.dedup.test_idempotent_puts import marked
from tests.storage_engine.doubles import WAIT_S, message
from tests.storage_engine.replicated_log.memory_log import SharedLog
from tests.storage_engine.replication.nodes import Node
from tests.storage_engine.replication.test_deposed_server import served
from tests.storage_engine.test_store import wait_until

RECEIVE = ReceiveRequest(
    group="g", topic="t", member_id="m", messages_max=9, bytes_max=1 << 20, wait_ms=0,
    lease_ms=60_000,
)  # fmt: skip


def acks(generation: int, offset: int) -> SettleRequest:
    lease = LeaseRef(topic="t", queue_id=0, lease_generation=generation, queue_offsets=[offset])
    return SettleRequest(group="g", acks=[lease])


async def test_a_settle_that_the_log_will_not_have_is_not_confirmed(tmp_path: Path) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.open.group()
    async with served(node) as client:
        await client.put([encode_record(message(body)) for body in (b"one", b"two")])
        generation = (await client.receive(RECEIVE)).head.lease_generation
        shared.hold()
        assert (await client.settle(acks(generation, 0))).acked_count == 1
        stopping = asyncio.ensure_future(node.stop())
        await wait_until(lambda: isinstance(node.open.store.refusal, ShuttingDown))
        late = asyncio.ensure_future(client.settle(acks(generation, 1)))
        await wait_until(lambda: late.done() or len(client._held) == 1)
        assert not late.done()
        shared.heal()
        await stopping
        late.cancel()
    heir = await Node(tmp_path / "b", shared).own()
    async with served(heir) as client:
        received = await client.receive(RECEIVE)
    assert [record.body for record in received.records] == [b"two"]
    await heir.stop()


async def test_an_owner_whose_files_kept_changing_looks_again_before_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.topic("s", Durability.SYNC)
    await node.replicated()
    take, looks = ChangeReader.take, []

    def take_later(reader: ChangeReader, *, is_whole: bool = False) -> Change:
        looks.append(is_whole)
        if len(looks) == 1:
            raise FilesKeptChanging("the table of topics was replaced during every attempt")
        return take(reader, is_whole=is_whole)

    assert node.run is not None
    node.run.cancel()  # nothing more is shipped before the stop
    monkeypatch.setattr(ChangeReader, "take", take_later)
    assert (await node.open.put(message(b"last", topic="s"))).error is None
    await node.stop()
    assert len(looks) > 1
    heir = await Node(tmp_path / "b", shared).own()
    assert heir.open.pull_bodies(topic="s") == [b"last"]
    await heir.stop()


async def test_settles_and_idempotent_puts_that_a_stopping_owner_refuses_reach_the_next_one(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.open.group()
    async with served(node) as client:
        await client.put([encode_record(message(body)) for body in (b"one", b"two")])
        (known,) = await client.put_once([marked("known", b"known")])
        generation = (await client.receive(RECEIVE)).head.lease_generation
        shared.hold()
        stopping = asyncio.ensure_future(node.stop())
        await wait_until(lambda: isinstance(node.open.store.refusal, ShuttingDown))
        settle = asyncio.ensure_future(client.settle(acks(generation, 0)))
        puts = [
            asyncio.ensure_future(client.put_once([marked(key, key.encode())]))
            for key in ("known", "new")
        ]
        await wait_until(lambda: settle.done() or len(client._held) == 3)
        shared.heal()
        await stopping
        heir = await Node(tmp_path / "b", shared).own()
        server = Server(heir.open.store)
        await server.start(str(node.store_dir.with_suffix(".socket")))
        client.reconnect()
        async with asyncio.timeout(WAIT_S):
            settled = await settle
            (again,), (first,) = await asyncio.gather(*puts)
            (repeated,) = await client.put_once([marked("new", b"new")])
            received = await client.receive(RECEIVE)
        assert (settled.acked_count, settled.failures) == (1, [])
        assert (again.is_duplicate, again.queue_offset) == (True, known.queue_offset)
        assert (first.is_duplicate, repeated.is_duplicate) == (False, True)
        assert repeated.queue_offset == first.queue_offset
        assert [record.body for record in received.records] == [b"two", b"known", b"new"]
        await server.stop()
    await heir.stop()


async def test_files_that_a_thread_reads_stay_open_until_it_has_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of a move that the stop has overtaken."""
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.open.group()
    await node.replicated()
    reading, may_read = threading.Event(), threading.Event()
    moving: list[asyncio.Task[None]] = []
    take, drain = ChangeReader.take, Shipper.drain

    def taken(reader: ChangeReader, *, is_whole: bool = False) -> Change:
        if is_whole:
            reading.set()
            may_read.wait(WAIT_S)
        return take(reader, is_whole=is_whole)

    async def drained(shipper: Shipper) -> None:
        await drain(shipper)
        moving.append(asyncio.ensure_future(node.replication.ship_all()))
        await asyncio.to_thread(reading.wait, WAIT_S)

    monkeypatch.setattr(ChangeReader, "take", taken)
    monkeypatch.setattr(Shipper, "drain", drained)
    await node._end_run()
    stopping = asyncio.ensure_future(node.open.close())
    await wait_until(lambda: reading.is_set() and not node.replication._writing_tail.locked())
    for _ in range(100):
        await asyncio.sleep(0)
    may_read.set()
    await stopping
    with contextlib.suppress(StoreError):  # the log is closed by then, or was not yet
        await moving[0]
