"""HTTP without a framework: one request, its body under a limit, and its one response.

    ASGI scope ──▶ Request ──▶ handler ──▶ answer(status, headers, body)

A body is refused by its declared length before a byte of it is read, and while it streams in when
there is no length. Each answer carries ``x-request-id`` and the headers of ``lib.safe_headers``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from itertools import count
from typing import Any, Final, NamedTuple, Protocol

from mqservice.accounts.access import KeyWatch, Principal
from mqservice.delivery.limits import BODY_ARRIVAL_MS_MAX
from mqservice.delivery.spans import OperationSpan
from mqservice.groups.routes import GroupRoute
from mqservice.lib.problem import CONTENT_TYPE, Problem, problem_bytes
from mqservice.lib.request_ids import accepted_request_id, new_request_id
from mqservice.lib.safe_headers import Headers, api_headers, header_lines, refusal_headers
from mqservice.quotas.meter import TenantMeter
from mqservice.topics.routes import TopicRoute
from mqservice.web.cycle import write_response

Scope = MutableMapping[str, Any]  # Any: what ASGI servers put into a scope is untyped
Message = MutableMapping[str, Any]  # Any: as above
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON_TYPE: Final = b"application/json"
NDJSON_TYPE: Final = b"application/x-ndjson"
MSGPACK_TYPE: Final = b"application/msgpack"
_PROBLEM_HEADER: Final = (b"content-type", CONTENT_TYPE.encode())
_CLOSE_HEADER: Final = (b"connection", b"close")
_SAFE_HEADERS: Final = api_headers()
_SAFE_LINES: Final = header_lines(_SAFE_HEADERS)
_REFUSAL_HEADERS: Final = refusal_headers()
_ANSWER: Final = "http.response"
_NO_CLIENT: Final = ("0.0.0.0", 0)
_LENGTH_DIGITS_MAX: Final = 19
UPGRADE_REFUSAL_EXTENSION: Final = "websocket.http.response"
_GONE_SECONDS_MAX: Final = 1.0

# The ids of a process differ in their second half only; that is enough to find a request, and saves
# the hot path 26 look-ups.
_id_head = new_request_id()[:16]
_id_numbers = count()


class ClientDisconnected(Exception):
    """The client closed the connection before its request was complete: nobody to answer."""


class Match(NamedTuple):
    """A path of the data plane, taken apart. ``ns`` is ``-`` for the key's own namespace."""

    operation: str
    ns: str
    topic: str
    group: str
    message_id: str = ""
    queue: str = ""


class Exchange(Protocol):
    """Who sends the one response of each request, and counts it."""

    def reply(self, request: Request, status: int, content: bytes, media_type: bytes) -> None: ...

    def fail(self, request: Request, error: BaseException) -> None: ...


class Request:
    """One request of the data plane. Its handler calls ``reply`` or ``fail``, once, now or later;
    neither raises.

    ``topic`` and ``group`` are there once the handler has looked them up.
    """

    topic: TopicRoute | None = None
    group: GroupRoute | None = None
    principal: Principal
    meter: TenantMeter | None = None
    is_admitted = False  # whether it was held against the tenant's rates
    is_charged = False  # whether what it reads is charged at its end
    is_counted = False  # whether it has ended
    is_reading = True  # what is read is charged, and not what is produced or settled
    ended: asyncio.Future[None] | None = None  # awaited by the task that serves it
    message_count = 1  # in the answer, as it is charged
    read_count = 0  # messages in the answer that were received
    response_bytes = 0
    span: OperationSpan | None = None  # where tracing is on
    more_headers: Headers | tuple[()] = ()  # of the response
    credential = b""  # of its key, and who tells of changes of it; unset: its authorization header
    key_watch: KeyWatch | None = None

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        match: Match,
        headers: dict[bytes, bytes],
        exchange: Exchange,
    ) -> None:
        self._exchange = exchange
        self.scope = scope
        self.receive = receive
        self.send = send
        self.match = match
        self.headers = headers
        self.request_id = request_id_of(headers)

    def reply(self, status: int, content: bytes, media_type: bytes = JSON_TYPE) -> None:
        """Send the response."""
        self._exchange.reply(self, status, content, media_type)

    def fail(self, error: BaseException) -> None:
        """Send what went wrong: a Problem, Fault or StoreError, or that it is a fault of ours."""
        self._exchange.fail(self, error)

    @property
    def client(self) -> tuple[str, int]:
        """Address and port of the peer, as BORNHOST keeps it."""
        client = self.scope["client"]
        return _NO_CLIENT if client is None else (client[0], client[1] or 0)

    @property
    def media_type(self) -> bytes:
        """Content type in lower case without its parameters; empty when there is none."""
        content_type = self.headers.get(b"content-type", b"")
        if content_type == JSON_TYPE:
            return JSON_TYPE
        return content_type.partition(b";")[0].strip().lower()


def request_id_of(headers: dict[bytes, bytes]) -> str:
    """The caller's own id if it sent a harmless one, else a new one."""
    given = headers.get(b"x-request-id")
    if given is not None:
        return accepted_request_id(given.decode("latin-1"))
    return f"{_id_head}{next(_id_numbers):010X}"


