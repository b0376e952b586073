"""The data plane and the sockets in front of a real engine, also when that one is killed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqservice.store import (
    AsyncStoreClient,
    Durability,
    GroupConfig,
    StoreClient,
    TopicConfig,
)
from tests.engine import fork_engine
from tests.forked import Forked
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import Json, Server, serving
from tests.mqservice.delivery.wait_until import wait_until


class EngineProcess:
    """An engine that can be killed and started again on the same directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.socket_path = str(directory / "engine.sock")
        self._process: Forked | None = None

    def start(self) -> None:
        self._process = fork_engine(
            environ={
                **os.environ,
                "MQ_ENGINE_STORE_DIR": str(self._directory / "store"),
                "MQ_ENGINE_SOCKET": self.socket_path,
            },
            directory=self._directory,
            log=self._directory / "engine.log",
        )

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """It stands still for the length of the block."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def end(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(20)


@pytest.fixture(scope="module")
def engine_process() -> Iterator[EngineProcess]:
    with tempfile.TemporaryDirectory(prefix="mq-") as directory:
        engine = EngineProcess(Path(directory))
        engine.start()
        yield engine
        engine.end(signal.SIGTERM)


@pytest.fixture(scope="module")
def server(engine_process: EngineProcess) -> Iterator[Server]:
    store = AsyncStoreClient(engine_process.socket_path, client_name="test")
    with serving(store) as running:
        running.call(store.start)
        wait_until(lambda: store.is_connected)
        yield running


@pytest.fixture
def topic(server: Server, engine_process: EngineProcess) -> str:
    """A topic and a group that the engine knows as well."""
    name = f"real{len(server.topics)}"
    server.topic(name)
    server.group("billing")
    with StoreClient(engine_process.socket_path, client_name="setup") as client:
        client.topic_put(
            TopicConfig(topic=f"acme%{name}", queue_count=4, durability=Durability.SYNC)
        )
        client.group_put(GroupConfig(group="acme%billing"))
    return name


@pytest.mark.parametrize("subprotocol", BOTH)
def test_a_message_goes_all_the_way(server: Server, topic: str, subprotocol: str) -> None:
    body = os.urandom(10_000)
    with (
        server.client() as api,
        Peer(server, subprotocol) as peer,
    ):
        stored = api.post(
            f"/v1/-/topics/{topic}/messages",
            content=body,
            headers={"mq-tag": "created", "mq-keys": "a,b", "mq-prop-source": "web"},
        ).json()
        peer.ask("sub", sid=1, topic=topic, group="billing")
        [message] = peer.take(1)
        acked = peer.ask("ack", sid=1, t=[message["t"]])
        again = api.post(f"/v1/-/topics/{topic}/groups/billing:receive", json={"wait": "0s"})

    assert hashlib.sha256(peer.body(message)).digest() == hashlib.sha256(body).digest()
    assert (message["id"], message["q"], message["o"]) == (
        stored["id"],
        stored["queue"],
        stored["offset"],
    )
    assert (message["tag"], message["keys"], message["p"]) == (
        "created",
        ["a", "b"],
        {"source": "web"},
    )
    assert acked["r"] == {"acked": 1, "failed": []}
    assert again.json()["messages"] == []


def test_receive_and_settle_by_receipt(server: Server, topic: str) -> None:
    with server.client() as api:
        receive = f"/v1/-/topics/{topic}/groups/billing:receive"
        settle = "/v1/-/groups/billing:settle"
        offers: list[Json] = [{"body": str(n), "queue": 0} for n in range(5)]
        api.post(f"/v1/-/topics/{topic}/messages:batch", json=offers)
        messages = api.post(receive, json={"wait": "20s"}).json()["messages"]
        receipts = [message["receipt"] for message in messages]
        first = api.post(
            settle,
            json={
                "ack": receipts[:3],
                "nack": [{"receipt": receipts[3], "delay": "0s"}],
                "extend": [{"receipt": receipts[4], "lease": "2m"}],
            },
        ).json()
        redelivered = api.post(receive, json={"wait": "20s"}).json()["messages"]
        stale = api.post(settle, json={"ack": [receipts[3]]}).json()

    assert [message["body"] for message in messages] == ["0", "1", "2", "3", "4"]
    assert (first["acked"], first["nacked"], first["failed"]) == (3, 1, [])
    assert [e["receipt"] for e in first["extended"]] == [receipts[4]]
    assert [(m["body"], m["attempt"]) for m in redelivered] == [("3", 2)]
    assert [failed["code"] for failed in stale["failed"]] == ["LEASE_EXPIRED"]


def test_a_closed_socket_frees_its_leases_in_the_engine(server: Server, topic: str) -> None:
    with Peer(server) as peer:
        peer.ask("pub", topic=topic, m=[{"body": str(n)} for n in range(20)])
        peer.ask("sub", sid=1, topic=topic, group="billing")
        peer.take(20)

    with Peer(server) as other:
        other.ask("sub", sid=1, topic=topic, group="billing")
        messages = other.take(20)

    assert {message["a"] for message in messages} == {1}


def test_a_stopped_engine_is_reported_at_once_and_closes_no_session(
    server: Server, topic: str, engine_process: EngineProcess
) -> None:
    path = f"/v1/-/topics/{topic}"
    with (
        server.client() as api,
        Peer(server) as peer,
    ):
        peer.ask("sub", sid=1, topic=topic, group="billing", credit={"msgs": 100, "bytes": 2**20})
        peer.ask("pub", topic=topic, m=[{"body": "before"}])
        (before,) = peer.take(1)
        with engine_process.stopped():
            wait_until(lambda: not server.store.is_connected)
            refusals = [
                api.post(f"{path}/messages", content=b"during"),
                api.post(f"{path}/groups/billing:receive", json={"wait": "20s"}),
                api.get(f"{path}/messages"),
            ]
            commands = [
                peer.ask("pub", topic=topic, m=[{"body": "during"}]),
                peer.ask("ack", sid=1, t=[before["t"]]),
            ]
        wait_until(lambda: server.store.is_connected)
        settled = peer.ask("ack", sid=1, t=[before["t"]])
        peer.ask("pub", topic=topic, m=[{"body": "after"}])
        (after,) = peer.take(1)

    for refusal in refusals:
        assert refusal.status_code == 503
        problem = refusal.json()
        assert (problem["code"], problem["retryable"]) == ("ENGINE_UNAVAILABLE", True)
        assert refusal.headers["retry-after"] == "1"
    assert refusals[0].json()["stored"] is False
    assert [(each["op"], each["code"], each["retryable"]) for each in commands] == [
        ("err", "ENGINE_UNAVAILABLE", True)
    ] * 2
    assert settled["r"]["acked"] == 1
    assert peer.body(after) == b"after"


def test_nothing_confirmed_is_lost_when_the_engine_is_killed(
    server: Server, topic: str, engine_process: EngineProcess
) -> None:
    confirmed: dict[str, bytes] = {}
    refusals: set[str] = set()
    with (
        server.client() as api,
        Peer(server) as consumer,
    ):
        consumer.ask(
            "sub", sid=1, topic=topic, group="billing", credit={"msgs": 100, "bytes": 2**20}
        )

        def produce(number: int) -> bool:
            body = f"{number}:".encode() + os.urandom(200)
            response = api.post(f"/v1/-/topics/{topic}/messages", content=body)
            if response.status_code == 201:
                confirmed[response.json()["id"]] = body
            else:
                assert response.status_code == 503, response.text
                refusals.add(response.json()["code"])
            return response.status_code == 201

        for number in range(100):
            assert produce(number)
        engine_process.end(signal.SIGKILL)
        wait_until(lambda: not server.store.is_connected)
        assert not produce(-1)
        engine_process.start()
        wait_until(lambda: produce(-2), seconds=60)
        for number in range(100, 200):
            assert produce(number)

        received: dict[str, bytes] = {}
        while not confirmed.keys() <= received.keys():
            frame = consumer.recv()
            if frame["op"] == "msgs":
                received.update((m["id"], consumer.body(m)) for m in frame["m"])
                consumer.send("ack", sid=1, t=[m["t"] for m in frame["m"]])

    assert refusals == {"ENGINE_UNAVAILABLE"}
    assert {message_id: received[message_id] for message_id in confirmed} == confirmed
