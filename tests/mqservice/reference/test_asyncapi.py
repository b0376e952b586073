"""The AsyncAPI document against frames that really went over a socket, in both directions."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from mqservice.delivery.sessions import SessionTimes
from mqservice.protocol.frames import COMMANDS, PUSHES
from mqservice.reference.asyncapi import asyncapi_document, asyncapi_json
from tests.mqservice.delivery.peers import BOTH, JSON, Peer
from tests.mqservice.delivery.serving import serving
from tests.mqservice.delivery.store_double import StoreDouble

TIMES = SessionTimes(ping_ms=400, pong_ms=60_000, grace_ms=600, tick_ms=50)
DIALECT = "https://json-schema.org/draft/2020-12/schema"
FRAMES_MAX = 40
NUMBERS = {
    "hello": 1, "welcome": 2, "pub": 3, "sub": 4, "credit": 5, "msgs": 6, "ack": 7, "nack": 8,
    "extend": 9, "dlq": 10, "lost": 11, "flow": 12, "unsub": 15, "ping": 16, "pong": 17, "ok": 18,
    "err": 19, "goaway": 20,
}  # fmt: skip
NAMES = {number: op for op, number in NUMBERS.items()}


class Tape:
    """Every frame of one connection, as it was sent and as it came."""

    def __init__(self, peer: Peer) -> None:
        self.sent: list[Any] = []  # Any: decoded frames
        self.got: list[Any] = []
        socket: Any = peer.socket  # Any: two of its methods are replaced
        send, recv = socket.send, socket.recv

        def send_taped(content: str | bytes) -> None:
            self.sent += frames_of(content)
            send(content)

        def recv_taped(timeout: float) -> str | bytes:
            content: str | bytes = recv(timeout)
            self.got += frames_of(content)
            return content

        socket.send, socket.recv = send_taped, recv_taped


def frames_of(content: str | bytes) -> list[Any]:  # Any: as above
    if isinstance(content, str):
        return [json.loads(line) for line in content.splitlines()]
    return [_without_bytes(msgspec.msgpack.decode(content))]


def _without_bytes(value: Any) -> Any:  # Any: as above
    """Bytes as the schema shows them, in base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_without_bytes(each) for each in value]
    if isinstance(value, dict):
        return {name: _without_bytes(each) for name, each in value.items()}
    return value


def op_of(frame: Any, *, is_sent: bool) -> str:  # Any: as above
    if isinstance(frame, list):
        return NAMES[frame[0]]
    return str(frame.get("op", "pong" if is_sent else "ping"))


def whole_session(subprotocol: str) -> Tape:
    """A session in which each kind of frame is sent and pushed."""
    with serving(StoreDouble(), TIMES) as server:
        server.topic("orders")
        server.group("billing")
        server.group("idle")
        with Peer(server, subprotocol, hello=False) as peer:
            tape = Tape(peer)
            peer.ask("hello", client="test", resume_ttl_ms=0)
            texts: list[Any] = [{"body": "text", "tag": "a", "keys": ["k"]}]
            if peer.is_json:
                texts += [{"body_json": {"a": [1]}}, {"body_b64": "/wA="}]
            peer.ask("pub", topic="orders", m=[*texts, {"body": "x"}, {"body": "y"}, {"body": "z"}])
            credit = {"msgs": 4, "bytes": 4_096}
            peer.ask("sub", sid=1, topic="orders", group="billing", credit=credit, lease_ms=1_000)
            tags = [message["t"] for message in peer.take(4)]
            one = {"msgs": 1, "bytes": 4_096}
            peer.ask("sub", sid=2, topic="orders", group="idle", credit=one)
            peer.ask("ack", sid=1, t=tags[:1])
            peer.ask("nack", sid=1, t=[[tags[1], 30_000, "db down"]])
            peer.ask("dlq", sid=1, t=[[tags[2], "bad"]])
            peer.ask("extend", sid=1, t=[tags[3]], ms=1_000)
            peer.ask("credit", sid=1, msgs=1, bytes=100)
            assert peer.ask("ack", sid=99, t=[1])["op"] == "err"
            peer.ask("ack", sid=1, t=[4_000])
            peer.send("ping")
            wanted = {"lost", "flow", "pong", "ping"}
            for _ in range(FRAMES_MAX):
                if wanted <= {op_of(frame, is_sent=False) for frame in tape.got}:
                    break
                peer.recv()
            peer.ask("unsub", sid=1, drain=True)
            server.ask_to_stop()
            with pytest.raises(ConnectionClosed):
                peer.read_on()
    return tape


