"""Does a backlog of ten million drain as fast as one of ten thousand?

    put 10 k, drain, 20 times ─▶ rate          put 10 M, drain, once ─▶ rate, and how it went

Takes minutes and 13 GB of disk; ``python -m bench --only backlog``.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Final

from bench.engine import fill
from bench.measure import Meter, Plan, Row, Run, Skipped, ratio_row, row_of
from bench.processes import Service, service_running
from bench.push_consumer import consume
from mqservice.protocol.frames import Subprotocol

WORKLOAD: Final = "backlog"
SMALL: Final = 10_000
SMALL_ROUNDS: Final = 20
LARGE: Final = 10_000_000
QUEUES: Final = 4
MESSAGE_BYTES: Final = 1_300  # with its record's head, and what is derived from it
FILL_MS_MAX: Final = 600_000
RATIO_TARGET: Final = 0.95


async def measure(plan: Plan, base: Path, large: int = LARGE) -> list[Row]:
    free_bytes = shutil.disk_usage(base).free
    if free_bytes < large * MESSAGE_BYTES * 3 // 2:
        raise Skipped(f"{base} has {free_bytes:,} bytes free, one and a half backlogs needed")
    async with service_running(base) as service:
        runs = [await _drain(service, SMALL) for _ in range(SMALL_ROUNDS)]
        small = sorted(runs, key=_rate)[SMALL_ROUNDS // 2]
        rows = [
            row_of(
                [run],
                workload=WORKLOAD,
                name=f"drain {count:,} over WebSocket with acks",
                unit="msg/s",
                setting=f"1 KiB bodies, {QUEUES} queues, one consumer with MessagePack; {how}",
            )
            for run, count, how in (
                (small, SMALL, f"{SMALL_ROUNDS} times, median"),
                (await _drain(service, large), large, "once, from full to empty"),
            )
        ]
    name = f"drain {large:,} / drain {SMALL:,}"
    return [*rows, ratio_row(WORKLOAD, name, rows[1], rows[0], target=RATIO_TARGET)]


def _rate(run: Run) -> float:
    return run.rate


async def _drain(service: Service, wanted: int) -> Run:
    """Put messages while nobody consumes, then consume all of them; from the first confirmed ack to
    the last.
    """
    topic = f"{service.namespace}%{service.topic}"
    stored = await fill(service.engine_socket, topic, QUEUES, wanted, FILL_MS_MAX)
    times: list[tuple[float, int]] = []
    is_empty = asyncio.Event()
    count = 0

    def confirmed(more: int) -> None:
        nonlocal count
        count += more
        times.append((time.perf_counter(), count))
        if count >= stored:
            is_empty.set()

    meter = Meter(service.measured_pids)
    work = asyncio.ensure_future(consume(service, Subprotocol.MSGPACK, confirmed))
    emptied = asyncio.ensure_future(is_empty.wait())
    await asyncio.wait({work, emptied}, return_when=asyncio.FIRST_COMPLETED)
    _, cpu = meter.stop()
    if work.done():
        work.result()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    (began, first), (ended, last) = times[0], times[-1]
    return Run(rate=(last - first) / (ended - began), cpu=cpu, extra=_thirds(times))


def _thirds(times: list[tuple[float, int]]) -> dict[str, float]:
    """Rate of the first, second and last third of the messages."""
    total = times[-1][1]
    marks = [next(each for each in times if each[1] >= total * part // 3) for part in range(4)]
    names = ("first_third", "second_third", "last_third")
    return {
        name: round((after[1] - before[1]) / max(after[0] - before[0], 1e-9))
        for name, before, after in zip(names, marks[:-1], marks[1:], strict=True)
    }
