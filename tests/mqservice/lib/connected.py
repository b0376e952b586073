"""A WebSocket protocol without a network: what it wrote, and the application is the test."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode

from mqservice.web.loop_turns import turns_of
from mqservice.web.socket_budget import BudgetLimits, SocketBudget
from mqservice.web.web_sockets import SocketProtocol

BYTES_MAX = 70_000
PONG = 0x8A
ACCEPT: Any = {"type": "websocket.accept", "subprotocol": None, "headers": []}
HEAD = (
    b"GET /v1/ws HTTP/1.1\r\nhost: h\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: " + base64.b64encode(b"k" * 16) + b"\r\n\r\n"
)


class Wire(asyncio.Transport):
    """What a connection wrote, and whether it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False
        self.is_paused = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.written += b"".join(list_of_data)

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_reading(self) -> bool:
        return not self.is_paused


class PatientProtocol(SocketProtocol):
    """For which time stands still, so that no turn ends because the machine is slow."""

    def make_budget(self) -> SocketBudget:
        return SocketBudget(turns_of(self.loop), BudgetLimits(), lambda: 0)


class Connected:
    """A protocol after its handshake, whose application is the test."""

    def __init__(self, kind: type[WebSocketsSansIOProtocol], *, is_accepted: bool = True) -> None:
        self.loop = asyncio.new_event_loop()
        config = uvicorn.Config(
            _no_application,
            ws=kind,
            ws_max_size=BYTES_MAX,
            ws_per_message_deflate=False,
            log_config=None,
        )
        config.load()
        self.protocol = kind(config, ServerState(), {}, _loop=self.loop)
        self.protocol.run_asgi = _run_nothing  # type: ignore[method-assign] # the test does it
        self.wire = Wire()
        self.protocol.connection_made(self.wire)
        self.protocol.data_received(HEAD)
        if is_accepted:
            self.send(ACCEPT)
        self.wire.written = b""
        assert self.received() == [{"type": "websocket.connect"}]

    def send(self, message: Any) -> None:
        self.loop.run_until_complete(self.protocol.send(message))

    def received(self) -> list[Any]:
        """What waits for the application, which takes all of it."""
        found = []
        while not self.protocol.queue.empty():
            found.append(self.loop.run_until_complete(self.protocol.receive()))
        return found

    def close(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))
        self.protocol.connection_lost(None)
        self.loop.close()


async def _no_application(scope: Any, receive: Any, send: Any) -> None: ...


async def _run_nothing() -> None: ...


def frame(opcode: int, content: bytes = b"", *, fin: bool = True, mask: bool = True) -> bytes:
    return Frame(Opcode(opcode), content, fin).serialize(mask=mask)
