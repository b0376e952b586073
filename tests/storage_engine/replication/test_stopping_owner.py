"""An owner that gives its shard up: what it confirms until its end, the next one has."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.client import LeaseRef, ReceiveRequest, SettleRequest, ShuttingDown
from storage_engine.records.record import encode_record
from tests.storage_engine.doubles import message
from tests.storage_engine.replicated_log.memory_log import SharedLog
from tests.storage_engine.replication.nodes import Node
from tests.storage_engine.replication.test_deposed_server import served
from tests.storage_engine.test_store import wait_until

RECEIVE = ReceiveRequest(
    group="g", topic="t", member_id="m", messages_max=9, bytes_max=1 << 20, wait_ms=0,
    lease_ms=60_000,
)  # fmt: skip


async def test_a_settle_that_the_log_will_not_have_is_not_confirmed(tmp_path: Path) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    node.open.group()
    async with served(node) as client:
        await client.put([encode_record(message(body)) for body in (b"one", b"two")])
        received = await client.receive(RECEIVE)

        def settle(offset: int) -> SettleRequest:
            generation = received.head.lease_generation
            lease = LeaseRef(
                topic="t", queue_id=0, lease_generation=generation, queue_offsets=[offset]
            )
            return SettleRequest(group="g", acks=[lease])

        shared.hold()
        assert (await client.settle(settle(0))).acked_count == 1
        stopping = asyncio.ensure_future(node.stop())
        await wait_until(lambda: isinstance(node.open.store.refusal, ShuttingDown))
        with pytest.raises(ShuttingDown):
            await client.settle(settle(1))
        shared.heal()
        await stopping
    heir = await Node(tmp_path / "b", shared).own()
    async with served(heir) as client:
        received = await client.receive(RECEIVE)
    assert [record.body for record in received.records] == [b"two"]
    await heir.stop()
