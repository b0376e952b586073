"""Clients that vanish, do not read or come back again and again: others go on, nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import socket
from dataclasses import replace

import httpx
import pytest

from bench.ws_client import TEXT, LeanSocket
from mqservice.delivery.sessions import SessionTimes
from mqservice.delivery.socket.session import Session
from mqservice.delivery.socket.subscription import Subscription
from tests.mqservice.delivery.browsing import put
from tests.mqservice.delivery.peers import Peer
from tests.mqservice.delivery.serving import PATIENT, Json, Server
from tests.mqservice.delivery.wait_until import wait_until
from tests.sizes import sized

pytestmark = pytest.mark.real_engine(queue_count=2)

SOCKETS = sized(100, torture=500)
HELD_EACH = 2
KEY_CHARS = len("Bearer ")


@pytest.fixture(scope="module")
def times() -> SessionTimes:
    return replace(PATIENT, stall_ms=600, tick_ms=50)


def living(kind: type) -> int:
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


def descriptor_count() -> int:
    return len(os.listdir("/proc/self/fd"))


async def holding(server: Server, key: str, topic: str, group: str, ttl_ms: int) -> LeanSocket:
    """A socket that has got so many messages and says nothing more."""
    connected = await LeanSocket.connect(
        server.ws_url, subprotocol="mq.v1.json", key=key[KEY_CHARS:]
    )
    commands = [
        {"op": "hello", "id": 1, "resume_ttl_ms": ttl_ms},
        {"op": "sub", "id": 2, "sid": 1, "topic": topic, "group": group, "lease_ms": 3_600_000,
         "credit": {"msgs": HELD_EACH, "bytes": 10_000}},
    ]  # fmt: skip
    for command in commands:
        connected.send(json.dumps(command).encode(), TEXT)
    count = 0
    while count < HELD_EACH:
        frame = json.loads(await connected.receive())
        count += len(frame.get("m", ()))
    return connected


@pytest.mark.sized
@pytest.mark.parametrize("ttl_ms", [0, 500])
async def test_sockets_that_vanish_leave_their_messages_to_others_and_nothing_else(
    server: Server, api: httpx.Client, topic: str, group: str, ttl_ms: int
) -> None:
    total = SOCKETS * HELD_EACH
    bodies = [str(number) for number in range(total)]
    for start in range(0, total, 500):
        put(api, topic, *[{"body": body} for body in bodies[start : start + 500]])
    before = living(Session), living(Subscription), descriptor_count()
    key = server.key()
    sockets = [await holding(server, key, topic, group, ttl_ms) for _ in range(SOCKETS)]
    assert descriptor_count() >= before[2] + 2 * SOCKETS
    for each in sockets:
        each.close()
    del sockets, each

    def consume() -> set[str]:
        with Peer(server) as heir:
            credit = {"msgs": 1_000, "bytes": 1_000_000}
            heir.ask("sub", sid=1, topic=topic, group=group, credit=credit)
            got: set[str] = set()
            while len(got) < total:
                messages = heir.take(1)
                got |= {message["b"] for message in messages}
                heir.send("ack", sid=1, t=[message["t"] for message in messages])
            return got

    assert await asyncio.to_thread(consume) == set(bodies)
    await asyncio.to_thread(wait_until, lambda: server.context.sessions.socket_count == 0)
    await asyncio.to_thread(
        wait_until, lambda: (living(Session), living(Subscription)) == before[:2]
    )
    assert descriptor_count() <= before[2] + 5


def deaf_socket(server: Server, *commands: Json) -> socket.socket:
    """A WebSocket that says something, and reads nothing once it is open."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(
        (
            f"GET /v1/ws HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: {server.key()}\r\n"
            "upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
            "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        ).encode()
    )
    assert connection.recv(12) == b"HTTP/1.1 101"
    for command in commands:
        content = json.dumps(command).encode()
        # One text frame of a client: its length in two bytes, masked with zeros.
        connection.sendall(b"\x81\xfe" + len(content).to_bytes(2) + bytes(4) + content)
    return connection


def test_what_a_client_that_does_not_read_holds_is_not_kept_for_it(
    server: Server, api: httpx.Client, topic: str, group: str
) -> None:
    for _ in range(6):  # 9 MB; the kernel takes up to four for a socket
        put(api, topic, *[{"body": "x" * 30_000} for _ in range(50)])
    credit = {"msgs": 1_000, "bytes": 8 * 1024 * 1024}
    sub = {"op": "sub", "sid": 1, "topic": topic, "group": group, "lease_ms": 3_600_000}
    hello = {"op": "hello", "id": 1, "resume_ttl_ms": 300_000, "max_frame": 16_384}
    with contextlib.closing(deaf_socket(server, hello, {**sub, "credit": credit})):
        wait_until(lambda: server.context.sessions.socket_count == 0)
        with Peer(server) as other:
            other.ask("sub", sid=1, topic=topic, group=group, credit=credit)
            attempts: list[int] = []
            while len(attempts) < 300:
                messages = other.take(1)
                attempts += [message["a"] for message in messages]
                other.send("ack", sid=1, t=[message["t"] for message in messages])

    assert set(attempts) == {1, 2}


def test_a_session_that_comes_and_goes_a_hundred_times_loses_nothing(
    server: Server, api: httpx.Client, topic: str, group: str
) -> None:
    put(api, topic, *[{"body": str(number)} for number in range(100)])
    key = server.key()
    with Peer(server, key=key, resume_ttl_ms=30_000) as peer:
        peer.ask("sub", sid=1, topic=topic, group=group, credit={"msgs": 3, "bytes": 1_000})
        welcome = peer.welcome
    settled: set[str] = set()
    has: dict[int, str] = {}
    rounds = 0
    while len(settled) < 100:
        rounds += 1
        resume = {
            "session": welcome["session"],
            "token": welcome["resume_token"],
            "have": [[1, 0, list(has)]],
        }
        with Peer(server, key=key, resume=resume, resume_ttl_ms=30_000) as again:
            assert again.welcome["resumed"] is True
            again.send("ping")
            while (frame := again.recv())["op"] != "pong":
                if frame["op"] == "msgs":
                    assert not has.keys() & {message["t"] for message in frame["m"]}
                    has.update((message["t"], message["b"]) for message in frame["m"])
            # Every other time it is not known whether the ack arrived.
            if rounds % 2:
                again.ask("ack", sid=1, t=list(has))
                settled |= set(has.values())
                has.clear()
            else:
                again.send("ack", sid=1, t=list(has))

    assert settled == {str(number) for number in range(100)}
