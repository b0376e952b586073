"""What a node may ask the process of a shard, and what it is told when."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from storage_engine.clock import SystemClock
from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.errors import NotLeader
from storage_engine.replication.follower import follow
from storage_engine.server.control import Control, Role
from storage_engine.wire.probe import why_silent
from storage_engine.wire.role import Phase, RoleStatus
from storage_engine.wire.topics import Durability
from tests.storage_engine.doubles import WAIT_S, message
from tests.storage_engine.replicated_log.memory_log import MemoryLog, SharedLog
from tests.storage_engine.replication.nodes import LIMITS, Node
from tests.storage_engine.test_store import wait_until


@asynccontextmanager
async def opened(role: Role) -> AsyncIterator[str]:
    with tempfile.TemporaryDirectory(prefix="ctl") as directory:
        path = f"{directory}/c"
        control = Control(role, StoreConfig(store_dir=directory, control=path, secret="s" * 32))
        await control.start()
        try:
            yield path
        finally:
            await control.stop()


async def ask(path: str, line: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(line.encode() + b"\n")
        async with asyncio.timeout(WAIT_S):
            return await reader.readline()
    finally:
        writer.close()


async def status(path: str) -> RoleStatus:
    return msgspec.json.decode(await ask(path, "status"), type=RoleStatus)


def new_role() -> Role:
    return Role(SystemClock(), asyncio.Event())


async def serving(tmp_path: Path, shared: SharedLog) -> tuple[Node, Role]:
    node = await Node(tmp_path / "a", shared).own()
    node.topic("s", Durability.SYNC)
    role = new_role()
    role.serves(node.replication)
    return node, role


async def test_a_replica_follows_until_it_is_told_to_take_over(tmp_path: Path) -> None:
    shared = SharedLog()
    owner = await Node(tmp_path / "a", shared).own(epoch=4)
    owner.topic()
    await owner.open.put_bodies(b"one")
    await owner.replicated()
    role = new_role()
    following = asyncio.ensure_future(
        follow(
            MemoryLog(shared, SystemClock()),
            None,
            tmp_path / "b",
            Files(),
            interval_ms=LIMITS["replication_interval_ms"],
            caught_up=role.caught_up,
            wanted_epoch=role.wanted_epoch,
        )
    )
    async with opened(role) as path:
        await wait_until(lambda: role.status.log_end == owner.replication.confirmed_offset)
        seen = await status(path)
        assert (seen.phase, seen.epoch) == (Phase.FOLLOWING, 4)
        assert seen.behind_ms >= 0
        asked = asyncio.ensure_future(ask(path, "own 5"))
        place = await asyncio.wait_for(following, WAIT_S)
        assert (await status(path)).phase is Phase.TAKING_OVER
        assert not asked.done()
        role.opens(place.tail.epoch)
        reply = msgspec.json.decode(await asked, type=RoleStatus)
        assert (reply.phase, reply.epoch) == (Phase.OPENING, 5)
    assert owner.run is not None
    owner.open.start_put([message(b"late")])
    with pytest.raises(NotLeader):
        await asyncio.wait_for(owner.run, WAIT_S)


async def test_an_owner_asks_the_log_whose_the_shard_is(tmp_path: Path) -> None:
    shared = SharedLog()
    node, role = await serving(tmp_path, shared)
    async with opened(role) as path:
        reply = msgspec.json.decode(await ask(path, "confirm"), type=RoleStatus)
        assert (reply.phase, reply.epoch) == (Phase.OWNER, 1)
        shared.hold()
        asked = asyncio.ensure_future(ask(path, "confirm"))
        await asyncio.sleep(0.05)
        assert not asked.done(), "the log has not answered"
        shared.heal()
        await asked
        heir = await Node(tmp_path / "b", shared).own()
        asked = asyncio.ensure_future(ask(path, "confirm"))
        assert node.run is not None
        with pytest.raises(NotLeader):
            await asyncio.wait_for(node.run, WAIT_S)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await heir.stop()
    await node.stop()


@pytest.mark.parametrize("is_reachable", [True, False])
async def test_who_gives_a_shard_up_says_whether_the_log_has_all_of_it(
    tmp_path: Path, is_reachable: bool
) -> None:
    shared = SharedLog()
    node, role = await serving(tmp_path, shared)
    await node.replicated()
    shared.hold()
    assert (await node.open.put(message(b"only here", topic="s"))).error is None
    async with opened(role) as path:
        asked = asyncio.ensure_future(ask(path, "release"))
        await asyncio.wait_for(role.stopping.wait(), WAIT_S)
        if is_reachable:
            shared.heal()
        await node.stop()
        assert msgspec.json.decode(await asked) is is_reachable


async def test_a_replica_that_is_released_ends(tmp_path: Path) -> None:
    role = new_role()
    async with opened(role) as path:
        assert await ask(path, "release") == b"true\n"
        assert role.stopping.is_set()
        for nonsense in ("", "own", "own x", "own -1", "x" * 5_000):
            assert await ask(path, nonsense) == b""
        assert (await status(path)).behind_ms == -1


async def test_silence_has_a_reason() -> None:
    """Of an engine that answers, tests/storage_engine/server/test_network.py shows it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        reason = await why_silent(address, shard="s2", secret="s" * 32)
        assert reason == f"nothing came from {address} within 1 s"
    reason = await why_silent(address, shard="s2", secret="s" * 32)
    assert reason.startswith(f"{address}: Connect call failed")
    reason = await why_silent("/run/engine.sock", shard="s2", secret="s" * 32)
    assert "says nothing to another machine" in reason
