"""One service with three engines: everything works for namespaces of each, and one engine that is
gone takes only its own namespaces with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import boto3
import httpx
import msgspec
import pytest
from botocore.config import Config
from mqservice_client import Client

from mqservice.supervisor.operator_commands import run_command
from tests.ports import find_steady_port
from tests.services import (
    Service,
    listed_shards,
    run_mqservice,
    running_service,
    service_environment,
    wait_until,
)

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

SHARDS = {"north": "main", "east": "s2", "west": "s3"}  # namespace: shard, of the tenant globe
SECRET = "s" * 40
_MAKE_KEYS = """
from mqservice.accounts.models import Namespace, Role, Tenant, User
from mqservice.accounts.scopes import Scope
from mqservice.accounts.services import create_api_key
from mqservice.accounts.settings import KeyKind
from mqservice.accounts.tenant_creation import create_tenant
import json
globe = create_tenant(User.objects.create_user("gaia"), "globe", actor=None)
other = create_tenant(User.objects.create_user("luna"), "moon", actor=None)
def key(tenant, **more):
    scopes = [scope.value for scope in Scope]
    return create_api_key(tenant, name="k", scopes=scopes, role=Role.ADMIN, **more)
access = {}
for name, shard in %s.items():
    place = Namespace.objects.create(tenant=globe, name=name, shard=shard)
    row, secret = key(globe, kind=KeyKind.ACCESS, namespace=place)
    access[name] = [row.public_id, secret]
