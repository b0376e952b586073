"""Starting, stopping and surviving, seen from outside: real processes, real files."""

from __future__ import annotations

import os
import signal
import socket
import stat
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from mqservice.supervisor.quickstart import Quickstart
from tests.services import (
    Service,
    client_of,
    consume,
    pids_using,
    run_up,
    running_service,
    started_service,
    wait_until,
)

pytestmark = pytest.mark.acceptance


def test_quickstart_names_every_process_and_is_private(service: Service) -> None:
    facts = service.facts

    assert set(facts.pids) == {
        "postgres", "valkey", "engine", "web-1", "worker", "supervisor",
    }  # fmt: skip
    assert all(Path(f"/proc/{pid}").exists() for pid in facts.pids.values())
    for name in ("quickstart.json", "secrets.toml"):
        assert stat.S_IMODE((service.data_dir / name).stat().st_mode) == 0o600


def test_engine_is_scraped_where_quickstart_says(service: Service) -> None:
    scraped = httpx.get(service.facts.engine_metrics_url, timeout=60, trust_env=False)

    assert scraped.status_code == 200
    assert 'mq_engine_writable{shard="main"} 1' in scraped.text


def test_second_supervisor_of_a_data_directory_is_refused_by_the_owners_pid(
    service: Service,
) -> None:
    before = service.facts.pids

    refused = run_up(service.data_dir)

    assert refused.returncode == 3
    assert str(service.process.pid) in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert service.facts.pids == before
    assert _is_ready(service.facts)


def test_taken_port_is_named_and_nothing_is_left_running(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        refused = run_up(data_dir, MQ_PORT=str(port))

    assert refused.returncode == 4
    assert str(port) in refused.stderr
    assert "MQ_PORT" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert pids_using(data_dir) == set()
    assert not data_dir.exists()


def test_tables_of_another_version_stop_the_start_before_the_store_is_opened(
    tmp_path: Path, postgres_server: str, valkey_server: str
) -> None:
    """The version that made them must be able to open it again."""
    with psycopg.connect(postgres_server, autocommit=True) as server:
        server.execute("CREATE DATABASE other_version")
        url = urlsplit(postgres_server)._replace(path="/other_version").geturl()
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(
                    "CREATE TABLE django_migrations AS SELECT 'topics' app, '0002_old' AS name"
                )
            refused = run_up(tmp_path / "data", DATABASE_URL=url, VALKEY_URL=valkey_server)
        finally:
            server.execute("DROP DATABASE other_version WITH (FORCE)")
    assert refused.returncode == 6
    (line,) = refused.stderr.splitlines()
    assert "does not know 1 of its migrations, such as topics.0002_old" in line
    assert not list((tmp_path / "data" / "store").iterdir())


@pytest.mark.timeout(600)
@pytest.mark.torture
def test_one_data_directory_lives_on_through_kills_and_stops(tmp_path: Path) -> None:
    """One life, since each first start makes a database: engine killed, supervisor killed, stopped
    in order, database killed.
    """
    with started_service(tmp_path) as first:
        facts = first.facts
        ports = (tmp_path / "ports.json").read_bytes()
        _produce(facts, b"acknowledged before the crash")

        os.kill(facts.pids["engine"], signal.SIGKILL)

        wait_until(
            lambda: first.facts.pids.get("engine") not in (None, facts.pids["engine"]),
            60, "the engine has a new pid",
        )  # fmt: skip
        wait_until(lambda: _is_ready(facts), 60, "the service is ready again")
        assert _receive_bodies(facts) == ["acknowledged before the crash"]
        unchanged = {"postgres", "valkey", "web-1", "supervisor"}
        assert {n: first.facts.pids[n] for n in unchanged} == {n: facts.pids[n] for n in unchanged}

        _produce(facts, b"written before the supervisor died")
        first.kill()
        wait_until(lambda: pids_using(tmp_path) == set(), 60, "no process is left")

    with running_service(tmp_path) as second:
        assert second.facts.api_key == facts.api_key
        assert "written before the supervisor died" in _receive_bodies(second.facts)
        _produce(second.facts, b"written before the restart")
        assert second.stop() == 0

    assert pids_using(tmp_path) == set()

    with running_service(tmp_path) as third:
        again = third.facts
        assert (again.api_key, again.username, again.password) == (
            facts.api_key, facts.username, facts.password,
        )  # fmt: skip
        assert (tmp_path / "ports.json").read_bytes() == ports
        assert "written before the restart" in _receive_bodies(again)

        os.kill(again.pids["postgres"], signal.SIGKILL)

        assert third.process.wait(60) == 6
        last_line = third.log.read_text().strip().splitlines()[-1]
        assert "postgres ended with signal SIGKILL" in last_line
    wait_until(lambda: pids_using(tmp_path) == set(), 60, "no process is left")


@pytest.mark.torture
def test_named_servers_are_used_and_none_of_our_own_is_started(
    tmp_path: Path, postgres_server: str, valkey_server: str
) -> None:
    with running_service(
        tmp_path, DATABASE_URL=postgres_server, VALKEY_URL=valkey_server
    ) as service:
        facts = service.facts
        assert not {"postgres", "valkey"} & set(facts.pids)
        assert not (tmp_path / "pg").exists()
        assert not (tmp_path / "valkey").exists()
        _produce(facts, b"kept by other servers")
        assert _receive_bodies(facts) == ["kept by other servers"]
        assert service.stop() == 0


def _is_ready(facts: Quickstart) -> bool:
    try:
        return httpx.get(f"{facts.base_url}/readyz", timeout=60, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _produce(facts: Quickstart, body: bytes) -> None:
    with client_of(facts) as mq:
        mq.send(facts.topic, body)


def _receive_bodies(facts: Quickstart) -> list[str]:
    """Bodies of what waits."""
    found = consume(facts, facts.topic, facts.group, wait="5s")
    return [message.text for message in found]
