"""Producing as fast as the peer confirms, over sockets that stay open.

lanes of a way ─▶ a window of requests each ─▶ confirmations ─▶ rate
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

from bench.measure import MeasureFailed
from bench.peers.peer import Producer, SocketWay
from bench.peers.produce import ProduceTurn
from bench.peers.turns import Measured, Timing
from bench.peers.usage import UsageMeter

DRAIN_S_MAX: Final = 20
BATCH_IN_FLIGHT_MAX: Final = 4  # requests of a lane when each has many messages
BATCH_LANES_MAX: Final = 8
FIRST_ROUNDS: Final = 5  # ours has four queues for each topic


class Flood:
    """Open lanes of one way, and what they send."""

    def __init__(self, lanes: Sequence[Producer], window: int) -> None:
        self._lanes = lanes
        self._window = window

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, way: SocketWay, *, batch: int) -> AsyncIterator[Flood]:
        """For one run: an open lane that nobody reads would miss the peer's pings."""
        window = way.in_flight if batch == 1 else min(way.in_flight, BATCH_IN_FLIGHT_MAX)
        lanes: list[Producer] = []
        try:
            for _ in range(way.lanes if batch == 1 else min(way.lanes, BATCH_LANES_MAX)):
                lanes.append(await way.producer())
            yield cls(lanes, window)
        finally:
            for lane in lanes:
                lane.close()

    async def run_seconds(self, topics: Sequence[str], bodies: Sequence[bytes], s: float) -> float:
        """Messages confirmed a second during ``s`` seconds."""
        deadline = time.perf_counter() + s
        counts = await self._run(topics, bodies, deadline, None)
        return sum(counts) / s

    async def run_count(self, topics: Sequence[str], bodies: Sequence[bytes], count: int) -> int:
        """At least ``count`` messages to the topics in turn; returns how many are stored."""
        each = -(-count // len(self._lanes))
        deadline = time.perf_counter() + 3_600
        return sum(await self._run(topics, bodies, deadline, each))

    async def _run(
        self, topics: Sequence[str], bodies: Sequence[bytes], deadline: float, each: int | None
    ) -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._lane(lane, topics, bodies, deadline, each, number))
                for number, lane in enumerate(self._lanes)
            ]
        return [task.result() for task in tasks]

    async def _lane(
        self,
        lane: Producer,
        topics: Sequence[str],
        bodies: Sequence[bytes],
        deadline: float,
        each: int | None,
        number: int,
    ) -> int:
        """Messages confirmed before the deadline; all that was sent is confirmed afterwards."""
        size = len(bodies)
        start = number * len(topics) // len(self._lanes)
        requests = itertools.cycle(
            [lane.request(topic, bodies) for topic in (*topics[start:], *topics[:start])]
        )
        sent = confirmed = counted = 0
        while time.perf_counter() < deadline and (each is None or sent < each):
            free = self._window - (sent - confirmed) // size
            if each is not None:
                free = min(free, -((sent - each) // size))
            if free > 0:
                lane.send([next(requests) for _ in range(free)])
                sent += free * size
            confirmed += await lane.confirmed()
            if time.perf_counter() < deadline:
                counted = confirmed
        try:
            async with asyncio.timeout(DRAIN_S_MAX):
                while confirmed < sent:
                    confirmed += await lane.confirmed()
        except TimeoutError as exc:
            raise MeasureFailed(f"{sent - confirmed} of {sent} were never confirmed") from exc
        return counted if each is None else confirmed


class SocketProduceTurn(ProduceTurn):
    """As fast as it is confirmed."""

    def __init__(
        self, way: SocketWay, name: str, *, body: bytes, batch: int, topics: Sequence[str] = ()
    ) -> None:
        super().__init__(way, name, body=body, batch=batch, topics=topics)
        self._way = way

    async def prepare(self, timing: Timing) -> None:
        await self.make_topic()
        async with Flood.open(self._way, batch=len(self.bodies)) as flood:
            if len(self.topics) > 1:
                # The first message of each queue makes its files, which is not what is asked for.
                count = FIRST_ROUNDS * len(self.topics)
                await flood.run_count(self.topics, self.bodies, count)
            await flood.run_seconds(self.topics, self.bodies, timing.warm_up_seconds)

    async def once(self, timing: Timing) -> Measured:
        async with Flood.open(self._way, batch=len(self.bodies)) as flood:
            meter = UsageMeter(self._way.roots)
            rate = await flood.run_seconds(self.topics, self.bodies, timing.seconds)
            return Measured(value=rate, usage=meter.stop())
