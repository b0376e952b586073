"""What is done to messages of a replicated topic is confirmed when the log has it, as they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from storage_engine.errors import NotLeader, OutcomeUnknown, ReplicationUnavailable
from storage_engine.replication.log_waits import LogWaits
from storage_engine.wire.async_client import AsyncStoreClient
from storage_engine.wire.offsets import OffsetResetRequest, ResetTo
from storage_engine.wire.scheduled import (
    ScheduledCancelRequest,
    ScheduledMoveRequest,
    ScheduledSendRequest,
)
from storage_engine.wire.topics import TopicPurgeRequest
from tests.storage_engine.doubles import WAIT_S, OpenStore
from tests.storage_engine.replicated_log.memory_log import SharedLog
from tests.storage_engine.replication.nodes import Node
from tests.storage_engine.replication.test_deposed_server import served
from tests.storage_engine.schedule.delaying import delayed, numbered, put_delayed
from tests.storage_engine.test_store import wait_until

HOUR_MS = 3_600_000
RESET = OffsetResetRequest(group="g", topic="t", to=ResetTo.EARLIEST)
PURGE = TopicPurgeRequest(topic="t")


class Change(NamedTuple):
    """Something done to messages of ``t``, and whether a store shows it."""

    make: Callable[[AsyncStoreClient], Awaitable[object]]
    is_there: Callable[[OpenStore], bool]


# ``t`` has the messages ``one`` and ``two``, which ``g`` has settled, and ``later`` in an hour.
CHANGES = {
    "a reset": Change(
        lambda client: client.offset_reset(RESET), lambda store: store.consumer_offset() == 0
    ),
    "a purge": Change(
        lambda client: client.topic_purge(PURGE), lambda store: store.pull_bodies() == []
    ),
    "a cancel": Change(
        lambda client: client.scheduled_cancel(
            ScheduledCancelRequest(topic="t", message_id=numbered(1))
        ),
        lambda store: store.store.stats(0).scheduled_count == 0,
    ),
    "sent now": Change(
        lambda client: client.scheduled_send_now(
            ScheduledSendRequest(topic="t", message_id=numbered(1))
        ),
        lambda store: store.pull_bodies() == [b"one", b"two", b"later"],
    ),
    "moved": Change(
        lambda client: client.scheduled_move(
            ScheduledMoveRequest(topic="t", message_id=numbered(1), delay_ms=2 * HOUR_MS)
        ),
        lambda store: store.store.stats(0).scheduled_count == 1 and not is_due(store),
    ),
}


def is_due(store: OpenStore) -> bool:
    """Whether ``later`` comes within the hour for which it was put."""
    store.clock.advance(HOUR_MS + 1_000)
    store.store.tick()
    return store.store.stats(0).scheduled_count == 0


@asynccontextmanager
async def used(node: Node) -> AsyncIterator[AsyncStoreClient]:
    """A client of it, once it has what the comment above says, and the log as well."""
    async with served(node) as client:
        store = node.open
        store.group()
        await store.put_bodies(b"one", b"two")
        store.ack(store.receive(count=2))
        assert store.consumer_offset() == 2
        await put_delayed(store, delayed(b"later", 1, delay_ms=HOUR_MS))
        await node.replicated()
        yield client


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_a_confirmed_change_is_there_when_its_machine_is_lost_at_once(
    tmp_path: Path, change: Change
) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    async with used(node) as client:
        shared.hold()
        made = asyncio.ensure_future(change.make(client))
        await wait_until(lambda: made.done() or node.replication._log_waits._waits)
        assert not made.done()
        shared.heal()
        await asyncio.wait_for(made, WAIT_S)
        await node.kill()
    heir = await Node(tmp_path / "b", shared).own()
    assert change.is_there(heir.open)
    await heir.stop()


async def test_what_lasts_no_longer_than_its_machine_waits_for_nothing(tmp_path: Path) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    async with used(node) as client:
        shared.cut_off()
        await client.topic_purge(TopicPurgeRequest(topic="s"))
        await client.topic_purge(TopicPurgeRequest(topic="t", is_dry_run=True))
        await client.offset_reset(
            OffsetResetRequest(group="g", topic="t", to=ResetTo.EARLIEST, is_dry_run=True)
        )
        assert node.open.consumer_offset() == 2
        shared.heal()
    await node.stop()


async def test_a_log_that_does_not_answer_leaves_it_unknown_and_then_refuses_it(
    tmp_path: Path,
) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    async with used(node) as client:
        shared.cut_off()
        made = asyncio.ensure_future(client.offset_reset(RESET))
        await wait_until(lambda: made.done() or node.replication._log_waits._waits)
        for _ in range(4):  # all at once, the engine would have stood still
            node.clock.advance(1_000)
            node.replication.tick()
        with pytest.raises(OutcomeUnknown, match="has not confirmed it within 4000 ms"):
            await asyncio.wait_for(made, WAIT_S)
        with pytest.raises(ReplicationUnavailable, match="Nothing was changed"):
            await client.topic_purge(PURGE)
        assert node.open.pull_bodies() == [b"one", b"two"]
        shared.heal()
        await wait_until(lambda: node.replication._shipper.is_idle)
        node.replication.tick()
        await client.topic_purge(PURGE)
        assert node.open.pull_bodies() == []
    await node.stop()


async def test_a_deposed_owner_confirms_none(tmp_path: Path) -> None:
    shared = SharedLog()
    node = await Node(tmp_path / "a", shared).own()
    async with used(node) as client:
        heir = await Node(tmp_path / "b", shared).own()
        with pytest.raises((NotLeader, OutcomeUnknown)):
            await asyncio.wait_for(client.offset_reset(RESET), WAIT_S)
        assert heir.open.consumer_offset() == 2
        assert node.run is not None
        with pytest.raises(NotLeader):
            await node.run
        await heir.stop()


async def test_who_comes_while_an_entry_is_made_waits_for_the_next() -> None:
    waits = LogWaits()
    before = waits.add(0)
    begun = waits.begin()
    meanwhile = waits.add(0)
    waits.shipped(begun, 7)
    waits.arrived(6)
    assert not before.done()
    waits.arrived(7)
    assert (before.done(), meanwhile.done()) == (True, False)
    waits.shipped(waits.begin(), 8)
    waits.arrived(8)
    assert meanwhile.done()


async def test_a_stop_ships_what_is_waited_for(tmp_path: Path) -> None:
    node = await Node(tmp_path / "a", SharedLog()).own(is_shipping=False)
    waiting = node.replication.everything()
    await node.stop()
    await asyncio.wait_for(waiting, WAIT_S)
