"""Who has a socket open, asked of a process over a real Valkey, and ending one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import redis

from mqservice.delivery.connections import connection_calls
from mqservice.delivery.connections.connection_calls import (
    CHANNEL,
    Call,
    end_connection,
    find_connections,
    reply_to,
    serve_calls,
)
from mqservice.lib.problem import Problem
from tests.mqservice.delivery.peers import Peer, closed, subscribe
from tests.mqservice.delivery.serving import Server


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_calls, "_REPLY_SECONDS_MAX", 60.0)


@pytest.fixture
def valkey(valkey_server: str, server: Server) -> Iterator[str]:
    """A process that answers calls."""
    ready = asyncio.Event()

    def begin() -> asyncio.Task[None]:
        work = serve_calls(
            valkey_server, lambda: server.context.sessions.open_sessions, ready=ready
        )
        return asyncio.get_running_loop().create_task(work)

    task = server.call(begin)
    server.wait_for(ready.wait)
    yield valkey_server
    server.call(task.cancel)


def test_socket_is_listed_with_what_it_says_reads_and_sends(
    server: Server, peer: Peer, topic: str, valkey: str
) -> None:
    credit = {"msgs": 1, "bytes": 1_000_000}
    subscribe(peer, topic, consumer_id="worker-1", credit=credit)
    peer.ask("pub", topic=topic, m=[{"body": "x"}, {"body": "y"}])
    peer.take(1)

    found = find_connections(valkey, 1, "acme")

    assert (found.count, found.is_complete) == (1, True)
    (one,) = found.connections
    assert one.id == peer.welcome["session"]
    assert (one.client, one.address, one.published) == ("test", "127.0.0.1", 2)
    assert one.user_agent.startswith("Python/")
    assert one.actor.startswith("key:")
    (read,) = one.subscriptions
    assert (read.topic, read.group, read.consumer) == (topic, "billing", "worker-1")
    assert (read.delivered, read.held, read.credit_messages, read.flow) == (1, 1, 0, "credit")


def test_socket_is_ended_by_its_id_and_only_by_who_has_it(
    server: Server, peer: Peer, valkey: str
) -> None:
    session = peer.welcome["session"]
    for tenant_id, namespace, wanted in (
        (2, "acme", session), (1, "other", session), (1, "acme", "s_other"),
    ):  # fmt: skip
        assert not end_connection(valkey, tenant_id, namespace, wanted)
        assert find_connections(valkey, tenant_id + 1, namespace).count == 0
    assert peer.ask("pub", topic="none", m=[])["op"] == "err"  # it is still there
    assert end_connection(valkey, 1, "acme", session)
    assert closed(peer) == (4410, "disconnected by an administrator")


def test_more_sockets_than_are_told_are_counted(
    server: Server, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_calls, "SHOWN_MAX", 1)
    with Peer(server) as other:
        call = Call(ask="a", tenant_id=1, namespace="acme")
        reply = server.call(lambda: reply_to(call, server.context.sessions.open_sessions))
        assert reply.count == 2
        assert [each.id for each in reply.connections] == [other.welcome["session"]]


def test_a_process_that_does_not_answer_is_missed(
    valkey_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_calls, "_REPLY_SECONDS_MAX", 0.05)

    with redis.Redis.from_url(valkey_server) as client, client.pubsub() as silent:
        silent.subscribe(CHANNEL)
        silent.get_message(timeout=60)  # that it is subscribed
        found = find_connections(valkey_server, 1, "acme")
    assert (found.count, found.is_complete) == (0, False)


def test_what_is_no_call_is_passed_over(server: Server, peer: Peer, valkey: str) -> None:

    with redis.Redis.from_url(valkey) as client:
        for text in (b"", b"{", b'{"ask": 1}', b"[]"):
            client.publish(CHANNEL, text)
    # The server may still have sockets that the test before has closed.
    found = find_connections(valkey, 1, "acme")
    assert peer.welcome["session"] in {each.id for each in found.connections}


def test_without_valkey_nobody_is_asked_and_that_is_reported() -> None:
    with pytest.raises(Problem) as caught:
        find_connections("redis://127.0.0.1:1/0", 1, "acme")
    assert (caught.value.code, caught.value.status) == ("CONNECTIONS_UNKNOWN", 503)
