"""Limits where clients meet them: REST and sockets, refused and let through."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import httpx
import msgspec
import pytest

from mqservice.accounts.scopes import Scope
from mqservice.quotas.limits import QuotaLimits
from mqservice.quotas.rejection_pacing import (
    CONNECTION_BYTES,
    REJECTIONS_AT_ONCE,
    WAITING_BYTES_MAX,
)
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import ALL_SCOPES, Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.quotas.doubles import ManualClock

LIMITS = QuotaLimits(
    messages_in_per_second=5,
    bytes_in_per_second=10_000,
    messages_out_per_second=4,
    connection_count_max=2,
    parked_poll_count_max=1,
)
MESSAGES = "/v1/-/topics/orders/messages"
RECEIVE = "/v1/-/topics/orders/groups/billing:receive"
_tenants = itertools.count(100)


class QuotaServer:
    """One server whose tenants all have ``LIMITS``, and a clock that only the test moves."""

    def __init__(self, server: Server, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock
        self.tenant_id = next(_tenants)
        self.make("orders")
        server.group("billing", tenant_id=self.tenant_id, namespace=f"n{self.tenant_id}")
        self.api = self.client(self.tenant_id)

    def make(self, topic: str, tenant_id: int | None = None) -> None:
        """A topic in the namespace of that tenant, or of the test's own."""
        owner = tenant_id or self.tenant_id
        self.server.topic(topic, tenant_id=owner, namespace=f"n{owner}")

    def key(self, tenant_id: int | None = None, scopes: frozenset[Scope] = ALL_SCOPES) -> str:
        owner = tenant_id or self.tenant_id
        return self.server.key(tenant_id=owner, namespace=f"n{owner}", scopes=scopes)

    def client(self, tenant_id: int) -> httpx.Client:
        key = self.key(tenant_id)
        return self.server.client(key)


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def server(clock: ManualClock) -> Iterator[Server]:
    with serving(StoreDouble(), quotas=LIMITS, clock=clock) as running:
        yield running


@pytest.fixture
def quotas(server: Server, clock: ManualClock) -> Iterator[QuotaServer]:
    running = QuotaServer(server, clock)
    with running.api:
        yield running


def put(api: httpx.Client) -> httpx.Response:
    return api.post(MESSAGES, json={"body": "x"})


