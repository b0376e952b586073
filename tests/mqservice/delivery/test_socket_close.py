"""The ends of a session: clients that vanish or say nothing, keys, topics, shutdown."""

from __future__ import annotations

import socket
from functools import partial

import pytest
from websockets.exceptions import InvalidStatus

from mqservice.delivery.sessions import SessionTimes
from mqservice.store import TopicNotFound
from tests.clock import ManualClock
from tests.mqservice.delivery.flowing import (
    TIMES,
    before_pong,
    close_code,
    fill,
    is_pinged,
    pass_time_until,
    subscribe,
)
from tests.mqservice.delivery.peers import BOTH, Peer
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.wait_until import wait_until


@pytest.fixture(scope="module")
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
def times() -> SessionTimes:
    return TIMES


def test_a_vanished_client_gives_its_leases_back(
    server: Server, topic: str, store: StoreDouble
) -> None:
    with Peer(server) as peer:
        fill(peer, topic, 3)
        subscribe(peer, topic, 3, 10_000)
        peer.take(3)
        peer.socket.socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: store.leased_count("acme%billing") == 0)


def test_pings_are_sent_and_must_be_answered(peer: Peer, clock: ManualClock) -> None:
    for _ in range(3):
        clock.advance(TIMES.ping_ms)
        assert peer.recv()["op"] == "ping"
        before_pong(peer)
    peer.answers_pings = False
    clock.advance(TIMES.ping_ms)
    assert peer.recv()["op"] == "ping"
    clock.advance(TIMES.pong_ms)

    assert close_code(peer) == 4408


@pytest.mark.parametrize(("subprotocol", "pong"), [(BOTH[0], "{}"), (BOTH[1], b"\x90")])
def test_an_empty_object_or_array_is_a_pong(
    server: Server, clock: ManualClock, subprotocol: str, pong: str | bytes
) -> None:
    with Peer(server, subprotocol) as peer:
        peer.answers_pings = False
        for _ in range(3):
            pass_time_until(partial(is_pinged, peer), clock)
            peer.socket.send(pong)  # and nothing else


def test_hello_must_come_soon(server: Server, clock: ManualClock) -> None:
    with Peer(server, hello=False) as peer:
        clock.advance(TIMES.hello_ms)
        assert close_code(peer) == 4408


def test_a_revoked_key_ends_its_sockets(server: Server) -> None:
    key = server.key()
    with Peer(server, key=key) as peer, Peer(server, key=key) as other, Peer(server) as stranger:
        del server.keys[key.encode()]
        server.call(server.context.caches.keys.clear)

        assert (close_code(peer), close_code(other)) == (4401, 4401)
        assert stranger.ask("pub", topic="absent", m=[{"body": "x"}])["code"] == "TOPIC_NOT_FOUND"


def test_a_deleted_topic_is_told_to_its_subscribers(
    peer: Peer, topic: str, store: StoreDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(request: object) -> None:
        raise TopicNotFound("gone")

    monkeypatch.setattr(store, "receive", gone)
    subscribe(peer, topic, 1, 100)

    err = peer.recv()

    assert (err["op"], err["id"], err["code"]) == ("err", None, "TOPIC_NOT_FOUND")


@pytest.mark.parametrize("subprotocol", BOTH)
def test_shutdown_says_goaway_waits_for_acks_and_closes_with_1012(subprotocol: str) -> None:
    clock = ManualClock()
    store = StoreDouble(clock)
    with serving(store, TIMES, clock=clock) as server:
        server.topic("orders")
        server.group("billing")
        with Peer(server, subprotocol) as acker, Peer(server, subprotocol) as idler:
            fill(acker, "orders", 4)
            for peer in (acker, idler):
                subscribe(peer, "orders", 2, 1_000)
            acked = [m["t"] for m in acker.take(2)]
            idler.take(2)

            server.ask_to_stop()
            while (goaway := acker.recv())["op"] != "goaway":
                continue
            answer = acker.ask("ack", sid=1, t=acked)
            pass_time_until(lambda: server.context.sessions.socket_count == 0, clock)
            codes = [close_code(acker), close_code(idler)]

    assert goaway == {"op": "goaway", "why": "drain", "grace_ms": 600, "retry_ms": 500}
    assert answer["r"] == {"acked": 2, "failed": []}
    assert codes == [1012, 1012]
    assert store.settled_count("acme%billing") == 2
    assert store.leased_count("acme%billing") == 0


def test_a_new_socket_during_the_end_is_refused(topic: str) -> None:
    with serving(StoreDouble(), TIMES) as server:
        server.call(server.context.drain.start)

        with pytest.raises(InvalidStatus) as caught:
            Peer(server)

    assert caught.value.response.status_code == 503
    assert caught.value.response.headers["retry-after"] == "1"
