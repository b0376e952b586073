"""Machines with real node processes that share a replicated log in a directory, and their clients.

clients ── address in the shard's row ──▶ owner: node + engine ── entries ──▶ log
                                          standby: node + replica ◀──────────┘
nodes ── proxy that can be cut ──▶ PostgreSQL of the tests
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx
import psycopg
from prometheus_client.parser import text_string_to_metric_families

from storage_engine.client import (
    Credentials,
    Durability,
    GroupConfig,
    StoreClient,
    StoreMessage,
    StoreUnavailable,
    TopicConfig,
    encode_record,
    new_message_id,
)
from tests.clients.python.proxy import Proxy
from tests.ports import find_steady_port
from tests.services import PROGRAM, service_environment, wait_until
from tests.storage_engine.engines import RECONNECT
from tests.storage_engine.kills.kill_loop import GROUP, LEASE_MS

SHARD: Final = "s2"
SECRET: Final = "s" * 40
WAIT_S: Final = 180.0
_LIMITS: Final[Mapping[str, str]] = {
    "MQ_ENGINE_SEGMENT_BYTES": "65536",
    "MQ_ENGINE_CONSUME_QUEUE_UNITS": "64",
    "MQ_ENGINE_INDEX_SLOTS": "64",
    "MQ_ENGINE_INDEX_ENTRIES": "256",
    "MQ_ENGINE_INDEX_ALLOCATE_BYTES": "4096",
    "MQ_ENGINE_PREFAULT_BYTES": "0",
    "MQ_ENGINE_LEASE_MS_MIN": "100",
    "MQ_ENGINE_REPLICATION_INTERVAL_MS": "50",
}


class Row(NamedTuple):
    epoch: int
    owner: str
    address: str
    move_to: str


class Machine:
    """One node, with a directory of its own that outlives it."""

    def __init__(
        self, name: str, installation: Installation, role: str, limits: Mapping[str, str]
    ) -> None:
        self.name = name
        self.directory = installation.directory / name
        self.log = installation.directory / f"{name}.log"
        self.address = f"tcp://127.0.0.1:{find_steady_port()}"
        self._metrics_port = find_steady_port()
        self.database = Proxy(installation.database_url)
        url = urlsplit(installation.database_url)
        place = f"{url.username}:{url.password}@{urlsplit(self.database.url).netloc}"
        self._env = service_environment(
            self.directory,
            DATABASE_URL=url._replace(netloc=place).geturl(),
            MQ_ENGINE_SECRET=SECRET,
            MQ_ENGINE_METRICS_PORT=str(self._metrics_port),
            MQ_NODE=name,
            MQ_REPLICATED_LOG=installation.log_dir.as_uri(),
            **{role: f"{SHARD}={self.address}"},
            **{**_LIMITS, **limits},
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*PROGRAM, "node"],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        """What node and engine have written."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def metrics(self) -> dict[str, float]:
        """What its engine tells Prometheus of the shard, by the name without its prefix."""
        text = httpx.get(self._url("/metrics"), timeout=WAIT_S, trust_env=False).text
        samples = [each for found in text_string_to_metric_families(text) for each in found.samples]
        return {
            each.name.removeprefix("mq_engine_"): each.value
            for each in samples
            if each.labels == {"shard": SHARD}
        }

    def health(self) -> tuple[int, str]:
        found = httpx.get(self._url("/healthz"), timeout=WAIT_S, trust_env=False)
        return found.status_code, found.text.strip()

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._metrics_port}{path}"

    @property
    def pids(self) -> list[int]:
        """The node's, then its engine's."""
        assert self._process is not None
        pid = self._process.pid
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            return [pid, *map(int, children)]
        return [pid]

    def send(self, number: signal.Signals) -> None:
        """To node and engine, the node first."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def send_to_engine(self, number: signal.Signals) -> None:
        """And not to the node."""
        os.kill(self.pids[1], number)

    def kill(self) -> None:
        """All its processes, without a word; as often as it likes."""
        if self._process is not None:
            self.send(signal.SIGKILL)
            self._process.wait(WAIT_S)
            self._process = None

    def stop(self) -> int:
        """In order. The exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(WAIT_S)
        self._process = None
        return code

    def wipe(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def cut_off_from_database(self) -> None:
        self.database.is_down = True
        self.database.cut()

    def reconnect_to_database(self) -> None:
        self.database.is_down = False


class Installation:
    """Machines of one shard, a database and a log."""

    def __init__(self, directory: Path, database_url: str) -> None:
        self.directory = directory
        self.database_url = database_url
        self.log_dir = directory / "replicated"
        self.log_dir.mkdir()
        self.machines: dict[str, Machine] = {}

    def add(self, name: str, role: str, **limits: str) -> Machine:
        """``role``: MQ_SHARDS or MQ_STANDBY; ``limits``: other settings of its engine."""
        machine = self.machines[name] = Machine(name, self, role, limits)
        machine.start()
        return machine

    def query(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    @property
    def row(self) -> Row | None:
        found = self.query(
            "SELECT epoch, owner, address, move_to FROM shards_shard WHERE name = %s", SHARD
        )
        return Row._make(found[0]) if found else None

    def owner(self) -> str:
        """The one that clients are sent to; empty while nobody is."""
        row = self.row
        for machine in self.machines.values():
            if row is not None and (row.owner, row.address) == (machine.name, machine.address):
                return machine.name
        return ""

    def move(self, name: str) -> None:
        self.query("UPDATE shards_shard SET move_to = %s WHERE name = %s", name, SHARD)

    def replicas(self) -> set[str]:
        """Nodes that have caught up with the log and could take over."""
        found = self.query(
            "SELECT node FROM shards_replica WHERE behind_ms BETWEEN 0 AND 5000"
            " AND heartbeat_at > now() - interval '3 s'"
        )
        return {str(node) for (node,) in found}

    def client(self, timeout_ms: int = 5_000) -> StoreClient:
        return StoreClient(
            self._find_address, client_name="test", shard=SHARD, timeout_ms=timeout_ms,
            credentials=Credentials(SECRET), config=RECONNECT,
        )  # fmt: skip

    def _find_address(self) -> str:
        row = self.row
        if row is None or not row.address:
            raise StoreUnavailable("nobody has said where the shard is")
        return row.address

    def prepare(self) -> None:
        """The topic and the group that clients work on."""
        with self.client() as client:
            client.topic_put(
                TopicConfig(topic="t", queue_count=2, durability=Durability.REPLICATED)
            )
            client.topic_put(TopicConfig(topic="a", queue_count=1))
            client.group_put(GroupConfig(group=GROUP, lease_ms=LEASE_MS))

    def put_replicated(self) -> None:
        """One message; then the log has all that was changed before, too."""
        message = StoreMessage(
            topic="t", queue_id=0, body=b"x", message_id=new_message_id(),
            born_timestamp_ms=time.time_ns() // 1_000_000, born_host=("127.0.0.1", 1),
        )  # fmt: skip
        with self.client() as client:
            (result,) = client.put([encode_record(message)])
        assert result.error is None

    def await_owner(self, name: str) -> None:
        wait_until(lambda: self.owner() == name, WAIT_S, f"{name} owns the shard")

    def await_replica(self, name: str, within_s: float = WAIT_S) -> None:
        wait_until(lambda: name in self.replicas(), within_s, f"{name} follows the shard")


@contextmanager
def installation(database_url: str) -> Iterator[Installation]:
    """Ended, with all its machines."""
    # Not below pytest's directories: paths of sockets are short.
    directory = Path(tempfile.mkdtemp(prefix="mach"))
    found = Installation(directory, database_url)
    try:
        yield found
    finally:
        for machine in found.machines.values():
            machine.kill()
            machine.database.close()
        shutil.rmtree(directory, ignore_errors=True)
