"""Puts that a replicated log confirms beside puts that only the disk does, in one run.

    64 or 512 callers ──▶ client of the engine ── frames ──▶ engine ──▶ disk              sync
                                                              └── entries ──▶ log    replicated

As a web process does it: puts of one turn of the loop share a frame. The log in a directory is the
adapter's own cost. Logs elsewhere are named by URL in ``MQ_BENCH_LOG_URLS``, separated by spaces.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import time
from pathlib import Path
from typing import Final

from bench.measure import MeasureFailed, Meter, Plan, Row, Run, cpu_us_each, ratio_row, repeated
from bench.payloads import make_records
from bench.processes import EngineProcess, engine_on, scratch_directory
from storage_engine.client import AsyncStoreClient, Durability, PutResult, TopicConfig

WORKLOAD: Final = "replicated"
# Callers by kind of log, with one message each: what answers later needs more of them.
CALLERS: Final = {"kafka": 64}
CALLERS_OTHERS: Final = 512
TOPIC: Final = "bench%put"
QUEUES: Final = 4
RECORDS: Final = 2_000
RATE_TARGET: Final = 0.7
CPU_TARGET: Final = 1.3


async def measure(plan: Plan, base: Path) -> list[Row]:
    rows: list[Row] = []
    with scratch_directory("log", base) as directory:
        for url in [f"file://{directory}", *os.environ.get("MQ_BENCH_LOG_URLS", "").split()]:
            kind = url.partition(":")[0]
            callers = CALLERS.get(kind, CALLERS_OTHERS)
            synced = await _puts(plan, base, "", Durability.SYNC, callers, f"beside {kind}")
            replicated = await _puts(plan, base, url, Durability.REPLICATED, callers, kind)
            rows += [synced, replicated, *_ratios(replicated, synced)]
    return rows


async def _puts(
    plan: Plan, base: Path, log_url: str, durability: Durability, callers: int, beside: str
) -> Row:
    async def once() -> Run:
        # A shard of which the log knows nothing.
        log = {"replicated_log": log_url, "shard": f"bench-{secrets.token_hex(4)}"}
        with scratch_directory("engine", base) as directory:
            async with engine_on(directory / "store", **(log if log_url else {})) as engine:
                return await _keep_putting(plan, engine, durability, callers)

    return await repeated(
        once,
        plan,
        workload=WORKLOAD,
        name=f"put, {callers} callers, {durability}, {beside}",
        unit="msg/s",
        setting=f"1 KiB bodies, one connection, new store each run; {plan.text}",
    )


async def _keep_putting(
    plan: Plan, engine: EngineProcess, durability: Durability, callers: int
) -> Run:
    """Each caller sends the next message when the last one is stored."""
    client = AsyncStoreClient(engine.socket_path, client_name="bench")
    await client.wait_connected(plan.duration_ms)
    await client.topic_put(TopicConfig(topic=TOPIC, queue_count=QUEUES, durability=durability))
    records = itertools.cycle(make_records(TOPIC, QUEUES, RECORDS))
    done = 0
    deadline = time.perf_counter() + (plan.warm_up_ms + plan.duration_ms) / 1_000

    async def put() -> None:
        nonlocal done
        while time.perf_counter() < deadline:
            stored: asyncio.Future[list[PutResult]] = asyncio.get_running_loop().create_future()
            client.put_for(
                stored, [next(records)], is_replicated=durability is Durability.REPLICATED
            )
            (result,) = await stored
            if result.error is not None:
                raise MeasureFailed(f"a put was refused: {result.error}")
            done += 1

    putting = asyncio.gather(*[put() for _ in range(callers)])
    await asyncio.sleep(plan.warm_up_ms / 1_000)
    before, meter = done, Meter({"engine": engine.pid})
    await asyncio.sleep(plan.duration_ms / 1_000 - 0.1)
    count = done - before
    seconds, cpu = meter.stop()
    await putting
    await client.aclose()
    return Run(rate=count / seconds, cpu=cpu)


def _ratios(replicated: Row, synced: Row) -> list[Row]:
    rate = ratio_row(
        WORKLOAD, f"{replicated.name}: rate to sync", replicated, synced, target=RATE_TARGET
    )
    cpu = cpu_us_each(replicated.cpu, replicated.median) / cpu_us_each(synced.cpu, synced.median)
    return [
        rate,
        Row(
            workload=WORKLOAD,
            name=f"{replicated.name}: CPU of a message to sync",
            unit="ratio",
            median=cpu,
            runs=[],
            setting=f"of the engine; {replicated.name} / {synced.name}",
            target=CPU_TARGET,
            is_less_better=True,
        ),
    ]
