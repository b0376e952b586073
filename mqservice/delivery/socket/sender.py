"""Sends the frames of one session, one at a time.

send, only_sender ──▶ [FrameSender] ── the client reads ──▶ written, without a turn of the loop
write, if may_write ──────┘            └ it does not ──▶ waited for; ``waiting_since_ms``
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from mqservice.delivery.http import Send
from mqservice.lib.clock import Clock
from mqservice.web.web_sockets import socket_of


class SessionClosed(OSError):
    """A frame for a session that has ended."""


class FrameSender:
    """See the module's docstring. ``waiting_since_ms`` (monotonic) is None while nothing waits."""

    def __init__(self, send: Send, clock: Clock, *, is_text: bool) -> None:
        self._send = send
        self._socket = socket_of(send)
        self._clock = clock
        self._is_text = is_text
        self._lock = asyncio.Lock()
        self._waiting: asyncio.Task[Any] | None = None  # Any: whichever task sends
        self.waiting_since_ms: int | None = None
        self._is_over = False

    async def send(self, frame: bytes) -> None:
        """Waits while the client does not read. Raises OSError once it is gone."""
        async with self._lock:
            await self._send_now(frame)

    @contextlib.asynccontextmanager
    async def only_sender(self) -> AsyncIterator[Callable[[bytes], Awaitable[None]]]:
        """Frames of others wait until the end of the block, which gets what sends its own."""
        async with self._lock:
            yield self._send_now

    def may_write(self) -> bool:
        """Whether ``write`` is allowed: nobody else sends, and the client reads."""
        return (
            self._socket is not None
            and self._socket.may_write()
            and not (self._is_over or self._lock.locked())
        )

    def write(self, frame: bytes) -> None:
        """``send`` without waiting, if ``may_write``."""
        assert self._socket is not None, "may_write has said so"
        self._socket.write_message(frame, is_text=self._is_text)

    def end(self) -> None:
        """Send nothing more; who waits to send is cancelled, unless that is this task."""
        self._is_over = True
        if self._waiting is not None and self._waiting is not asyncio.current_task():
            self._waiting.cancel()

    async def _send_now(self, frame: bytes) -> None:
        if self._is_over:
            raise SessionClosed
        if self._socket is not None and self._socket.may_write():
            self.write(frame)
            return
        self._waiting = asyncio.current_task()
        self.waiting_since_ms = self._clock.monotonic_ms()
        try:
            if self._is_text:
                await self._send({"type": "websocket.send", "text": frame.decode()})
            else:
                await self._send({"type": "websocket.send", "bytes": frame})
        finally:
            self._waiting = None
            self.waiting_since_ms = None
