"""A service that does what a test tells it, on a real port: REST and WebSocket, no store behind.

    test ─▶ answers, backlog, closes ─▶ [ServiceDouble] ◀─ real HTTP and WebSocket ─ code under test
         ◀─ requests, acked, hellos

Frames are written out by hand here, so that the client's own reading of the protocol is not what
it is tested against.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import uvicorn

from mqservice.cli.target import Target

KEY = "mqk_test"
STOP_WAIT_S = 60
Json = dict[str, Any]  # reason: documents as the API writes them, built and read by hand


class Request(msgspec.Struct):
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class Answer(msgspec.Struct):
    status: int
    document: Any  # reason: any JSON


def problem(status: int, code: str, *, detail: str = "because", **fields: Any) -> Answer:
    """A refusal. ``fields``: retryable, stored, retry_after_ms, errors."""
    return Answer(status, {"code": code, "detail": detail, "request_id": "R1", **fields})


class Pushed(msgspec.Struct, frozen=True):
    """A message the double pushes."""

    id: str
    body: bytes
    tag: str | None = None
    properties: dict[str, str] = {}


class ServiceDouble:
    """``answers`` are given out first, one a request; then everything is stored.

    ``closes``: for each WebSocket in turn, (messages to push, close code) before it is cut.
    ``refused`` may answer for a message instead of storing it. ``fails``: the handler
    dies on every request. ``ignores_acks``: for so many
    connections acks have no effect and no answer. ``subscribe_error``: code and retryable, once.
    """

    def __init__(self) -> None:
        self.target = Target(base_url="", key=KEY)
        self.answers: deque[Answer] = deque()
        self.requests: list[Request] = []
        self.stored: list[Json] = []
        self.raw_bodies: list[bytes] = []
        self.backlog: list[Pushed] = []
        self.closes: deque[tuple[int, int]] = deque()
        self.acked: list[str] = []
        self.commands: list[Any] = []  # reason: decoded frames
        self.has_acked = asyncio.Event()
        self.ignores_acks = 0
        self.pings_first = False
        self.fails = False
        self.refused: Callable[[Json], Answer | None] = lambda message: None
        self.refused_tags: set[int] = set()
        self.handshakes = 0
        self.pushed_count = 0
        self.subscribe_error: tuple[str, bool] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # reason: ASGI
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await _Socket(self, scope, receive, send).run()

    async def _http(self, scope: Any, receive: Any, send: Any) -> None:  # reason: ASGI
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        query = scope["query_string"].decode()
        request = Request(scope["method"], scope["path"], query, headers, body)
        self.requests.append(request)
        if self.fails:
            raise ConnectionError("the test says so")
        answer = self.answers.popleft() if self.answers else self._answer(request)
        content = msgspec.json.encode(answer.document)
        kind = b"application/json" if answer.status < 400 else b"application/problem+json"
        fields = [(b"content-type", kind), (b"content-length", str(len(content)).encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": fields})
        await send({"type": "http.response.body", "body": content})

    def _answer(self, request: Request) -> Answer:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return problem(401, "UNAUTHENTICATED", detail="send a valid API key")
        if request.path.endswith(":batch"):
            messages = msgspec.json.decode(request.body)
            for refusal in map(self.refused, messages):
                if refusal is not None:
                    return refusal
            return Answer(201, {"results": [self.store(m, n) for n, m in enumerate(messages)]})
        if request.path.endswith("/messages"):
            if request.headers["content-type"] == "application/octet-stream":
                self.raw_bodies.append(request.body)
                return Answer(201, self.store({"raw": len(request.body)}, 0))
            message = msgspec.json.decode(request.body)
            return self.refused(message) or Answer(201, self.store(message, 0))
        return problem(404, "NOT_FOUND")

    def store(self, message: Json, index: int) -> Json:
        """Keep a message; returns its result."""
        self.stored.append(message)
        number = len(self.stored)
        return {"index": index, "status": 201, "id": f"{number:034X}", "queue": 0, "offset": number}


class _Socket:
    """One WebSocket connection to the double."""

    def __init__(self, double: ServiceDouble, scope: Any, receive: Any, send: Any) -> None:
        # reason for Any: ASGI
        self._double = double
        self._receive = receive
        self._send = send
        self._subprotocol: str = scope["subprotocols"][0]
        self._is_pack = self._subprotocol == "mq.v1.msgpack"
        headers = dict(scope["headers"])
        self._is_known = headers.get(b"authorization") == f"Bearer {KEY}".encode()
        self._credit = 0
        self._ignores_acks = double.ignores_acks > double.handshakes
        self._pushed_count = 0
        self._waiting = [m for m in double.backlog if m.id not in double.acked]
        self._outstanding: dict[int, Pushed] = {}
        self._close_after: tuple[int, int] | None = None

    async def run(self) -> None:
        await self._receive()
        if not self._is_known:
            await self._refuse()
            return
        self._double.handshakes += 1
        if self._double.closes:
            self._close_after = self._double.closes.popleft()
        await self._send({"type": "websocket.accept", "subprotocol": self._subprotocol})
        while (message := await self._receive())["type"] == "websocket.receive":
            content = message.get("bytes") or message["text"].encode()
            for command in self._decode(content):
                self._double.commands.append(command)
                if not await self._obey(command):
                    return

    async def _refuse(self) -> None:
        body = msgspec.json.encode({"code": "UNAUTHENTICATED", "detail": "send a valid API key"})
        fields = [(b"content-type", b"application/problem+json")]
        kind = "websocket.http.response"
        await self._send({"type": f"{kind}.start", "status": 401, "headers": fields})
        await self._send({"type": f"{kind}.body", "body": body})

    def _decode(self, content: bytes) -> list[Any]:  # reason: commands as they were written
        if self._is_pack:
            return [msgspec.msgpack.decode(content)]
        return [msgspec.json.decode(line) for line in content.split(b"\n")]

    async def _obey(self, command: Any) -> bool:  # reason: as above
        """Do what a command says; False when the double has closed the connection."""
        if command == {} or command == [17]:
            return True
        op = command[0] if self._is_pack else command["op"]
        if op in (1, "hello"):
            await self._welcome(command[1] if self._is_pack else command["id"])
        elif op in (4, "sub"):
            credit = command[9] if self._is_pack else command["credit"]
            self._credit = credit[0] if self._is_pack else credit["msgs"]
            command_id = command[1] if self._is_pack else command["id"]
            if self._double.subscribe_error is not None:
                await self._err(command_id, *self._double.subscribe_error)
                self._double.subscribe_error = None
                return True
            await self._ok(command_id, {})
            return await self._push()
        elif op in (5, "credit"):
            self._credit += command[2] if self._is_pack else command["msgs"]
            return await self._push()
        elif op in (15, "unsub"):
            self._waiting = []
            await self._ok(command[1] if self._is_pack else command["id"], {})
        elif op in (7, "ack"):
            ack_id = command[1] if self._is_pack else command["id"]
            tags = command[3] if self._is_pack else command["t"]
            return await self._acked(ack_id, tags)
        return True

    async def _welcome(self, command_id: int) -> None:
        if self._is_pack:
            await self._write([2, command_id, "s_1", None, False, 25_000, 10_000, [64, 9999, 4096]])
        else:
            await self._write({"op": "welcome", "id": command_id, "session": "s_1"})

    async def _push(self) -> bool:
        double = self._double
        if double.pings_first:
            await self._write([16] if self._is_pack else {})
        left = self._credit
        if self._close_after is not None:
            left = min(left, self._close_after[0] - self._pushed_count)
        batch, self._waiting = self._waiting[:left], self._waiting[left:]
        tags = range(self._pushed_count + 1, self._pushed_count + 1 + len(batch))
        self._pushed_count += len(batch)
        double.pushed_count += len(batch)
        self._credit -= len(batch)
        self._outstanding |= dict(zip(tags, batch, strict=True))
        if batch:
            await self._write(self._messages(list(zip(tags, batch, strict=True))))
        if self._close_after is not None and self._pushed_count >= self._close_after[0]:
            await self._send({"type": "websocket.close", "code": self._close_after[1]})
            return False
        return True

    def _messages(self, batch: list[tuple[int, Pushed]]) -> Any:  # reason: JSON or an array
        if self._is_pack:
            rows: list[list[Any]] = [  # reason: an array as the frame has it
                [tag, m.id, 0, tag, 1_732_180_000_000, 1, m.tag, [], None, m.properties, m.body]
                for tag, m in batch
            ]
            return [6, 1, rows]
        objects = []
        for tag, m in batch:
            fields = {"t": tag, "id": m.id, "q": 0, "o": tag, "a": 1, "s": 1_732_180_000_000}
            try:
                form = {"b": m.body.decode(), "e": "text"}
            except UnicodeDecodeError:
                form = {"b": msgspec.json.decode(msgspec.json.encode(m.body)), "e": "b64"}
            shown: Json = {"tag": m.tag, "keys": [], "g": None, "p": m.properties}
            objects.append({**fields, **form, **shown})
        return {"op": "msgs", "sid": 1, "m": objects}

    async def _acked(self, ack_id: int, tags: list[int]) -> bool:
        refused = self._double.refused_tags.intersection(tags)
        acked = [self._outstanding.pop(tag).id for tag in tags if tag not in refused]
        if self._ignores_acks:
            return True
        self._double.acked += acked
        self._double.has_acked.set()
        self._credit += len(tags)
        failed = [{"t": tag, "code": "LEASE_EXPIRED"} for tag in sorted(refused)]
        await self._ok(ack_id, {"acked": len(acked), "failed": failed})
        return await self._push()

    async def _ok(self, command_id: int, result: Json) -> None:
        if self._is_pack:
            await self._write([18, command_id, result])
        else:
            await self._write({"op": "ok", "id": command_id, "r": result})

    async def _err(self, command_id: int, code: str, is_retryable: bool) -> None:
        if self._is_pack:
            await self._write([19, command_id, code, is_retryable, "no"])
        else:
            fields = {"code": code, "retryable": is_retryable, "msg": "no"}
            await self._write({"op": "err", "id": command_id, **fields})

    async def _write(self, frame: Any) -> None:  # reason: JSON or an array
        if self._is_pack:
            content = msgspec.msgpack.encode(frame)
            await self._send({"type": "websocket.send", "bytes": content})
        else:
            text = msgspec.json.encode(frame).decode()
            await self._send({"type": "websocket.send", "text": text})


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def service_double() -> AsyncIterator[ServiceDouble]:
    """A double that listens on a free port of the loopback while the block runs."""
    double = ServiceDouble()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            double,
            ws="websockets-sansio",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        double.target = Target(base_url=f"http://127.0.0.1:{port}", key=KEY)
        try:
            yield double
        finally:
            server.should_exit = server.force_exit = True
            await asyncio.wait_for(serving, STOP_WAIT_S)
