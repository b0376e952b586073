"""The embedded servers: made once, closed to those without a password, recovered after a kill."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from mqservice.supervisor import binaries
from mqservice.supervisor.child import Child
from mqservice.supervisor.config import SupervisorConfig
from mqservice.supervisor.data_dir import DataDir, find_owner_pid
from mqservice.supervisor.errors import BinaryMissing, ConfigInvalid, StartFailed
from mqservice.supervisor.output import Output
from mqservice.supervisor.ports import find_free_port
from mqservice.supervisor.postgres import PostgresServer, wait_for_external
from mqservice.supervisor.readiness import is_valkey_ready
from mqservice.supervisor.supervisor import run_service
from mqservice.supervisor.valkey import ValkeyServer
from tests.prepared_cluster import POSTGRES_SETTINGS
from tests.services import is_process_running, wait_until
from tests.storage_engine.faults import machine


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Output]:
    output = Output(tmp_path, is_quiet=True)
    yield output
    output.close()


@pytest.fixture
def postgres(tmp_path: Path) -> PostgresServer:
    account = binaries.server_account()
    return PostgresServer(
        directory=tmp_path / "pg",
        port=find_free_port(),
        programs=binaries.find_postgres(account),
        account=account,
        admin_password="admin-password",
        password="password",
        settings=POSTGRES_SETTINGS,
    )


@pytest.fixture
def valkey(tmp_path: Path) -> ValkeyServer:
    account = binaries.server_account()
    return ValkeyServer(
        directory=tmp_path / "valkey",
        port=find_free_port(),
        program=binaries.find_valkey(account),
        account=account,
        password="password",
    )


def child_of(server: PostgresServer | ValkeyServer, output: Output) -> Child:
    return Child(
        server.child_spec(os.environ), output, on_change=lambda: None, on_fatal=lambda _: None
    )


async def test_service_owns_its_database_without_being_superuser(
    postgres: PostgresServer, output: Output
) -> None:
    postgres.prepare()
    child = child_of(postgres, output)
    await child.start()
    await postgres.ensure_database()
    await postgres.ensure_database()

    async with await psycopg.AsyncConnection.connect(postgres.url) as connection:
        await connection.execute("CREATE TABLE t (id int)")
        found = await connection.execute(
            "SELECT rolsuper, rolcreatedb, current_setting('TimeZone') "
            "FROM pg_roles WHERE rolname = current_user"
        )
        assert await found.fetchone() == (False, True, "UTC")
    wrong = postgres.url.replace("password", "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        await psycopg.AsyncConnection.connect(wrong)
    await child.stop()


async def test_cluster_survives_a_kill_and_a_pid_file_without_a_process(
    postgres: PostgresServer, output: Output
) -> None:
    postgres.prepare()
    child = child_of(postgres, output)
    await child.start()
    await postgres.ensure_database()
    child.kill()
    await child.stop()
    pid_file = postgres.directory / "postmaster.pid"
    assert pid_file.exists()
    # The worst case: the pid now belongs to a living stranger.
    pid_file.write_text(f"{os.getpid()}\n" + pid_file.read_text().partition("\n")[2])

    postgres.prepare()
    again = child_of(postgres, output)
    await again.start()

    async with await psycopg.AsyncConnection.connect(postgres.url) as connection:
        await connection.execute("SELECT 1")
    await again.stop()


async def test_server_that_outlived_its_supervisor_is_ended(
    postgres: PostgresServer, output: Output
) -> None:
    postgres.prepare()
    orphan = child_of(postgres, output)
    await orphan.start()
    pid = orphan.pid

    # Its parent, this test, has to reap it for the pid to vanish; that happens on the event loop.
    await asyncio.to_thread(postgres.prepare)

    assert not (postgres.directory / "postmaster.pid").exists()
    assert pid is not None
    assert not Path(f"/proc/{pid}/cwd").exists()  # noqa: ASYNC240
    await orphan.stop()


@pytest.mark.parametrize("name", ["postgres", "valkey"])
def test_directory_of_a_server_that_was_open_to_others_is_closed(
    name: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(name)
    server.prepare()
    server.directory.chmod(0o755)
    server.prepare()
    assert stat.S_IMODE(server.directory.stat().st_mode) == 0o700


def test_interrupted_initdb_is_done_again(postgres: PostgresServer) -> None:
    (postgres.directory.with_name("pg.new") / "data").mkdir(parents=True)

    postgres.prepare()

    assert (postgres.directory / "PG_VERSION").exists()
    assert not postgres.directory.with_name("pg.new").exists()


def test_initdb_ends_with_a_supervisor_that_is_killed(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    endless = tmp_path / "initdb"
    endless.write_text("#!/bin/sh\necho $$ > pid\nexec sleep 600\n")
    endless.chmod(0o755)
    server = replace(postgres, account=None, programs=replace(postgres.programs, initdb=endless))
    pid_file = postgres.directory.with_name("pg.new") / "data" / "pid"
    supervisor = multiprocessing.get_context("spawn").Process(target=server.prepare)
    supervisor.start()
    wait_until(lambda: pid_file.exists() and bool(pid_file.read_text()), 60, "initdb runs")
    supervisor.kill()
    supervisor.join()

    pid = int(pid_file.read_text())
    wait_until(lambda: not is_process_running(pid), 60, "initdb has ended")


def test_failing_initdb_is_reported_with_its_output(postgres: PostgresServer) -> None:
    broken = replace(postgres.programs, initdb=Path(shutil.which("false") or ""))

    with pytest.raises(StartFailed, match="initdb ended with exit code 1"):
        replace(postgres, programs=broken).prepare()
    assert not list(postgres.directory.parent.glob("pg*"))


def test_a_user_without_a_name_is_told_so(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)

    with pytest.raises(ConfigInvalid, match="User 54321 has no name in /etc/passwd"):
        replace(postgres, account=None).prepare()
    assert not list(postgres.directory.parent.glob("pg*"))


def test_nothing_is_made_for_a_user_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    config = SupervisorConfig(data_dir=tmp_path / "data", port=find_free_port())

    with pytest.raises(ConfigInvalid, match="User 54321 has no name in /etc/passwd"):
        run_service(config, {}, is_quiet=True)
    assert not list(tmp_path.iterdir())


def test_cluster_of_another_user_is_refused(postgres: PostgresServer, tmp_path: Path) -> None:
    stranger = binaries.Account(name="stranger", uid=os.geteuid() + 12_345, gid=12_345)
    (tmp_path / "pg").mkdir()

    with pytest.raises(ConfigInvalid, match="belongs to user"):
        replace(postgres, account=stranger).prepare()


def test_cluster_of_another_postgresql_is_refused(postgres: PostgresServer) -> None:
    postgres.prepare()
    (postgres.directory / "PG_VERSION").write_text("14\n")

    with pytest.raises(ConfigInvalid, match=r"made by PostgreSQL 14, but .* backup there"):
        postgres.prepare()


async def test_database_url_without_a_server_fails_in_time() -> None:
    url = f"postgresql://nobody:x@127.0.0.1:{find_free_port()}/x"

    with pytest.raises(StartFailed, match="DATABASE_URL"):
        await wait_for_external(url, timeout_ms=200)


async def test_valkey_asks_for_the_password_and_keeps_what_it_was_told(
    valkey: ValkeyServer, output: Output
) -> None:
    valkey.prepare()
    child = child_of(valkey, output)
    await child.start()
    assert not await is_valkey_ready("127.0.0.1", valkey.port, "wrong")
    await _command(valkey, "SET kept value")
    pid = child.pid
    assert pid is not None
    assert "password" not in Path(f"/proc/{pid}/cmdline").read_text()  # noqa: ASYNC240
    await child.stop()

    again = child_of(valkey, output)
    await again.start()

    assert await _command(valkey, "GET kept") == b"$5\r\n"
    await again.stop()


def test_programs_out_of_the_accounts_reach_are_copied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "COPIES_DIR", tmp_path / "copies")
    monkeypatch.setattr(binaries, "_can_run", lambda program, account: False)

    first = binaries.find_postgres(None)
    valkey = binaries.find_valkey(None)

    assert first.postgres.is_relative_to(tmp_path / "copies")
    assert binaries.find_postgres(None) == first
    for program in (first.initdb, first.postgres, valkey):
        done = subprocess.run([program, "--version"], check=True, capture_output=True)
        assert done.stdout
    assert not list((tmp_path / "copies").glob(".copy-*"))


def test_missing_programs_are_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_package_dir", lambda package: None)
    monkeypatch.setattr(binaries, "SYSTEM_POSTGRES_DIR", Path("/nonexistent"))
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(BinaryMissing, match="DATABASE_URL"):
        binaries.find_postgres(None)
    with pytest.raises(BinaryMissing, match="VALKEY_URL"):
        binaries.find_valkey(None)


async def _command(valkey: ValkeyServer, command: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", valkey.port)
    writer.write(f"AUTH {valkey.password}\r\n{command}\r\n".encode())
    assert await reader.readline() == b"+OK\r\n"
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return answer


def test_signals_differ_so_that_no_backend_outlives_its_postmaster(
    postgres: PostgresServer,
) -> None:
    spec = postgres.child_spec({})

    assert spec.stop_signal is signal.SIGINT
    assert spec.orphan_signal is signal.SIGQUIT


@pytest.mark.parametrize("room", [8_192, 8 * machine.MIB], ids=["secrets", "databases"])
def test_a_disk_that_fills_during_a_first_start_is_named_in_one_line(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.need_mounts()
    monkeypatch.setattr("mqservice.supervisor.data_dir.DATABASES_BYTES", 0)
    with machine.tmpfs(room) as disk:
        config = SupervisorConfig(data_dir=disk / "data", port=find_free_port())
        with pytest.raises(StartFailed) as failed:
            run_service(config, {**os.environ, "MQ_ENGINE_SEGMENT_BYTES": "4096"}, is_quiet=True)
        assert str(failed.value) == (
            f"The disk of {disk}/data became full. Make room, then start the service again."
        )
        assert not list((disk / "data").glob("pg*"))
        assert find_owner_pid(DataDir(disk / "data")) is None
