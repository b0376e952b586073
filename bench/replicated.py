"""Puts that a replicated log confirms beside puts that only the disk does, in one run.

    generator ──▶ engine ──▶ disk                      sync
    generator ──▶ engine ──▶ disk ── entries ──▶ log    replicated

The log in a directory is the adapter's own cost. Logs elsewhere are named by URL in
``MQ_BENCH_LOG_URLS``, separated by spaces; ``AWS_*`` and the like reach the engine.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from bench.engine import flood_puts
from bench.measure import Plan, Row, Run, cpu_us_each, ratio_row, repeated
from bench.processes import engine_on, scratch_directory
from storage_engine.client import Durability

WORKLOAD: Final = "replicated"
# Frames in flight by kind of log, one message each: what answers later needs more of them.
IN_FLIGHT: Final = {"kafka": 64}
IN_FLIGHT_OTHERS: Final = 512
RATE_TARGET: Final = 0.7
CPU_TARGET: Final = 1.3


async def measure(plan: Plan, base: Path) -> list[Row]:
    rows: list[Row] = []
    with scratch_directory("log", base) as directory:
        for url in [f"file://{directory}", *os.environ.get("MQ_BENCH_LOG_URLS", "").split()]:
            kind = url.partition(":")[0]
            window = IN_FLIGHT.get(kind, IN_FLIGHT_OTHERS)
            synced = await _puts(plan, base, "", Durability.SYNC, window, f"beside {kind}")
            replicated = await _puts(plan, base, url, Durability.REPLICATED, window, kind)
            rows += [synced, replicated, *_ratios(replicated, synced)]
    return rows


async def _puts(
    plan: Plan, base: Path, log_url: str, durability: Durability, window: int, beside: str
) -> Row:
    async def once() -> Run:
        # A shard of which the log knows nothing.
        log = {"replicated_log": log_url, "shard": f"bench-{secrets.token_hex(4)}"}
        with scratch_directory("engine", base) as directory:
            async with engine_on(directory / "store", **(log if log_url else {})) as engine:
                return await flood_puts(
                    plan, engine, records_a_frame=1, durability=durability, window=window
                )

    return await repeated(
        once,
        plan,
        workload=WORKLOAD,
        name=f"put, {window} in flight, {durability}, {beside}",
        unit="msg/s",
        setting=f"1 KiB bodies, 1 a frame, one connection, new store each run; {plan.text}",
    )


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
