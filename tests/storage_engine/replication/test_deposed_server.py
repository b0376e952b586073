"""An engine that stood still acknowledges nothing until it knows that it still owns the shard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from storage_engine.errors import NotLeader, OutcomeUnknown
from storage_engine.records.record import encode_record
from storage_engine.replication.replication import STALL_MS
from storage_engine.server.server import Server
from storage_engine.wire.async_client import AsyncStoreClient
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import WAIT_S, message
from tests.storage_engine.replicated_log.memory_log import SharedLog
from tests.storage_engine.replication.nodes import Node
from tests.storage_engine.test_store import wait_until


@asynccontextmanager
async def served(node: Node) -> AsyncIterator[AsyncStoreClient]:
    """A client of a node with a topic of each durability: ``t``, ``s`` and ``a``."""
    node.topic()
    node.topic("s", Durability.SYNC)
    node.topic("a", Durability.ASYNC)
    await node.replicated()
    server = Server(node.open.store)
    path = str(node.store_dir.with_suffix(".socket"))
    await server.start(path)
    client = AsyncStoreClient(path, client_name="test")
    await client.wait_connected(10_000)
    try:
        yield client
    finally:
        await client.aclose()
        await server.stop()


async def test_an_engine_that_stood_still_answers_once_the_log_has_confirmed_it(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    async with served(node) as client:
        shared.hold()
        node.clock.advance(STALL_MS + 1)
        put = client.put([encode_record(message(b"one", topic="a"))])
        await wait_until(lambda: node.open.store.put_count == 1)
        await asyncio.sleep(0.05)
        assert not put.done()
        shared.heal()
        (result,) = await asyncio.wait_for(put, WAIT_S)
        assert result.error is None
    await node.stop()


@pytest.mark.parametrize("topic", ["t", "s", "a"])
async def test_an_engine_that_was_replaced_while_it_stood_still_acknowledges_nothing(
    tmp_path: Path, topic: str
) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    async with served(node) as client:
        heir = await Node(tmp_path / "b", shared).own()
        node.clock.advance(STALL_MS + 1)
        put = client.put([encode_record(message(b"late", topic=topic))])
        with pytest.raises((NotLeader, OutcomeUnknown)):
            await asyncio.wait_for(put, WAIT_S)
        assert node.run is not None
        with pytest.raises(NotLeader):
            await node.run
        await heir.stop()
