"""A WebSocket client made for counting: one connection, no fragments, no compression.

    frames ─▶ [LeanSocket] ─▶ TCP       masked with zeros, which RFC 6455 leaves to the client
    payloads ◀─ [LeanSocket] ◀─ TCP     server frames are cut out of the stream

A general library checks far more and spends more on a frame than the server does, so it would be
what is measured. Whatever this one does not understand raises.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections import deque
from typing import Final, cast
from urllib.parse import urlsplit

from bench.measure import MeasureFailed

TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
FINAL: Final = 0x80
MASKED: Final = 0x80
NO_MASK: Final = b"\0\0\0\0"
HEAD_END: Final = b"\r\n\r\n"


def masked_frame(payload: bytes, opcode: int) -> bytes:
    """One whole frame as a client sends it."""
    size = len(payload)
    if size < 126:
        head = bytes((FINAL | opcode, MASKED | size))
    elif size < 65_536:
        head = bytes((FINAL | opcode, MASKED | 126)) + size.to_bytes(2)
    else:
        head = bytes((FINAL | opcode, MASKED | 127)) + size.to_bytes(8)
    return head + NO_MASK + payload


class SocketFailed(MeasureFailed):
    """The connection was refused, closed or sent something unexpected."""


class LeanSocket(asyncio.Protocol):
    """Use ``connect``; then ``receive`` and ``send``."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._payloads: deque[bytes] = deque()
        self._arrived: asyncio.Future[None] | None = None
        self._failure: SocketFailed | None = None
        self._is_open = False
        self._transport: asyncio.Transport

    @classmethod
    async def connect(cls, url: str, *, subprotocol: str = "", key: str = "") -> LeanSocket:
        parts = urlsplit(url)
        assert parts.hostname is not None
        loop = asyncio.get_running_loop()
        _, socket = await loop.create_connection(cls, parts.hostname, parts.port or 80)
        nonce = base64.b64encode(os.urandom(16)).decode()
        offered = f"sec-websocket-protocol: {subprotocol}\r\n" if subprotocol else ""
        authorization = f"authorization: Bearer {key}\r\n" if key else ""
        socket._transport.write(
            (
                f"GET {parts.path or '/'} HTTP/1.1\r\nhost: {parts.netloc}\r\n"
                "upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\n"
                f"sec-websocket-key: {nonce}\r\n{offered}{authorization}\r\n"
            ).encode()
        )
        await socket._wait(lambda: socket._is_open)
        return socket

    def send(self, payload: bytes, opcode: int) -> None:
        self._transport.write(masked_frame(payload, opcode))

    def write(self, masked_frames: bytes) -> None:
        """Send what ``masked_frame`` made, any number of them at once."""
        self._transport.write(masked_frames)

    async def receive(self) -> bytes:
        """The payload of the next text or binary frame."""
        if not self._payloads:
            await self._wait(lambda: bool(self._payloads))
        return self._payloads.popleft()

    def close(self) -> None:
        self._transport.abort()

    # Transport ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection ended: {exc or 'closed by the server'}")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._is_open and not self._take_head():
            return
        self._take_frames()
        self._wake()

    def _take_head(self) -> bool:
        end = self._buffer.find(HEAD_END)
        if end < 0:
            return False
        if not self._buffer.startswith(b"HTTP/1.1 101"):
            self._fail(f"not upgraded: {bytes(self._buffer[:300])!r}")
            return False
        del self._buffer[: end + len(HEAD_END)]
        self._is_open = True
        return True

    def _take_frames(self) -> None:
        buffer = self._buffer
        at, size = 0, len(buffer)
        while size - at >= 2:
            first, length, start = buffer[at], buffer[at + 1], at + 2
            if length == 126:
                start += 2
                length = int.from_bytes(buffer[at + 2 : start])
            elif length == 127:
                start += 8
                length = int.from_bytes(buffer[at + 2 : start])
            if start > size or start + length > size:
                break
            self._take_frame(first, bytes(memoryview(buffer)[start : start + length]))
            at = start + length
        del buffer[:at]

    def _take_frame(self, first: int, payload: bytes) -> None:
        if first in (FINAL | TEXT, FINAL | BINARY):
            self._payloads.append(payload)
        elif first == FINAL | CLOSE:
            code = int.from_bytes(payload[:2])
            self._fail(f"closed with {code}: {payload[2:].decode(errors='replace')}")
        elif first != FINAL | PING:
            self._fail(f"unexpected frame {first:#x}")

    async def _wait(self, condition: object) -> None:
        assert callable(condition)
        while not condition():
            if self._failure is not None:
                raise self._failure
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived

    def _fail(self, reason: str) -> None:
        if self._failure is None:
            self._failure = SocketFailed(reason)
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)
