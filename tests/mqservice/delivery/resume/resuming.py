"""Sessions that end and come back, for tests: what to say, and how to end a connection."""

from __future__ import annotations

import socket

import httpx

from tests.mqservice.delivery.browsing import put
from tests.mqservice.delivery.peers import Peer
from tests.mqservice.delivery.serving import Json

TTL_MS = 30_000
CREDIT = {"msgs": 10, "bytes": 100_000}


def resume_of(peer: Peer, have: object = None) -> Json:
    return {
        "session": peer.welcome["session"],
        "token": peer.welcome["resume_token"],
        "have": have,
    }


def subscribed(peer: Peer, topic: str, group: str, count: int, **fields: object) -> list[Json]:
    """The first messages of a new subscription 1."""
    fields = {"credit": CREDIT, **fields}
    answer = peer.ask("sub", sid=1, topic=topic, group=group, **fields)
    assert answer["op"] == "ok", answer
    return peer.take(count)


def fill(api: httpx.Client, topic: str, count: int) -> None:
    put(api, topic, *[{"body": str(number), "queue": 0} for number in range(count)])


def sever(peer: Peer) -> None:
    """End the connection without a close frame."""
    peer.socket.socket.shutdown(socket.SHUT_RDWR)


def nothing_more(peer: Peer) -> None:
    """Nothing is pushed until a ping is answered."""
    peer.send("ping")
    frame = peer.recv()
    assert frame["op"] == "pong", frame
