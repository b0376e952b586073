"""A WebSocket client for tests that speaks both subprotocols and shows every frame as a dict."""

from __future__ import annotations

import base64
import contextlib
from types import TracebackType
from typing import Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.mqservice.delivery.serving import Json, Server

JSON = "mq.v1.json"
MSGPACK = "mq.v1.msgpack"
BOTH = (JSON, MSGPACK)
TIMEOUT_SECONDS = 60.0

_COMMANDS: dict[str, tuple[int, list[str]]] = {
    "hello": (1, ["id", "client", "resume", "max_frame", "resume_ttl_ms"]),
    "pub": (3, ["id", "topic", "m", "key"]),
    "sub": (
        4,
        [
            "id",
            "sid",
            "topic",
            "group",
            "filter",
            "mode",
            "lease_ms",
            "auto_extend_ms",
            "credit",
            "from",
            "client_id",
            "consumer_id",
            "consumer_zone",
        ],
    ),
    "credit": (5, ["sid", "msgs", "bytes", "id"]),
    "ack": (7, ["id", "sid", "t", "upto"]),
    "nack": (8, ["id", "sid", "t"]),
    "extend": (9, ["id", "sid", "t", "ms"]),
    "dlq": (10, ["id", "sid", "t"]),
    "unsub": (15, ["id", "sid", "drain"]),
    "ping": (16, []),
    "pong": (17, []),
}
_PUSHES: dict[int, tuple[str, list[str]]] = {
    2: ("welcome", ["id", "session", "resume_token", "resumed", "ping_ms", "pong_ms", "limits"]),
    6: ("msgs", ["sid", "m"]),
    11: ("lost", ["sid", "t", "why", "generation"]),
    12: ("flow", ["sid", "state"]),
    16: ("ping", []),
    17: ("pong", []),
    18: ("ok", ["id", "r"]),
    19: ("err", ["id", "code", "retryable", "msg"]),
    20: ("goaway", ["why", "grace_ms", "retry_ms"]),
}
_MESSAGE = ["t", "id", "q", "o", "s", "a", "tag", "keys", "g", "p", "b"]
_RESUME = ["session", "token", "have"]
_OFFER = ["body", "tag", "keys", "message_group", "properties", "queue"]
_OFFER += ["delay_level", "delay", "delay_ms", "deliver_at"]
_DEFAULTS: Json = {"keys": [], "properties": {}, "drain": False}


class Peer:
    """One connection. ``send(op, ...)`` and ``recv()`` know the fields by name."""

    def __init__(
        self,
        server: Server | None,
        subprotocol: str = JSON,
        *,
        key: str | None = None,
        url: str | None = None,
        hello: bool = True,
        max_frame: int | None = None,
        resume: Json | None = None,
        resume_ttl_ms: int | None = 0,
    ) -> None:
        """Of a server without one: ``url`` and ``key``."""
        if server is not None:
            url, key = url or server.ws_url, key or server.key()
        if url is None or key is None:
            raise ValueError("a peer of no server of the tests needs to be told both")
        self.is_json = subprotocol == JSON
        self.answers_pings = True
        self._id = 0
        self._stack = contextlib.ExitStack()
        self.socket: ClientConnection = self._stack.enter_context(
            connect(
                url,
                additional_headers={"authorization": key},
                subprotocols=[Subprotocol(subprotocol)],
                compression=None,
                max_size=None,
                ping_interval=None,
            )
        )
        if hello:
            self.welcome = self.ask(
                "hello",
                client="test",
                resume=resume,
                max_frame=max_frame,
                resume_ttl_ms=resume_ttl_ms,
            )
            assert self.welcome["op"] == "welcome"

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def send(self, op: str, **fields: Any) -> None:  # Any: whatever the command takes
        self.socket.send(self.encode(op, **fields))

    def encode(self, op: str, **fields: Any) -> str | bytes:  # Any: as above
        if self.is_json:
            return msgspec.json.encode({"op": op, **fields}).decode()
        number, names = _COMMANDS[op]
        if op == "pub" and isinstance(fields.get("m"), list):
            fields["m"] = [_packed(offer) for offer in fields["m"]]
        if isinstance(fields.get("resume"), dict):
            fields["resume"] = [fields["resume"].get(name) for name in _RESUME]
        if isinstance(fields.get("credit"), dict):
            fields["credit"] = [fields["credit"]["msgs"], fields["credit"]["bytes"]]
        values = [fields.pop(name, _DEFAULTS.get(name)) for name in names]
        if op == "credit":
            values = [
                0 if v is None and n != "id" else v for n, v in zip(names, values, strict=True)
            ]
        assert not fields, f"{op} has no position for {fields}"
        return msgspec.msgpack.encode([number, *values])

    def recv(self, timeout: float = TIMEOUT_SECONDS) -> Json:
        """The next frame, whatever it is; a ping is answered by the way."""
        frame = self._recv(timeout)
        if frame["op"] == "ping" and self.answers_pings:
            self.send("pong")
        return frame

    def _recv(self, timeout: float) -> Json:
        content = self.socket.recv(timeout)
        if self.is_json:
            assert isinstance(content, str)
            frame: Json = msgspec.json.decode(content)
            return frame or {"op": "ping"}
        assert isinstance(content, bytes)
        number, *values = msgspec.msgpack.decode(content)
        op, names = _PUSHES[number]
        frame = {"op": op, **dict(zip(names, values, strict=True))}
        if op == "msgs":
            frame["m"] = [dict(zip(_MESSAGE, m, strict=True)) for m in frame["m"]]
        if op == "welcome":
            names = ["credit_msgs", "credit_bytes", "max_frame", "max_commands"]
            frame["limits"] = dict(zip(names, frame["limits"], strict=True))
        return frame

    def read_on(self, timeout: float = TIMEOUT_SECONDS) -> None:
        """Until the connection is closed."""
        while True:
            self.recv(timeout)

    def ask(self, op: str, **fields: Any) -> Json:  # Any: as above
        """Send with an id and wait for the answer to it, passing over pushes."""
        self._id += 1
        self.send(op, id=self._id, **fields)
        return self.answer(self._id)

    def answer(self, command_id: int) -> Json:
        while True:
            frame = self.recv()
            if frame.get("id") == command_id:
                return frame

    def take(self, count: int) -> list[Json]:
        """``count`` messages from ``msgs`` frames, passing over everything else."""
        messages: list[Json] = []
        while len(messages) < count:
            frame = self.recv()
            if frame["op"] == "msgs":
                messages += frame["m"]
        return messages

    def body(self, message: Json) -> bytes:
        if not self.is_json:
            content: bytes = message["b"]
            return content
        if message["e"] == "b64":
            return base64.b64decode(message["b"])
        if message["e"] == "json":
            return msgspec.json.encode(message["b"])
        text: str = message["b"]
        return text.encode()


def _packed(offer: Json) -> list[Any]:  # Any: as above
    offer = dict(offer)
    body = offer.pop("body", b"")
    offer["body"] = body.encode() if isinstance(body, str) else body
    return [offer.get(name, _DEFAULTS.get(name)) for name in _OFFER]


def closed(peer: Peer) -> tuple[int, str]:
    """Code and reason of the close that is next."""
    with pytest.raises(ConnectionClosed) as caught:
        peer.read_on()
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code, caught.value.rcvd.reason


def subscribe(peer: Peer, topic: str, sid: int = 1, **fields: object) -> None:
    answer = peer.ask("sub", sid=sid, topic=topic, group="billing", **fields)
    assert answer["op"] == "ok", answer
