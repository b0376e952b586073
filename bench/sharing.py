"""Eight WebSocket consumers of one group on one backlog: how evenly they share it.

8 sockets ─▶ one topic, one shared group ─▶ messages of each while the backlog lasts
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from bench.engine import fill
from bench.measure import MeasureFailed, Meter, Plan, Row, Run, row_of
from bench.processes import Service, service_running
from bench.push_consumer import consume
from mqservice.protocol.frames import Subprotocol

WORKLOAD: Final = "sharing"
CONSUMERS: Final = 8
QUEUES: Final = 4
SPREAD_TARGET: Final = 0.2
BACKLOG_A_SECOND: Final = 250_000
BACKLOG_SHARE_MAX: Final = 0.95


async def measure(plan: Plan, base: Path) -> list[Row]:
    runs = []
    for _ in range(plan.repeats):
        async with service_running(base) as service:
            runs.append(await _share(plan, service))
    setting = (
        f"1 KiB bodies, {QUEUES} queues, {CONSUMERS} consumers with MessagePack, each frame "
        f"acked, new service each run; {plan.text}"
    )
    return [
        row_of(
            [Run(rate=sum(counts) / seconds, cpu=cpu) for counts, seconds, cpu in runs],
            workload=WORKLOAD,
            name=f"{CONSUMERS} consumers of one group, together",
            unit="msg/s",
            setting=setting,
        ),
        row_of(
            [
                Run(
                    rate=(max(counts) - min(counts)) * len(counts) / sum(counts),
                    extra={"least": min(counts) / seconds, "most": max(counts) / seconds},
                )
                for counts, seconds, _ in runs
            ],
            workload=WORKLOAD,
            name="(most - least) / mean of one consumer",
            unit="ratio",
            setting=setting,
            target=SPREAD_TARGET,
            is_less_better=True,
        ),
    ]


async def _share(plan: Plan, service: Service) -> tuple[list[int], float, dict[str, float]]:
    """(messages of each consumer, seconds, cores of each process) of one run."""
    seconds = (plan.warm_up_ms + plan.duration_ms) / 1000
    topic = f"{service.namespace}%{service.topic}"
    filled = await fill(service.engine_socket, topic, QUEUES, round(BACKLOG_A_SECOND * seconds))
    counts = [0] * CONSUMERS

    async def one(number: int) -> None:
        def confirmed(count: int) -> None:
            counts[number] += count

        await consume(service, Subprotocol.MSGPACK, confirmed)

    tasks = [asyncio.ensure_future(one(number)) for number in range(CONSUMERS)]
    await asyncio.wait(tasks, timeout=plan.warm_up_ms / 1000)
    before = counts.copy()
    meter = Meter(service.measured_pids)
    done, _ = await asyncio.wait(
        tasks, timeout=plan.duration_ms / 1000, return_when=asyncio.FIRST_COMPLETED
    )
    passed, cpu = meter.stop()
    gained = [after - start for after, start in zip(counts, before, strict=True)]
    for task in done:
        task.result()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if sum(counts) > filled * BACKLOG_SHARE_MAX:
        raise MeasureFailed(f"{sum(counts)} of {filled} messages were consumed: too few to share")
    return gained, passed, cpu
