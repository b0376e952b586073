"""What a receive settles goes to the engine together with it, and each may fail without the other.

By both roads: the lane, and a task of the data plane.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from mqservice.delivery.plane import DataPlane
from mqservice.quotas.meter import TenantMeter
from mqservice.store import (
    AsyncStoreClient,
    GroupStatsRequest,
    PendingReceive,
    Received,
    ReceiveReplyHandler,
    ReceiveRequest,
    SettleReply,
    SettleReplyHandler,
    SettleRequest,
    StoreClient,
    StoreError,
)
from mqservice.web.cycle import Serve
from tests.mqservice.delivery.engine_serving import real_topic, serving_engine
from tests.mqservice.delivery.serving import HOUR_MS, Json, Server
from tests.mqservice.delivery.test_receive_settle import put, receive
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.delivery.whole_requests import begun, whole_client

pytestmark = pytest.mark.real_engine(queue_count=1)

SECONDS_MAX = 60.0


class Asked:
    """A receive on a thread, that waits in the engine."""

    def __init__(self, api: httpx.Client, topic: str, **options: object) -> None:
        self._answers: list[httpx.Response] = []
        given = {"wait": "30s", **options}
        self._ask = lambda: self._answers.append(receive(api, topic, **given))
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def answer(self) -> httpx.Response:
        self._thread.join(SECONDS_MAX)
        assert self._answers, "it was not answered"
        return self._answers[0]


@pytest.fixture(scope="module")
def server(engine_socket: str) -> Iterator[Server]:
    with serving_engine(engine_socket, fresh_ms=HOUR_MS) as running:
        yield running


@pytest.fixture
def api(server: Server) -> Iterator[httpx.Client]:
    with whole_client(server) as client:
        yield client


@pytest.fixture(autouse=True, params=["at once", "in a task"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sees to it that receives are served so once key, topic and group are known."""
    taken: list[bool] = []
    take = DataPlane.take

    def observed(served: DataPlane, cycle: Any, *given: Any) -> Serve | None:  # Any: as the real
        serve = take(served, cycle, *given) if request.param == "at once" else None
        if cycle.scope["path"].endswith(":receive"):
            taken.append(serve is not None)
        return serve

    monkeypatch.setattr(DataPlane, "take", observed)
    yield
    assert taken[-1] == (request.param == "at once")


@pytest.fixture
def meter(server: Server, api: httpx.Client, topic: str) -> TenantMeter:
    receive(api, topic)  # from now on key, topic and group are known
    meter = server.context.meters.known[1]
    server.call(lambda: meter.set_engine_usage(0, 0))
    return meter


@pytest.fixture
def held(api: httpx.Client, topic: str, meter: TenantMeter) -> str:
    """The receipt of a message; another one waits behind it."""
    put(api, topic, {"body": "m0"}, {"body": "m1"})
    [message] = receive(api, topic, max=1).json()["messages"]
    assert message["body"] == "m0"
    assert meter.inflight_count == 1
    return str(message["receipt"])


@pytest.fixture
def last(api: httpx.Client, topic: str, meter: TenantMeter) -> str:
    """The receipt of a message behind which nothing waits."""
    put(api, topic, {"body": "m0"})
    [message] = receive(api, topic, max=1).json()["messages"]
    return str(message["receipt"])


