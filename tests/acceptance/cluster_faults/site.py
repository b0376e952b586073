"""The cluster of ``compose.cluster.yaml`` with each container on a host of its own.

    clients ═══ web ═══ PostgreSQL, Valkey            ═══ a link that can be cut
                 ║            ║
              node-a, node-b, node-c (each with each) ═══ object store

The object store is versitygw, as in the file, where it is installed; else moto's server.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Final, TypeVar

import httpx

from tests.acceptance.cluster import CLIENTS, NODES, S3_SECRET, WEB, Cluster
from tests.acceptance.partitions.hosted import POSTGRES_PORT, VALKEY_PORT, HostedProcesses
from tests.acceptance.partitions.network import Link, Network

T = TypeVar("T")

POSTGRES: Final = "postgres"
VALKEY: Final = "valkey"
OBJECTS: Final = "objects"
LINKS: Final = (
    Link(CLIENTS, WEB),
    Link(WEB, POSTGRES),
    Link(WEB, VALKEY),
    *(Link(WEB, node) for node in NODES),
    *(Link(node, POSTGRES) for node in NODES),
    *(Link(node, OBJECTS) for node in NODES),
    *(Link(*pair) for pair in combinations(NODES, 2)),
)
_OBJECTS_PORT: Final = 7_070
_BUCKET: Final = "mqservice"
_ACCESS: Final = "mqservice"
_PASSWORD: Final = "a-password-of-tests"
_GO_PROGRAMS: Final = Path.home() / "go" / "bin"


class NetworkSite:
    """Servers that run, and where; a ``Site`` of a cluster."""

    def __init__(self, directory: Path) -> None:
        self.network = Network(*LINKS)
        self.object_store = ""  # what it is
        self._directory = directory
        self._processes = HostedProcesses(directory, self.network)

    def start(self) -> None:
        self._processes.start_postgres(
            POSTGRES, admin_password=_PASSWORD, password=_PASSWORD, connection_max=100
        )
        self._processes.start_valkey(VALKEY, password=_PASSWORD)
        self._start_objects()

    def close(self) -> None:
        self._processes.close()
        self.network.close()

    @property
    def log_url(self) -> str:
        return f"s3://{_BUCKET}/log?endpoint=http://{self.address(OBJECTS, _OBJECTS_PORT)}"

    @property
    def environment(self) -> Mapping[str, str]:
        postgres, valkey = self.address(POSTGRES, POSTGRES_PORT), self.address(VALKEY, VALKEY_PORT)
        return {
            "DATABASE_URL": f"postgresql://mqservice:{_PASSWORD}@{postgres}/mqservice",
            "VALKEY_URL": f"redis://:{_PASSWORD}@{valkey}/0",
            "MQ_BIND": "0.0.0.0",
            "NO_PROXY": "*",
        }

    def address(self, host: str, port: int) -> str:
        return f"{self.network.addresses[host]}:{port}"

    def run(self, host: str, work: Callable[[], T]) -> T:
        return self.network.hosts[host].run(work)

    def links_of(self, node: str) -> list[Link]:
        return [link for link in self.network.links if node in link]

    def _start_objects(self) -> None:
        gateway = shutil.which("versitygw") or shutil.which("versitygw", path=str(_GO_PROGRAMS))
        if gateway:
            buckets, metadata = self._directory / "buckets", self._directory / "metadata"
            (buckets / _BUCKET).mkdir(parents=True)
            metadata.mkdir()
            argv: tuple[str, ...] = (
                gateway, "--port", f":{_OBJECTS_PORT}", "--access", _ACCESS, "--secret", S3_SECRET,
                "--quiet", "posix", "--sidecar", str(metadata), str(buckets),
            )  # fmt: skip
            self.object_store = "versitygw"
        else:
            port = str(_OBJECTS_PORT)
            argv = (sys.executable, "-m", "moto.server", "-H", "0.0.0.0", "-p", port)
            self.object_store = "moto's S3 server"
        self._processes.start(OBJECTS, argv, {})
        url = f"http://127.0.0.1:{_OBJECTS_PORT}"

        def is_up() -> bool:
            try:
                if not gateway:
                    httpx.put(f"{url}/{_BUCKET}", trust_env=False)
                return httpx.get(url, trust_env=False).status_code < 500
            except httpx.TransportError:
                return False

        self._processes.wait(OBJECTS, is_up, "the object store answers")


@contextmanager
def cluster_in_network() -> Iterator[tuple[Cluster, NetworkSite]]:
    """Three nodes and a web process that are ready, with beat and its clock; ended afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="net"))  # short, for sockets
    directory.chmod(0o755)  # PostgreSQL has an account of its own
    try:
        site = NetworkSite(directory)
        try:
            site.start()
            cluster = Cluster(directory, site)
            try:
                cluster.start_all("clock", "beat")
                yield cluster, site
            finally:
                cluster.close()
        finally:
            site.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
