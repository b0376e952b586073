"""What batches do alike on an event loop and on threads.

send ─▶ [BatchCore.add] ─▶ Accumulator ─▶ BatchSender ─▶ service
                        ◀── counts and failures
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections import deque
from collections.abc import Callable
from typing import Final

from .accumulator import Accumulator, BatchLimits, Chunk
from .batch_sender import BatchSender
from .errors import BatchFailed, ClientClosed, MQError, UsageError
from .http_calls import Outgoing, Stored
from .runtime import Runtime
from .tasks import within

MESSAGES_MAX: Final = 1_000
BYTES_MAX: Final = 3 * 1024 * 1024
FAILURES_MAX: Final = 10_000


class BatchCore:
    """One batch of one topic. Made on the client's loop; ``add`` may be called from any thread."""

    def __init__(
        self,
        runtime: Runtime,
        topic: str,
        limits: BatchLimits,
        *,
        is_idempotent: bool,
        on_result: Callable[[int, Stored | MQError], None] | None,
    ) -> None:
        if not 1 <= limits.messages_max <= MESSAGES_MAX:
            raise UsageError(f"messages_max must be 1 to {MESSAGES_MAX}")
        if not 1 <= limits.bytes_max <= BYTES_MAX:
            raise UsageError(f"bytes_max must be 1 to {BYTES_MAX}")
        if limits.requests_max < 1:
            raise UsageError("requests_max must be at least 1")
        if limits.attempts_max is not None and limits.attempts_max < 1:
            raise UsageError("attempts_max must be at least 1")
        self.accumulator = Accumulator(limits)
        self.sender = BatchSender(
            runtime.caller,
            runtime.root,
            topic,
            self.accumulator,
            runtime.random,
            self._on_finished,
        )
        self.topic = topic
        self.stored = 0
        self.failed = 0
        self.failures: deque[tuple[int, MQError]] = deque(maxlen=FAILURES_MAX)
        self.is_closed = False
        self._runtime = runtime
        self._room = threading.Condition()
        self._room_on_loop = asyncio.Event()
        self._is_idempotent = is_idempotent
        self._on_result = on_result
        runtime.closeables.add(self)

    def add(self, message: Outgoing) -> tuple[Chunk, int]:
        """The request that the message is part of, and its place there."""
        self.check()
        chunk, index, is_new, is_ready = self.accumulator.add(message)
        if is_ready:
            self.sender.poke()
        if is_new and self.accumulator.limits.linger_ms:
            self.sender.cut_later(chunk)
        return chunk, index

    def check(self) -> None:
        """Raises ClientStateError: nothing can be added here any more."""
        if self.is_closed:
            raise ClientClosed("this batch is closed")
        self._runtime.check_anywhere()

    def key_of(self, given: str | None) -> str | None:
        return uuid.uuid4().hex if given is None and self._is_idempotent else given

    async def wait_for_room(self) -> None:
        while self.accumulator.is_full:
            self._room_on_loop.clear()
            self.sender.poke()
            await self._room_on_loop.wait()

    def wait_for_room_in_thread(self) -> None:
        if self.accumulator.is_full:
            self.accumulator.cut()
            self.sender.poke()
            with self._room:
                self._room.wait_for(lambda: self.is_closed or not self.accumulator.is_full)

    async def flush(self) -> None:
        """Send what lingers, and wait for all results."""
        self._runtime.check_anywhere()
        self.accumulator.cut()
        await self.sender.idle()

    async def close(self, timeout_s: float | None = None) -> None:
        """Wait for all results; those that are not there in time are unknown."""
        if self.is_closed:
            return
        self.is_closed = True
        self._runtime.closeables.discard(self)
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await within(timeout_s, self.flush())
        finally:
            await self.sender.close()
            self._wake()

    def raise_for_failures(self) -> None:
        """Raises BatchFailed."""
        if self.failed:
            failures = sorted(self.failures, key=lambda failure: failure[0])
            raise BatchFailed(failures, self.accumulator.count)

    def _on_finished(self, chunk: Chunk) -> None:
        for index, result in enumerate(chunk.results):
            if isinstance(result, MQError):
                self.failed += 1
                self.failures.append((chunk.first + index, result))
            else:
                self.stored += 1
            if self._on_result is not None:
                self._on_result(chunk.first + index, result)
        self._wake()

    def _wake(self) -> None:
        self._room_on_loop.set()
        with self._room:
            self._room.notify_all()
