"""An HTTP/1.1 client made for counting: one connection, one POST of JSON at a time.

    post(path, JSON) ─▶ [LeanHttp] ─▶ TCP ─▶ head, content-length, body ─▶ the answer's body

A general client spends more on a request than the service does. Whatever this one does not
understand raises.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast
from urllib.parse import urlsplit

from bench.measure import MeasureFailed

HEAD_END: Final = b"\r\n\r\n"
LENGTH: Final = b"content-length:"


class RequestFailed(MeasureFailed):
    """An answer that is not 2xx, or none."""


class LeanHttp(asyncio.Protocol):
    """Use ``connect``; then ``post``."""

    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes, bytes]] | None = None
        self._ended = ""
        self._fields = ""
        self._transport: asyncio.Transport

    @classmethod
    async def connect(cls, base_url: str, *, key: str, scheme: str = "Bearer") -> LeanHttp:
        parts = urlsplit(base_url)
        assert parts.hostname is not None
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(cls, parts.hostname, parts.port or 80)
        made._fields = (
            f"host: {parts.netloc}\r\nauthorization: {scheme} {key}\r\n"
            "content-type: application/json\r\n"
        )
        return made

    async def post(self, path: str, content: bytes) -> bytes:
        """The answer's body. Raises RequestFailed unless it is 2xx."""
        status, head, body = await self.exchange(path, content)
        if not 200 <= status < 300:
            raise RequestFailed(f"{path}: {head[:60]!r} {body[:300]!r}")
        return body

    async def exchange(self, path: str, content: bytes) -> tuple[int, bytes, bytes]:
        """(status, head in lower case, body). Raises RequestFailed when it is no answer."""
        head = f"POST {path} HTTP/1.1\r\n{self._fields}content-length: {len(content)}\r\n\r\n"
        return await self._ask(head.encode() + content)

    async def send_whole(self, *request: bytes) -> bytes:
        """The answer's body to a request as it stands, written part by part. Raises RequestFailed
        unless it is 2xx.
        """
        status, head, body = await self._ask(*request)
        if not 200 <= status < 300:
            raise RequestFailed(f"{head[:60]!r} {body[:300]!r}")
        return body

    def close(self) -> None:
        self._transport.abort()

    async def _ask(self, *request: bytes) -> tuple[int, bytes, bytes]:
        assert self._answer is None, "one request at a time"
        if self._ended:
            raise RequestFailed(self._ended)
        self._answer = asyncio.get_running_loop().create_future()
        for part in request:
            self._transport.write(part)
        try:
            return await self._answer
        finally:
            self._answer = None

    # Transport ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = f"the connection ended: {exc or 'closed by the server'}"
        self._fail(self._ended)

    def data_received(self, data: bytes) -> None:
        received = self._received + data if self._received else data
        self._received = b""
        head_end = received.find(HEAD_END)
        if head_end < 0:
            self._received = received
            return
        head = received[: head_end + len(HEAD_END)].lower()
        status = head[9:12]
        _, found, rest = head.partition(LENGTH)
        if not head.startswith(b"http/1.1 ") or not status.isdigit() or not found:
            self._fail(f"not understood: {received[:300]!r}")
            return
        body_at = head_end + len(HEAD_END)
        missing = body_at + int(rest.partition(b"\r\n")[0]) - len(received)
        if missing > 0:
            self._received = received
        elif missing < 0:
            self._fail(f"{-missing} bytes came that nobody asked for")
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result((int(status), head, received[body_at:]))

    def _fail(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(RequestFailed(reason))
