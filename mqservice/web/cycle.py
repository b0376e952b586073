"""One request of a connection and its response, as uvicorn has them, and what ASGI has no word for.

    web.transport ──▶ Cycle ──▶ ASGI's receive and send, for a task
    delivery.http ── status, lines of the head, body ──▶ [write_response] ──▶ CorkedTransport
    connection lost ──▶ CorkedTransport.lost ──▶ whoever asked by [on_disconnect]

ASGI wants two messages for a response, and uvicorn searches each header twice for what must not be
in one. For a response of 200 bytes with nine headers that is an eighth of what the web process does
for a message. ``write_response`` does what ``RequestResponseCycle.send`` of uvicorn 0.54 does for
such two messages, and leaves all that is not usual to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from mqservice.lib.safe_headers import Headers, header_lines
from mqservice.web.corked_transport import CorkedTransport

if TYPE_CHECKING:
    from uvicorn._types import HTTPScope


class Cycle(RequestResponseCycle):
    """uvicorn's, but its event is made for those only who wait: a held request has no task."""

    transport: CorkedTransport
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0
    event: asyncio.Event | None = None

    def __init__(
        self, protocol: HttpToolsProtocol, *, expects_continue: bool, keep_alive: bool
    ) -> None:
        """Of the request whose head ``protocol`` has read."""
        self.scope: HTTPScope = protocol.scope
        self.transport = protocol.transport  # type: ignore[assignment] # it was given ours
        self.flow = protocol.flow
        self.logger = protocol.logger
        self.access_logger = protocol.access_logger
        self.access_log = protocol.access_log
        self.default_headers = protocol.server_state.default_headers
        self.on_response = protocol.on_response_complete
        self.keep_alive = keep_alive
        self.waiting_for_100_continue = expects_continue
        self.body = bytearray()

    @property
    def message_event(self) -> asyncio.Event:  # type: ignore[override] # uvicorn's own may be set
        if self.event is None:
            self.event = asyncio.Event()
        return self.event


Serve = Callable[[bytes], None]
"""Serves a request, given its whole body."""
Take = Callable[[Cycle, dict[bytes, bytes]], Serve | None]
"""Shown a request and its headers; None: it needs a task."""


class _DefaultLines:
    """uvicorn's own headers, the date among them: a new list each second."""

    headers: Headers | None = None
    lines = b""


def write_response(
    send: Callable[..., Any], status: int, lines: bytes, body: bytes
) -> bool:  # Any: what an awaited ASGI send gives
    """Send a whole response if ``send`` is a cycle's own. ``lines``: of ``header_lines``, the
    content-length among them.

    False: nothing was done, the caller has to send ASGI's messages; a client that reads slowly has
    to be waited for, too.
    """
    cycle = getattr(send, "__self__", None)
    if (
        type(cycle) is not Cycle
        or cycle.response_started
        or cycle.access_log
        or cycle.scope["method"] == "HEAD"
        or (cycle.flow.write_paused and not cycle.disconnected)
    ):
        return False
    if cycle.disconnected:
        return True  # as uvicorn: there is nobody to answer
    defaults = cycle.default_headers
    if defaults is not _DefaultLines.headers:
        _DefaultLines.headers, _DefaultLines.lines = defaults, header_lines(defaults)
    end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.transport.write_now(
        b"".join((STATUS_LINE[status], _DefaultLines.lines, lines, end, body))
    )
    if cycle.event is not None:
        cycle.event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def on_disconnect(
    send: Callable[..., Any], call: Callable[[], None]
) -> Callable[[], object] | None:  # Any: as above
    """Have ``call`` called once the client has left, at once if it has; what undoes that.

    None: ``send`` is not a cycle's own, and the caller has to wait for ASGI's message.
    """
    cycle = getattr(send, "__self__", None)
    if type(cycle) is not Cycle:
        return None
    if is_disconnected(send):
        call()
    return cycle.transport.when_lost(call)


def is_disconnected(send: Callable[..., Any]) -> bool:  # Any: as above
    """Whether the client is known to have left. uvicorn marks the last request of a connection
    only, and others may wait before it.
    """
    cycle = getattr(send, "__self__", None)
    return type(cycle) is Cycle and (cycle.disconnected or cycle.transport.is_closing())


def recognised(send: Callable[..., Any]) -> None:  # Any: as above
    """Tell the connection whose ``send`` this is that its client has shown who it is."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if type(transport) is CorkedTransport:
        transport.recognised()
