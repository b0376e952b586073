"""One system call for what a connection writes in one tick: the head and the body of an answer.

    uvicorn: write(head), write(body) ──▶ [CorkedTransport] ──▶ one write at the end of the tick
    a whole answer: write_now ─────────────────┴─────────────▶ one write, now

uvloop hands each write to the kernel at once, and on the hot path the second call costs as much as
all of the handler. What waits here is at most ``CORK_BYTES_MAX``, so the limits of the transport
below still hold back a sender whose client does not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

CORK_BYTES_MAX: Final = 32 * 1024
_JOINED_BYTES_MAX: Final = 16 * 1024  # below it, copying costs less than a list of pieces

Buffer = bytes | bytearray | memoryview


class CorkedTransport(asyncio.Transport):
    """A transport in front of another one. One event loop uses it."""

    __slots__ = ("_below", "_is_scheduled", "_loop", "_lost_calls", "_parts", "_waiting_bytes")

    def __init__(self, below: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._below = below
        self._loop = loop
        self._parts: list[Buffer] = []
        self._waiting_bytes = 0
        self._is_scheduled = False
        self._lost_calls: list[Callable[[], None]] = []

    def when_lost(self, call: Callable[[], None]) -> Callable[[], None]:
        """Have ``call`` called when the connection is lost; what undoes that."""
        self._lost_calls.append(call)
        return partial(self._lost_calls.remove, call)

    def lost(self) -> None:
        """Called by the protocol."""
        for call in tuple(self._lost_calls):
            call()

    def write(self, data: Buffer) -> None:
        """Send ``data`` at the end of this tick, or now if much waits already."""
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
        else:
            self._below.write(data)

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