def check_body(request: Request, bytes_max: int, body: bytes = b"") -> None:
    """Refuse a body by what the head says of it, before a byte of it is read, or with what was
    read: it may be too large although its head does not say so.

    Raises Problem: 413 above ``bytes_max``, 415 when it is encoded, 400 for a length that is none.
    """
    headers = request.headers
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise Problem.of(
            "UNSUPPORTED_MEDIA_TYPE", "send the body without a content-encoding", stored=False
        )
    declared = headers.get(b"content-length")
    if declared is not None:
        if not declared.isdigit():
            raise Problem.of("BAD_REQUEST", "content-length must be a number")
        if len(declared) > _LENGTH_DIGITS_MAX or int(declared) > bytes_max:
            raise _too_large(f"{declared[:_LENGTH_DIGITS_MAX].decode()} bytes are", bytes_max)
    if len(body) > bytes_max:
        raise _too_large(f"{len(body)} bytes are", bytes_max)


async def read_body(request: Request, bytes_max: int) -> bytes:
    """The whole body.

    Raises:
        Problem: 413 above ``bytes_max``, 415 when it is encoded, 408 when it takes too long.
        ClientDisconnected: the connection ended first.
    """
    check_body(request, bytes_max)
    message = await request.receive()
    if message["type"] != "http.request":
        raise ClientDisconnected
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        check_body(request, bytes_max, body)
        return body
    try:
        async with asyncio.timeout(BODY_ARRIVAL_MS_MAX / 1_000):
            return await _read_parts(request, body, bytes_max)
    except TimeoutError as exc:
        raise Problem.of(
            "REQUEST_TIMEOUT",
            f"the body did not arrive within {BODY_ARRIVAL_MS_MAX} ms",
            stored=False,
        ) from exc


async def _read_parts(request: Request, first: bytes, bytes_max: int) -> bytes:
    parts = [first]
    total_bytes = len(first)
    while True:
        if total_bytes > bytes_max:
            raise _too_large("more is", bytes_max)
        message = await request.receive()
        if message["type"] != "http.request":
            raise ClientDisconnected
        part = message.get("body", b"")
        parts.append(part)
        total_bytes += len(part)
        if not message.get("more_body", False):
            if total_bytes > bytes_max:
                raise _too_large("more is", bytes_max)
            return b"".join(parts)


def _too_large(what: str, bytes_max: int) -> Problem:
    return Problem.of(
        "BODY_TOO_LARGE", f"{what} more than the {bytes_max} bytes allowed here", stored=False
    )


async def respond(
    request: Request,
    status: int,
    body: bytes,
    content_type: bytes = JSON_TYPE,
) -> None:
    """Send the one answer of ``request``."""
    if not try_respond(request, status, body, content_type):
        headers = [
            (b"content-type", content_type),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", request.request_id.encode()),
            *_SAFE_HEADERS,
            *request.more_headers,
            *quota_headers(request),
        ]
        send = request.send
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        if request.span is not None:
            request.span.end()


def try_respond(
    request: Request, status: int, body: bytes, content_type: bytes = JSON_TYPE
) -> bool:
    """``respond`` if that can be done without waiting; False: nothing was sent."""
    request.response_bytes = len(body)
    meter = request.meter
    lines = b"content-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n%b%b%b" % (
        content_type,
        len(body),
        request.request_id.encode(),
        _SAFE_LINES,
        header_lines(request.more_headers) if request.more_headers else b"",
        b"" if meter is None else meter.header_lines(is_reading=request.is_reading),
    )
    is_sent = write_response(request.send, status, lines, body)
    if is_sent and request.span is not None:
        request.span.end()
    return is_sent


def quota_headers(request: Request) -> Headers:
    """What the tenant's rates are and how much of them is left; none for strangers."""
    meter = request.meter
    return [] if meter is None else meter.headers(is_reading=request.is_reading)


async def respond_problem(request: Request, problem: Problem, extra: Headers | None = None) -> None:
    """Send ``problem`` as the answer of ``request``."""
    if request.span is not None:
        request.span.end(problem.code)
    await send_problem(
        request.send,
        problem,
        path=request.scope["path"],
        request_id=request.request_id,
        # What is still on its way of a body without a length has no end we know of.
        close=problem.status in (408, 413) and b"content-length" not in request.headers,
        extra=quota_headers(request) + (extra or []),
    )


def problem_head(problem: Problem, body: bytes, request_id: str) -> Headers:
    """Headers of a problem document."""
    return [
        _PROBLEM_HEADER,
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id.encode()),
        *_REFUSAL_HEADERS,
        *((name.encode(), value.encode()) for name, value in problem.headers.items()),
    ]


async def send_problem(
    send: Send,
    problem: Problem,
    *,
    path: str,
    request_id: str,
    close: bool = False,
    extra: Headers | None = None,
    kind: str = _ANSWER,
) -> None:
    """Send ``problem`` over an HTTP request, or with another ``kind`` over a refused upgrade."""
    body = problem_bytes(problem, instance=path, request_id=request_id)
    headers = problem_head(problem, body, request_id) + (extra or [])
    if close:
        headers.append(_CLOSE_HEADER)
    # To close the connection is uvicorn's.
    if (
        kind == _ANSWER
        and not close
        and write_response(send, problem.status, header_lines(headers), body)
    ):
        return
    await send({"type": f"{kind}.start", "status": problem.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


async def reject_upgrade(
    receive: Receive, send: Send, problem: Problem, *, path: str, request_id: str
) -> None:
    """Answer a WebSocket handshake with ``problem`` instead of an upgrade."""
    await send_problem(
        send, problem, path=path, request_id=request_id, kind=UPGRADE_REFUSAL_EXTENSION
    )
    # uvicorn calls it an error when the application is done before the connection is: it reports
    # the end of the answer first and then the end of the connection.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GONE_SECONDS_MAX):
            await receive()
            await receive()
