"""A thousand topics: how fast they are made, and what is produced to all of them in turn."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.peers.peer import Way
from bench.peers.turns import Measured, Timing, Turn
from bench.peers.usage import UsageMeter

TOPICS: Final = 1_000
AT_ONCE: Final = 8


def topic_names(prefix: str, count: int = TOPICS) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


class MakeTopicsTurn(Turn):
    """The value is topics made a second; they stay for the workloads that follow."""

    def __init__(self, way: Way, prefix: str) -> None:
        self.facts = way.facts
        self._way = way
        self._prefix = prefix
        self._round = 0

    async def prepare(self, timing: Timing) -> None:
        """Nothing: to make them is what is measured."""

    async def once(self, timing: Timing) -> Measured:
        self._round += 1
        waiting = topic_names(self._prefix if self._round == 1 else f"{self._prefix}{self._round}")

        async def work() -> None:
            while waiting:
                await self._way.make_topic(waiting.pop())

        meter = UsageMeter(self._way.roots)
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())
        rate = TOPICS / (time.perf_counter() - began)
        return Measured(value=rate, usage=meter.stop())

    async def finish(self) -> None:
        """They go with the peer."""