def test_a_producer_above_its_rate_is_told_when_to_come_back(quotas: QuotaServer) -> None:
    answers = [put(quotas.api) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [201] * 5 + [429]
    problem = answers[-1].json()
    assert (problem["code"], problem["stored"], problem["retryable"]) == (
        "RATE_LIMITED",
        False,
        True,
    )
    assert 1 <= problem["retry_after_ms"] <= 201
    assert answers[-1].headers["retry-after"] == "1"
    quotas.clock.ms += problem["retry_after_ms"]
    assert put(quotas.api).status_code == 201


def test_every_answer_says_what_is_left(quotas: QuotaServer) -> None:
    first = put(quotas.api)
    assert first.headers["ratelimit-policy"] == (
        '"messages-in";q=5;w=1, "bytes-in";q=10000;qu="content-bytes";w=1'
    )
    assert first.headers["ratelimit"].startswith('"messages-in";r=4;t=1, "bytes-in";r=')
    refused = [put(quotas.api) for _ in range(5)][-1]
    assert refused.headers["ratelimit"].startswith('"messages-in";r=0;t=')
    read = quotas.api.get(MESSAGES)
    assert '"messages-out";q=4;w=1' in read.headers["ratelimit-policy"]
    stranger = httpx.get(f"{quotas.server.url}{MESSAGES}", timeout=60)
    assert stranger.status_code == 401
    assert "ratelimit" not in stranger.headers


def test_bytes_are_limited_as_well_and_a_large_message_is_paid_back(quotas: QuotaServer) -> None:
    large = b"x" * 30_000
    assert quotas.api.post(MESSAGES, content=large).status_code == 201
    refused = put(quotas.api)
    assert refused.status_code == 429
    assert "bytes-in" in refused.json()["detail"]
    assert refused.headers["retry-after"] == "3"
    quotas.clock.ms += 3_000
    assert put(quotas.api).status_code == 201


def test_a_batch_above_the_rate_goes_through_once(quotas: QuotaServer) -> None:
    batch = [{"body": "x"}] * 20
    assert quotas.api.post(f"{MESSAGES}:batch", json=batch).status_code == 201
    refused = quotas.api.post(f"{MESSAGES}:batch", json=batch)
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "4"


def test_reading_has_a_rate_of_its_own_and_settling_none(quotas: QuotaServer) -> None:
    for _ in range(5):
        assert put(quotas.api).status_code == 201
    received = quotas.api.post(RECEIVE, json={"wait_ms": 0, "max": 5})
    assert received.status_code == 200
    receipts = [message["receipt"] for message in received.json()["messages"]]
    refused = quotas.api.post(RECEIVE, json={"wait_ms": 0})
    assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
    assert quotas.api.get(MESSAGES).status_code == 429
    settled = quotas.api.post("/v1/-/groups/billing:settle", json={"ack": receipts})
    assert settled.status_code == 200


def test_who_is_refused_again_and_again_waits_for_each_refusal(quotas: QuotaServer) -> None:
    answers = [put(quotas.api) for _ in range(5 + REJECTIONS_AT_ONCE)]
    assert answers[-1].status_code == 429
    began = time.monotonic()
    late = [put(quotas.api) for _ in range(5)]
    assert time.monotonic() - began >= 0.1  # 10, 20, … 50 ms, for the clock stands still
    assert {answer.status_code for answer in late} == {429}
    other = next(_tenants)
    quotas.make("orders", other)
    with quotas.client(other) as api:
        assert [put(api).status_code for _ in range(6)] == [201] * 5 + [429]
    meter = quotas.server.context.meters.known[quotas.tenant_id]
    for _ in range(WAITING_BYTES_MAX // CONNECTION_BYTES):
        assert meter.refusals.begin(quotas.clock.ms)
    refused = put(quotas.api)
    assert (refused.status_code, refused.headers["connection"]) == (429, "close")
    for _ in range(WAITING_BYTES_MAX // CONNECTION_BYTES):
        meter.refusals.end()
    quotas.clock.ms += 7_000
    assert [put(quotas.api).status_code for _ in range(6)] == [201] * 5 + [429]


def test_another_tenant_feels_nothing(quotas: QuotaServer) -> None:
    for _ in range(20):
        put(quotas.api)
    other = next(_tenants)
    quotas.make("orders", other)
    with quotas.client(other) as api:
        assert put(api).status_code == 201


def test_no_more_receives_wait_than_may(quotas: QuotaServer) -> None:
    meters = quotas.server.context.meters
    put(quotas.api)  # the tenant is known from here on
    meter = meters.known[quotas.tenant_id]
    quotas.server.call(meter.admit_poll)
    quotas.make("empty")
    path = "/v1/-/topics/empty/groups/billing:receive"
    refused = quotas.api.post(path, json={"wait_ms": 0})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    quotas.server.call(meter.dismiss_poll)
    assert quotas.api.post(path, json={"wait_ms": 0}).status_code == 200
    assert meter.poll_count == 0


@pytest.mark.parametrize("protocol", BOTH)
def test_a_socket_above_the_rate_gets_an_err_frame_and_continues(
    quotas: QuotaServer, protocol: str
) -> None:
    with Peer(quotas.server, protocol, key=quotas.key()) as peer:
        answers = [peer.ask("pub", topic="orders", m=[{"body": "x"}]) for _ in range(6)]
    assert [answer["op"] for answer in answers] == ["ok"] * 5 + ["err"]
    assert (answers[-1]["code"], answers[-1]["retryable"]) == ("RATE_LIMITED", True)


def test_scopes_are_refused_before_anything_is_counted(quotas: QuotaServer) -> None:
    key = quotas.key(scopes=frozenset({Scope.CONSUME}))
    for _ in range(10):
        answer = httpx.post(
            f"{quotas.server.url}{MESSAGES}",
            content=msgspec.json.encode({"body": "x"}),
            headers={"authorization": key, "content-type": "application/json"},
            timeout=60,
        )
        assert answer.status_code == 403
    assert put(quotas.api).status_code == 201


def test_a_push_waits_for_its_rate_and_says_so(quotas: QuotaServer) -> None:
    for _ in range(5):
        assert put(quotas.api).status_code == 201
    with Peer(quotas.server, key=quotas.key()) as peer:
        peer.ask("sub", sid=1, topic="orders", group="billing", credit={"msgs": 100, "bytes": 9999})
        assert len(peer.recv()["m"]) == 5  # a batch is paid back afterwards
        flow = peer.recv()
        assert (flow["op"], flow["state"]) == ("flow", "quota")
        quotas.clock.ms += 2_000
        assert put(quotas.api).status_code == 201
        pushed = {frame["op"]: frame for frame in (peer.recv(), peer.recv())}
        assert len(pushed["msgs"]["m"]) == 1
        assert pushed["flow"]["state"] == "open"
