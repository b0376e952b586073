"""Collects messages into requests; may be filled from any thread.

add(message) ─▶ [Accumulator] ─▶ Chunk, when one is full or its time has come
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque

import msgspec

from .errors import MQError, OutcomeUnknown
from .http_calls import Outgoing, Stored, encode_message, is_large
from .tracing import LINKS_MAX, current_context


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When a request is cut, how many are under way at a time, and what is sent again.

    ``timeout_ms`` None: the client's; ``attempts_max`` None: as many as the time allows.
    """

    linger_ms: int = 5
    messages_max: int = 500
    bytes_max: int = 1024 * 1024
    requests_max: int = 4
    timeout_ms: int | None = None
    attempts_max: int | None = None
    repeat_unknown: bool = False

    @property
    def waiting_bytes_max(self) -> int:
        """Of encoded messages, from which on ``send`` waits."""
        return self.bytes_max * (self.requests_max + 2)


class Chunk:
    """The messages of one request, and what became of them. A large message is ``alone`` in one."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.forms: list[bytes] = []
        self.groups: list[str | None] = []
        self.keys: list[str | None] = []
        # Trace contexts: of messages, and what is current for the first one.
        self.traces: list[dict[str, str]] = []
        self.context = current_context()
        self.size = 0
        self.is_ordered = False
        self.alone: Outgoing | None = None
        self.results: list[Stored | MQError] = []
        self.done = threading.Event()
        self._waiters: list[asyncio.Future[None]] = []

    def finish(self, results: list[Stored | MQError]) -> None:
        self.results = results
        self.done.set()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Whether there are results within the time."""
        if not self.done.is_set():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await asyncio.wait({waiter}, timeout=timeout_s)
        return self.done.is_set()

    def abandon(self, cause: str) -> None:
        """Its request was given up on."""
        self.finish(
            [
                OutcomeUnknown("a message of a batch", cause, idempotency_key=key)
                for key in self.keys
            ]
        )


class Accumulator:
    """Full chunks wait in ``ready`` until they are sent; ``open`` is being filled."""

    def __init__(self, limits: BatchLimits) -> None:
        self.limits = limits
        self.ready: deque[Chunk] = deque()
        self.count = 0
        self._open: Chunk | None = None
        self._lock = threading.Lock()
        self._waiting_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether so much waits that the program should wait too."""
        return self._waiting_bytes >= self.limits.waiting_bytes_max

    def add(self, message: Outgoing) -> tuple[Chunk, int, bool, bool]:
        """(chunk, place in it, whether it is a new one, whether one became ready)."""
        is_alone = is_large(message)
        form = b"" if is_alone else encode_message(message)
        size = message.body.size if is_alone else len(form)
        limits = self.limits
        with self._lock:
            chunk = self._open
            is_cut = chunk is not None and (is_alone or chunk.size + size > limits.bytes_max)
            if is_cut:
                assert chunk is not None
                self.ready.append(chunk)
            is_new = chunk is None or is_cut
            if chunk is None or is_cut:
                chunk = self._open = Chunk(self.count)
            index = len(chunk.forms)
            chunk.forms.append(form)
            chunk.groups.append(message.message_group)
            chunk.keys.append(message.dedup_id)
            if (trace := message.trace or message.properties) and len(chunk.traces) < LINKS_MAX:
                chunk.traces.append(trace)
            chunk.size += size
            chunk.alone = message if is_alone else None
            chunk.is_ordered = chunk.is_ordered or message.message_group is not None
            self.count += 1
            self._waiting_bytes += size
            is_full = len(chunk.forms) >= limits.messages_max or chunk.size >= limits.bytes_max
            if is_alone or is_full:
                self.ready.append(chunk)
                self._open = None
                is_cut = True
        return chunk, index, is_new, is_cut

    def cut(self, chunk: Chunk | None = None) -> None:
        """Make what is open ready; with ``chunk`` only if it is that one."""
        with self._lock:
            if self._open is not None and chunk in (None, self._open):
                self.ready.append(self._open)
                self._open = None

    def finished(self, chunk: Chunk) -> None:
        """Its bytes wait no longer."""
        with self._lock:
            self._waiting_bytes -= chunk.size
