"""A node that joins a running service over TLS: its shard takes namespaces, and goes with it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from mqservice.supervisor import postgres
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.operator_commands import run_command
from mqservice.supervisor.ports import remembered_ports
from mqservice.supervisor.secrets_file import load_or_create_secrets
from tests.certificates import make_certificate
from tests.ports import find_steady_port
from tests.services import (
    PROGRAM,
    STOP_WAIT_S,
    Service,
    listed_shards,
    running_service,
    service_environment,
    wait_until,
)

pytestmark = [pytest.mark.torture, pytest.mark.acceptance, pytest.mark.timeout(600)]

SECRET = "s" * 40
MAKE_KEY = """
from mqservice.accounts.models import Namespace, Role, Tenant
from mqservice.accounts.scopes import Scope
from mqservice.accounts.services import create_api_key, get_or_create_tenant
tenant = get_or_create_tenant("globe")
Namespace.objects.create(tenant=tenant, name="far", shard="s9")
scopes = [scope.value for scope in Scope]
print(create_api_key(tenant, name="k", scopes=scopes, role=Role.ADMIN)[1])
"""


def database_url(data_dir: Path) -> str:
    """Of the PostgreSQL that the service runs."""
    place = DataDir(data_dir)
    password = load_or_create_secrets(place.secrets).postgres_password
    return postgres.service_url(password, remembered_ports(place.ports)["postgres"])


def start_node(data_dir: Path, log: Path, **env: str) -> subprocess.Popen[bytes]:
    data_dir.mkdir(exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [*PROGRAM, "node"],
            env=service_environment(data_dir, **env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@contextmanager
def running_node(data_dir: Path, log: Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    process = start_node(data_dir, log, **env)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_WAIT_S) == 0, log.read_text(errors="replace")


def is_alive(service: Service, shard: str) -> bool:
    row = listed_shards(service.data_dir).get(shard)
    return row is not None and row["is_alive"]


def test_a_node_joins_and_leaves_and_comes_back(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    address = f"tls://127.0.0.1:{find_steady_port()}"
    data = tmp_path / "data"
    with running_service(
        data, MQ_ENGINE_SECRET=SECRET, MQ_SHARD_CA_FILE=str(certificate)
    ) as service:
        text = run_command(service_environment(data), data, ["shell", "-c", MAKE_KEY])
        headers = {"authorization": f"Bearer {text.strip().rpartition(chr(10))[2]}"}
        node_env = {
            "MQ_SHARDS": f"s9={address}",
            "DATABASE_URL": database_url(data),
            "MQ_ENGINE_SECRET": SECRET,
            "MQ_ENGINE_TLS_CERT_FILE": str(certificate),
            "MQ_ENGINE_TLS_KEY_FILE": str(key),
            "MQ_NODE": "node-9",
        }
        node_dir, log = tmp_path / "node", tmp_path / "node.log"
        with httpx.Client(
            base_url=service.facts.base_url, headers=headers, timeout=60, trust_env=False
        ) as api:
            produce = _producer(api)
            refused = api.put("/v1/ns/far/topics/orders", json={"queues": 1})
            assert (refused.status_code, refused.json()["code"]) == (503, "ENGINE_UNAVAILABLE")
            with running_node(node_dir, log, **node_env):
                wait_until(lambda: is_alive(service, "s9"), 60, "the node is heard of")
                made = api.put("/v1/ns/far/topics/orders", json={"queues": 1})
                assert made.status_code == 201, made.text
                wait_until(lambda: produce().status_code == 201, 60, "its shard takes messages")
                sent = produce().json()
            wait_until(lambda: produce().status_code == 503, 60, "its shard is away")
            wait_until(lambda: not is_alive(service, "s9"), 60, "nothing is heard of it")
            with running_node(node_dir, log, **node_env):
                wait_until(lambda: produce().status_code == 201, 60, "its shard is back")
                path = f"/v1/ns/far/topics/orders/messages/{sent['id']}"
                assert api.get(path).status_code == 200


def _producer(api: httpx.Client) -> Callable[[], httpx.Response]:
    def produce() -> httpx.Response:
        return api.post("/v1/ns/far/topics/orders/messages", json={"body": "x"})

    return produce
