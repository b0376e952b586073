"""One system call for what a connection writes in one tick: the head and the body of an answer.

    uvicorn: write(head), write(body) ──▶ [CorkedTransport] ──▶ one write at the end of the tick

uvloop hands each write to the kernel at once, and on the hot path the second call costs as much as
all of the handler. What waits here is at most ``CORK_BYTES_MAX``, so the limits of the transport
below still hold back a sender whose client does not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mqservice.lib.problem import CONTENT_TYPE, Problem, problem_bytes
from mqservice.lib.request_ids import new_request_id

CORK_BYTES_MAX: Final = 32 * 1024
HEAD_BYTES_MAX: Final = 64 * 1024
_JOINED_BYTES_MAX: Final = 16 * 1024  # below it, copying costs less than a list of pieces
HEADERS_MAX: Final = 256  # a raw message has up to 128 properties


def _bare_answer(code: str, detail: str) -> bytes:
    """A whole answer for a request of which too little is known for anything better."""
    problem = Problem.of(code, detail)
    request_id = new_request_id()
    body = problem_bytes(problem, instance="", request_id=request_id)
    return (
        f"HTTP/1.1 {problem.status} {problem.title}\r\ncontent-type: {CONTENT_TYPE}\r\n"
        f"content-length: {len(body)}\r\nx-request-id: {request_id}\r\n"
        "x-content-type-options: nosniff\r\ncache-control: no-store\r\n"
        "connection: close\r\n\r\n"
    ).encode() + body


_HEAD_TOO_LARGE: Final = _bare_answer(
    "HEADERS_TOO_LARGE",
    f"the head of a request has at most {HEAD_BYTES_MAX} bytes and {HEADERS_MAX} headers",
)
_HEAD_TOO_SLOW: Final = _bare_answer("REQUEST_TIMEOUT", "the head of the request came too slowly")
_NOT_HTTP: Final = _bare_answer(
    "BAD_REQUEST", "this is not HTTP/1.1, or it can be read in more than one way"
)
# Given twice, each reader may believe another one of them.
_ONCE: Final = (
    b"host",
    b"authorization",
    b"content-type",
    b"content-encoding",
    b"transfer-encoding",
)


class _AmbiguousHead(Exception):
    """Raised within the parser, which then refuses the request and closes the connection."""


Buffer = bytes | bytearray | memoryview


class CorkedTransport(asyncio.Transport):
    """A transport in front of another one. One event loop uses it."""

    __slots__ = ("_below", "_is_scheduled", "_loop", "_parts", "_waiting_bytes")

    def __init__(self, below: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._below = below
        self._loop = loop
        self._parts: list[Buffer] = []
        self._waiting_bytes = 0
        self._is_scheduled = False

    def write(self, data: Buffer) -> None:
        """Send ``data`` at the end of this tick, or now if much waits already."""
        self._parts.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > CORK_BYTES_MAX:
            self._flush()
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._uncork)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self._flush()
        self._below.close()

    def abort(self) -> None:
        self._parts.clear()
        self._below.abort()

    def write_eof(self) -> None:
        self._flush()
        self._below.write_eof()

    def can_write_eof(self) -> bool:
        return self._below.can_write_eof()

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def is_reading(self) -> bool:
        return self._below.is_reading()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._below.set_protocol(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._below.get_protocol()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # Any: as asyncio types it
        return self._below.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._waiting_bytes + self._below.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._below.get_write_buffer_limits()

    def _uncork(self) -> None:
        self._is_scheduled = False
        self._flush()

    def _flush(self) -> None:
        parts = self._parts
        if not parts:
            return
        if len(parts) == 1:
            self._below.write(parts[0])
        elif self._waiting_bytes > _JOINED_BYTES_MAX:
            self._below.writelines(parts)
        else:
            self._below.write(b"".join(parts))
        self._parts = []
        self._waiting_bytes = 0


class CorkedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP over a corked transport, which an upgraded WebSocket inherits.

    Also bounds what uvicorn does not: how large a request's head may be and how long it may take;
    and refuses what its parser takes although a proxy might read it in another way.
    """

    head_seconds_max: ClassVar[float] = 20.0

    _is_in_head = False
    _head_bytes = 0
    _fed_bytes = 0
    _head_answer = _NOT_HTTP
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override] # uvicorn narrows the argument as well
        self, transport: asyncio.Transport
    ) -> None:
        super().connection_made(CorkedTransport(transport, self.loop))
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._fed_bytes = len(data)
        super().data_received(data)
        if not self._is_in_head:
            return
        # Rare: most heads come whole. What the parser holds grows with each part until it is.
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(_HEAD_TOO_LARGE)
        elif self._head_timer is None:
            self._start_head_timer()

    def on_message_begin(self) -> None:
        self._is_in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self._head_timer is not None:
            self._stop_head_timer()
        headers = self.headers
        fields = dict(headers)
        if len(fields) != len(headers) or len(headers) > HEADERS_MAX:
            self._check_many()
        if self._head_bytes + self._fed_bytes > HEAD_BYTES_MAX:
            self._check_size()
        coding = fields.get(b"transfer-encoding")
        if coding is not None:
            is_plain = coding.lower() == b"chunked" and self.parser.get_http_version() == "1.1"
            if not is_plain:
                raise _AmbiguousHead
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._head_answer)

    def _check_size(self) -> None:
        """Whether it is the head that is so large, and not the body behind it."""
        sizes = [len(name) + len(value) for name, value in self.headers]
        if len(self.url) + sum(sizes) > HEAD_BYTES_MAX:
            self._head_answer = _HEAD_TOO_LARGE
            raise _AmbiguousHead

    def _check_many(self) -> None:
        names = [name for name, _ in self.headers]
        if len(names) > HEADERS_MAX:
            self._head_answer = _HEAD_TOO_LARGE
            raise _AmbiguousHead
        if any(names.count(name) > 1 for name in _ONCE):
            raise _AmbiguousHead

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds_max, self._refuse, _HEAD_TOO_SLOW)

    def _stop_head_timer(self) -> None:
        timer, self._head_timer = self._head_timer, None
        if timer is not None:
            timer.cancel()

    def _refuse(self, answer: bytes) -> None:
        self._is_in_head = False
        self._stop_head_timer()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.close()
