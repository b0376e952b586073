"""The processes of ``compose.cluster.yaml`` on this machine, each with its command and environment.

    compose.cluster.yaml ──▶ migrate, node-a, node-b, node-c, web, clock, worker, beat
                                   │  names of hosts ──▶ [Site] ──▶ addresses
                  PostgreSQL, Valkey, a place for the log ◀──┘

Each has a data directory of its own, which is all that outlives it. ``OneHost`` is the plain site:
ports of 127.0.0.1, the servers of the tests, and a directory for the log.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import httpx
import psycopg
import yaml

from mqservice.lib.api_keys import generate_api_key
from mqservice.supervisor.quickstart import Quickstart
from tests.ports import find_steady_port
from tests.servers import TestServers
from tests.services import PROGRAM, START_WAIT_S, STOP_WAIT_S, service_environment, wait_until

T = TypeVar("T")

ROOT: Final = Path(__file__).resolve().parents[2]
NODES: Final = ("node-a", "node-b", "node-c")
SHARDS: Final = {"main": 7701, "s2": 7702, "s3": 7703}  # ports on every node
WEB: Final = "web"
WEB_PORT: Final = 8000
CLIENTS: Final = "clients"
S3_SECRET: Final = "a-secret-of-the-object-store"
_OBJECTS: Final = "s3://mqservice/log?endpoint=http://objects:7070"
_SECRET: Final = "a-secret-of-tests-with-enough-characters"
_NODE_ADDRESS: Final = re.compile(r"(node-[abc]):(77\d\d)")
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}")  # with a default, or needed
# Files of some kilobytes, so that nine stores fit anywhere.
LIMITS: Final[Mapping[str, str]] = {
    "MQ_ENGINE_SEGMENT_BYTES": str(1024 * 1024),
    "MQ_ENGINE_CONSUME_QUEUE_UNITS": "1024",
    "MQ_ENGINE_INDEX_SLOTS": "64",
    "MQ_ENGINE_INDEX_ENTRIES": "256",
    "MQ_ENGINE_INDEX_ALLOCATE_BYTES": "4096",
    "MQ_ENGINE_PREFAULT_BYTES": "0",
}


class Site(Protocol):
    """Where the hosts of the file are, and what the others need of each. Names are the file's."""

    @property
    def log_url(self) -> str:
        """Where the replicated log is."""

    @property
    def environment(self) -> Mapping[str, str]:
        """``DATABASE_URL``, ``VALKEY_URL`` and what else processes need here."""

    def address(self, host: str, port: int) -> str:
        """``HOST:PORT`` at which others reach what listens there."""

    def run(self, host: str, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises, done on the host."""


class OneHost:
    """All on this machine's loopback."""

    def __init__(self, servers: TestServers, log_directory: Path) -> None:
        self.log_url = log_directory.as_uri()
        self.environment = servers.environment()
        self._ports: dict[tuple[str, int], int] = {}

    def address(self, host: str, port: int) -> str:
        if (host, port) not in self._ports:
            self._ports[host, port] = find_steady_port()
        return f"127.0.0.1:{self._ports[host, port]}"

    def run(self, host: str, work: Callable[[], T]) -> T:
        return work()


class Cluster:
    """``url`` of the web process; ``facts`` of an owner in the namespace ``demo``."""

    def __init__(self, directory: Path, site: Site) -> None:
        text = (ROOT / "compose.cluster.yaml").read_text()
        self._services: dict[str, dict[str, Any]] = yaml.safe_load(text)[  # Any: compose's shapes
            "services"
        ]
        self._directory = directory
        self._site = site
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.url = f"http://{site.address(WEB, WEB_PORT)}"
        self.facts: Quickstart

    # Processes ------------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        for name in names:
            self._running[name] = self._site.run(host_of(name), lambda name=name: self._popen(name))  # type: ignore[misc]  # reason: bound early on purpose

    def _popen(self, name: str) -> subprocess.Popen[bytes]:
        with self.log(name).open("ab") as output:
            return subprocess.Popen(
                self._command(name), env=self._environment(name), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def start_all(self, *names: str) -> None:
        """Migrated first, and ready, nodes and web process at least."""
        self.run("migrate")
        self.start(*NODES, "web", *names)
        for node in NODES:
            self.await_ready(node)
        wait_until(self._is_web_ready, START_WAIT_S, "the web process is ready")
        made = self.django(
            "bootstrap_demo", MQ_BOOTSTRAP_PASSWORD=_SECRET, MQ_BOOTSTRAP_API_KEY=generate_api_key()
        )
        self.facts = Quickstart(
            base_url=self.url,
            ws_url=f"{self.url.replace('http', 'ws', 1)}/v1/ws",
            console_url=self.url,
            pids={},
            **json.loads(made.strip().rpartition("\n")[2]),
        )

    def run(self, name: str) -> None:
        """One that ends by itself."""
        self.start(name)
        assert self._running.pop(name).wait(START_WAIT_S) == 0, self.said(name)

    def kill(self, name: str, *, with_disk: bool = False) -> None:
        """All its processes at once, as when its machine loses power."""
        process = self._running.pop(name)
        for pid in self.pids(process.pid):
            with suppress(ProcessLookupError):  # it has ended by itself since
                os.kill(pid, signal.SIGKILL)
        process.wait(STOP_WAIT_S)
        if with_disk:
            shutil.rmtree(self.data_dir(name))

    def send(self, name: str, number: signal.Signals) -> list[int]:
        """To all processes of one. Their pids."""
        pids = self.pids(self._running[name].pid)
        for pid in pids:
            os.kill(pid, number)
        return pids

    def stop(self, name: str) -> int:
        """In order. The exit code."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(STOP_WAIT_S)

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name)

    @staticmethod
    def pids(pid: int) -> list[int]:
        """A process and its children, itself first."""
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    # What is seen from outside --------------------------------------------------------------

    def data_dir(self, name: str) -> Path:
        return self._directory / name

    def log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def said(self, name: str) -> str:
        return self.log(name).read_text(errors="replace")[-4_000:]

    def is_ready(self, node: str) -> bool:
        """As the health check of its container finds."""
        check = self._services[node]["healthcheck"]["test"]
        asked = subprocess.run(
            [sys.executable, *check[2:]], env=self._environment(node), capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        return asked.returncode == 0

    def await_ready(self, node: str) -> None:
        try:
            wait_until(lambda: self.is_ready(node), START_WAIT_S, f"{node} is ready")
        except AssertionError as exc:
            raise AssertionError(f"{exc}:\n{self.said(node)}") from exc

    def owners(self) -> dict[str, str]:
        """By shard, the node that serves it at its own address."""

        def find() -> list[tuple[str, str, str]]:
            url = self._site.environment["DATABASE_URL"]
            with psycopg.connect(url, autocommit=True) as connection:
                return connection.execute(
                    "SELECT name, owner, address FROM shards_shard WHERE owner <> ''"
                ).fetchall()

        return {
            name: owner
            for name, owner, address in self._site.run(WEB, find)
            if address == f"tcp://{self._site.address(owner, SHARDS[name])}"
        }

    def await_owner(self, shard: str, *nodes: str) -> None:
        """Until one of them serves it."""
        wait_until(
            lambda: self.owners().get(shard) in nodes, START_WAIT_S, f"{shard} is at {nodes}"
        )

    def move(self, shard: str, node: str) -> None:
        self.django("shard", f"--node={node}", "--", "move", shard)

    def django(self, *arguments: str, **env: str) -> str:
        """A command in the environment of a web process. What it prints."""

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "-P", "-m", "django", *arguments],
                env={**self._environment(WEB), **env}, capture_output=True, text=True, check=False,
            )  # fmt: skip

        done = self._site.run(WEB, run)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def operate(self, node: str, *arguments: str) -> str:
        """``mqservice`` as operators run it on a node, with the secret of the service. What it
        prints.
        """

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*PROGRAM, *arguments],
                env={**self._environment(node), "MQ_SECRET_KEY": _SECRET},
                capture_output=True, text=True, check=False,
            )  # fmt: skip

        done = self._site.run(node, run)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """``mqservice`` as its users run it, with the key of ``demo``."""
        env = service_environment(
            self._directory / "user",
            MQ_BASE_URL=self.url,
            MQ_API_KEY=self.facts.api_key,
            MQ_NAMESPACE=self.facts.namespace,
        )
        return self._site.run(
            CLIENTS,
            lambda: subprocess.Popen(
                [*PROGRAM, *arguments], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True,
            ),
        )  # fmt: skip

    # As the file says it --------------------------------------------------------------------

    def _is_web_ready(self) -> bool:
        try:
            answer = self._site.run(
                CLIENTS, lambda: httpx.get(f"{self.url}/readyz", trust_env=False)
            )
        except httpx.HTTPError:
            return False
        return answer.status_code == 200

    def _command(self, name: str) -> list[str]:
        program, *arguments = self._services[name]["command"]
        programs = {
            "python": [sys.executable],
            "mqservice": list(PROGRAM),
            "celery": [sys.executable, "-m", "celery"],
        }
        return [*programs[program], *arguments]

    def _environment(self, name: str) -> dict[str, str]:
        here = self._site.environment
        given = {
            "MQ_SECRET_KEY": _SECRET, "MQ_ENGINE_SECRET": _SECRET, "S3_SECRET_KEY": S3_SECRET,
            "MQ_BASE_URL": self.url, "POSTGRES_PASSWORD": "",
        }  # fmt: skip

        def value_of(variable: re.Match[str]) -> str:
            return given[variable[1]] if variable[2] is None else given.get(*variable.groups())

        said = self._services[name]["environment"]
        env = {key: self._here(_VARIABLE.sub(value_of, said[key])) for key in said}
        env |= {key: here[key] for key in here if key in env or not key.endswith("_URL")}
        port = self.url.rpartition(":")[2]
        env |= {"MQ_PORT": port, "DJANGO_SETTINGS_MODULE": "mqservice.settings"}
        return service_environment(self.data_dir(name), **{**env, **LIMITS})

    def _here(self, value: str) -> str:
        """With addresses of the site for the hosts of the file."""
        value = value.replace(_OBJECTS, self._site.log_url)
        return _NODE_ADDRESS.sub(lambda match: self._site.address(match[1], int(match[2])), value)


def host_of(name: str) -> str:
    """Where a process of the file runs: nodes by themselves, the rest beside the web process."""
    return name if name in NODES else WEB


@contextmanager
def running_cluster(*names: str) -> Iterator[Cluster]:
    """Three nodes and a web process that are ready, and those of ``names``; ended afterwards."""
    # Not below pytest's directories: paths of sockets are short.
    directory = Path(tempfile.mkdtemp(prefix="clus"))
    servers = TestServers()
    try:
        servers.start_postgres()
        servers.start_valkey()
        (directory / "objects").mkdir()
        cluster = Cluster(directory, OneHost(servers, directory / "objects"))
        try:
            cluster.start_all(*names)
            yield cluster
        finally:
            cluster.close()
    finally:
        servers.close()
        shutil.rmtree(directory, ignore_errors=True)
