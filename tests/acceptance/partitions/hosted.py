"""Processes on hosts of a network of the test's own, PostgreSQL and Valkey among them.

    [HostedProcesses.start] ──▶ a process on a host, its output in one log ──▶ ended by ``close``

``MQ_PLANT`` puts a bug into the processes of the service as well.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import psycopg
import redis

from mqservice.supervisor import binaries
from mqservice.supervisor.postgres import PostgresServer
from mqservice.supervisor.valkey import ValkeyServer
from tests.acceptance.partitions.network import Network
from tests.planted.plugin import PLANT
from tests.prepared_cluster import POSTGRES_SETTINGS
from tests.servers import VALKEY_SETTINGS
from tests.services import wait_until

POSTGRES_PORT: Final = 5_432
VALKEY_PORT: Final = 6_379
START_S_MAX: Final = 120
_STOP_S_MAX: Final = 30


class HostedProcesses:
    """All of one network; files of servers are in ``directory``, whose path must be short."""

    def __init__(self, directory: Path, network: Network) -> None:
        self._directory = directory
        self._network = network
        self._processes: list[subprocess.Popen[bytes]] = []
        self.log = (directory / "log").open("ab")

    @property
    def log_text(self) -> str:
        return (self._directory / "log").read_text(errors="replace")

    def start_postgres(
        self, host: str, *, admin_password: str, password: str, connection_max: int = 60
    ) -> PostgresServer:
        """One with the service's database, which all hosts linked with this one reach."""
        account = binaries.server_account()
        server = PostgresServer(
            directory=self._directory / "pg",
            port=POSTGRES_PORT,
            programs=binaries.find_postgres(account),
            account=account,
            admin_password=admin_password,
            password=password,
            settings={
                **POSTGRES_SETTINGS,
                "listen_addresses": "*",
                "max_connections": str(connection_max),
            },
        )
        server.prepare()
        with (self._directory / "pg" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all scram-sha-256\n")
        spec = server.child_spec({})
        self.start(host, spec.argv, spec.env, cwd=spec.cwd, account=account)

        def is_up() -> bool:
            try:
                psycopg.connect(server.admin_url, connect_timeout=2).close()
            except psycopg.Error:
                return False
            return True

        self.wait(host, is_up, "PostgreSQL answers")
        self._network.hosts[host].run(lambda: asyncio.run(server.ensure_database()))
        return server

    def start_valkey(self, host: str, *, password: str) -> None:
        account = binaries.server_account()
        server = ValkeyServer(
            directory=self._directory / "valkey",
            port=VALKEY_PORT,
            program=binaries.find_valkey(account),
            account=account,
            password=password,
            settings={**VALKEY_SETTINGS, "bind": "0.0.0.0"},  # of its namespace
        )
        server.prepare()
        spec = server.child_spec({})
        self.start(host, spec.argv, spec.env, cwd=spec.cwd, account=account, text=spec.stdin)

        def is_up() -> bool:
            try:
                return bool(redis.Redis.from_url(server.url).ping())
            except redis.RedisError:
                return False

        self.wait(host, is_up, "Valkey answers")

    def start(
        self,
        host: str,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        *,
        cwd: Path | None = None,
        account: binaries.Account | None = None,
        text: bytes = b"",
    ) -> None:
        if os.environ.get(PLANT) and argv[0] == sys.executable:
            at = argv.index("-m")
            argv = (*argv[: at + 1], "tests.planted.process", *argv[at + 1 :])
            planted = (name for name in os.environ if name.startswith(PLANT))
            env = {**env, **{name: os.environ[name] for name in planted}}

        def popen() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                argv,
                env=env,
                cwd=cwd or self._directory,
                stdin=subprocess.PIPE,
                stdout=self.log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
            )

        process = self._network.hosts[host].run(popen)
        self._processes.append(process)
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()

    def wait(self, host: str, condition: Callable[[], bool], what: str) -> None:
        """Until it holds, asked on the host."""

        def wait() -> None:
            wait_until(condition, START_S_MAX, what)

        try:
            self._network.hosts[host].run(wait)
        except AssertionError as exc:
            raise AssertionError(f"{exc}:\n{self.log_text[-4_000:]}") from exc

    def close(self) -> None:
        """In the other order of their starts."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(_STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_STOP_S_MAX)
        self.log.close()
