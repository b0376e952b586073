"""What a node does about a shard, and that of two nodes that want one only one may try."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
import psycopg
import pytest

from mqservice.lib.shard_liveness import BEHIND_MS_MAX, SILENT_MS
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.shard_engines import read_shards
from mqservice.supervisor.shard_owners import Action, ShardOwners, decide
from mqservice.supervisor.shard_table import ShardRow, ShardTable
from storage_engine.wire.role import Phase, RoleStatus

REPLICA = RoleStatus(phase=Phase.FOLLOWING, epoch=7, log_end=100, behind_ms=0)
BEHIND = RoleStatus(phase=Phase.FOLLOWING, epoch=7, behind_ms=BEHIND_MS_MAX + 1)
NEW = RoleStatus(phase=Phase.FOLLOWING)
OPENING = RoleStatus(phase=Phase.OPENING, epoch=7)
OWNER = RoleStatus(phase=Phase.OWNER, epoch=7, log_end=100)
SILENT = SILENT_MS + 1
WAIT_S: Final = 60


def row(
    owner: str = "", *, epoch: int = 7, silent_ms: int | None = 100, move_to: str = ""
) -> ShardRow:
    return ShardRow(epoch, owner, "tcp://a:1", move_to, silent_ms)


@pytest.mark.parametrize(
    ("status", "found", "is_home", "wanted"),
    [
        (REPLICA, None, True, Action.CLAIM),
        (REPLICA, None, False, Action.FOLLOW),
        (REPLICA, row(epoch=0, silent_ms=None), True, Action.CLAIM),
        (REPLICA, row(epoch=0, silent_ms=None), False, Action.FOLLOW),
        (REPLICA, row("me"), False, Action.CLAIM),
        (REPLICA, row("other"), True, Action.FOLLOW),
        (REPLICA, row("other", silent_ms=SILENT), False, Action.CLAIM_IF_SILENT),
        (REPLICA, row(""), False, Action.CLAIM),
        (REPLICA, row("", move_to="me"), False, Action.CLAIM),
        (REPLICA, row("", move_to="other"), True, Action.FOLLOW),
        (REPLICA, row("", move_to="other", silent_ms=SILENT), True, Action.CLAIM),
        (BEHIND, row("other", silent_ms=SILENT), True, Action.FOLLOW),
        (NEW, row("me"), True, Action.FOLLOW),
        (OPENING, row("me"), True, Action.BEAT),
        (OPENING, row("me", move_to="other"), True, Action.BEAT),
        (OWNER, None, True, Action.BEAT),
        (OWNER, row("me"), True, Action.BEAT),
        (OWNER, row("me", move_to="me"), True, Action.BEAT),
        (OWNER, row("me", move_to="other"), True, Action.RELEASE),
        (OWNER, row("other", epoch=6), True, Action.BEAT),
        (OWNER, row("other", epoch=8), True, Action.CONFIRM),
        (OWNER, row("", epoch=8), True, Action.CONFIRM),
    ],
)
def test_what_a_node_does(
    status: RoleStatus, found: ShardRow | None, is_home: bool, wanted: Action
) -> None:
    assert decide(found, status, node="me", is_home=is_home) is wanted


@asynccontextmanager
async def tables(dsn: str) -> AsyncIterator[tuple[ShardTable, ShardTable]]:
    """Of the nodes a and b."""
    made = ShardTable(dsn, node="a"), ShardTable(dsn, node="b")
    try:
        yield made
    finally:
        for each in made:
            await each.close()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("DELETE FROM shards_replica")
            connection.execute("DELETE FROM shards_shard")


async def beat(table: ShardTable, epoch: int, address: str = "tcp://x:1") -> bool:
    return await table.beat("s2", epoch=epoch, address=address, free_bytes=1, log_end=50)


def fall_silent(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("UPDATE shards_shard SET heartbeat_at = now() - interval '6 s'")


async def test_of_two_nodes_that_claim_a_shard_one_gets_it(test_dsn: str) -> None:
    async with tables(test_dsn) as (a, b):
        assert sorted([await a.claim("s2", None, epoch=1), await b.claim("s2", None, epoch=1)]) == [
            False,
            True,
        ]
        assert await beat(a, 1)
        seen = await b.find("s2")
        assert seen is not None
        assert (seen.owner, seen.epoch, seen.address) == ("a", 1, "tcp://x:1")
        assert not await b.claim("s2", seen, epoch=2), "a is heard of"
        fall_silent(test_dsn)
        claims = [b.claim("s2", seen, epoch=2), a.claim("s2", seen, epoch=2)]
        assert sum(await asyncio.gather(*claims)) == 1


async def test_who_starts_again_is_not_heard_of_before_it_serves(test_dsn: str) -> None:
    async with tables(test_dsn) as (a, b):
        assert await beat(a, 1)
        fall_silent(test_dsn)
        assert await a.claim("s2", await a.find("s2"), epoch=2)
        seen = await b.find("s2")
        assert seen is not None
        assert await b.claim("s2", seen, epoch=3)


async def test_a_heartbeat_of_an_older_epoch_does_not_take_the_row_back(test_dsn: str) -> None:
    async with tables(test_dsn) as (a, b):
        assert await beat(a, 1)
        fall_silent(test_dsn)
        assert await b.claim("s2", await b.find("s2"), epoch=2)
        assert not await beat(a, 1)
        assert await beat(b, 2, address="")
        seen = await b.find("s2")
        assert seen is not None
        assert seen.address == "tcp://x:1", "nothing serves at b yet"
        assert await beat(a, 3), "the log knows of a newer epoch than the row"


async def test_a_replica_is_listed_until_it_owns_the_shard(test_dsn: str) -> None:
    async with tables(test_dsn) as (a, b):
        await b.follow("s2", log_end=1, behind_ms=0)
        assert await beat(a, 1)
        await b.follow("s2", log_end=20, behind_ms=3)
        with psycopg.connect(test_dsn) as connection:
            found = connection.execute("SELECT node, log_end FROM shards_replica").fetchall()
        assert found == [("b", 20)]
        await a.give_up("s2", epoch=1)
        assert await b.claim("s2", await b.find("s2"), epoch=2)
        with psycopg.connect(test_dsn) as connection:
            assert not connection.execute("SELECT node FROM shards_replica").fetchall()


@asynccontextmanager
async def standby(dsn: str) -> AsyncIterator[Slow]:
    """The node ``a``, at home in the shard s2, whose process takes for ever to take it over."""
    with tempfile.TemporaryDirectory(prefix="own") as directory:
        [place] = read_shards("s2=tcp://127.0.0.1:1", DataDir(Path(directory)))
        place.store.mkdir(parents=True)
        place.control.parent.mkdir(parents=True)
        process = Slow()
        server = await asyncio.start_unix_server(process.serve, str(place.control))
        owners = ShardOwners([place], database_url=dsn, node="a", note=process.said.append)
        owners.start()
        try:
            yield process
        finally:
            process.may_end.set()
            await owners.stop()
            server.close()


class Slow:
    """A replica at the end of the log, which has not fenced it before ``may_end``."""

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.may_end = asyncio.Event()
        self.said: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if line.startswith(b"own"):
            self.is_asked.set()
            await self.may_end.wait()
        writer.write(msgspec.json.encode(REPLICA) + b"\n")
        writer.close()


async def test_a_node_that_takes_long_to_take_over_is_heard_of_meanwhile(test_dsn: str) -> None:
    """Else the others try as well after 5 s, each fences the one before it, and nobody serves."""
    async with tables(test_dsn) as (_, b), standby(test_dsn) as process:
        async with asyncio.timeout(WAIT_S):
            await process.is_asked.wait()
            fall_silent(test_dsn)
            row = await b.find("s2")
            while row is None or row.silent_ms is None or row.silent_ms > SILENT_MS:
                await asyncio.sleep(0)
                row = await b.find("s2")
        assert (row.owner, row.epoch) == ("a", 8)
        assert not await b.claim("s2", row, epoch=9)


async def test_a_shard_has_moved_once_the_other_node_serves_it(test_dsn: str) -> None:
    async with tables(test_dsn) as (a, b):
        assert await beat(a, 1)
        with psycopg.connect(test_dsn, autocommit=True) as connection:
            connection.execute("UPDATE shards_shard SET move_to = 'b'")
        await a.give_up("s2", epoch=1)
        assert await b.claim("s2", await b.find("s2"), epoch=2)
        assert await beat(b, 2, address="")
        assert await move_to(b) == "b", "it recovers the store still"
        assert await beat(b, 2)
        assert await move_to(b) == ""


async def move_to(table: ShardTable) -> str:
    row = await table.find("s2")
    assert row is not None
    return row.move_to
