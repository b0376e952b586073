"""Beat, clock and worker as real processes on servers of their own, which are killed under them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
import redis

from mqservice.monitoring.heartbeats import AGES
from mqservice.monitoring.ticks import LATE_MS
from mqservice.scheduler import BACKLOG_MAX
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.processes import separate_worker_specs
from tests.engine import running_engine
from tests.mqservice.delivery.wait_until import wait_until
from tests.servers import TestServers

WAIT_S = 120
TICK_MS = 100
ROOT = Path(__file__).resolve().parents[2]
BEATEN_AT = "SELECT beaten_at FROM monitoring_heartbeat WHERE process = %s"

pytestmark = [pytest.mark.torture, pytest.mark.timeout(600)]  # half a minute on a core of its own


class Background:
    """The processes that the supervisor would run, beside servers that can be killed."""

    def __init__(self, servers: TestServers, engine_socket: str, directory: Path) -> None:
        self.servers = servers
        self.env = {
            **os.environ,
            **servers.environment(),
            "DJANGO_SETTINGS_MODULE": "mqservice.settings",
            "MQ_SECRET_KEY": "only-for-tests-and-type-checks-0123456789",
            "MQ_ENGINE_SOCKET": engine_socket,
            "MQ_DATA_DIR": str(directory),
            "MQ_TICK_MS": str(TICK_MS),
            "PYTHONPATH": str(ROOT),
        }
        self.log = directory / "log"
        self._specs = {
            spec.name: spec for spec in separate_worker_specs(self.env, DataDir(directory))
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        for name in names or self._specs:
            spec = self._specs[name]
            with self.log.open("ab") as log:
                self._running[name] = subprocess.Popen(
                    spec.argv, env=dict(spec.env), cwd=spec.cwd, stdout=log, stderr=log,
                    start_new_session=True,
                )  # fmt: skip

    def kill(self, name: str) -> None:
        """All of its processes at once."""
        process = self._running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)

    def kill_all(self) -> None:
        for name in list(self._running):
            self.kill(name)

    @property
    def are_alive(self) -> bool:
        return all(process.poll() is None for process in self._running.values())

    def ages_ms(self) -> dict[str, int]:
        try:
            with psycopg.connect(self.env["DATABASE_URL"], connect_timeout=10) as connection:
                return dict(connection.execute(AGES).fetchall())
        except psycopg.Error:
            return {}

    def beaten_at(self, name: str) -> datetime:
        """When it showed life last. Raises ``psycopg.Error``."""
        with psycopg.connect(self.env["DATABASE_URL"]) as connection:
            row = connection.execute(BEATEN_AT, (name,)).fetchone()
        assert row is not None
        at: datetime = row[0]
        return at

    def is_ticking(self) -> bool:
        return self.ages_ms().get("tick", LATE_MS) < LATE_MS

    def is_late(self) -> bool:
        return self.ages_ms().get("tick", 0) > LATE_MS

    def waiting(self, queue: str) -> int:
        with redis.Redis.from_url(self.env["VALKEY_URL"], socket_timeout=60) as client:
            return int(client.llen(queue))


@pytest.fixture(scope="module")
def background(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    """Whoever kills something leaves it running again, and all of them well."""
    servers = TestServers()
    try:
        servers.start_postgres()
        servers.start_valkey()
        with running_engine() as socket:
            found = Background(servers, socket, tmp_path_factory.mktemp("background"))
            migrate = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity=0"]
            subprocess.run(migrate, env=found.env, check=True, timeout=WAIT_S)
            found.start()
            try:
                wait_until(found.is_ticking, WAIT_S)
                yield found
            finally:
                found.kill_all()
    finally:
        servers.close()


def test_all_continue_on_their_own_after_each_of_their_servers_died(background: Background) -> None:
    for name, start in (
        ("valkey", background.servers.start_valkey),
        ("postgres", background.servers.start_postgres),
    ):
        background.servers.kill(name)
        if name == "valkey":
            wait_until(background.is_late, WAIT_S)
        start()
        wait_until(background.is_ticking, WAIT_S)
        wait_until(lambda: background.ages_ms().get("worker", WAIT_S * 1_000) < 10_000, WAIT_S)
        assert background.are_alive, background.log.read_text()[-4_000:]


def test_ticks_do_not_pile_up_while_nobody_takes_them(background: Background) -> None:
    background.kill("clock")
    wait_until(lambda: background.waiting("delay") >= BACKLOG_MAX, WAIT_S)
    wait_until(background.is_late, WAIT_S)
    before = background.beaten_at("beat")
    wait_until(lambda: background.beaten_at("beat") > before, WAIT_S)  # it is up and goes on
    assert background.waiting("delay") == BACKLOG_MAX
    assert background.waiting("persist") < BACKLOG_MAX
    background.start("clock")
    wait_until(background.is_ticking, WAIT_S)
    wait_until(lambda: background.waiting("delay") <= 2, WAIT_S)


def test_a_worker_killed_with_all_it_did_is_replaced(background: Background) -> None:
    wait_until(lambda: "worker" in background.ages_ms(), WAIT_S)
    background.kill("worker")
    before = background.beaten_at("worker")
    background.start("worker")
    wait_until(lambda: background.beaten_at("worker") > before, WAIT_S)
    wait_until(background.is_ticking, WAIT_S)
