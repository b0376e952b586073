"""The service with each part on a host of its own, as real processes.

    clients ═══ web, engine ═══ PostgreSQL
                   ║    ╚══════ Valkey ═══╗
                (socket)                  ║
             clock, worker, beat ═════════╩═══ PostgreSQL

Web processes and workers speak with the engine over a Unix socket, which knows no network; all else
goes over links that can be cut. ``MQ_PLANT`` puts a bug into the processes of the service as well.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import psycopg
import redis

from mqservice.supervisor import binaries
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.postgres import PostgresServer
from mqservice.supervisor.processes import PYTHON, separate_worker_specs
from mqservice.supervisor.quickstart import Quickstart
from mqservice.supervisor.secrets_file import Secrets, load_or_create_secrets
from mqservice.supervisor.valkey import ValkeyServer
from tests.acceptance.history.heartbeats import have_beaten_since
from tests.acceptance.partitions.network import Link, Network
from tests.planted.plugin import PLANT
from tests.servers import POSTGRES_SETTINGS, VALKEY_SETTINGS
from tests.services import service_environment, wait_until

CLIENT_WEB: Final = Link("clients", "web")
WEB_POSTGRES: Final = Link("web", "postgres")
WEB_VALKEY: Final = Link("web", "valkey")
WORKER_POSTGRES: Final = Link("worker", "postgres")
WORKER_VALKEY: Final = Link("worker", "valkey")
LINKS: Final = (CLIENT_WEB, WEB_POSTGRES, WEB_VALKEY, WORKER_POSTGRES, WORKER_VALKEY)
_WEB_PORT: Final = 8_000
_POSTGRES_PORT: Final = 5_432
_VALKEY_PORT: Final = 6_379
_START_S_MAX: Final = 120
_STOP_S_MAX: Final = 30
_ALL_HOSTS: Final = {"listen_addresses": "*", "max_connections": "60"}


class Installation:
    """A running one; ``facts`` is how clients, on their host, reach it."""

    def __init__(self, directory: Path, network: Network) -> None:
        self.network = network
        self.facts: Quickstart
        self._directory = directory
        self._data_dir = DataDir(directory / "data")
        self._secrets: Secrets
        self._processes: list[subprocess.Popen[bytes]] = []
        self._log = (directory / "log").open("ab")

    @property
    def log_text(self) -> str:
        return (self._directory / "log").read_text(errors="replace")

    def start(self) -> None:
        """Servers, tables, a tenant, then the service. Tens of seconds."""
        self._data_dir.create()
        self._secrets = load_or_create_secrets(self._data_dir.secrets)
        self._start_postgres()
        self._start_valkey()
        web_env = self._env(WEB_POSTGRES, WEB_VALKEY)
        self._command("web", web_env, "migrate", "--no-input")
        self._start("web", (*PYTHON, "storage_engine"), web_env)
        wait_until(self._data_dir.engine_socket.exists, _START_S_MAX, "the engine has a socket")
        made = json.loads(
            self._command("web", web_env, "bootstrap_demo").strip().rpartition("\n")[2]
        )
        base_url = web_env["MQ_BASE_URL"]
        self.facts = Quickstart(
            base_url=base_url,
            ws_url=f"ws{base_url.removeprefix('http')}/v1/ws",
            console_url=base_url,
            pids={},
            **made,
        )
        self._start("web", (*PYTHON, "mqservice.web"), {**web_env, "MQ_PROCESS": "web"})
        worker_env = self._env(WORKER_POSTGRES, WORKER_VALKEY)
        for spec in separate_worker_specs(worker_env, self._data_dir):
            if spec.name != "analytics":
                self._start("worker", spec.argv, spec.env)
        self._wait("clients", self._is_web_up, "the web process answers")
        self._wait("postgres", lambda: self.have_beaten_since(0), "workers and beat do their work")

    def have_beaten_since(self, moment_s: float) -> bool:
        """Whether workers, beat and the engine's tick have done something after an epoch. Only on
        PostgreSQL's host.
        """
        return have_beaten_since(self._postgres.url, moment_s)

    def close(self) -> None:
        """The service first, in the other order of its start."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(_STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_STOP_S_MAX)
        self._log.close()

    def _start_postgres(self) -> None:
        account = binaries.server_account()
        self._postgres = PostgresServer(
            directory=self._directory / "pg",
            port=_POSTGRES_PORT,
            programs=binaries.find_postgres(account),
            account=account,
            admin_password=self._secrets.postgres_admin_password,
            password=self._secrets.postgres_password,
            settings={**POSTGRES_SETTINGS, **_ALL_HOSTS},
        )
        self._postgres.prepare()
        with (self._directory / "pg" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet scram-sha-256\n")
        spec = self._postgres.child_spec({})
        self._start("postgres", spec.argv, spec.env, cwd=spec.cwd, account=account)

        def is_up() -> bool:
            try:
                psycopg.connect(self._postgres.admin_url, connect_timeout=2).close()
            except psycopg.Error:
                return False
            return True

        self._wait("postgres", is_up, "PostgreSQL answers")
        self.network.hosts["postgres"].run(lambda: asyncio.run(self._postgres.ensure_database()))

    def _start_valkey(self) -> None:
        account = binaries.server_account()
        server = ValkeyServer(
            directory=self._directory / "valkey",
            port=_VALKEY_PORT,
            program=binaries.find_valkey(account),
            account=account,
            password=self._secrets.valkey_password,
            settings={**VALKEY_SETTINGS, "bind": "0.0.0.0"},  # of its namespace
        )
        server.prepare()
        spec = server.child_spec({})
        self._start("valkey", spec.argv, spec.env, cwd=spec.cwd, account=account, text=spec.stdin)

        def is_up() -> bool:
            try:
                return bool(redis.Redis.from_url(server.url).ping())
            except redis.RedisError:
                return False

        self._wait("valkey", is_up, "Valkey answers")

    def _env(self, postgres: Link, valkey: Link) -> dict[str, str]:
        """Of a process of the service, which reaches the servers over these links."""
        secrets, data_dir = self._secrets, self._data_dir
        web = self.network.address(CLIENT_WEB)
        return service_environment(
            data_dir.path,
            PYTHONPATH=str(Path(__file__).resolve().parents[3]),
            PYTHONUNBUFFERED="1",
            DJANGO_SETTINGS_MODULE="mqservice.settings",
            MQ_BIND="0.0.0.0",
            MQ_PORT=str(_WEB_PORT),
            MQ_BASE_URL=f"http://{web}:{_WEB_PORT}",
            MQ_SECRET_KEY=secrets.django_key,
            MQ_ENGINE_STORE_DIR=str(data_dir.store),
            MQ_ENGINE_SOCKET=str(data_dir.engine_socket),
            MQ_BOOTSTRAP_PASSWORD=secrets.admin_password,
            MQ_BOOTSTRAP_API_KEY=secrets.api_key,
            DATABASE_URL=f"postgresql://mqservice:{secrets.postgres_password}"
            f"@{self.network.address(postgres)}:{_POSTGRES_PORT}/mqservice",
            VALKEY_URL=f"redis://:{secrets.valkey_password}"
            f"@{self.network.address(valkey)}:{_VALKEY_PORT}/0",
        )

    def _command(self, host: str, env: Mapping[str, str], *words: str) -> str:
        done = self.network.hosts[host].run(
            lambda: subprocess.run(
                [*PYTHON, "django", *words],
                env=env,
                cwd=self._data_dir.path,
                stdout=subprocess.PIPE,
                stderr=self._log,
                timeout=_START_S_MAX,
                check=False,
            )
        )
        assert done.returncode == 0, f"{words}:\n{self.log_text}"
        return done.stdout.decode()

    def _start(
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
                cwd=cwd or self._data_dir.path,
                stdin=subprocess.PIPE,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
            )

        process = self.network.hosts[host].run(popen)
        self._processes.append(process)
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()

    def _wait(self, host: str, condition: Callable[[], bool], what: str) -> None:
        def wait() -> None:
            wait_until(condition, _START_S_MAX, what)

        try:
            self.network.hosts[host].run(wait)
        except AssertionError as exc:
            raise AssertionError(f"{exc}:\n{self.log_text[-4_000:]}") from exc

    def _is_web_up(self) -> bool:
        try:
            return httpx.get(f"{self.facts.base_url}/readyz", timeout=10).status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def running_installation(directory: Path) -> Iterator[Installation]:
    """A ready one in ``directory``, whose path must be short; its processes have ended after it."""
    network = Network(*LINKS)
    installation = Installation(directory, network)
    try:
        installation.start()
        yield installation
    finally:
        installation.close()
        network.close()
