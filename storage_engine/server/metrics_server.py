"""Answers ``GET /metrics`` and ``GET /healthz``; HTTP/1.1, nothing more.

    Prometheus ── request head ──▶ [MetricsServer] ── metrics() or health() ──▶ text, then the end

One request a connection. Head, time and number of connections have limits, and a body is never
read: whoever is slow or sends nonsense loses a connection and costs the engine nothing else. Runs
on the engine's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple, cast

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

HOST: Final = "127.0.0.1"
HEAD_BYTES_MAX: Final = 8 * 1_024
CONNECTION_COUNT_MAX: Final = 16
CONNECTION_MS_MAX: Final = 5_000  # from accept to the last byte of the answer
_IGNORED_BYTES_MAX: Final = 64 * 1_024  # of a body that came with the request
_METHODS: Final = frozenset({b"GET", b"HEAD"})
_HEAD_END: Final = b"\r\n\r\n"
_PLAIN: Final = "text/plain; charset=utf-8"

Response = tuple[HTTPStatus, str, bytes]


class Health(NamedTuple):
    """``text``: a line for people."""

    takes_puts: bool
    text: str


class MetricsServer:
    """See the module's docstring. ``health`` says why the engine takes no puts, if so."""

    def __init__(self, metrics: Callable[[], bytes], health: Callable[[], Health]) -> None:
        self._metrics = metrics
        self._health = health
        self._listener: asyncio.Server | None = None
        self.connections: set[_Connection] = set()

    def report(self, metrics: Callable[[], bytes], health: Callable[[], Health]) -> None:
        """Answer with these from now on: a replica has become the owner."""
        self._metrics = metrics
        self._health = health

    async def start(self, port: int, *, host: str = HOST) -> int:
        """Listen; the port, chosen by the kernel when it is 0. Raises ``OSError``: it is taken, or
        ``host`` is no address of this machine.
        """
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(partial(_Connection, self), host, port)
        bound: int = self._listener.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Nothing happens where it has stopped already, or never began."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
            for connection in list(self.connections):
                connection.abort()
            await listener.wait_closed()
            await asyncio.sleep(0)  # an abort is told on the next turn of the loop

    def respond(self, head: bytes) -> tuple[Response, bool]:
        """What to say to a request's head, and whether the method wants to hear all of it."""
        method, _, rest = head.partition(_HEAD_END)[0].partition(b"\r\n")[0].partition(b" ")
        target, _, version = rest.partition(b" ")
        path = target.partition(b"?")[0]
        if not version.startswith(b"HTTP/") or not path.startswith(b"/"):
            return _status_text(HTTPStatus.BAD_REQUEST), True
        if version not in (b"HTTP/1.1", b"HTTP/1.0"):
            return _status_text(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED), True
        if path not in (b"/metrics", b"/healthz"):
            return _status_text(HTTPStatus.NOT_FOUND), method != b"HEAD"
        if method not in _METHODS:
            return _status_text(HTTPStatus.METHOD_NOT_ALLOWED), True
        has_body = method == b"GET"
        if path == b"/metrics":
            return (HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, self._metrics()), has_body
        health = self._health()
        status = HTTPStatus.OK if health.takes_puts else HTTPStatus.SERVICE_UNAVAILABLE
        return (status, _PLAIN, f"{health.text}\n".encode()), has_body


class _Connection(asyncio.Protocol):
    """One client: reads a head, answers, waits for the client to go."""

    def __init__(self, server: MetricsServer) -> None:
        self._server = server
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle
        self._head = bytearray()
        self._has_responded = False
        self._ignored_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(CONNECTION_MS_MAX / 1_000, self.abort)
        is_full = len(self._server.connections) >= CONNECTION_COUNT_MAX
        if is_full:
            self.abort()
            return
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._server.connections.discard(self)

    def abort(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._has_responded:
            # Read and dropped: closing with unread bytes would reset the answer on its way.
            self._ignored_bytes += len(data)
            if self._ignored_bytes > _IGNORED_BYTES_MAX:
                self.abort()
            return
        self._head += data
        if _HEAD_END in self._head:
            self._respond(*self._server.respond(bytes(self._head)))
        elif len(self._head) > HEAD_BYTES_MAX:
            self._respond(_status_text(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), has_body=True)

    def eof_received(self) -> bool:
        if not self._has_responded:
            self._respond(_status_text(HTTPStatus.BAD_REQUEST), has_body=True)
        return False  # the transport closes itself once all is written

    def _respond(self, answer: Response, has_body: bool) -> None:
        status, content_type, content = answer
        self._has_responded = True
        allow = "Allow: GET, HEAD\r\n" if status is HTTPStatus.METHOD_NOT_ALLOWED else ""
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            f"Content-Type: {content_type}\r\n"
            f"Content-Length: {len(content)}\r\n"
            f"{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (content if has_body else b""))
        if not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()


def _status_text(status: HTTPStatus) -> Response:
    return status, _PLAIN, f"{status.phrase}\n".encode()
