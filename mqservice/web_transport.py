"""uvicorn's HTTP with limits for heads, and a short way for requests that are whole at once.

bytes ──▶ [CorkedHttpProtocol] ── head too large, too slow, ambiguous ──▶ refused, closed
               │ whole at the end of one read ──▶ application.take_whole ──▶ answered, no task
               └ all else ──▶ a task, as uvicorn has it ──▶ application
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mqservice.lib.corked_transport import CorkedTransport
from mqservice.lib.problem import CONTENT_TYPE, Problem, problem_bytes
from mqservice.lib.request_ids import new_request_id

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

HEAD_BYTES_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 256  # a raw message has up to 128 properties
# Requests that wait on a connection for the one before, and all their bodies; then nothing is read.
PIPELINE_COUNT_MAX: Final = 8
PIPELINE_BODY_BYTES_MAX: Final = 64 * 1024


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


TakeWhole = Callable[[RequestResponseCycle, dict[bytes, bytes]], bool]


class _Proxies(ProxyHeadersMiddleware):
    """uvicorn's word on whom a trusted proxy speaks for, without the application behind it."""

    def __init__(self, middleware: ProxyHeadersMiddleware) -> None:
        self.app = _answer_nobody
        self.trusted_hosts = middleware.trusted_hosts

    def resolve(self, cycle: RequestResponseCycle) -> None:
        """Put the client's own address into the scope of ``cycle``; once more changes nothing."""
        with contextlib.suppress(StopIteration):  # all it waits for is the application
            self(cycle.scope, cycle.receive, cycle.send).send(None)


async def _answer_nobody(scope: object, receive: object, send: object) -> None:
    """In the place of an application."""


class CorkedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP over a corked transport, which an upgraded WebSocket inherits.

    Also bounds what uvicorn does not: how large a request's head may be and how long it may take;
    and refuses what its parser takes although a proxy might read it in another way.

    An application with ``take_whole`` is shown each request that came whole in one read, with its
    headers, before a task is made for it; True means that it answers the cycle without one.
    """

    head_seconds_max: ClassVar[float] = 20.0

    _is_in_head = False
    _head_bytes = 0
    _fed_bytes = 0
    _head_answer = _NOT_HTTP
    _head_timer: asyncio.TimerHandle | None = None
    _idle_since_s: float | None = None  # of the loop's clock; None while a request is under way
    _fields: dict[bytes, bytes]
    _is_starting = False  # uvicorn is about to make a task for the request whose head has ended
    _held: RequestResponseCycle | None = None  # that may be whole at the end of this read

    def __init__(self, *given: Any, **named: Any) -> None:  # Any: as uvicorn has them
        super().__init__(*given, **named)
        app: object = self.app
        self._proxies: _Proxies | None = None
        if isinstance(app, ProxyHeadersMiddleware):
            self._proxies, app = _Proxies(app), app.app
        self._take_whole: TakeWhole | None = getattr(app, "take_whole", None)

    def connection_made(  # type: ignore[override] # uvicorn narrows the argument as well
        self, transport: asyncio.Transport
    ) -> None:
        self._corked = CorkedTransport(transport, self.loop)
        super().connection_made(self._corked)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)
        self._corked.lost()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def data_received(self, data: bytes) -> None:
        self._fed_bytes = len(data)
        super().data_received(data)
        if self._held is not None:
            self._let_go()
        if self.pipeline:
            self._read_on()
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
        self._fields = fields
        self._is_starting = self._take_whole is not None
        try:
            super().on_headers_complete()
        finally:
            self._is_starting = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        cycle = self._held
        if cycle is not None:
            assert self._take_whole is not None
            if self._proxies is not None:
                self._proxies.resolve(cycle)
            if self._take_whole(cycle, self._fields):
                self._held = None
            else:
                self._let_go()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._is_starting and app is self.app:
            self._held = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """As uvicorn's, but with one timer for all the pauses of a connection."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._start_keep_alive_timer(self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since_s = None  # something has come

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_since_s is None:
            return  # the end of the request that is under way starts it again
        left_s = self._idle_since_s + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._start_keep_alive_timer(left_s)
        else:
            super().timeout_keep_alive_handler()

    def _start_keep_alive_timer(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def _read_on(self) -> None:
        """Unlike uvicorn, which reads nothing behind a request that has to wait: then it would not
        be heard either that the client leaves while it is waited for.
        """
        waiting = [len(cycle.body) for cycle, _ in self.pipeline]
        if len(waiting) <= PIPELINE_COUNT_MAX and sum(waiting) <= PIPELINE_BODY_BYTES_MAX:
            self.flow.resume_reading()

    def _let_go(self) -> None:
        """To the task that uvicorn would have made at once."""
        cycle, self._held = self._held, None
        assert cycle is not None
        super()._start_asgi_task(cycle, self.app)

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