print(json.dumps({"globe": key(globe)[1], "moon": key(other)[1], "access": access}))
"""


class Keys(msgspec.Struct):
    globe: str
    moon: str
    access: dict[str, tuple[str, str]]  # by namespace


@dataclass
class Cluster:
    """The service, a client of its API with a key for all of the tenant, and keys."""

    service: Service
    api: httpx.Client
    keys: Keys

    @property
    def url(self) -> str:
        return self.service.facts.base_url

    def client(self, namespace: str) -> Client:
        return Client(self.url, self.keys.globe, namespace=namespace, timeout="60s")

    def produce(self, namespace: str, **message: object) -> httpx.Response:
        path = f"/v1/ns/{namespace}/topics/orders/messages"
        return self.api.post(path, json={"body": namespace, **message})


def shard_command(service: Service, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_mqservice(service.data_dir, "shard", *arguments)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    shards = f"main,s2,s3=tcp://127.0.0.1:{find_steady_port()}"
    directory = tmp_path_factory.mktemp("shards") / "data"
    with running_service(directory, MQ_SHARDS=shards, MQ_ENGINE_SECRET=SECRET) as service:
        env = service_environment(directory)
        text = run_command(env, directory, ["shell", "-c", _MAKE_KEYS % SHARDS])
        keys = msgspec.json.decode(text.strip().rpartition("\n")[2], type=Keys)
        with httpx.Client(
            base_url=service.facts.base_url,
            headers={"authorization": f"Bearer {keys.globe}"},
            timeout=60,
            trust_env=False,
        ) as api:
            for namespace in SHARDS:
                root = f"/v1/ns/{namespace}"
                assert api.put(f"{root}/topics/orders", json={"queues": 2}).status_code == 201
                assert api.put(f"{root}/groups/billing", json={}).status_code == 201
            yield Cluster(service, api, keys)


def test_each_shard_has_its_namespaces_and_a_heartbeat(cluster: Cluster) -> None:
    rows = listed_shards(cluster.service.data_dir)
    assert set(rows) == {"main", "s2", "s3"}
    assert all(row["is_alive"] and row["free_bytes"] for row in rows.values()), rows
    assert rows["s3"]["address"].startswith("tcp://")
    assert {"engine", "engine-s2", "engine-s3"} <= set(cluster.service.facts.pids)


def test_each_engine_tells_prometheus_which_shard_it_is(cluster: Cluster) -> None:
    facts = cluster.service.facts
    urls = {"main": facts.engine_metrics_url, **facts.shard_metrics_urls}
    assert set(urls) == {"main", "s2", "s3"}
    for shard, url in urls.items():
        text = httpx.get(url, timeout=60, trust_env=False).text
        assert f'mq_engine_writable{{shard="{shard}"}} 1.0' in text


@pytest.mark.parametrize("namespace", SHARDS)
def test_messages_go_through_rest_and_websocket(cluster: Cluster, namespace: str) -> None:
    sent = cluster.produce(namespace, keys=["k1"])
    assert sent.status_code == 201, sent.text
    with cluster.client(namespace) as mq, mq.subscribe("orders", "billing") as messages:
        message = messages.get("30s")
        assert message is not None
        assert (message.id, message.body) == (sent.json()["id"], namespace.encode())
        message.ack()
    cluster.produce(namespace)
    root = f"/v1/ns/{namespace}"
    got = cluster.api.post(f"{root}/topics/orders/groups/billing:receive", json={"wait_ms": 30_000})
    (received,) = got.json()["messages"]
    settled = cluster.api.post(f"{root}/groups/billing:settle", json={"ack": [received["receipt"]]})
    assert settled.json()["acked"] == 1, settled.text
    # And what looks back: browse, search by key, trace, lag.
    found = cluster.api.get(f"{root}/topics/orders/messages", params={"key": "k1"}).json()
    assert sent.json()["id"] in {each["id"] for each in found["messages"]}
    trace = cluster.api.get(f"{root}/messages/{sent.json()['id']}/trace")
    assert trace.status_code == 200, trace.text
    assert cluster.api.get(f"{root}/groups/billing").status_code == 200
    assert cluster.api.get(f"{root}/groups/billing/offsets").status_code == 200


@pytest.mark.parametrize("namespace", SHARDS)
def test_delays_and_schedules_run_where_their_namespace_is(
    cluster: Cluster, namespace: str
) -> None:
    root = f"/v1/ns/{namespace}"
    assert cluster.api.put(f"{root}/topics/later", json={"queues": 1}).status_code == 201
    path = f"{root}/topics/later/messages"
    soon = cluster.api.post(path, json={"body": "soon", "delay_ms": 1_500})
    far = cluster.api.post(path, json={"body": "far", "delay": "1h"})
    assert (soon.status_code, far.status_code) == (201, 201), soon.text + far.text
    listed = cluster.api.get(f"{root}/scheduled").json()["messages"]
    (handle,) = [each["recall_handle"] for each in listed if each["id"] == far.json()["id"]]
    for other in set(SHARDS) - {namespace}:  # an id of one shard is nothing in another
        assert cluster.api.delete(f"/v1/ns/{other}/scheduled/{handle}").status_code == 404
    assert cluster.api.delete(f"{root}/scheduled/{handle}").status_code == 200
    with cluster.client(namespace) as mq, mq.subscribe("later", "billing") as messages:
        message = messages.get("30s")
        assert message is not None
        assert message.body == b"soon"
        message.ack()
    cron = {"cron": "0 4 * * *", "topic": "later", "message": {"body": "cron"}}
    made = cluster.api.put(f"{root}/schedules/nightly", json=cron)
    assert made.status_code == 201, made.text
    assert cluster.api.post(f"{root}/schedules/nightly:send").status_code == 200


@pytest.mark.parametrize("namespace", SHARDS)
def test_sqs_finds_the_queues_of_each_shard(cluster: Cluster, namespace: str) -> None:
    key_id, secret = cluster.keys.access[namespace]
    sqs = boto3.client(
        "sqs",
        endpoint_url=f"{cluster.url}/sqs",
        region_name="us-east-1",
        aws_access_key_id=key_id,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}),
    )
    url = sqs.create_queue(QueueName="work")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="hello")
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    assert message["Body"] == "hello"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_another_tenant_finds_nothing_in_any_shard(cluster: Cluster) -> None:
    sent = cluster.produce("east").json()
    with httpx.Client(
        base_url=cluster.url,
        headers={"authorization": f"Bearer {cluster.keys.moon}"},
        timeout=60,
        trust_env=False,
    ) as stranger:
        for path in (
            "/v1/ns/east/topics/orders/messages",
            f"/v1/ns/east/topics/orders/messages/{sent['id']}",
            f"/v1/ns/moon/topics/orders/messages/{sent['id']}",
            "/v1/ns/east/groups/billing",
        ):
            assert stranger.get(path).status_code == 404, path
        put = stranger.post("/v1/ns/east/topics/orders/messages", json={"body": "x"})
        assert put.status_code == 404


def test_an_engine_that_stands_still_takes_only_its_namespaces_with_it(cluster: Cluster) -> None:
    engine = cluster.service.facts.pids["engine-s2"]
    with cluster.client("west") as mq, mq.subscribe("orders", "billing") as messages:
        os.kill(engine, signal.SIGSTOP)
        try:
            wait_until(
                lambda: cluster.produce("east").status_code == 503, 60, "its namespace is refused"
            )
            refusal = cluster.produce("east")
            assert refusal.json()["code"] == "ENGINE_UNAVAILABLE"
            assert "retry-after" in refusal.headers
            for namespace in ("north", "west"):
                assert cluster.produce(namespace).status_code == 201
            message = messages.get("30s")
            assert message is not None
            message.ack()
            wait_until(
                lambda: cluster.api.get("/readyz").json()["degraded"] == ["engine"],
                60, "readiness says that an engine is away",
            )  # fmt: skip
            assert cluster.api.get("/readyz").status_code == 200
        finally:
            os.kill(engine, signal.SIGCONT)
    wait_until(lambda: cluster.produce("east").status_code == 201, 60, "its namespace is back")


def test_an_engine_that_is_killed_comes_back_with_what_it_acknowledged(cluster: Cluster) -> None:
    sent = cluster.produce("west").json()
    pid = cluster.service.facts.pids["engine-s3"]
    os.kill(pid, signal.SIGKILL)
    assert cluster.produce("north").status_code == 201
    wait_until(lambda: cluster.service.is_back("engine-s3", pid), 120, "it was started again")
    wait_until(lambda: cluster.produce("west").status_code == 201, 60, "its namespace is back")
    path = f"/v1/ns/west/topics/orders/messages/{sent['id']}"
    assert cluster.api.get(path).status_code == 200


@pytest.mark.torture
def test_a_shard_that_drains_takes_no_namespace_and_goes_only_when_empty(cluster: Cluster) -> None:
    service = cluster.service

    def counts() -> dict[str, int]:
        rows = listed_shards(service.data_dir)
        return {name: row["namespaces"] for name, row in rows.items()}

    assert shard_command(service, "drain", "s2").returncode == 0
    try:
        before = counts()
        for number in range(4):
            assert cluster.api.put(f"/v1/namespaces/new{number}").status_code == 201
        assert counts()["s2"] == before["s2"]
        assert sum(counts().values()) == sum(before.values()) + 4
        refused = shard_command(service, "remove", "s2")
        assert refused.returncode != 0
        assert f"still has {before['s2']} namespaces" in refused.stderr
        placed = shard_command(service, "place", "new0", "s2")
        assert placed.returncode == 0, placed.stderr
        assert counts()["s2"] == before["s2"] + 1
        refused = shard_command(service, "place", "east", "main")
        assert "has topics or groups in s2" in refused.stderr
    finally:
        assert shard_command(service, "activate", "s2").returncode == 0