@pytest.fixture
def is_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settles fail in the engine, and receives behind them do not."""
    settle_for = AsyncStoreClient.settle_for

    def elsewhere(
        store: AsyncStoreClient, told: SettleReplyHandler, request: SettleRequest
    ) -> None:
        settle_for(store, told, msgspec.structs.replace(request, group="acme%nobody"))

    monkeypatch.setattr(AsyncStoreClient, "settle_for", elsewhere)


def bodies(answer: Json) -> list[tuple[str, int]]:
    return [(each["body"], each["attempt"]) for each in answer["messages"]]


def inflight_count(engine_socket: str, topic: str) -> int:
    """Messages of the topic that the group has under a lease."""
    with StoreClient(engine_socket, client_name="look") as client:
        queues = client.group_stats(GroupStatsRequest(group="acme%billing")).queues
    return sum(each.inflight_count for each in queues if each.topic == f"acme%{topic}")


def test_both_are_sent_before_one_is_answered(
    api: httpx.Client, topic: str, held: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    settle_for, receive_for = AsyncStoreClient.settle_for, AsyncStoreClient.receive_for

    class Seen:
        def __init__(self, told: Any) -> None:  # Any: of either kind
            self._told = told

        def settled(self, reply: SettleReply) -> None:
            seen.append("settled")
            self._told.settled(reply)

        def received(self, received: Received) -> None:
            seen.append("received")
            self._told.received(received)

        def settle_failed(self, error: StoreError) -> None:
            raise AssertionError(error)

        receive_failed = settle_failed

    def settling(store: AsyncStoreClient, told: SettleReplyHandler, request: SettleRequest) -> None:
        seen.append("settle")
        settle_for(store, Seen(told), request)

    def receiving(
        store: AsyncStoreClient, told: ReceiveReplyHandler, request: ReceiveRequest
    ) -> PendingReceive:
        seen.append("receive")
        return receive_for(store, Seen(told), request)

    monkeypatch.setattr(AsyncStoreClient, "settle_for", settling)
    monkeypatch.setattr(AsyncStoreClient, "receive_for", receiving)
    answer = receive(api, topic, settle={"ack": [held]}).json()

    assert seen == ["settle", "receive", "settled", "received"]
    assert (bodies(answer), answer["settled"]["acked"]) == ([("m1", 1)], 1)


def test_the_quota_has_what_is_leased_and_not_what_is_settled(
    api: httpx.Client, topic: str, held: str, meter: TenantMeter
) -> None:
    put(api, topic, {"body": "m2"})
    assert len(receive(api, topic, settle={"ack": [held]}).json()["messages"]) == 2
    assert meter.inflight_count == 2
    assert meter.poll_count == 0


def test_a_settlement_that_fails_releases_what_was_leased(
    api: httpx.Client,
    topic: str,
    held: str,
    meter: TenantMeter,
    is_failing: None,
    engine_socket: str,
) -> None:
    response = receive(api, topic, settle={"ack": [held]})

    assert response.status_code == 404
    wait_until(lambda: inflight_count(engine_socket, topic) == 1)
    assert bodies(receive(api, topic).json()) == [("m1", 1)], "as if it had not been delivered"
    assert meter.inflight_count == 2
    assert meter.poll_count == 0


def test_a_settlement_that_fails_ends_a_receive_that_would_wait(
    server: Server, api: httpx.Client, topic: str, last: str, is_failing: None
) -> None:
    assert receive(api, topic, wait="30s", settle={"ack": [last]}).status_code == 404
    assert server.context.drain.listener_count == 0
    put(api, topic, {"body": "m1"})
    assert bodies(receive(api, topic, wait="20s").json()) == [("m1", 1)], "nobody else waits"


def test_what_a_waiting_receive_settles_is_settled_at_once(
    api: httpx.Client, topic: str, last: str, meter: TenantMeter, engine_socket: str
) -> None:
    asked = Asked(api, topic, settle={"ack": [last]})
    wait_until(lambda: inflight_count(engine_socket, topic) == 0)
    wait_until(lambda: meter.inflight_count == 0)
    assert meter.poll_count == 1, "it still waits"
    put(api, topic, {"body": "m1"})
    answer = asked.answer().json()
    assert (bodies(answer), answer["settled"]["acked"]) == ([("m1", 1)], 1)


def test_who_leaves_has_settled_and_leases_nothing(
    server: Server, api: httpx.Client, topic: str, last: str, meter: TenantMeter
) -> None:
    options = {"wait": "30s", "settle": {"ack": [last]}}
    path, key = f"/v1/ns/acme/topics/{topic}/groups/billing:receive", api.headers["authorization"]
    with begun(server, path, options, key):
        wait_until(lambda: meter.poll_count == 1)
    wait_until(lambda: meter.poll_count == 0)
    wait_until(lambda: meter.inflight_count == 0)
    put(api, topic, {"body": "m1"})
    assert bodies(receive(api, topic, wait="20s").json()) == [("m1", 1)]
    assert server.context.drain.listener_count == 0


def test_a_key_that_is_revoked_has_settled(
    server: Server, api: httpx.Client, topic: str, last: str, meter: TenantMeter, engine_socket: str
) -> None:
    asked = Asked(api, topic, settle={"ack": [last]})
    wait_until(lambda: meter.inflight_count == 0 and meter.poll_count == 1)
    principal = server.keys.pop(api.headers["authorization"].encode())
    server.call(lambda: server.context.caches.drop(f"key {principal.key_id}"))
    assert asked.answer().status_code == 401
    assert inflight_count(engine_socket, topic) == 0
    assert meter.poll_count == 0


def test_a_receive_that_fails_has_settled(
    server: Server, api: httpx.Client, topic: str, last: str, meter: TenantMeter, engine_socket: str
) -> None:
    server.topic(f"{topic}-of-nobody")
    for _ in range(2):  # the second by the lane
        response = receive(api, f"{topic}-of-nobody", settle={"ack": [last]})
        assert (response.status_code, response.json()["code"]) == (404, "TOPIC_NOT_FOUND")
    assert inflight_count(engine_socket, topic) == 0
    assert (meter.inflight_count, meter.poll_count) == (0, 0)


def test_the_end_of_the_process_answers_what_was_settled(engine_socket: str, road: None) -> None:
    with serving_engine(engine_socket, fresh_ms=HOUR_MS) as server:
        topic = real_topic(server, engine_socket, queue_count=1)
        with whole_client(server) as api:
            put(api, topic, {"body": "m0"}, {"body": "m1"})
            first, second = (receive(api, topic, max=1).json()["messages"] for _ in range(2))
            meter = server.context.meters.known[1]
            asked = Asked(api, topic, settle={"ack": [first[0]["receipt"]]})
            wait_until(lambda: meter.inflight_count == 1 and meter.poll_count == 1)
            server.call(server.context.drain.start)
            answer = asked.answer().json()
            assert (answer["messages"], answer["settled"]["acked"]) == ([], 1)
            put(api, topic, {"body": "m2"})
            late = receive(api, topic, wait="30s", settle={"ack": [second[0]["receipt"]]}).json()
            assert (late["messages"], late["settled"]["acked"]) == ([], 1)
            assert (meter.inflight_count, meter.poll_count) == (0, 0)
            assert server.context.drain.listener_count == 0


def test_without_an_engine_neither_is_tried(
    engine_socket: str, road: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_engine(engine_socket, fresh_ms=HOUR_MS) as server:
        topic = real_topic(server, engine_socket, queue_count=1)
        with whole_client(server) as api:
            put(api, topic, {"body": "m0"}, {"body": "m1"})
            [message] = receive(api, topic, max=1).json()["messages"]
            store = server.store
            assert isinstance(store, AsyncStoreClient)
            server.stop_store(store)
            response = receive(api, topic, settle={"ack": [message["receipt"]]})
            assert (response.status_code, response.json()["retryable"]) == (503, True)
            meter = server.context.meters.known[1]
            assert (meter.inflight_count, meter.poll_count) == (1, 0)
            assert server.context.drain.listener_count == 0
