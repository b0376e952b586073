"""When a node says that it is ready: all of its shards are served there, or could be."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from mqservice.lib.shard_liveness import BEHIND_MS_MAX
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.node_ready import check, is_ready, main
from mqservice.supervisor.shard_engines import ShardPlace, read_shards
from storage_engine.wire.role import Phase, RoleStatus

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OWNER = RoleStatus(phase=Phase.OWNER, epoch=3)
REPLICA = RoleStatus(phase=Phase.FOLLOWING, epoch=3, behind_ms=20)


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (OWNER, True),
        (REPLICA, True),
        (RoleStatus(phase=Phase.FOLLOWING, behind_ms=-1), False),
        (RoleStatus(phase=Phase.FOLLOWING, behind_ms=BEHIND_MS_MAX + 1), False),
        (RoleStatus(phase=Phase.OPENING, epoch=3), False),
        (RoleStatus(phase=Phase.BUSY), False),
        (None, False),
    ],
)
def test_ready_is_who_serves_or_could_take_over(status: RoleStatus | None, wanted: bool) -> None:
    assert is_ready(status) is wanted


@asynccontextmanager
async def processes(*statuses: RoleStatus | None) -> AsyncIterator[list[ShardPlace]]:
    """Of the shards s0, s1, …; None: there is no process."""
    with tempfile.TemporaryDirectory(prefix="rdy") as directory:
        names = ",".join(f"s{number}" for number in range(len(statuses)))
        places = read_shards(names, DataDir(Path(directory)))
        places[0].control.parent.mkdir(parents=True)
        servers = [
            await asyncio.start_unix_server(_says(status), str(place.control))
            for place, status in zip(places, statuses, strict=True)
            if status is not None
        ]
        yield places
        for server in servers:
            server.close()


def _says(status: RoleStatus) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"status\n"
        writer.write(msgspec.json.encode(status) + b"\n")
        writer.close()

    return serve


async def test_a_node_is_ready_with_all_of_its_shards(capsys: pytest.CaptureFixture[str]) -> None:
    async with processes(OWNER, REPLICA) as places:
        assert await check(places) == 0
    assert capsys.readouterr().out == "s0: owner, epoch 3\ns1: following, 20 ms behind\n"
    new = RoleStatus(phase=Phase.FOLLOWING)
    async with processes(OWNER, new, None) as places:
        assert await check(places) == 1
    assert capsys.readouterr().out.splitlines()[1:] == [
        "s1: following, not at the end of the log yet",
        "s2: not running",
    ]


def test_wrong_settings_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main({"MQ_SHARDS": "s2=http://x:1"}) == 2
    assert "MQ_SHARDS: the address of s2" in capsys.readouterr().err
