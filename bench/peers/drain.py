"""Consuming a backlog to its end: pushed over sockets, or received over REST.

    fill n (not measured) ─▶ consumers ─▶ n confirmed acknowledgements ─▶ rate

Every message must come; n is what the peer consumed in the run before, so that a run takes about as
long as was asked for.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from bench.measure import MeasureFailed
from bench.peers.flood import Flood
from bench.peers.peer import RestWay, SocketWay, WayFacts
from bench.peers.turns import Measured, Timing, Turn
from bench.peers.usage import Usage, UsageMeter

FIRST_COUNT: Final = 1_000
COUNT_MIN: Final = 500
BACKLOG_BYTES_MAX: Final = 1 << 30
WINDOW_BYTES: Final = 8 * 1024 * 1024
WINDOW_MAX: Final = 1_000
FILL_BATCH_BYTES: Final = 256 * 1024
STALL_S_MAX: Final = 15
# RabbitMQ's answer to an ack may be ahead of the queue: cut off at once, some come again.
SETTLE_S: Final = 0.2
REST_CONNECTIONS: Final = 64


def window_of(body: bytes) -> int:
    """Messages that a consumer may hold: as many for every peer."""
    return max(1, min(WINDOW_MAX, WINDOW_BYTES // max(len(body), 1)))


class DrainTurn(Turn):
    """``filler`` puts the backlog in. A ``fixed_count`` is drained once, whatever it takes."""

    def __init__(
        self,
        facts: WayFacts,
        filler: SocketWay,
        name: str,
        *,
        body: bytes,
        fixed_count: int = 0,
    ) -> None:
        self.facts = facts
        self._filler = filler
        self._topic = name
        self._body = body
        self._fixed_count = fixed_count
        self._rate = 0.0
        self._is_made = False
        self._count = 0
        self._wanted = 0
        self._moved_at = 0.0
        self._meter = UsageMeter([])
        self._usage: Usage | None = None

    @abstractmethod
    async def consume(self, wanted: int) -> None:
        """Until ``wanted`` messages are ``confirmed``."""

    def confirmed(self, count: int) -> None:
        self._count += count
        self._moved_at = time.perf_counter()
        if self._count >= self._wanted and self._usage is None:
            self._usage = self._meter.stop()

    @property
    def count(self) -> int:
        return self._count

    async def prepare(self, timing: Timing) -> None:
        await self._filler.make_topic(self._topic)
        self._is_made = True
        for _ in range(2):
            await self._drain(await self._fill(timing.warm_up_seconds))

    async def once(self, timing: Timing) -> Measured:
        return await self._drain(await self._fill(timing.seconds))

    async def finish(self) -> None:
        if self._is_made:
            await self._filler.drop_topic(self._topic)

    async def _fill(self, seconds: float) -> int:
        wanted = round(self._rate * seconds) if self._rate else FIRST_COUNT
        wanted = min(wanted, BACKLOG_BYTES_MAX // max(len(self._body), 1))
        wanted = self._fixed_count if self._fixed_count and self._rate else max(wanted, COUNT_MIN)
        share = -(-wanted // self._filler.lanes)
        batch = max(1, min(100, share, FILL_BATCH_BYTES // max(len(self._body), 1)))
        async with Flood.open(self._filler, batch=batch) as flood:
            return await flood.run_count([self._topic], [self._body] * batch, wanted)

    async def _drain(self, wanted: int) -> Measured:
        self._count, self._wanted, self._usage = 0, wanted, None
        self._moved_at = time.perf_counter()
        self._meter = UsageMeter(self._filler.roots)
        work = asyncio.ensure_future(self.consume(wanted))
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=1)
                if time.perf_counter() - self._moved_at > STALL_S_MAX:
                    raise MeasureFailed(f"{self._count} of {wanted} messages came, then none")
            work.result()
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        usage = self._used()
        self._rate = wanted / usage.seconds
        extra = {"again": float(self._count - wanted)} if self._count > wanted else {}
        return Measured(value=self._rate, usage=usage, extra=extra)

    def _used(self) -> Usage:
        if self._usage is None:
            raise MeasureFailed(f"{self._count} messages were acknowledged, {self._wanted} stored")
        return self._usage


class PushTurn(DrainTurn):
    """``consumers`` sockets on one topic."""

    def __init__(
        self, way: SocketWay, name: str, *, body: bytes, consumers: int, fixed_count: int = 0
    ) -> None:
        super().__init__(way.facts, way, name, body=body, fixed_count=fixed_count)
        self._way = way
        self._consumers = consumers

    async def consume(self, wanted: int) -> None:
        has_all = asyncio.Event()

        def confirmed(count: int) -> None:
            self.confirmed(count)
            if self.count >= wanted:
                has_all.set()

        size = len(self._body)

        def seen(bodies: Sequence[bytes]) -> None:
            if any(len(body) != size for body in bodies):
                raise MeasureFailed("a message came with another body than was sent")

        window = window_of(self._body)
        made = [
            await self._way.consumer(
                self._topic,
                window=window,
                consumers=self._consumers,
                seen=seen,
                confirmed=confirmed,
            )
            for _ in range(self._consumers)
        ]
        tasks = [asyncio.ensure_future(consumer.run()) for consumer in made]
        ended = asyncio.ensure_future(has_all.wait())
        try:
            await asyncio.wait({ended, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(SETTLE_S)
        finally:
            for each in (ended, *tasks):
                each.cancel()
            await asyncio.gather(ended, *tasks, return_exceptions=True)
            for consumer in made:
                consumer.close()


class ReceiveTurn(DrainTurn):
    """``messages_max`` a receive over REST, on as many connections as wrk has."""

    def __init__(
        self, way: RestWay, filler: SocketWay, name: str, *, body: bytes, messages_max: int
    ) -> None:
        super().__init__(way.facts, filler, name, body=body)
        self._way = way
        self._messages_max = messages_max

    async def consume(self, wanted: int) -> None:
        async def work() -> None:
            receiver = await self._way.receiver(self._topic, self._messages_max)
            try:
                while self.count < wanted:
                    if count := await receiver.receive():
                        self.confirmed(count)
            finally:
                receiver.close()

        async with asyncio.TaskGroup() as group:
            for _ in range(REST_CONNECTIONS):
                group.create_task(work())
