"""The processes of ``compose.cluster.yaml`` on this machine, each with its command and environment.

    compose.cluster.yaml ──▶ migrate, node-a, node-b, node-c, web, clock, worker, beat
                                   │  names of hosts ──▶ ports of 127.0.0.1
    PostgreSQL, Valkey of the tests, a directory for the log ◀──┘

Each has a data directory of its own, which is all that outlives it.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import yaml

from mqservice.lib.api_keys import generate_api_key
from tests.ports import find_steady_port
from tests.servers import TestServers
from tests.services import PROGRAM, START_WAIT_S, STOP_WAIT_S, service_environment, wait_until

ROOT: Final = Path(__file__).resolve().parents[2]
NODES: Final = ("node-a", "node-b", "node-c")
SHARDS: Final = ("main", "s2", "s3")
_OBJECTS: Final = "s3://mqservice/log?endpoint=http://objects:7070"
_SECRET: Final = "a-secret-of-tests-with-enough-characters"
_NODE_ADDRESS: Final = re.compile(r"(?:node-[abc]):77\d\d")
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::?[-?][^}]*)?\}")
# Files of some kilobytes, so that nine stores fit anywhere.
LIMITS: Final[Mapping[str, str]] = {
    "MQ_ENGINE_SEGMENT_BYTES": str(1024 * 1024),
    "MQ_ENGINE_CONSUME_QUEUE_UNITS": "1024",
    "MQ_ENGINE_INDEX_SLOTS": "64",
    "MQ_ENGINE_INDEX_ENTRIES": "256",
    "MQ_ENGINE_INDEX_ALLOCATE_BYTES": "4096",
    "MQ_ENGINE_PREFAULT_BYTES": "0",
}


class Cluster:
    """``url`` of the web process; ``key`` of an owner in the namespace ``demo``."""

    def __init__(self, directory: Path, servers: TestServers) -> None:
        text = (ROOT / "compose.cluster.yaml").read_text()
        self._services: dict[str, dict[str, Any]] = yaml.safe_load(text)[  # Any: compose's shapes
            "services"
        ]
        self._directory = directory
        self._servers = servers
        self._log = directory / "objects"
        self._ports: dict[str, int] = {}
        self._web_port = find_steady_port()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.url = f"http://127.0.0.1:{self._web_port}"
        self.key = ""

    # Processes ------------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        for name in names:
            with self.log(name).open("ab") as output:
                self._running[name] = subprocess.Popen(
                    self._command(name), env=self._environment(name), stdin=subprocess.DEVNULL,
                    stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip

    def start_all(self, *names: str) -> None:
        """Migrated first, and ready, nodes and web process at least."""
        self._log.mkdir()
        self.run("migrate")
        self.start(*NODES, "web", *names)
        for node in NODES:
            self.await_ready(node)
        wait_until(self._is_web_ready, START_WAIT_S, "the web process is ready")
        self.key = generate_api_key()
        made = self.django(
            "bootstrap_demo", MQ_BOOTSTRAP_PASSWORD=_SECRET, MQ_BOOTSTRAP_API_KEY=self.key
        )
        assert json.loads(made.strip().rpartition("\n")[2])["namespace"] == "demo"

    def run(self, name: str) -> None:
        """One that ends by itself."""
        self.start(name)
        assert self._running.pop(name).wait(START_WAIT_S) == 0, self.said(name)

    def kill(self, name: str, *, with_disk: bool = False) -> None:
        """All its processes at once, as when its machine loses power."""
        process = self._running.pop(name)
        for pid in self.pids(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait(STOP_WAIT_S)
        if with_disk:
            shutil.rmtree(self.data_dir(name))

    def send(self, name: str, number: signal.Signals) -> None:
        """To all processes of one."""
        for pid in self.pids(self._running[name].pid):
            os.kill(pid, number)

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
        nodes = {f"tcp://{self._address(place)}": place.partition(":")[0] for place in self._ports}
        url = self._servers.environment()["DATABASE_URL"]
        with psycopg.connect(url, autocommit=True) as connection:
            rows = connection.execute("SELECT name, owner, address FROM shards_shard").fetchall()
        return {name: owner for name, owner, address in rows if nodes.get(address) == owner}

    def await_owner(self, shard: str, *nodes: str) -> None:
        """Until one of them serves it."""
        wait_until(
            lambda: self.owners().get(shard) in nodes, START_WAIT_S, f"{shard} is at {nodes}"
        )

    def move(self, shard: str, node: str) -> None:
        self.django("shard", f"--node={node}", "--", "move", shard)

    def django(self, *arguments: str, **env: str) -> str:
        """A command in the environment of a web process. What it prints."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "django", *arguments],
            env={**self._environment("web"), **env}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """``mqservice`` as its users run it, with the key of ``demo``."""
        env = service_environment(
            self._directory / "user", MQ_BASE_URL=self.url, MQ_API_KEY=self.key, MQ_NAMESPACE="demo"
        )
        return subprocess.Popen(
            [*PROGRAM, *arguments], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    # As the file says it --------------------------------------------------------------------

    def _is_web_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def _command(self, name: str) -> list[str]:
        program, *arguments = self._services[name]["command"]
        programs = {
            "python": [sys.executable],
            "mqservice": list(PROGRAM),
            "celery": [sys.executable, "-m", "celery"],
        }
        return [*programs[program], *arguments]

    def _environment(self, name: str) -> dict[str, str]:
        servers = self._servers.environment()
        given = {
            "MQ_SECRET_KEY": _SECRET, "MQ_ENGINE_SECRET": _SECRET, "S3_SECRET_KEY": "secret",
            "MQ_BASE_URL": self.url, "MQ_SIGN_UP": "invited", "MQ_EMAIL_URL": "",
            "POSTGRES_PASSWORD": "",
        }  # fmt: skip
        said = self._services[name]["environment"]
        env = {key: self._here(_VARIABLE.sub(lambda m: given[m[1]], said[key])) for key in said}
        env |= {key: servers[key] for key in ("DATABASE_URL", "VALKEY_URL") if key in env}
        env |= {"MQ_PORT": str(self._web_port), "DJANGO_SETTINGS_MODULE": "mqservice.settings"}
        return service_environment(self.data_dir(name), **{**env, **LIMITS})

    def _here(self, value: str) -> str:
        """With ports of this machine for the hosts of the file."""
        value = value.replace(_OBJECTS, self._log.as_uri())
        return _NODE_ADDRESS.sub(lambda match: self._address(match[0]), value)

    def _address(self, place: str) -> str:
        if place not in self._ports:
            self._ports[place] = find_steady_port()
        return f"127.0.0.1:{self._ports[place]}"


@contextmanager
def running_cluster(*names: str) -> Iterator[Cluster]:
    """Three nodes and a web process that are ready, and those of ``names``; ended afterwards."""
    # Not below pytest's directories: paths of sockets are short.
    directory = Path(tempfile.mkdtemp(prefix="clus"))
    servers = TestServers()
    try:
        servers.start_postgres()
        servers.start_valkey()
        cluster = Cluster(directory, servers)
        try:
            cluster.start_all(*names)
            yield cluster
        finally:
            cluster.close()
    finally:
        servers.close()
        shutil.rmtree(directory, ignore_errors=True)
