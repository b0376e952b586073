"""Measures each namespace while pages watch it, once for all of them.

    sockets of a namespace ──▶ Watch ◀── one task: [measure] every TICK_MS, in a thread
                                 └── latest Figures; whoever was slow gets only these

Rates are those of the last measurements where the engine was asked, and of the samples elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from mqservice.console.shared.figures import Figures
from mqservice.lib.durations import SECOND_MS

log = logging.getLogger(__name__)

TICK_MS: Final = 2 * SECOND_MS
_WINDOW: Final = 5  # measurements that a rate is made of
Measure = Callable[[int], Awaitable[Figures]]
Wait = Callable[[float], Awaitable[None]]


class Watch:
    """One namespace; see the module."""

    def __init__(self) -> None:
        self.watcher_count = 0
        self.latest: Figures | None = None
        self._changed = asyncio.Event()
        self._before: deque[Figures] = deque(maxlen=_WINDOW)
        self.task: asyncio.Task[None] | None = None

    async def next(self) -> Figures:
        """The figures of the next measurement."""
        await self._changed.wait()
        assert self.latest is not None, "set before the event"
        return self.latest

    def publish(self, figures: Figures) -> None:
        """Give these to all who wait."""
        if figures.is_direct:
            self._add_rates(figures)
            self._before.append(figures)
        self.latest = figures
        self._changed.set()
        self._changed = asyncio.Event()

    def _add_rates(self, figures: Figures) -> None:
        if not self._before:
            return
        first = self._before[0]
        seconds = (figures.at_ms - first.at_ms) / SECOND_MS
        if seconds <= 0:
            return
        for name, topic in figures.topics.items():
            before = first.topics.get(name)
            if before is not None and before.stored is not None and topic.stored is not None:
                topic.in_per_s = max(0, topic.stored - before.stored) / seconds
        for name, group in figures.groups.items():
            past = first.groups.get(name)
            if past is not None and past.settled is not None and group.settled is not None:
                group.out_per_s = max(0, group.settled - past.settled) / seconds


class Hub:
    """All watched namespaces of this process, by their ids."""

    def __init__(self, measure: Measure, *, wait: Wait = asyncio.sleep) -> None:
        self._measure = measure
        self._wait = wait
        self._watches: dict[int, Watch] = {}

    @property
    def watcher_count(self) -> int:
        return sum(watch.watcher_count for watch in self._watches.values())

    @asynccontextmanager
    async def watching(self, namespace_id: int) -> AsyncIterator[Watch]:
        """Measure the namespace as long as this is open."""
        watch = self._watches.setdefault(namespace_id, Watch())
        watch.watcher_count += 1
        if watch.task is None:
            watch.task = asyncio.create_task(self._run(namespace_id, watch))
        try:
            yield watch
        finally:
            watch.watcher_count -= 1
            if not watch.watcher_count:
                del self._watches[namespace_id]
                watch.task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watch.task

    async def _run(self, namespace_id: int, watch: Watch) -> None:
        while True:
            try:
                watch.publish(await self._measure(namespace_id))
            except Exception:  # a database that is away, above all: the next round may do better
                log.warning(
                    "Could not collect live figures for a namespace",
                    exc_info=True,
                    extra={"action": "live_figures_failed", "namespace_id": namespace_id},
                )
            await self._wait(TICK_MS / SECOND_MS)
