"""A bounded cache of lookups in PostgreSQL, for a hit per request.

    get(key) ──▶ fresh entry? ──yes──▶ value                          one dict hit, no await
                     │ no
    load(key) ──▶ known absent? ──▶ one query for all who wait ──▶ value or None
                                            │ PostgreSQL away
                                            ▼
                                 stale entry, up to ``stale_ms_max``, else LookupUnavailable

Invariants: an answer that was under way while its key was dropped is not kept; at most
``entries_max`` values and ``absent_max`` absences are held, the oldest go first; nothing is served
past the value's own deadline. One event loop uses an instance; invalidation happens on that loop
too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from mqservice.lib.clock import Clock, SystemClock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_TRIES_MAX: Final = 3


class LookupUnavailable(Exception):
    """The source of truth did not answer and nothing usable is cached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLimits:
    """How long and how much.

    ``find_ms_max``: a source that has not answered by then is away. ``backoff_ms``: pause between
    attempts while it is.
    """

    fresh_ms: int = 30_000
    stale_ms_max: int = 300_000
    absent_ms: int = 2_000
    find_ms_max: int = 2_000
    backoff_ms: int = 1_000
    entries_max: int = 20_000
    absent_max: int = 2_000


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    fresh_until_ms: int
    usable_until_ms: int


class LookupCache(Generic[K, V]):
    """Values by key, loaded by ``find``, which answers None for what does not exist."""

    def __init__(
        self,
        find: Callable[[K], Awaitable[V | None]],
        *,
        life_ms: Callable[[V], int | None] = lambda value: None,
        limits: CacheLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        """``find`` raises LookupUnavailable when it cannot know. ``life_ms`` says for how long from
        now a value may be used at most, e.g. until a key expires; None sets no such limit.
        """
        self._find = find
        self._life_ms = life_ms
        self._limits = limits or CacheLimits()
        self._clock = clock or SystemClock()
        self._entries: dict[K, _Entry[V]] = {}
        self._absent_until_ms: dict[K, int] = {}
        self._running: dict[K, asyncio.Task[V | None]] = {}
        self._drop_count = 0
        self._is_unavailable = False
        self._retry_at_ms = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value while it is fresh. Never waits; None means: ask ``load``."""
        entry = self._entries.get(key)
        if entry is None or self._clock.monotonic_ms() >= entry.fresh_until_ms:
            return None
        return entry.value

    async def load(self, key: K) -> V | None:
        """The value, or None for what does not exist. At most one query per key at a time.

        While the source is away nobody waits for it who can be served with what is kept.

        Raises:
            LookupUnavailable: the source is away and no entry is young enough to be used.
        """
        value = self.get(key)
        if value is not None:
            return value
        if self._absent_until_ms.get(key, 0) > self._clock.monotonic_ms():
            return None
        if self._is_unavailable:
            entry = self._entries.get(key)
            if entry is not None and self._clock.monotonic_ms() < entry.usable_until_ms:
                if self._clock.monotonic_ms() >= self._retry_at_ms:
                    self._start_refresh(key)
                return entry.value
        return await asyncio.shield(self._start_refresh(key))

    def drop(self, key: K) -> None:
        """Forget what is known of ``key``, present or absent."""
        self._drop_count += 1
        self._entries.pop(key, None)
        self._absent_until_ms.pop(key, None)

    def drop_where(self, is_affected: Callable[[V], bool]) -> None:
        """Forget all values ``is_affected`` holds for, and all absences. Linear in the entries."""
        self._drop_count += 1
        self._absent_until_ms.clear()
        for key in [key for key, entry in self._entries.items() if is_affected(entry.value)]:
            del self._entries[key]

    def clear(self) -> None:
        """Forget everything."""
        self._drop_count += 1
        self._entries.clear()
        self._absent_until_ms.clear()
        self._is_unavailable = False
        self._retry_at_ms = 0

    def _start_refresh(self, key: K) -> asyncio.Task[V | None]:
        task = self._running.get(key)
        if task is None or task.done():
            task = asyncio.get_running_loop().create_task(self._refresh(key))
            self._running[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        return task

    def _forget(self, key: K, task: asyncio.Task[V | None]) -> None:
        if self._running.get(key) is task:
            del self._running[key]
        if not task.cancelled():
            task.exception()  # seen; those who awaited it have it too

    async def _refresh(self, key: K) -> V | None:
        if self._clock.monotonic_ms() < self._retry_at_ms:
            return self._stale(key)
        for _ in range(_TRIES_MAX):
            drop_count = self._drop_count
            try:
                value = await self._find_with_timeout(key)
            except LookupUnavailable:
                self._is_unavailable = True
                self._retry_at_ms = self._clock.monotonic_ms() + self._limits.backoff_ms
                return self._stale(key)
            self._is_unavailable = False
            if drop_count == self._drop_count:
                self._store(key, value)
                return value
        return value  # too much is changing to keep anything, but the answer is a true one

    async def _find_with_timeout(self, key: K) -> V | None:
        """One that comes too late is left to itself: a thread in a query cannot be stopped."""
        finding = asyncio.ensure_future(self._find(key))
        done, _ = await asyncio.wait({finding}, timeout=self._limits.find_ms_max / 1000)
        if not done:
            finding.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise LookupUnavailable(f"no answer within {self._limits.find_ms_max} ms")
        return finding.result()

    def _stale(self, key: K) -> V:
        now_ms = self._clock.monotonic_ms()
        entry = self._entries.get(key)
        if entry is None or now_ms >= entry.usable_until_ms:
            raise LookupUnavailable(f"no answer, and no cached value can be used for {type(key)}")
        entry.fresh_until_ms = min(now_ms + self._limits.backoff_ms, entry.usable_until_ms)
        return entry.value

    def _store(self, key: K, value: V | None) -> None:
        now_ms = self._clock.monotonic_ms()
        if value is None:
            self._entries.pop(key, None)
            make_room(self._absent_until_ms, key, self._limits.absent_max)
            self._absent_until_ms[key] = now_ms + self._limits.absent_ms
            return
        life_ms = self._life_ms(value)
        usable_ms = self._limits.stale_ms_max if life_ms is None else life_ms
        usable_until_ms = now_ms + min(usable_ms, self._limits.stale_ms_max)
        self._absent_until_ms.pop(key, None)
        make_room(self._entries, key, self._limits.entries_max)
        self._entries[key] = _Entry(
            value, min(now_ms + self._limits.fresh_ms, usable_until_ms), usable_until_ms
        )


def make_room(table: dict[K, V], key: K, size_max: int) -> None:
    """Drop ``key``, so that it joins at the young end, and the oldest while the table is full."""
    table.pop(key, None)
    while len(table) >= size_max:
        del table[next(iter(table))]
