"""Which engines a machine runs, what each is told, and whose row a heartbeat may write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from mqservice.supervisor.config import SupervisorConfig
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import ConfigInvalid
from mqservice.supervisor.node import run_node
from mqservice.supervisor.processes import engine_spec
from mqservice.supervisor.shard_engines import Heartbeats, ShardPlace, read_shards
from mqservice.supervisor.supervisor import run_service

WAIT_S = 30


def test_each_shard_has_a_store_and_a_socket_of_its_own(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    main, s2, s3 = read_shards("main, s2,s3=tls://10.0.0.5:7703", data_dir)
    assert (main.store, main.socket) == (data_dir.store, data_dir.engine_socket)
    assert s2.store == tmp_path / "shards" / "s2" / "store"
    assert len({main.socket, s2.socket, s3.socket}) == 3
    assert (s2.published, s3.published) == (str(s2.socket), "tls://10.0.0.5:7703")
    env = {"MQ_ENGINE_SECRET": "x", "MQ_SHARD_BIND": "0.0.0.0", "DATABASE_URL": "hidden"}
    spec = engine_spec(env, data_dir, metrics_port=0, place=s3)
    assert spec.name == "engine-s3"
    assert spec.env["MQ_ENGINE_LISTEN"] == "tls://0.0.0.0:7703"
    assert (spec.env["MQ_ENGINE_SHARD"], spec.env["MQ_ENGINE_SECRET"]) == ("s3", "x")
    assert "DATABASE_URL" not in spec.env
    assert read_shards("", data_dir) == []
    assert engine_spec({}, data_dir, metrics_port=0).name == "engine"


@pytest.mark.parametrize(
    ("text", "words"),
    [("a b", "characters"), ("s2,s2", "twice"), ("s2=udp://x:1", "must begin with tcp://")],
)
def test_shards_that_are_none_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigInvalid, match=words):
        read_shards(text, DataDir(tmp_path))


def test_a_service_runs_the_main_shard_and_a_node_says_where_its_shards_are(
    tmp_path: Path,
) -> None:
    config = SupervisorConfig(data_dir=tmp_path / "d", shards="s2")
    with pytest.raises(ConfigInvalid, match="must name main"):
        run_service(config, {}, is_quiet=True)
    with pytest.raises(ConfigInvalid, match="needs MQ_SHARDS"):
        run_node(config, {}, is_quiet=True)
    config = SupervisorConfig(data_dir=tmp_path / "d", shards="s2", database_url="postgresql://x")
    with pytest.raises(ConfigInvalid, match="s2=tls://HOST:PORT"):
        run_node(config, {}, is_quiet=True)
    assert not (tmp_path / "d").exists()


async def beat(
    dsn: str, owner: str, place: ShardPlace, until: Callable[[], bool], running: set[str]
) -> list[str]:
    notes: list[str] = []
    beats = Heartbeats(
        [place], database_url=dsn, owner=owner, running=lambda: running, note=notes.append
    )
    task = asyncio.create_task(beats.run())
    try:
        async with asyncio.timeout(WAIT_S):
            while not (until() or notes):
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return notes


async def test_a_heartbeat_takes_no_shard_that_another_node_speaks_for(
    transactional_db: None, test_dsn: str, tmp_path: Path
) -> None:
    place = ShardPlace(
        name="s2", address="", store=tmp_path, socket=tmp_path / "s2.sock", control=tmp_path / "c"
    )

    def owner() -> str | None:
        with psycopg.connect(test_dsn) as other:
            found = other.execute("SELECT owner FROM shards_shard WHERE name = 's2'").fetchone()
        return None if found is None else found[0]

    assert not await beat(test_dsn, "a", place, lambda: owner() == "a", {"s2"})
    assert not await beat(test_dsn, "a", place, lambda: True, set())
    (note,) = await beat(test_dsn, "b", place, lambda: False, {"s2"})
    assert note == "another node owns s2; stop one of the two engines"
    assert owner() == "a"
    with psycopg.connect(test_dsn, autocommit=True) as other:
        other.execute("UPDATE shards_shard SET heartbeat_at = now() - interval '6 s'")
    assert not await beat(test_dsn, "b", place, lambda: owner() == "b", {"s2"})
    with psycopg.connect(test_dsn, autocommit=True) as other:
        row = other.execute("SELECT address, free_bytes > 0, epoch FROM shards_shard").fetchone()
        other.execute("DELETE FROM shards_shard")
    assert row == (str(place.socket), True, 0)


async def test_a_database_that_is_away_is_said_once(tmp_path: Path) -> None:
    place = ShardPlace(
        name="s2", address="", store=tmp_path, socket=tmp_path / "s2.sock", control=tmp_path / "c"
    )
    (note,) = await beat("postgresql://127.0.0.1:1/x", "a", place, lambda: False, {"s2"})
    assert note.startswith("cannot tell the database where the shards are")
