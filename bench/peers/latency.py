"""From publishing to receiving at a steady rate, one consumer on the other side.

    plan: message n is due at n / rate ─▶ sent ─▶ pushed ─▶ now - due ─▶ histogram

The moment is that of the plan, not that of sending: a peer that stalls makes all late that was
due meanwhile (what is known as coordinated omission). Sockets send without waiting for
confirmations; over REST a connection has one request in flight.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

from bench.http_client import LeanHttp
from bench.measure import MeasureFailed
from bench.payloads import make_body
from bench.peers.drain import WINDOW_MAX
from bench.peers.peer import Producer, RestWay, SocketWay, WayFacts
from bench.peers.percentiles import Histogram
from bench.peers.turns import Measured, Timing, Turn
from bench.peers.usage import UsageMeter

STAMP_DIGITS: Final = 20
LANES: Final = 4
REST_CONNECTIONS: Final = 8
ARRIVE_S_MAX: Final = 20
TIMER_S_MIN: Final = 0.001  # what uvloop's timers can tell apart
NS_A_SECOND: Final = 1_000_000_000
PERCENTS: Final = {"p50_ms": 50.0, "p99_ms": 99.0, "p99_9_ms": 99.9}


class LatencyTurn(Turn):
    """All runs are counted into one histogram; the value is its 99th percentile in ms."""

    def __init__(self, facts: WayFacts, consuming: SocketWay, name: str, *, rate: int) -> None:
        self.facts = facts
        self.rate = rate
        self.topic = name
        self._consuming = consuming
        self._late = Histogram()
        self._sent_late = Histogram()
        self._is_made = False
        self._rest_of_body = make_body()[STAMP_DIGITS:]

    @abstractmethod
    async def produce(self, count: int) -> None:
        """Send ``count`` messages, each when it is due. To open connections is nobody's lateness:
        the plan begins afterwards.
        """

    def due_ns(self, began_ns: int, number: int) -> int:
        return began_ns + number * NS_A_SECOND // self.rate

    def body(self, due_ns: int) -> bytes:
        return b"%020d%s" % (due_ns, self._rest_of_body)

    async def until(self, due_ns: int) -> None:
        """Never early; late by what the loop's timers are, which is noted."""
        while (wait_ns := due_ns - time.perf_counter_ns()) > 0:  # noqa: ASYNC110  # reason: a clock sets no event
            await asyncio.sleep(max(wait_ns / NS_A_SECOND, TIMER_S_MIN))
        self._sent_late.record(-wait_ns // 1_000)

    async def prepare(self, timing: Timing) -> None:
        await self._consuming.make_topic(self.topic)
        self._is_made = True
        await self._run(timing.warm_up_seconds, Histogram())

    async def once(self, timing: Timing) -> Measured:
        meter = UsageMeter(self._consuming.roots)
        await self._run(timing.seconds, self._late)
        extra = {name: self._late.percentile_us(part) / 1_000 for name, part in PERCENTS.items()}
        extra["max_ms"] = self._late.max_us / 1_000
        extra["messages"] = self._late.count
        extra["sent_late_p50_ms"] = self._sent_late.percentile_us(50) / 1_000
        return Measured(value=extra["p99_ms"], usage=meter.stop(), extra=extra)

    async def finish(self) -> None:
        if self._is_made:
            await self._consuming.drop_topic(self.topic)

    def standing(self, runs: Sequence[Measured]) -> Measured:
        return runs[-1]

    async def _run(self, seconds: float, late: Histogram) -> None:
        count = round(self.rate * seconds)
        has_all = asyncio.Event()
        arrived = 0

        def seen(bodies: Sequence[bytes]) -> None:
            nonlocal arrived
            now_ns = time.perf_counter_ns()
            for body in bodies:
                late.record((now_ns - int(body[:STAMP_DIGITS])) // 1_000)
            arrived += len(bodies)
            if arrived >= count:
                has_all.set()

        consumer = await self._consuming.consumer(
            self.topic, window=WINDOW_MAX, consumers=1, seen=seen, confirmed=lambda count: None
        )
        running = asyncio.ensure_future(consumer.run())
        try:
            await asyncio.sleep(0.2)  # the subscription is on its way; nothing answers it
            await self.produce(count)
            ended = asyncio.ensure_future(has_all.wait())
            await asyncio.wait(
                {ended, running}, timeout=ARRIVE_S_MAX, return_when=asyncio.FIRST_COMPLETED
            )
            ended.cancel()
            if running.done():
                running.result()
            # Let the last acknowledgements go out, so that they do not come again next time.
            await asyncio.sleep(0.1)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            consumer.close()
        if arrived != count:
            raise MeasureFailed(f"{arrived} of {count} messages arrived in {ARRIVE_S_MAX} s")


class SocketLatencyTurn(LatencyTurn):
    def __init__(self, way: SocketWay, name: str, *, rate: int) -> None:
        super().__init__(way.facts, way, name, rate=rate)
        self._way = way

    async def produce(self, count: int) -> None:
        lanes = [await self._way.producer() for _ in range(LANES)]
        try:
            began_ns = time.perf_counter_ns()
            async with asyncio.TaskGroup() as group:
                for number, lane in enumerate(lanes):
                    numbers = range(number, count, LANES)
                    group.create_task(self._send(lane, began_ns, numbers))
                    group.create_task(_confirm(lane, len(numbers)))
        finally:
            for lane in lanes:
                lane.close()

    async def _send(self, lane: Producer, began_ns: int, numbers: range) -> None:
        for number in numbers:
            due_ns = self.due_ns(began_ns, number)
            await self.until(due_ns)
            lane.send([lane.request(self.topic, [self.body(due_ns)])])


async def _confirm(lane: Producer, count: int) -> None:
    try:
        async with asyncio.timeout(ARRIVE_S_MAX + count / 100):
            while count > 0:
                count -= await lane.confirmed()
    except TimeoutError as exc:
        raise MeasureFailed(f"{count} messages were never confirmed") from exc


class RestLatencyTurn(LatencyTurn):
    """Produced over REST, consumed over a socket of the same peer."""

    def __init__(self, way: RestWay, consuming: SocketWay, name: str, *, rate: int) -> None:
        super().__init__(way.facts, consuming, name, rate=rate)
        self._way = way

    async def produce(self, count: int) -> None:
        connections = [
            await LeanHttp.connect(self._way.base_url, key="") for _ in range(REST_CONNECTIONS)
        ]
        try:
            began_ns = time.perf_counter_ns()
            async with asyncio.TaskGroup() as group:
                for number, http in enumerate(connections):
                    numbers = range(number, count, REST_CONNECTIONS)
                    group.create_task(self._send(http, began_ns, numbers))
        finally:
            for http in connections:
                http.close()

    async def _send(self, http: LeanHttp, began_ns: int, numbers: range) -> None:
        for number in numbers:
            due_ns = self.due_ns(began_ns, number)
            await self.until(due_ns)
            (request,) = self._way.requests([self.topic], [self.body(due_ns)])
            await http.send_whole(request)
