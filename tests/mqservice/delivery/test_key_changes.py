"""A key that is revoked or narrowed while its sockets are open and its polls parked."""

from __future__ import annotations

import threading
from dataclasses import replace

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from mqservice.accounts.scopes import parse_grants
from tests.mqservice.delivery.peers import Peer
from tests.mqservice.delivery.serving import Server
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.delivery.wait_until import wait_until

SECONDS_MAX = 20.0  # less than a poll may wait


class Poll:
    """One receive on a thread, parked in the engine."""

    def __init__(self, server: Server, store: StoreDouble, topic: str, key: str) -> None:
        self._answers: list[httpx.Response] = []
        self._path = f"{server.url}/v1/ns/acme/topics/{topic}/groups/billing:receive"
        self._key = key
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        wait_until(lambda: store.parked_count == 1)

    def answer(self) -> httpx.Response:
        """Fails when it does not come soon."""
        self._thread.join(SECONDS_MAX)
        assert self._answers, "the poll was not answered"
        return self._answers[0]

    def _run(self) -> None:
        headers = {"authorization": self._key}
        self._answers.append(
            httpx.post(self._path, json={"wait": "30s"}, headers=headers, timeout=40)
        )


@pytest.fixture
def key(server: Server) -> str:
    return server.key()


def revoke(server: Server, key: str) -> None:
    """As a notification of PostgreSQL does."""
    principal = server.keys.pop(key.encode())
    server.call(lambda: server.context.caches.drop(f"key {principal.key_id}"))


def narrow(server: Server, key: str, *scopes: str) -> None:
    principal = server.keys[key.encode()]
    server.keys[key.encode()] = replace(
        principal, scopes=frozenset(), grants=parse_grants(scopes), _decisions={}
    )
    server.call(lambda: server.context.caches.drop(f"key {principal.key_id}"))


def close_code(peer: Peer) -> int:
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            peer.recv()
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code


def test_a_revoked_key_ends_its_long_polls_with_401(
    server: Server, store: StoreDouble, topic: str, key: str
) -> None:
    poll = Poll(server, store, topic, key)
    revoke(server, key)
    answer = poll.answer()
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
    assert store.parked_count == 0, "its place is free"


def test_a_narrowed_key_ends_its_long_polls_with_403(
    server: Server, store: StoreDouble, topic: str, key: str
) -> None:
    poll = Poll(server, store, topic, key)
    narrow(server, key, "consume:topic/*")
    assert poll.answer().status_code == 403


def test_a_change_that_takes_nothing_away_leaves_polls_alone(
    server: Server, store: StoreDouble, topic: str, key: str
) -> None:
    poll = Poll(server, store, topic, key)
    narrow(server, key, "consume", "produce")
    with server.client(key) as api:
        path = f"/v1/ns/acme/topics/{topic}/messages"
        assert api.post(path, json={"body": "x"}).status_code == 201
    answer = poll.answer()
    assert [each["body"] for each in answer.json()["messages"]] == ["x"]


def test_a_poll_waits_no_longer_than_its_key_is_good(
    server: Server, store: StoreDouble, topic: str, key: str
) -> None:
    principal = server.keys[key.encode()]
    soon_ms = server.context.clock.now_ms() + 1_000  # until then it has to be there
    server.keys[key.encode()] = replace(principal, expires_at_ms=soon_ms)
    poll = Poll(server, store, topic, key)
    answer = poll.answer()
    assert (answer.status_code, answer.json()["messages"]) == (200, [])


def test_a_revoked_key_ends_its_sockets_as_soon_as_that_is_notified(
    server: Server, topic: str, key: str
) -> None:
    with Peer(server, key=key) as peer, Peer(server) as stranger:
        subscribed = peer.ask("sub", sid=1, topic=topic, group="billing")
        assert subscribed["op"] == "ok"
        revoke(server, key)
        assert close_code(peer) == 4401
        assert stranger.ask("sub", sid=1, topic=topic, group="billing")["op"] == "ok"


def test_a_key_that_may_no_longer_consume_here_is_closed_with_4403(
    server: Server, topic: str, key: str
) -> None:
    with Peer(server, key=key) as peer:
        peer.ask("sub", sid=1, topic=topic, group="billing")
        narrow(server, key, "produce", f"consume:topic/{topic}")
        assert close_code(peer) == 4403


def test_a_socket_continues_with_what_its_key_may_do_now(
    server: Server, topic: str, key: str
) -> None:
    with Peer(server, key=key) as peer:
        narrow(server, key, "produce:orders*")
        wait_until(
            lambda: peer.ask("sub", sid=1, topic="other", group="billing")["code"] == "FORBIDDEN"
        )
        assert peer.ask("pub", topic="secret", m=[{"body": "x"}])["code"] == "FORBIDDEN"
        assert peer.ask("pub", topic=topic, m=[{"body": "x"}])["op"] == "ok"


def test_a_pattern_is_kept_on_every_path_of_messages(server: Server, topic: str, key: str) -> None:
    server.topic("secret")
    server.group("others")
    narrow(server, key, f"produce:{topic}", f"consume:topic/{topic}", "consume:group/bill*")
    ns = "/v1/ns/acme"
    allowed = [
        ("POST", f"{ns}/topics/{topic}/messages"),
        ("GET", f"{ns}/topics/{topic}/messages"),
        ("GET", f"{ns}/topics/{topic}/scheduled"),
        ("POST", f"{ns}/topics/{topic}/groups/billing:receive"),
        ("POST", f"{ns}/groups/billing:settle"),
    ]
    forbidden = [
        ("POST", f"{ns}/topics/secret/messages"),
        ("POST", f"{ns}/topics/secret/messages:batch"),
        ("GET", f"{ns}/topics/secret/messages"),
        ("GET", f"{ns}/topics/secret/messages/01AC"),
        ("GET", f"{ns}/topics/secret/queues/0/messages"),
        ("GET", f"{ns}/topics/secret/queues/0/offset"),
        ("GET", f"{ns}/topics/secret/scheduled"),
        ("GET", f"{ns}/topics/absent/messages"),
        ("POST", f"{ns}/topics/secret/groups/billing:receive"),
        ("POST", f"{ns}/topics/{topic}/groups/others:receive"),
        ("POST", f"{ns}/groups/others:settle"),
        ("GET", f"{ns}/groups/others/dlq"),
        ("GET", f"{ns}/groups/others/dlq/01AC"),
    ]
    with server.client(key) as api:
        for method, path in allowed:
            body = {"body": "x"} if path.endswith("messages") else {}
            if path.endswith("receive"):
                body = {"wait": "0s"}
            answer = api.request(method, path, json=body if method == "POST" else None)
            # The store in memory knows no schedule; who got that far was let in.
            assert answer.status_code in (200, 201, 503), (path, answer.text)
        for method, path in forbidden:
            answer = api.request(method, path, json={} if method == "POST" else None)
            assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN"), path
