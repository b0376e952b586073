"""Limits of what a tenant stores and has in flight, before a real engine."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import httpx
import pytest

from mqservice.lib.names import MAIN_SHARD
from mqservice.quotas.engine_usage import EngineUsage, Names
from mqservice.quotas.limits import QuotaLimits
from mqservice.quotas.meters import Meters
from mqservice.store import (
    Durability,
    GroupConfig,
    NamespaceUsage,
    StoreClient,
    StoreUnavailable,
    TopicConfig,
    TopicRef,
    UsageReply,
    UsageRequest,
)
from tests.mqservice.delivery.engine_serving import serving_engine
from tests.mqservice.delivery.peers import Peer
from tests.mqservice.delivery.serving import Server
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.quotas.doubles import ManualClock

LIMITS = QuotaLimits(storage_bytes_max=10_000, inflight_count_max=4)
_tenants = itertools.count(1_000)


class Tenant:
    """A tenant with topic ``orders`` and group ``billing``, and its look at the engine."""

    def __init__(self, server: Server, socket_path: str) -> None:
        self.server, self.socket_path = server, socket_path
        self.id = next(_tenants)
        self.namespace = f"n{self.id}"
        with StoreClient(socket_path, client_name="setup") as client:
            client.topic_put(_config(self.namespace))
            client.group_put(GroupConfig(group=f"{self.namespace}%billing"))
        server.topic("orders", queue_count=1, tenant_id=self.id, namespace=self.namespace)
        server.group("billing", tenant_id=self.id, namespace=self.namespace)
        self.key = server.key(tenant_id=self.id, namespace=self.namespace)
        self.api = server.client(self.key)
        self._clock = ManualClock()
        self._holdings = EngineUsage(
            server.context.meters, self._use, self._clock, find_names=self._find_names
        )

    async def _use(self, shard: str, request: UsageRequest) -> UsageReply:
        assert shard == MAIN_SHARD
        return await self.server.store.use(request)

    async def _find_names(self, tenant_ids: list[int]) -> Names:
        return {self.id: [(MAIN_SHARD, self.namespace)]}

    def look(self) -> None:
        self._clock.ms += 60_000
        self.server.wait_for(self._holdings.update)

    def put(self, size: int = 1_000) -> httpx.Response:
        return self.api.post("/v1/-/topics/orders/messages", content=b"x" * size)

    def receive(self, count: int = 10, **settle: list[str]) -> httpx.Response:
        path = "/v1/-/topics/orders/groups/billing:receive"
        options = {"max": count, "wait_ms": 0} | ({"settle": settle} if settle else {})
        return self.api.post(path, json=options)

    def settle(self, **what: list[str] | list[dict[str, str]]) -> httpx.Response:
        return self.api.post("/v1/-/groups/billing:settle", json=what)


def _config(namespace: str) -> TopicConfig:
    # A buffered message waits for the syncs before it, say of another test's retries, until it is
    # seen; what was answered here is there for the next receive.
    return TopicConfig(topic=f"{namespace}%orders", queue_count=1, durability=Durability.SYNC)


@pytest.fixture(scope="module")
def server(engine_socket: str) -> Iterator[Server]:
    with serving_engine(engine_socket, quotas=LIMITS) as running:
        yield running


@pytest.fixture
def tenant(server: Server, engine_socket: str) -> Iterator[Tenant]:
    made = Tenant(server, engine_socket)
    with made.api:
        yield made


def receipts_of(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [message["receipt"] for message in answer.json()["messages"]]


def test_nothing_more_is_stored_above_the_limit_and_all_can_be_consumed(tenant: Tenant) -> None:
    stored = 0
    while (answer := tenant.put()).status_code == 201:
        stored += 1
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["stored"]) == (
        403,
        "QUOTA_EXCEEDED",
        False,
    )
    assert "over its limit of 10000" in problem["detail"]
    assert 8 <= stored <= 10
    batch = tenant.api.post("/v1/-/topics/orders/messages:batch", json=[{"body": "x"}])
    assert (batch.status_code, batch.json()["code"]) == (403, "QUOTA_EXCEEDED")
    tenant.look()  # the engine says the same as was counted here
    assert tenant.put().status_code == 403
    taken = 0
    while receipts := receipts_of(tenant.receive()):
        assert (
            tenant.settle(dead_letter=[{"receipt": receipts[0]}], ack=receipts[1:]).status_code
            == 200
        )
        taken += len(receipts)
    assert taken == stored
    assert tenant.put().status_code == 403  # consuming frees nothing: the log is kept


def test_what_a_topic_held_is_free_again_once_it_is_deleted(tenant: Tenant) -> None:
    while tenant.put(4_000).status_code == 201:
        pass
    with StoreClient(tenant.socket_path, client_name="setup") as client:
        client.topic_delete(TopicRef(topic=f"{tenant.namespace}%orders"))
        client.topic_put(_config(tenant.namespace))
    tenant.look()
    assert tenant.put().status_code == 201


def test_messages_to_come_count_until_they_are_cancelled(tenant: Tenant) -> None:
    path, later = "/v1/-/topics/orders/messages", {"mq-delay": "1h"}
    handles = []
    for _ in range(3):
        answer = tenant.api.post(path, content=b"x" * 4_000, headers=later)
        assert answer.status_code == 201, answer.text
        handles.append(answer.json()["recall_handle"])
    refused = tenant.api.post(path, content=b"x", headers=later)
    assert (refused.status_code, refused.json()["code"]) == (403, "QUOTA_EXCEEDED")

    def is_full() -> bool:
        tenant.look()
        return tenant.put(1).status_code == 403

    wait_until(is_full)  # the schedule takes up what is new with a tick
    assert tenant.api.post(f"/v1/-/scheduled/{handles[0]}:send").status_code == 200
    wait_until(is_full)  # it is in its topic now
    for handle in handles[1:]:
        assert tenant.api.delete(f"/v1/-/scheduled/{handle}").status_code == 200
    wait_until(lambda: not is_full())


def test_what_other_processes_stored_counts_from_the_next_look_on(
    tenant: Tenant, engine_socket: str
) -> None:
    assert tenant.put(1_000).status_code == 201
    with serving_engine(engine_socket, quotas=LIMITS) as other:
        beside = other.key(tenant_id=tenant.id, namespace=tenant.namespace)
        other.topic("orders", queue_count=1, tenant_id=tenant.id, namespace=tenant.namespace)
        with other.client(beside) as api:
            assert api.post("/v1/-/topics/orders/messages", content=b"x" * 9_000).status_code == 201
    assert tenant.put(1).status_code == 201  # nobody here has heard of it
    tenant.look()
    assert tenant.put(1).status_code == 403


def test_no_more_is_in_flight_than_may_be_and_settling_makes_room(tenant: Tenant) -> None:
    for _ in range(6):
        assert tenant.put(10).status_code == 201
    receipts = receipts_of(tenant.receive())
    assert len(receipts) == 4
    refused = tenant.receive()
    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (429, "INFLIGHT_LIMIT")
    assert (problem["retryable"], refused.headers["retry-after"]) == (True, "1")
    tenant.look()
    assert tenant.receive().status_code == 429
    assert tenant.settle(ack=receipts[:3]).status_code == 200
    assert len(receipts_of(tenant.receive())) == 2


def test_a_receive_that_settles_makes_its_own_room(tenant: Tenant) -> None:
    for _ in range(6):
        assert tenant.put(10).status_code == 201
    receipts = receipts_of(tenant.receive())
    assert len(receipts) == 4
    answer = tenant.receive(ack=receipts[:3])
    assert answer.json()["settled"]["acked"] == 3
    assert len(receipts_of(answer)) == 2


def test_a_push_waits_for_room_in_flight_and_says_so(tenant: Tenant) -> None:
    for _ in range(6):
        assert tenant.put(10).status_code == 201
    with Peer(tenant.server, key=tenant.key) as peer:
        peer.ask("sub", sid=1, topic="orders", group="billing", credit={"msgs": 4, "bytes": 9999})
        first = peer.recv()
        while len(first["m"]) < 4:
            first["m"] += peer.recv()["m"]
        peer.ask("credit", sid=1, msgs=10, bytes=9999)
        flow = peer.recv()
        while flow["state"] == "credit":
            flow = peer.recv()
        assert (flow["op"], flow["state"]) == ("flow", "inflight")
        peer.send("ack", sid=1, t=[message["t"] for message in first["m"][:3]])
        pushed = peer.recv()
        while pushed["op"] != "msgs":
            pushed = peer.recv()
        assert 1 <= len(pushed["m"]) <= 2


def test_leases_that_end_make_room_with_the_next_look(tenant: Tenant) -> None:
    for _ in range(4):
        assert tenant.put(10).status_code == 201
    path = "/v1/-/topics/orders/groups/billing:receive"
    leased_at = time.monotonic()
    assert tenant.api.post(path, json={"wait_ms": 0, "lease_ms": 1_000}).status_code == 200

    def has_room() -> bool:
        tenant.look()
        return tenant.receive(1).status_code == 200

    wait_until(has_room)
    assert time.monotonic() - leased_at >= 1


async def test_a_shard_that_is_away_leaves_the_counts_of_tenants_in_others_alone() -> None:
    async def limits_of(tenant_id: int) -> QuotaLimits:
        return LIMITS

    async def find_names(tenant_ids: list[int]) -> Names:
        return {1: [(MAIN_SHARD, "a"), ("s2", "b")], 2: [(MAIN_SHARD, "c")], 3: [("s2", "d")]}

    async def use(shard: str, request: UsageRequest) -> UsageReply:
        if shard in away:
            raise StoreUnavailable("away")
        used = [NamespaceUsage(10, 1) for _ in request.namespaces]
        return UsageReply(namespaces=used, topic_bytes=[], is_complete=True)

    clock, away = ManualClock(), {"s2"}
    meters = Meters(limits_of, clock)
    usage = EngineUsage(meters, use, clock, find_names=find_names)
    for tenant_id in (1, 2, 3):
        (await meters.load(tenant_id)).set_engine_usage(7, 0)

    def stored() -> list[int]:
        return [meters.known[tenant_id].stored_bytes for tenant_id in (1, 2, 3)]

    with pytest.raises(StoreUnavailable):
        await usage.update()
    assert stored() == [7, 10, 7]
    away.clear()
    clock.ms += 60_000
    await usage.update()
    assert stored() == [20, 10, 10]
