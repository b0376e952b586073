"""The adapters under test: each kind gives any number of views of one shard's log.

A view is what one node has. Tests close none of them; the fixture does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from storage_engine.clock import SystemClock
from storage_engine.replicated_log.memory import MemoryLog, SharedLog
from storage_engine.replicated_log.port import START, Entry, Position, ReplicatedLog

DEPLOYMENT: Final = "d1"


class Views:
    """Opens views of one log, each as another node would."""

    def __init__(self, make: Callable[[str], ReplicatedLog]) -> None:
        self._make = make
        self._views: list[ReplicatedLog] = []

    def view(self, deployment: str = DEPLOYMENT) -> ReplicatedLog:
        self._views.append(self._make(deployment))
        return self._views[-1]

    async def opened(self, epoch: int) -> ReplicatedLog:
        view = self.view()
        await view.open(epoch)
        return view

    async def close(self) -> None:
        for view in self._views:
            await view.close()


@asynccontextmanager
async def memory_views() -> AsyncIterator[Views]:
    shared = SharedLog()
    views = Views(lambda deployment: MemoryLog(shared, SystemClock(), deployment=deployment))
    yield views
    await views.close()


async def entries_of(log: ReplicatedLog, start: Position = START) -> list[Entry]:
    return [entry async for entry in log.read(start)]


async def contents_of(log: ReplicatedLog, start: Position = START) -> list[bytes]:
    return [entry.content for entry in await entries_of(log, start)]
