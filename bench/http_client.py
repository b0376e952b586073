"""An HTTP/1.1 client made for counting: one connection, one POST of JSON at a time."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from bench.measure import MeasureFailed

HEAD_END = b"\r\n\r\n"


class RequestFailed(MeasureFailed):
    """An answer that is not 2xx."""


class LeanHttp:
    """Use ``connect``; then ``post``."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        host: str,
        authorization: str,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._fields = (
            f"host: {host}\r\nauthorization: {authorization}\r\ncontent-type: application/json\r\n"
        )

    @classmethod
    async def connect(cls, base_url: str, *, key: str, scheme: str = "Bearer") -> LeanHttp:
        parts = urlsplit(base_url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
        return cls(reader, writer, parts.netloc, f"{scheme} {key}")

    async def post(self, path: str, content: bytes) -> bytes:
        """The answer's body. Raises RequestFailed unless it is 2xx."""
        status, head, body = await self.exchange(path, content)
        if not 200 <= status < 300:
            raise RequestFailed(f"{path}: {head[:60]!r} {body[:300]!r}")
        return body

    async def exchange(self, path: str, content: bytes) -> tuple[int, bytes, bytes]:
        """(status, head in lower case, body). Raises RequestFailed when it is no answer."""
        head = f"POST {path} HTTP/1.1\r\n{self._fields}content-length: {len(content)}\r\n\r\n"
        return await self._answer(path, head.encode() + content)

    async def send_whole(self, request: bytes) -> bytes:
        """The answer's body to a request as it stands. Raises RequestFailed unless it is 2xx."""
        status, head, body = await self._answer("a whole request", request)
        if not 200 <= status < 300:
            raise RequestFailed(f"{head[:60]!r} {body[:300]!r}")
        return body

    async def _answer(self, path: str, request: bytes) -> tuple[int, bytes, bytes]:
        self._writer.write(request)
        answer = (await self._reader.readuntil(HEAD_END)).lower()
        _, _, rest = answer.partition(b"content-length:")
        length = int(rest.partition(b"\r\n")[0] or -1)
        body = await self._reader.readexactly(length) if length >= 0 else b""
        status = answer[9:12]
        if not answer.startswith(b"http/1.1 ") or not status.isdigit() or length < 0:
            raise RequestFailed(f"{path}: {answer[:60]!r} {body[:300]!r}")
        return int(status), answer, body

    def close(self) -> None:
        self._writer.transport.abort()
