"""One system call for what a connection writes in one tick: the head and body of a response.

    uvicorn: write(head), write(body) ──▶ [CorkedTransport] ──▶ one write at the end of the tick
    a whole answer: write_now ─────────────────┴─────────────▶ one write, now

uvloop hands each write to the kernel at once, and on the hot path the second call costs as much as
all of the handler. What waits here is at most ``CORK_BYTES_MAX``, so the limits of the transport
below still hold back a sender whose client does not read.

An answer that comes before all of its request has been read is followed by a lingering close:

    linger ──▶ write, half-close ──▶ read and discard ── the client's end, silence, too long,
                                                          too much ──▶ close

To close at once would send a reset, because of what is unread, and a reset can overtake the answer
or take it from the client's buffer (RFC 9112, 9.6). Each way of closing ends by a deadline: bytes
that the client does not take are then dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from mqservice.web.connection_limits import ConnectionLimits

CORK_BYTES_MAX: Final = 32 * 1024
_JOINED_BYTES_MAX: Final = 16 * 1024  # below it, copying costs less than a list of pieces

Buffer = bytes | bytearray | memoryview
_NO_LIMITS_GIVEN: Final = ConnectionLimits()


class CorkedTransport(asyncio.Transport):
    """A transport in front of another one. One event loop uses it."""

    __slots__ = (
        "_below",
        "_closing_timer",
        "_is_closed",
        "_is_request_unread",
        "_is_scheduled",
        "_limits",
        "_loop",
        "_lost_calls",
        "_parts",
        "_recognised_calls",
        "_waiting_bytes",
    )

    def __init__(
        self,
        below: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        limits: ConnectionLimits = _NO_LIMITS_GIVEN,
        is_request_unread: Callable[[], bool] | None = None,
    ) -> None:
        """``is_request_unread`` is asked by ``close``: True makes it linger."""
        super().__init__()
        self._below = below
        self._loop = loop
        self._limits = limits
        self._is_request_unread = is_request_unread
        self._parts: list[Buffer] = []
        self._waiting_bytes = 0
        self._is_scheduled = False
        self._is_closed = False
        self._closing_timer: asyncio.TimerHandle | None = None
        self._lost_calls: list[Callable[[], None]] = []
        self._recognised_calls: list[Callable[[], None]] = []

    def when_recognised(self, call: Callable[[], None]) -> None:
        """Have ``call`` called when the client has shown who it is."""
        self._recognised_calls.append(call)

    def recognised(self) -> None:
        """The client has shown a good key or session. Cheap when it is said again."""
        if self._recognised_calls:
            calls, self._recognised_calls = self._recognised_calls, []
            for call in calls:
                call()

    def when_lost(self, call: Callable[[], None]) -> Callable[[], None]:
        """Have ``call`` called when the connection is lost; what undoes that."""
        self._lost_calls.append(call)
        return partial(self._lost_calls.remove, call)

    def lost(self) -> None:
        """Called by the protocol."""
        if self._closing_timer is not None:
            self._closing_timer.cancel()
            self._closing_timer = None
        for call in tuple(self._lost_calls):
            call()

    def write(self, data: Buffer) -> None:
        """Send ``data`` at the end of this tick, or now if much waits already."""
        if self._is_closed:
            return
        self._parts.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > CORK_BYTES_MAX:
            self._flush()
        elif not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._uncork)

    def write_now(self, data: Buffer) -> None:
        """Send what is whole as it is, behind what waits."""
        if self._parts:
            self._parts.append(data)
            self._waiting_bytes += len(data)
            self._flush()
        elif not self._is_closed:
            self._below.write(data)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """Send what waits, then close; ``linger`` where a part of the request is unread."""
        if self._is_request_unread is not None and self._is_request_unread():
            self.linger()
        else:
            self.close_now()

    def close_now(self) -> None:
        """Send what waits, then close, whatever is unread."""
        if self._is_closed:
            return
        self._flush()
        self._is_closed = True
        self.close_below()

    def linger(self) -> None:
        """Send what waits, say that nothing more comes, and discard what still does for a while."""
        below = self._below
        if self._is_closed or below.is_closing():
            return
        if not below.can_write_eof():
            self.close_now()
            return
        self._flush()
        self._is_closed = True
        below.write_eof()
        _Discarding(self, below, self._loop, self._limits)

    def close_below(self) -> None:
        """Close the transport below, and abort it when it cannot send what it holds in time."""
        below = self._below
        below.close()
        if below.get_write_buffer_size() > 0 and self._closing_timer is None:
            self._closing_timer = self._loop.call_later(
                self._limits.closing_ms_max / 1_000, below.abort
            )

    def abort(self) -> None:
        self._parts.clear()
        self._is_closed = True
        self._below.abort()

    def write_eof(self) -> None:
        self._flush()
        self._below.write_eof()

    def can_write_eof(self) -> bool:
        return self._below.can_write_eof()

    def is_closing(self) -> bool:
        return self._is_closed or self._below.is_closing()

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


class _Discarding(asyncio.Protocol):
    """In the place of a connection's protocol while it lingers; see the module's docstring."""

    def __init__(
        self,
        corked: CorkedTransport,
        below: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        limits: ConnectionLimits,
    ) -> None:
        self._corked, self._below, self._loop, self._limits = corked, below, loop, limits
        self._former = below.get_protocol()
        self._left_bytes = limits.unwanted_bytes_max
        self._heard_s = loop.time()
        self._end_s = self._heard_s + limits.unwanted_ms_max / 1_000
        self._timer: asyncio.TimerHandle | None = None
        below.set_protocol(self)
        if not below.is_reading():
            below.resume_reading()
        self._look()

    def data_received(self, data: bytes) -> None:
        self._heard_s = self._loop.time()
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            self._end()

    def eof_received(self) -> None:
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._former.connection_lost(exc)

    def pause_writing(self) -> None:
        self._former.pause_writing()

    def resume_writing(self) -> None:
        self._former.resume_writing()

    def _look(self) -> None:
        """End when it has been silent for too long, or has taken too long; look again then."""
        self._timer = None
        silent_s = self._heard_s + self._limits.unwanted_silence_ms_max / 1_000
        next_s = min(silent_s, self._end_s)
        left_s = next_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look)
        else:
            self._end()

    def _end(self) -> None:
        self._stop()
        self._corked.close_below()

    def _stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