@pytest.fixture(scope="module", params=BOTH)
def tape(request: pytest.FixtureRequest) -> tuple[str, Tape]:
    return request.param, whole_session(request.param)


def validator_of(op: str, protocol: str) -> Any:  # Any: the library's validator
    document = asyncapi_document()
    payload = document["components"]["messages"][f"{op}.{protocol}"]["payload"]
    return jsonschema_rs.validator_for(
        {"$schema": DIALECT, **payload, "components": document["components"]}
    )


def test_real_frames_fit_the_document(tape: tuple[str, Tape]) -> None:
    subprotocol, frames = tape
    protocol = "json" if subprotocol == JSON else "msgpack"
    seen: set[tuple[str, bool]] = set()
    wrong = []
    for is_sent, taped in ((True, frames.sent), (False, frames.got)):
        for frame in taped:
            op = op_of(frame, is_sent=is_sent)
            seen.add((op, is_sent))
            wrong += [f"{op}: {e}" for e in validator_of(op, protocol).iter_errors(frame)]
    assert wrong == []
    assert {op for op, is_sent in seen if is_sent} == {frame.op for frame in COMMANDS}
    assert {op for op, is_sent in seen if not is_sent} == {frame.op for frame in PUSHES}


def test_a_frame_with_a_fault_does_not_fit() -> None:
    for op, frame in (
        ("ack", {"op": "ack", "sid": "1"}),
        ("sub", {"op": "sub", "sid": 1, "topic": "orders", "group": "billing", "more": 1}),
        ("msgs", {"op": "msgs", "sid": 1, "m": [{"t": 1}]}),
        ("welcome", {"op": "ok"}),
    ):
        assert not validator_of(op, "json").is_valid(frame), frame


def test_numbers_of_the_array_forms_are_the_published_ones() -> None:
    frames = (*COMMANDS, *PUSHES)
    assert {frame.op: frame.pack.__struct_config__.tag for frame in frames} == NUMBERS
    assert {frame.op: frame.json.__struct_config__.tag for frame in frames} == {
        op: op for op in NUMBERS
    }


def test_positions_of_arrays_have_the_names_of_the_fields() -> None:
    schemas = asyncapi_document()["components"]["schemas"]

    named = {
        name: [position["title"] for position in schemas[name]["prefixItems"]]
        for name in ("PackLost", "NackItem", "PackPing")
    }

    assert named == {
        "PackLost": ["op", "sid", "t", "why", "generation"],
        "NackItem": ["t", "delay_ms", "reason"],
        "PackPing": ["op"],
    }


def test_examples_fit_their_payloads() -> None:
    count = 0
    for name, message in asyncapi_document()["components"]["messages"].items():
        op, _, protocol = name.partition(".")
        for example in message.get("examples", []):
            count += 1
            assert list(validator_of(op, protocol).iter_errors(example["payload"])) == []
    assert count >= 14


def test_every_reference_leads_somewhere() -> None:
    document = asyncapi_document()
    references = set(re.findall(rb'"\$ref":"#/([^"]+)"', asyncapi_json()))
    assert references
    for reference in references:
        place: Any = document
        for name in reference.decode().split("/"):
            place = place[name]
