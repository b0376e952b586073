"""From publishing to receiving: REST produce at a steady rate, WebSocket push on the other side.

    8 connections, each message at its moment ─▶ POST ─▶ push ─▶ now - that moment

The moment is the one of the plan, not the one of sending, so that a service that stalls makes all
that was due meanwhile late (what is known as coordinated omission).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.http_client import LeanHttp
from bench.measure import MeasureFailed, Meter, Plan, Row, Run, row_of
from bench.payloads import make_body
from bench.processes import Service, service_running
from bench.push_consumer import Pushed, consume
from mqservice.protocol import client_codec
from mqservice.protocol.frames import Subprotocol

WORKLOAD: Final = "latency"
RATE: Final = 1_000  # messages a second
CONNECTIONS: Final = 8
PARTS: Final = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
ARRIVE_S_MAX: Final = 10
STAMP_DIGITS: Final = 20


async def measure(plan: Plan, base: Path) -> list[Row]:
    runs = []
    for _ in range(plan.repeats):
        async with service_running(base) as service:
            runs.append(await _run(plan, service))
    setting = (
        f"1 KiB bodies, {RATE:,} msg/s over {CONNECTIONS} connections, one at a time, sync topic; "
        f"one WebSocket consumer; new service each run; {plan.text}"
    )
    return [
        row_of(
            [Run(rate=_part(late_ms, part), extra=cores) for late_ms, cores in runs],
            workload=WORKLOAD,
            name=f"publish to receive, {name}",
            unit="ms",
            setting=setting,
        )
        for name, part in PARTS.items()
    ]


def _part(sorted_ms: list[float], part: float) -> float:
    return sorted_ms[min(int(len(sorted_ms) * part), len(sorted_ms) - 1)]


async def _run(plan: Plan, service: Service) -> tuple[list[float], dict[str, float]]:
    """(latencies in ms, sorted; cores that each process used) of one run."""
    arrived: list[tuple[int, int]] = []  # (due, arrived), ns

    has_all = asyncio.Event()
    count = RATE * (plan.warm_up_ms + plan.duration_ms) // 1_000

    def seen(messages: Sequence[Pushed]) -> None:
        now_ns = time.perf_counter_ns()
        arrived.extend(
            (int(client_codec.body_of(message)[:STAMP_DIGITS]), now_ns) for message in messages
        )
        if len(arrived) >= count:
            has_all.set()

    consumer = asyncio.ensure_future(
        consume(service, Subprotocol.MSGPACK, lambda count: None, seen)
    )
    meter = Meter(service.measured_pids)
    began_ns = time.perf_counter_ns()
    async with asyncio.TaskGroup() as group:
        for number in range(CONNECTIONS):
            group.create_task(_produce(service, began_ns, range(number, count, CONNECTIONS)))
    _, cpu = meter.stop()
    all_seen = asyncio.ensure_future(has_all.wait())
    await asyncio.wait(
        {consumer, all_seen}, timeout=ARRIVE_S_MAX, return_when=asyncio.FIRST_COMPLETED
    )
    all_seen.cancel()
    if consumer.done():
        consumer.result()
    consumer.cancel()
    await asyncio.gather(consumer, return_exceptions=True)
    if len(arrived) != count:
        raise MeasureFailed(f"{len(arrived)} of {count} messages arrived")
    measured_from_ns = began_ns + plan.warm_up_ms * 1_000_000
    late_ms = sorted((at - due) / 1e6 for due, at in arrived if due >= measured_from_ns)
    return late_ms, cpu


async def _produce(service: Service, began_ns: int, numbers: range) -> None:
    http = await LeanHttp.connect(service.base_url, key=service.api_key)
    path = f"/v1/ns/{service.namespace}/topics/{service.topic}/messages"
    rest = make_body()[STAMP_DIGITS:]
    try:
        for number in numbers:
            due_ns = began_ns + number * 1_000_000_000 // RATE
            wait_ns = due_ns - time.perf_counter_ns()
            if wait_ns > 0:
                await asyncio.sleep(wait_ns / 1e9)
            await http.post(path, b'{"body":"%020d%s"}' % (due_ns, rest))
    finally:
        http.close()
