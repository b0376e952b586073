"""The service with each part on a host of its own, as real processes.

    clients ═══ web, engine ═══ PostgreSQL
                   ║    ╚══════ Valkey ═══╗
                (socket)                  ║
             clock, worker, beat ═════════╩═══ PostgreSQL

Web processes and workers speak with the engine over a Unix socket, which knows no network; all else
goes over links that can be cut.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.processes import PYTHON, separate_worker_specs
from mqservice.supervisor.quickstart import Quickstart
from mqservice.supervisor.secrets_file import Secrets, load_or_create_secrets
from tests.acceptance.history.heartbeats import have_beaten_since
from tests.acceptance.partitions.hosted import (
    POSTGRES_PORT,
    START_S_MAX,
    VALKEY_PORT,
    HostedProcesses,
)
from tests.acceptance.partitions.network import Link, Network
from tests.services import service_environment, wait_until

CLIENT_WEB: Final = Link("clients", "web")
WEB_POSTGRES: Final = Link("web", "postgres")
WEB_VALKEY: Final = Link("web", "valkey")
WORKER_POSTGRES: Final = Link("worker", "postgres")
WORKER_VALKEY: Final = Link("worker", "valkey")
LINKS: Final = (CLIENT_WEB, WEB_POSTGRES, WEB_VALKEY, WORKER_POSTGRES, WORKER_VALKEY)
_WEB_PORT: Final = 8_000


class Installation:
    """A running one; ``facts`` is how clients, on their host, reach it."""

    def __init__(self, directory: Path, network: Network) -> None:
        self.network = network
        self.facts: Quickstart
        self._directory = directory
        self._data_dir = DataDir(directory / "data")
        self._secrets: Secrets
        self._processes = HostedProcesses(directory, network)

    @property
    def log_text(self) -> str:
        return self._processes.log_text

    def start(self) -> None:
        """Servers, tables, a tenant, then the service. Tens of seconds."""
        self._data_dir.create()
        self._secrets = load_or_create_secrets(self._data_dir.secrets)
        secrets = self._secrets
        self._postgres = self._processes.start_postgres(
            "postgres",
            admin_password=secrets.postgres_admin_password,
            password=secrets.postgres_password,
        )
        self._processes.start_valkey("valkey", password=secrets.valkey_password)
        web_env = self._env(WEB_POSTGRES, WEB_VALKEY)
        self._command("web", web_env, "migrate", "--no-input")
        self._processes.start("web", (*PYTHON, "storage_engine"), web_env)
        wait_until(self._data_dir.engine_socket.exists, START_S_MAX, "the engine has a socket")
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
        self._processes.start("web", (*PYTHON, "mqservice.web"), {**web_env, "MQ_PROCESS": "web"})
        worker_env = self._env(WORKER_POSTGRES, WORKER_VALKEY)
        for spec in separate_worker_specs(worker_env, self._data_dir):
            if spec.name != "analytics":
                self._processes.start("worker", spec.argv, spec.env)
        self._processes.wait("clients", self._is_web_up, "the web process answers")
        self._processes.wait(
            "postgres", lambda: self.have_beaten_since(0), "workers and beat do their work"
        )

    def have_beaten_since(self, moment_s: float) -> bool:
        """Whether workers, beat and the engine's tick have done something after an epoch. Only on
        PostgreSQL's host.
        """
        return have_beaten_since(self._postgres.url, moment_s)

    def close(self) -> None:
        """The service first, in the other order of its start."""
        self._processes.close()

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
            f"@{self.network.address(postgres)}:{POSTGRES_PORT}/mqservice",
            VALKEY_URL=f"redis://:{secrets.valkey_password}"
            f"@{self.network.address(valkey)}:{VALKEY_PORT}/0",
        )

    def _command(self, host: str, env: Mapping[str, str], *words: str) -> str:
        done = self.network.hosts[host].run(
            lambda: subprocess.run(
                [*PYTHON, "django", *words],
                env=env,
                cwd=self._data_dir.path,
                stdout=subprocess.PIPE,
                stderr=self._processes.log,
                timeout=START_S_MAX,
                check=False,
            )
        )
        assert done.returncode == 0, f"{words}:\n{self.log_text}"
        return done.stdout.decode()

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
