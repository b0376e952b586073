"""What sockets cost that wait for messages: memory of each, CPU of all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from bench.measure import MeasureFailed, cpu_seconds
from bench.peers.peer import Consumer, SocketWay
from bench.peers.turns import Measured, Timing, Turn
from bench.peers.usage import UsageMeter, memory_mib, process_tree

SOCKETS: Final = 1_000
OPENED_AT_ONCE: Final = 50
OPENING_PAUSE_S: Final = 0.1
SETTLE_S: Final = 2.0
WINDOW: Final = 10


class IdleTurn(Turn):
    """The value is KiB of anonymous memory for each of ``SOCKETS`` subscriptions."""

    def __init__(self, way: SocketWay, name: str) -> None:
        self.facts = way.facts
        self._way = way
        self._topic = name
        self._is_made = False

    async def prepare(self, timing: Timing) -> None:
        await self._way.make_topic(self._topic)
        self._is_made = True

    async def once(self, timing: Timing) -> Measured:
        await asyncio.sleep(SETTLE_S)
        before_percent = await self._percent(timing.idle_seconds)
        before_mib, _ = memory_mib(process_tree(self._way.roots))
        consumers: list[Consumer] = []
        tasks: list[asyncio.Future[None]] = []
        try:
            while len(consumers) < SOCKETS:
                for _ in range(OPENED_AT_ONCE):
                    consumers.append(await self._open())
                    tasks.append(asyncio.ensure_future(consumers[-1].run()))
                await asyncio.sleep(OPENING_PAUSE_S)
            await asyncio.sleep(SETTLE_S)
            meter = UsageMeter(self._way.roots)
            percent = await self._percent(timing.idle_seconds)
            usage = meter.stop()
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for consumer in consumers:
                consumer.close()
        return Measured(
            value=max(round((usage.anonymous_mib - before_mib) * 1_024 / SOCKETS, 1), 0.0),
            usage=usage,
            extra={"cpu_percent_of_all": round(percent - before_percent, 2)},
        )

    async def finish(self) -> None:
        if self._is_made:
            await self._way.drop_topic(self._topic)

    async def _open(self) -> Consumer:
        return await self._way.consumer(
            self._topic, window=WINDOW, consumers=SOCKETS, seen=_nothing, confirmed=_none
        )

    async def _percent(self, seconds: float) -> float:
        """CPU of the peer in the next ``seconds``, in percent of a core."""
        pids = process_tree(self._way.roots)
        before = sum(map(cpu_seconds, pids))
        began = time.perf_counter()
        await asyncio.sleep(seconds)
        return (sum(map(cpu_seconds, pids)) - before) / (time.perf_counter() - began) * 100


def _nothing(bodies: Sequence[bytes]) -> None:
    raise MeasureFailed(f"{len(bodies)} messages came to an idle subscription")


def _none(count: int) -> None:
    if not count:
        return
    raise MeasureFailed(f"{count} acknowledgements of an idle subscription")
