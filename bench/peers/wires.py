"""What a protocol lies on: a TCP connection, or the payloads of a WebSocket.

send(bytes) ─▶ [Wire] ─▶ server ─▶ receive() ─▶ bytes as they came
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from bench.measure import MeasureFailed
from bench.ws_client import LeanSocket


class Wire(Protocol):
    def send(self, content: bytes) -> None: ...

    async def receive(self) -> bytes:
        """What came next. Raises MeasureFailed when the connection ended."""
        ...

    def close(self) -> None: ...


class TcpWire(asyncio.Protocol):
    """Use ``connect``."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._arrived: asyncio.Future[None] | None = None
        self._failure: MeasureFailed | None = None
        self._transport: asyncio.Transport

    @classmethod
    async def connect(cls, host: str, port: int) -> TcpWire:
        _, made = await asyncio.get_running_loop().create_connection(cls, host, port)
        return made

    def send(self, content: bytes) -> None:
        self._transport.write(content)

    async def receive(self) -> bytes:
        while not self._pieces:
            if self._failure is not None:
                raise self._failure
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived
        content = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return content

    def close(self) -> None:
        self._transport.abort()

    # Transport ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._failure = connection_failed(f"it ended: {exc or 'closed by the server'}")
        self._wake()

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)


class WebSocketWire:
    """Each ``send`` is one WebSocket message."""

    def __init__(self, socket: LeanSocket, opcode: int) -> None:
        self._socket = socket
        self._opcode = opcode

    def send(self, content: bytes) -> None:
        self._socket.send(content, self._opcode)

    async def receive(self) -> bytes:
        return await self._socket.receive()

    def close(self) -> None:
        self._socket.close()


def connection_failed(reason: str) -> MeasureFailed:
    return MeasureFailed(f"a connection to a peer failed: {reason}")
