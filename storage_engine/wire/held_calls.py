"""Calls that wait for the engine's next connection instead of failing, in the order they came.

    client without connection ── hold ──▶ [HeldCalls] ── resume ──▶ send() of each
                                              └─ held too long ──▶ fail() of each

Nothing in here has changed anything: it was not sent, or the engine refused it because it stops, or
it only reads. An engine whose shard another one may take over is away for seconds, and
its clients find the next one by themselves. How many wait, how many bytes, and for how long is
bounded; in an outage that lasts longer than any takeover nobody waits any more. One loop owns it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from storage_engine.clock import Clock
from storage_engine.errors import StoreError
from storage_engine.wire.client_types import ClientConfig

_MS: Final = 1_000


class _Held(NamedTuple):
    until_ms: int
    size_bytes: int
    send: Callable[[], None]
    fail: Callable[[StoreError], None]


class HeldCalls:
    """See the module's docstring. ``failure`` is called for the error of those held too long."""

    def __init__(
        self, config: ClientConfig, clock: Clock, failure: Callable[[], StoreError]
    ) -> None:
        self._config = config
        self._clock = clock
        self._failure = failure
        self._held: dict[int, _Held] = {}  # by request id, the oldest first
        self._size_bytes = 0
        self._since_ms: int | None = None  # when the engine was lost
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._held)

    def begin(self) -> None:
        """From now on the engine is away."""
        if self._since_ms is None:
            self._since_ms = self._clock.monotonic_ms()

    def hold(
        self,
        request_id: int,
        size_bytes: int,
        send: Callable[[], None],
        fail: Callable[[StoreError], None],
    ) -> bool:
        """Whether it is held, and one of the two will be called, unless it is dropped. Neither may
        raise.
        """
        now_ms, config = self._clock.monotonic_ms(), self._config
        if (
            self._since_ms is None
            or now_ms - self._since_ms >= config.hold_outage_ms_max
            or len(self._held) >= config.hold_count_max
            or self._size_bytes + size_bytes > config.hold_bytes_max
        ):
            return False
        self._held[request_id] = _Held(now_ms + config.hold_ms_max, size_bytes, send, fail)
        self._size_bytes += size_bytes
        if self._timer is None:
            self._wait(config.hold_ms_max)
        return True

    def drop(self, request_id: int) -> None:
        """Nobody waits for it any more; nothing where it is not held."""
        held = self._held.pop(request_id, None)
        if held is not None:
            self._size_bytes -= held.size_bytes

    def resume(self) -> None:
        """The engine answers: send all."""
        self._since_ms = None
        for held in self._take_all():
            held.send()

    def fail_all(self) -> None:
        """No engine will answer."""
        for held in self._take_all():
            held.fail(self._failure())

    def _take_all(self) -> list[_Held]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held, self._size_bytes = list(self._held.values()), {}, 0
        return held

    def _wait(self, wait_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(wait_ms / _MS, self.fail_late)

    def fail_late(self) -> None:
        """Fail those that have waited long enough."""
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        for request_id, held in list(self._held.items()):
            if held.until_ms > now_ms:
                self._wait(held.until_ms - now_ms)
                return
            self.drop(request_id)
            held.fail(self._failure())
