"""HTTP/1.1 for the commands: a bounded pool of connections that stay open, on asyncio.

    RestClient ─▶ [Connections.request] ─▶ asyncio streams ─▶ the service, or a proxy before it
               ◀── Response, NotConnected, NoResponse

A general client library takes longer to load than all that a command does besides, twice over.
What a command needs of HTTP is little: bodies known beforehand, no redirects, no cookies, no
content encodings. The parser is the one that the web processes have (httptools).

Invariants: ``NotConnected`` means that no byte of the request was written. Nothing is sent twice.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, unquote, urlsplit

import httptools
import msgspec

if TYPE_CHECKING:
    import ssl

CHUNK_BYTES: Final = 256 * 1024
HEADER_BYTES_MAX: Final = 64 * 1024
RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024  # a report or an export; all else is far smaller
PORTS: Final = {"http": 80, "https": 443}
OK: Final = 200


class HttpError(Exception):
    """Root of what goes wrong below a response. ``__cause__`` is what the system said."""


class NotConnected(HttpError):
    """No connection; no byte of the request was written."""


class NoResponse(HttpError):
    """The request was sent, at least in part, and no whole response came."""


class Response(msgspec.Struct, frozen=True):
    status: int
    content: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class Connections:
    """Up to ``connections_max`` connections to the place of ``base_url``, kept for reuse."""

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str],
        connections_max: int,
        connect_timeout_ms: int,
        may_use_proxy: bool,
    ) -> None:
        """``may_use_proxy``: whether the proxies of the environment are asked."""
        self._place = urlsplit(base_url)
        self._proxy = _find_proxy(self._place) if may_use_proxy else None
        self._fixed = _header_lines({"host": self._place.netloc.rpartition("@")[2], **headers})
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._slots = asyncio.Semaphore(connections_max)
        self._idle: list[_Connection] = []
        self._ssl: ssl.SSLContext | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        timeout_ms: int,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send one request and wait for its response, whatever its status.

        ``timeout_ms``: without any progress in sending or receiving.

        Raises:
            NotConnected: nobody listens there, or no connection was free in time.
            NoResponse: the connection broke or stood still, or what came is no HTTP.
        """
        head = self._head(method, path, content, headers or {})
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._slots.acquire()
        except TimeoutError as exc:
            raise NotConnected("no connection became free in time") from exc
        try:
            connection = self._reusable() or await self._connect()
            is_kept = False
            try:
                response = await connection.exchange(head, content or b"", timeout_ms / 1000)
                is_kept = connection.is_reusable
            finally:
                if is_kept:
                    self._idle.append(connection)
                else:
                    connection.close()
            return response
        finally:
            self._slots.release()

    async def aclose(self) -> None:
        """Close what is open; a TLS connection says goodbye first."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        for connection in idle:
            await connection.wait_closed()

    def _head(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]
    ) -> bytes:
        """The request without its body. Raises ValueError for what no header line can hold."""
        where = self._place.path.rstrip("/") + path
        if self._proxy is not None and self._place.scheme == "http":
            where = f"http://{self._place.netloc.rpartition('@')[2]}{where}"
            headers = {**headers, **_proxy_authorization(self._proxy)}
        if content is not None or method in ("POST", "PUT", "PATCH"):
            headers = {**headers, "content-length": str(len(content or b""))}
        line = f"{method} {where} HTTP/1.1\r\n".encode("ascii")
        return line + self._fixed + _header_lines(headers) + b"\r\n"

    def _reusable(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable:
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        place = self._proxy or self._place
        port = place.port or PORTS[place.scheme]
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                is_tls = place.scheme == "https"
                reader, writer = await asyncio.open_connection(
                    place.hostname, port, ssl=self._tls() if is_tls else None
                )
                connection = _Connection(reader, writer)
                if self._proxy is not None and self._place.scheme == "https":
                    await self._tunnel(connection, self._proxy)
                return connection
        except (OSError, HttpError) as exc:  # TimeoutError and SSLError are of the former
            raise NotConnected(str(exc) or "timed out") from exc

    async def _tunnel(self, connection: _Connection, proxy: SplitResult) -> None:
        """Let the proxy connect to the service, and speak TLS through it."""
        host = f"{self._place.hostname}:{self._place.port or PORTS['https']}"
        lines = _header_lines({"host": host, **_proxy_authorization(proxy)})
        head = f"CONNECT {host} HTTP/1.1\r\n".encode("ascii") + lines + b"\r\n"
        response = await connection.exchange(head, b"", self._connect_timeout_s, is_tunnel=True)
        if response.status != OK:
            connection.close()
            raise NotConnected(f"the proxy {proxy.hostname} responded with {response.status}")
        await connection.start_tls(self._tls(), self._place.hostname or "")

    def _tls(self) -> ssl.SSLContext:
        if self._ssl is None:
            import ssl

            self._ssl = ssl.create_default_context()
        return self._ssl


class _Connection:
    """One connection and the parsing of one response at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._parser: httptools.HttpResponseParser
        self._reader = reader
        self._writer = writer
        self._parts: list[bytes] = []
        self._size = 0
        self._is_framed = self._has_head = self._is_whole = self._is_persistent = False
        self._is_clean = True

    @property
    def is_reusable(self) -> bool:
        is_open = not self._reader.at_eof() and not self._writer.is_closing()
        return self._is_clean and is_open

    async def exchange(
        self, head: bytes, body: bytes, timeout_s: float, *, is_tunnel: bool = False
    ) -> Response:
        """Raises NoResponse. ``is_tunnel``: a 2xx has no body, whatever its lines say."""
        self._is_clean = False
        try:
            await self._write(head, body, timeout_s)
            response, self._is_clean = await self._read(timeout_s, is_tunnel=is_tunnel)
            return response
        except (OSError, httptools.HttpParserError) as exc:
            raise NoResponse(str(exc) or "timed out") from exc

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        await self._writer.start_tls(context, server_hostname=host)

    def close(self) -> None:
        self._writer.close()

    async def wait_closed(self) -> None:
        try:
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
        except OSError:
            pass  # it was broken before; nothing was under way on it

    async def _write(self, head: bytes, body: bytes, timeout_s: float) -> None:
        """A service that refuses a body closes while it is sent; its response is there to read."""
        try:
            if len(body) <= CHUNK_BYTES:
                self._writer.write(head + body)
                await self._drain(timeout_s)
                return
            self._writer.write(head)
            for start in range(0, len(body), CHUNK_BYTES):
                self._writer.write(body[start : start + CHUNK_BYTES])
                await self._drain(timeout_s)
        except ConnectionError:
            pass

    async def _drain(self, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s):
            await self._writer.drain()

    async def _read(self, timeout_s: float, *, is_tunnel: bool) -> tuple[Response, bool]:
        parser = self._parser = httptools.HttpResponseParser(self)
        self._parts, self._size = [], 0
        self._is_framed = self._has_head = self._is_whole = self._is_persistent = False
        has_rest = False
        while not (self._is_whole or (is_tunnel and self._has_head)):
            async with asyncio.timeout(timeout_s):
                chunk = await self._reader.read(CHUNK_BYTES)
            if not chunk:
                if self._has_head and not self._is_framed:
                    break  # a body without a length ends with the connection
                raise NoResponse("the connection was closed before the response was complete")
            self._size += len(chunk)
            if self._size > RESPONSE_BYTES_MAX or (
                not self._has_head and self._size > HEADER_BYTES_MAX + CHUNK_BYTES
            ):
                raise NoResponse(f"the response has more than {RESPONSE_BYTES_MAX:,} bytes")
            try:
                parser.feed_data(chunk)
            except httptools.HttpParserError:
                if not self._is_closed_by_peer():
                    raise
                has_rest = True  # what follows is of no request: this was the last response here
        is_kept = self._is_whole and not has_rest and self._is_persistent
        is_persistent = is_tunnel or is_kept
        return Response(parser.get_status_code(), b"".join(self._parts)), is_persistent

    def _is_closed_by_peer(self) -> bool:
        return self._is_whole

    # Called by the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self._is_framed = True

    def on_headers_complete(self) -> None:
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < OK:  # an interim one; the response follows
            self._is_framed = self._has_head = False
            return
        self._is_whole = True
        self._is_persistent = self._parser.should_keep_alive()  # unknown once it has returned


def _header_lines(headers: Mapping[str, str]) -> bytes:
    """Raises ValueError for a value that would be another line, or none at all."""
    lines = []
    for name, value in headers.items():
        if any(each in value for each in "\r\n\0"):
            raise ValueError(f"the header {name} cannot hold {value!r}")
        lines.append(f"{name}: {value}\r\n".encode("latin-1"))
    return b"".join(lines)


def _find_proxy(place: SplitResult) -> SplitResult | None:
    """What HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY of the environment say of a place."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    # Without types of its own for the second one.
    from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

    proxies = getproxies_environment()
    if proxy_bypass_environment(place.hostname or "", proxies):
        return None
    url = proxies.get(place.scheme) or proxies.get("all")
    if not url:
        return None
    proxy = urlsplit(url if "://" in url else f"http://{url}")
    return proxy if proxy.scheme in PORTS and proxy.hostname else None


def _proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"proxy-authorization": f"Basic {b64encode(pair.encode()).decode()}"}
