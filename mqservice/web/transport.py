"""uvicorn's HTTP with limits for heads, holding requests until their bodies are whole.

bytes ──▶ [CorkedHttpProtocol] ── head too large, too slow, ambiguous ──▶ refused, closed
               │ held, in however many reads it comes ──▶ application.take ──▶ answered, no task
               └ a stranger's, or a large body ──▶ a task, as uvicorn has it ──▶ application

Each state of a connection has a deadline. The numbers are fields of ``ConnectionLimits``:

    state           begins with                    ends after                     then
    head            the connection, or first byte  head_ms_max                    408, closed
    body            the end of the head            body_ms_max (an application    408, closed
                                                   says 408 after 30 s)
    answering       a request that is whole        the application's own waits    answered
    sending         a full buffer                  send_ms_max                    aborted
    unwanted body   an answer before the body's    unwanted_silence_ms_max,       closed
                    end                            unwanted_ms_max, .._bytes_max
    between         an answer                      KEEP_ALIVE_SECONDS of ``web``  closed
    handshake       an upgrade                     handshake_ms_max               aborted
    lingering       the last answer, the body of   as an unwanted body            closed
                    its request not being here
    closing         a close with unsent bytes      closing_ms_max                 aborted

An unwanted body is read to its end and the connection kept, unless the client waits for ``100
Continue`` in vain and may send its next request instead. Lingering and closing are those of
``CorkedTransport``, a WebSocket's further states those of its session. Until a client has shown a
good key or session, its connection is one of ``lib.strangers``.

What is refused here is answered behind the answers of requests before it on the same connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import unquote

import httptools
from django.conf import settings
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mqservice.lib.problem import CONTENT_TYPE, Problem, problem_bytes
from mqservice.lib.request_ids import accepted_request_id, new_request_id
from mqservice.lib.throttle import network_of
from mqservice.web.connection_limits import ConnectionLimits
from mqservice.web.corked_transport import CorkedTransport
from mqservice.web.cycle import Cycle, Serve, Take
from mqservice.web.request_target import VERSIONS, RequestTargets, TargetRejected
from mqservice.web.unauthenticated import UnauthenticatedConnections

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

HEAD_BYTES_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 256  # a raw message has up to 128 properties
# Requests that wait on a connection for the one before, and all their bodies; then nothing is read.
PIPELINE_COUNT_MAX: Final = 8
PIPELINE_BODY_BYTES_MAX: Final = 64 * 1024
# A larger body is read by a task, part by part, after its head was judged.
HELD_BODY_BYTES_MAX: Final = 64 * 1024
_HELD_LENGTH_DIGITS_MAX: Final = 5


def _bare_answer(code: str, detail: str, request_id: str | None = None) -> bytes:
    """A whole answer for a request of which too little is known for anything better."""
    problem = Problem.of(code, detail)
    request_id = request_id or new_request_id()
    body = problem_bytes(problem, instance="", request_id=request_id)
    return (
        f"HTTP/1.1 {problem.status} {problem.title}\r\ncontent-type: {CONTENT_TYPE}\r\n"
        f"content-length: {len(body)}\r\nx-request-id: {request_id}\r\n"
        "x-content-type-options: nosniff\r\ncache-control: no-store\r\n"
        "connection: close\r\n\r\n"
    ).encode() + body


_HEAD_TOO_LARGE: Final = _bare_answer(
    "HEADERS_TOO_LARGE",
    f"the head of a request must have at most {HEAD_BYTES_MAX} bytes and {HEADERS_MAX} headers",
)
_HEAD_TOO_SLOW: Final = _bare_answer(
    "REQUEST_TIMEOUT", "the head of the request arrived too slowly"
)
_BODY_TOO_SLOW: Final = _bare_answer(
    "REQUEST_TIMEOUT", "the body of the request arrived too slowly"
)
_NOT_HTTP: Final = _bare_answer("BAD_REQUEST", "this is not HTTP/1.1, or it is ambiguous")
_LATER_HTTP: Final = _bare_answer("HTTP_VERSION_UNSUPPORTED", "send HTTP/1.1")
_NO_HANDSHAKE: Final = _bare_answer(
    "BAD_REQUEST",
    "a WebSocket handshake must be an HTTP/1.1 GET without a body, with no other "
    "request pending on the connection",
)
_GIVES_WAY: Final = _bare_answer(
    "REQUEST_TIMEOUT", "too many connections have not sent a key, and this is the oldest of them"
)
# What the parser says of a version it does not know; the last is HTTP/2's first line.
_VERSION_FAULTS: Final = ("Invalid HTTP version", "Pause on PRI/Upgrade")
# Given twice, each reader may believe another one of them.
_ONCE: Final = (
    b"host",
    b"authorization",
    b"content-type",
    b"content-encoding",
    b"transfer-encoding",
    b"idempotency-key",
)


class _HeadRefused(Exception):
    """Raised within the parser, which then reads no further; ``_head_answer`` is the answer."""


class _DeafParser:
    """In the place of the parser once a request was refused: what follows cannot be understood."""

    def feed_data(self, data: bytes) -> None:
        pass


# For all connections of a process: which names it has does not change.
_targets: Final = RequestTargets(lambda: settings.ALLOWED_HOSTS)


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


def _closing_unless_asked(cycle: RequestResponseCycle, app: ASGI3Application) -> ASGI3Application:
    """``app``, whose answer ends the connection when it has not asked for the body.

    Without ``100 Continue`` a client may send its body all the same, or its next request.
    """

    async def answer(scope: Any, receive: Any, send: Any) -> None:  # Any: ASGI has many types
        async def send_start(message: Any) -> None:  # Any: as above
            if cycle.waiting_for_100_continue and message["type"] == "http.response.start":
                cycle.keep_alive = False
            await send(message)

        await app(scope, receive, send_start)

    return answer


class CorkedHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP over a corked transport, which an upgraded WebSocket inherits.

    Also bounds what uvicorn does not: how large a request's head may be and how long it may take;
    and refuses what its parser takes although a proxy might read it in another way.

    An application with ``take`` is shown each request, with its headers, before a task is made for
    it. What it returns is called with the whole body, however many reads that comes in: most
    clients send head and body apart. None, or a body that is too large to hold: a task is made.
    """

    limits: ClassVar[ConnectionLimits] = ConnectionLimits()

    _is_in_head = False
    _is_in_body = False
    _head_bytes = 0
    _fed_bytes = 0
    _head_answer = _NOT_HTTP
    _refusal: bytes | None = None  # of a request behind such as are not answered yet
    _due_s: float | None = None  # when the head, the body or the unwanted body has to end
    _due_call: Callable[[], None]
    _due_timer: asyncio.TimerHandle | None = None
    _due_timer_s = 0.0
    _send_deadline: asyncio.TimerHandle | None = None
    _unwanted_bytes = 0
    _unwanted_end_s: float | None = None  # None while no body comes after its answer
    _heard_s = 0.0
    _idle_since_s: float | None = None  # of the loop's clock; None while a request is under way
    _held: Serve | None = None  # of ``cycle``, whose body is not whole, and which has no task
    _is_large = False  # the body of ``cycle``, by its declared length

    def __init__(self, *given: Any, **named: Any) -> None:  # Any: as uvicorn has them
        super().__init__(*given, **named)
        self.access_log = self.config.access_log  # not: whether anybody listens to the logger
        app: object = self.app
        self._proxies: _Proxies | None = None
        if isinstance(app, ProxyHeadersMiddleware):
            self._proxies, app = _Proxies(app), app.app
        self._take: Take | None = getattr(app, "take", None)
        strangers: UnauthenticatedConnections | None = getattr(app, "strangers", None)
        self._strangers = UnauthenticatedConnections() if strangers is None else strangers

    def connection_made(  # type: ignore[override] # uvicorn narrows the argument as well
        self, transport: asyncio.Transport
    ) -> None:
        self._corked = CorkedTransport(
            transport,
            self.loop,
            limits=self.limits,
            is_request_unread=lambda: self._is_in_body,
        )
        super().connection_made(self._corked)
        self._start_deadline(self.limits.head_ms_max, self._end_head)
        self._corked.when_recognised(self._leave_strangers)
        self._corked.when_lost(self._leave_strangers)
        self._strangers.add(
            self,
            self._address(),
            of_address_max=self.limits.strangers_of_address_max,
            count_max=self.limits.strangers_max,
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._held = None
        self._end_deadlines()
        self.resume_writing()
        super().connection_lost(exc)
        self._corked.lost()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def data_received(self, data: bytes) -> None:
        self._idle_since_s = None
        self._fed_bytes = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._upgrade(data[exc.args[0] :])
            return
        except httptools.HttpParserError as exc:
            is_later = str(exc) in _VERSION_FAULTS
            self._refuse(_LATER_HTTP if is_later else self._head_answer)
            return
        if self._held is not None and (
            self._is_large or len(self.cycle.body) > HELD_BODY_BYTES_MAX
        ):
            self._let_go()
        if self.pipeline:
            self._read_on()
        # Rare: most requests come whole.
        if self._is_in_head:
            self._wait_for_head(len(data))
        elif self._is_in_body:
            self._wait_for_body(len(data))

    def _wait_for_head(self, part_bytes: int) -> None:
        """What the parser holds of a head grows with each part until it is whole."""
        self._head_bytes += part_bytes
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(_HEAD_TOO_LARGE)
        elif self._due_s is None:
            self._start_deadline(self.limits.head_ms_max, self._end_head)

    def _wait_for_body(self, part_bytes: int) -> None:
        if self._unwanted_end_s is not None:
            self._heard_s = self.loop.time()
            self._unwanted_bytes += part_bytes
            if self._unwanted_bytes > self.limits.unwanted_bytes_max:
                self._corked.close_now()
        elif self._due_s is None and not self.pipeline:
            # Of what waits behind other requests nothing may be read for as long as those take.
            self._start_deadline(self.limits.body_ms_max, self._end_body)

    def on_message_begin(self) -> None:
        self._is_in_head = True
        self._head_bytes = 0
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """As uvicorn's, but for trailers: those are no headers, and come when heads were judged."""
        if self._is_in_head:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """In the place of uvicorn's, which takes the target apart with a second parser."""
        self._due_s = None
        headers = self.headers
        fields = dict(headers)
        if len(fields) != len(headers) or len(headers) > HEADERS_MAX:
            self._check_many()
        if self._head_bytes + self._fed_bytes > HEAD_BYTES_MAX:
            self._check_size()
        parser = self.parser
        version = parser.get_http_version()
        url = self.url
        is_usual = url[:1] == b"/" and b"#" not in url and version in VERSIONS
        if not is_usual or not _targets.is_ours(fields.get(b"host")):
            self._check_target(fields, version)
            url = self.url
        coding = fields.get(b"transfer-encoding")
        if coding is not None:
            is_plain = coding.lower() == b"chunked" and version == "1.1"
            if not is_plain:
                raise _HeadRefused
        raw_path, _, query = url.partition(b"?")
        path = raw_path.decode("ascii")
        if "%" in path:
            path = unquote(path)
        self.scope = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,  # type: ignore[typeddict-item] # known once it is connected
            "method": parser.get_method().decode("ascii"),
            "root_path": "",
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": headers,
            "state": self.app_state.copy(),
        }
        if parser.should_upgrade():
            self._check_upgrade(fields, version)
            return
        self._is_in_head = False
        self._is_in_body = True
        self._begin_cycle(fields, version)

    def _begin_cycle(self, fields: dict[bytes, bytes], version: str) -> None:
        """Hold the request, make a task for it, or let it wait for those before it."""
        before: RequestResponseCycle | None = self.cycle  # uvicorn's type forgets the beginning
        expects_continue = fields.get(b"expect", b"").lower() == b"100-continue"
        cycle = self.cycle = Cycle(
            self,
            expects_continue=expects_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive(),
        )
        if before is not None and not before.response_complete:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))
            return
        if self._take is not None and not expects_continue:
            self._held = self._take(cycle, fields)
        if self._held is None:
            self._start_asgi_task(cycle, self.app)
        else:
            length = fields.get(b"content-length", b"0")
            self._is_large = (
                len(length) > _HELD_LENGTH_DIGITS_MAX or int(length) > HELD_BODY_BYTES_MAX
            )

    def on_body(self, body: bytes) -> None:
        if self._held is None:
            super().on_body(body)
        else:
            self.cycle.body += body

    def on_message_complete(self) -> None:
        if not self._is_in_body:
            return  # an upgrade, of which only the head was read
        self._is_in_body = False
        self._due_s = None
        if self._unwanted_end_s is not None:
            self._unwanted_end_s = None
            self._be_idle()
        serve = self._held
        if serve is None:
            super().on_message_complete()
            return
        self._held = None
        cycle = self.cycle
        cycle.more_body = False
        if self._proxies is not None:
            self._proxies.resolve(cycle)
        if self.flow.read_paused:  # as who waits for a body does: the client may leave
            self.flow.resume_reading()
        serve(bytes(cycle.body))

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if cycle.waiting_for_100_continue:
            app = _closing_unless_asked(cycle, app)
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        """As uvicorn's, but with one timer for all the pauses of a connection."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            if self._is_in_body and not self.pipeline:
                self._start_deadline(self.limits.body_ms_max, self._end_body)
        elif self._refusal is not None:
            self._say(self._refusal)
        elif self._is_in_body:
            self._begin_unwanted_body()
        else:
            self._be_idle()

    def _be_idle(self) -> None:
        self._idle_since_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._start_keep_alive_timer(self.timeout_keep_alive)

    def _begin_unwanted_body(self) -> None:
        self._stop_deadline()
        self._unwanted_bytes = 0
        self._heard_s = self.loop.time()
        self._unwanted_end_s = self._heard_s + self.limits.unwanted_ms_max / 1_000
        self._look_for_unwanted_body()

    def _look_for_unwanted_body(self) -> None:
        """Close when it has been silent for too long, or has taken too long; look again then."""
        assert self._unwanted_end_s is not None
        silent_s = self._heard_s + self.limits.unwanted_silence_ms_max / 1_000
        left_s = min(silent_s, self._unwanted_end_s) - self.loop.time()
        if left_s > 0:
            self._start_deadline(left_s * 1_000, self._look_for_unwanted_body)
        else:
            self._corked.close_now()

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
        """To a task, as what is not held."""
        self._held = None
        cycle = self.cycle
        if cycle.body:
            cycle.message_event.set()
        self._start_asgi_task(cycle, self.app)

    # Upgrades ------------------------------------------------------------------------------------

    def _check_upgrade(self, fields: dict[bytes, bytes], version: str) -> None:
        """What websockets would not answer, or would be mixed with other answers, is refused."""
        if self._get_upgrade() != b"websocket":
            return
        has_body = fields.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in fields
        before: RequestResponseCycle | None = self.cycle  # uvicorn's type forgets the beginning
        is_owed = before is not None and not before.response_complete
        if has_body or is_owed or version != "1.1" or self.parser.get_method() != b"GET":
            self._head_answer = _NO_HANDSHAKE
            raise _HeadRefused

    def _upgrade(self, rest: bytes) -> None:
        """The head of a request for another protocol is whole; ``rest`` is what came behind it."""
        self._is_in_head = False
        if self._get_upgrade() != b"websocket":
            self._read_without_upgrade(rest)
            return
        self._end_deadlines()  # these are the session's from now on
        self.resume_writing()
        self.handle_websocket_upgrade()
        socket: Any = self._corked.get_protocol()  # Any: uvicorn's, by its configuration
        if not socket.handshake_initiated:
            # Of a head that it cannot read websockets says nothing, to nobody, for ever.
            self._say(_NO_HANDSHAKE)
            return
        self.loop.call_later(self.limits.handshake_ms_max / 1_000, self._end_handshake, socket)
        if rest:
            socket.data_received(rest)

    def _read_without_upgrade(self, rest: bytes) -> None:
        """Ignore the wish for a protocol that is not spoken here, such as h2c (RFC 9110, 7.8)."""
        lines = [b"%b %b HTTP/1.1" % (self.parser.get_method(), self.url)]
        for name, value in self.headers:
            if name == b"connection":
                kept = [each for each in value.split(b",") if each.strip().lower() != b"upgrade"]
                value = b",".join(kept)
            if name not in (b"upgrade", b"http2-settings"):
                lines.append(name + b": " + value)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def _end_handshake(self, socket: Any) -> None:  # Any: as above
        if not socket.handshake_complete:
            self._corked.abort()

    # Refusals ------------------------------------------------------------------------------------

    def _check_target(self, fields: dict[bytes, bytes], version: str) -> None:
        try:
            self.url = _targets.check(version=version, target=self.url, host=fields.get(b"host"))
        except TargetRejected as exc:
            given = fields.get(b"x-request-id", b"").decode("latin-1")
            self._head_answer = _bare_answer(exc.code, str(exc), accepted_request_id(given))
            raise _HeadRefused from exc

    def _check_size(self) -> None:
        """Whether it is the head that is so large, and not the body behind it."""
        sizes = [len(name) + len(value) for name, value in self.headers]
        if len(self.url) + sum(sizes) > HEAD_BYTES_MAX:
            self._head_answer = _HEAD_TOO_LARGE
            raise _HeadRefused

    def _check_many(self) -> None:
        names = [name for name, _ in self.headers]
        if len(names) > HEADERS_MAX:
            self._head_answer = _HEAD_TOO_LARGE
            raise _HeadRefused
        for name in _ONCE:
            if names.count(name) > 1:
                detail = f"the header {name.decode()} is there more than once; send it once"
                self._head_answer = _bare_answer("BAD_REQUEST", detail)
                raise _HeadRefused

    def _refuse(self, answer: bytes) -> None:
        """End the connection with ``answer`` to the request that is being read."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's type forgets the beginning
        is_owed = cycle is not None and not cycle.response_complete
        if self._is_in_body:
            assert cycle is not None, "a body has a request"
            if cycle.response_started:
                if cycle.response_complete:
                    self._corked.linger()
                else:
                    self._corked.abort()
                return
            is_owed = bool(self.pipeline)
            if is_owed:
                self.pipeline.popleft()
            self._held = None
            cycle.disconnected = True
            cycle.message_event.set()
        self._is_in_head = self._is_in_body = False
        self._stop_deadline()
        self.parser = _DeafParser()  # type: ignore[assignment] # nothing else is asked of it
        if is_owed:
            self._refusal = answer
        else:
            self._say(answer)

    def _say(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)
            self._corked.linger()

    def give_way(self) -> None:
        """End it at once, as the oldest of too many that have shown no key."""
        if (self._is_in_head or self._is_in_body) and not self.transport.is_closing():
            self.transport.write(_GIVES_WAY)
        self._corked.close_now()

    def _leave_strangers(self) -> None:
        self._strangers.remove(self)

    def _address(self) -> str | None:
        """Of one client as far as limits go; None for a trusted proxy, or a local socket."""
        if self.client is None:
            return None
        host = self.client[0]
        is_proxy = self._proxies is not None and host in self._proxies.trusted_hosts
        return None if is_proxy else network_of(host)

    # Deadlines -----------------------------------------------------------------------------------

    def _start_deadline(self, after_ms: float, call: Callable[[], None]) -> None:
        """Have ``call`` called then, unless the deadline is stopped or another one begins.

        The timer of an earlier deadline stays, and looks at the present one when its time has come:
        most end long before, and a timer for each would cost each request.
        """
        after_s = after_ms / 1_000
        due_s = self._due_s = self.loop.time() + after_s
        self._due_call = call
        if self._due_timer is None or due_s < self._due_timer_s:
            self._start_due_timer(after_s, due_s)

    def _start_due_timer(self, after_s: float, due_s: float) -> None:
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._due_timer_s = due_s
        self._due_timer = self.loop.call_later(after_s, self._look_at_deadline)

    def _look_at_deadline(self) -> None:
        self._due_timer = None
        due_s = self._due_s
        if due_s is None:
            return
        left_s = due_s - self.loop.time()
        if left_s > 0:
            self._start_due_timer(left_s, due_s)
        else:
            self._due_s = None
            self._due_call()

    def _stop_deadline(self) -> None:
        self._due_s = None

    def _end_deadlines(self) -> None:
        """None of them begins on this connection any more."""
        self._due_s = None
        if self._due_timer is not None:
            self._due_timer.cancel()
            self._due_timer = None

    def _end_head(self) -> None:
        self._refuse(_HEAD_TOO_SLOW)

    def _end_body(self) -> None:
        self._refuse(_BODY_TOO_SLOW)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._send_deadline is None:
            self._send_deadline = self.loop.call_later(
                self.limits.send_ms_max / 1_000, self._corked.abort
            )

    def resume_writing(self) -> None:
        timer, self._send_deadline = self._send_deadline, None
        if timer is not None:
            timer.cancel()
        super().resume_writing()
