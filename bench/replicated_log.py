"""A replicated log: how long an append takes, and how much goes in, for each store of this machine.

Directory and memory are the adapter's own cost. Stores elsewhere are named by URL in
``MQ_BENCH_LOG_URLS``, separated by spaces.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from pathlib import Path
from typing import Final

from bench.measure import Meter, Plan, Row, Run, repeated
from bench.processes import scratch_directory
from storage_engine.clock import SystemClock
from storage_engine.replicated_log.opening import open_log
from storage_engine.replicated_log.port import IN_FLIGHT_MAX, KIB, MIB

WORKLOAD: Final = "replicated-log"
# Entry size by label, and how many wait at once.
SHAPES: Final = {"1 KiB": (KIB, 1), "1 MiB": (MIB, IN_FLIGHT_MAX)}


async def measure(plan: Plan, base: Path) -> list[Row]:
    short = Plan(warm_up_ms=0, duration_ms=min(plan.duration_ms, 3_000), repeats=plan.repeats)
    rows: list[Row] = []
    with scratch_directory("log", base) as directory:
        urls = [f"file://{directory}", "memory://bench"]
        for url in [*urls, *os.environ.get("MQ_BENCH_LOG_URLS", "").split()]:
            for label, (size, waiting) in SHAPES.items():
                row = await repeated(
                    lambda url=url, size=size, waiting=waiting: _append(short, url, size, waiting),  # type: ignore[misc]  # reason: bound early on purpose
                    short,
                    workload=WORKLOAD,
                    name=f"append {label}, {waiting} at once, {url.partition(':')[0]}",
                    unit="entry/s",
                    setting=short.text,
                )
                rows.append(row)
    return rows


async def _append(plan: Plan, url: str, size: int, waiting: int) -> Run:
    shard = secrets.token_hex(4)
    log = open_log(url, shard=shard, deployment="bench", options={}, clock=SystemClock())
    await log.open(1)
    entry = os.urandom(size)
    latencies: list[float] = []
    meter = Meter({})
    deadline = time.perf_counter() + plan.duration_ms / 1000

    async def append() -> None:
        while time.perf_counter() < deadline:
            started = time.perf_counter()
            position = await log.append(entry)
            latencies.append(time.perf_counter() - started)
            if position.sequence % 256 == 0:
                await log.trim(position)

    try:
        await asyncio.gather(*[append() for _ in range(waiting)])
        seconds, cpu = meter.stop()
    finally:
        await log.close()
    latencies.sort()
    return Run(
        rate=len(latencies) / seconds,
        cpu=cpu,
        extra={
            "MB/s": round(len(latencies) * size / seconds / 1e6, 1),
            "median_ms": round(latencies[len(latencies) // 2] * 1000, 3),
            "p99_ms": round(latencies[len(latencies) * 99 // 100] * 1000, 3),
        },
    )
