"""What the machine itself can do: copy records into a map, make pages durable, append in-process.

These are the ceilings the engine's figures are read against.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.measure import Meter, Plan, Row, Run, ratio_row, repeated
from bench.payloads import make_records
from bench.processes import scratch_directory
from storage_engine.clock import SystemClock
from storage_engine.config import StoreConfig
from storage_engine.store import Store
from storage_engine.wire.topics import Durability, TopicConfig

WORKLOAD: Final = "disk"
MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
MAP_BYTES: Final = 256 * MIB
SYNC_SIZES: Final = {"4 KiB": 4 * 1024, "64 KiB": 64 * 1024, "1 MiB": MIB}
QUEUES: Final = 4
TOPIC: Final = "bench%append"
RECORDS: Final = 10_000
BATCH: Final = 100


async def measure(plan: Plan, base: Path) -> list[Row]:
    short = Plan(warm_up_ms=0, duration_ms=min(plan.duration_ms, 3_000), repeats=plan.repeats)
    copying = await repeated(
        lambda: _copy(short, base),
        short,
        workload=WORKLOAD,
        name="copy 1 KiB records into a mapped file",
        unit="msg/s",
        setting=f"{MAP_BYTES // MIB} MiB file, allocated and touched; {short.text}",
    )
    filling = await repeated(
        lambda: _fill(short, base),
        short,
        workload=WORKLOAD,
        name="copy 1 KiB records into a file that grows",
        unit="msg/s",
        setting=f"as a log does: {GIB // MIB} MiB files, allocated, mapped, new; {short.text}",
    )
    rows = [copying, filling]
    for label, size in SYNC_SIZES.items():
        rows.append(
            await repeated(
                lambda size=size: _sync(short, base, size),  # type: ignore[misc]  # reason: bound early on purpose
                short,
                workload=WORKLOAD,
                name=f"make {label} durable (msync)",
                unit="sync/s",
                setting=f"the range is written anew before each; {short.text}",
            )
        )
    for batch in (1, BATCH):
        appending = await repeated(
            lambda batch=batch: _append(short, base, batch),  # type: ignore[misc]  # reason: bound early on purpose
            short,
            workload=WORKLOAD,
            name=f"Store.put in-process, {batch} a call, async",
            unit="msg/s",
            setting=f"checked, appended, dispatched to {QUEUES} queues, no socket; {short.text}",
        )
        rows.append(appending)
    rows.append(
        ratio_row(WORKLOAD, "append of 100 / copy, file that grows", rows[-1], filling, target=0.5)
    )
    rows.append(
        ratio_row(WORKLOAD, "append of 100 / copy, file touched", rows[-2], copying, target=None)
    )
    return rows


async def _copy(plan: Plan, base: Path) -> Run:
    records = make_records(TOPIC, QUEUES, RECORDS)
    with scratch_directory("copy", base) as directory, _mapped(directory, MAP_BYTES) as mapped:
        for at in range(0, MAP_BYTES, mmap.PAGESIZE):
            mapped[at] = 0
        count = 0
        position = 0
        meter = Meter({})
        deadline = time.perf_counter() + plan.duration_ms / 1000
        while time.perf_counter() < deadline:
            for record in records:
                end = position + len(record)
                if end > MAP_BYTES:
                    position, end = 0, len(record)
                mapped[position:end] = record
                position = end
            count += len(records)
        seconds, cpu = meter.stop()
    return Run(rate=count / seconds, cpu=cpu)


async def _fill(plan: Plan, base: Path) -> Run:
    records = make_records(TOPIC, QUEUES, RECORDS)
    room = GIB - max(map(len, records)) * len(records)
    count = 0
    with scratch_directory("fill", base) as directory:
        meter = Meter({})
        deadline = time.perf_counter() + plan.duration_ms / 1000
        while time.perf_counter() < deadline:
            with _mapped(directory, GIB) as mapped:
                position = 0
                while position < room and time.perf_counter() < deadline:
                    for record in records:
                        end = position + len(record)
                        mapped[position:end] = record
                        position = end
                    count += len(records)
            (directory / "map").unlink()
        seconds, cpu = meter.stop()
    return Run(rate=count / seconds, cpu=cpu)


async def _sync(plan: Plan, base: Path, size: int) -> Run:
    content = os.urandom(size)
    latencies: list[float] = []
    with scratch_directory("sync", base) as directory, _mapped(directory, MAP_BYTES) as mapped:
        meter = Meter({})
        deadline = time.perf_counter() + plan.duration_ms / 1000
        position = 0
        while time.perf_counter() < deadline:
            if position + size > MAP_BYTES:
                position = 0
            mapped[position : position + size] = content
            started = time.perf_counter()
            mapped.flush(position, size)
            latencies.append(time.perf_counter() - started)
            position += size
        seconds, cpu = meter.stop()
    latencies.sort()
    return Run(
        rate=len(latencies) / seconds,
        cpu=cpu,
        extra={
            "median_ms": round(latencies[len(latencies) // 2] * 1000, 3),
            "p99_ms": round(latencies[len(latencies) * 99 // 100] * 1000, 3),
        },
    )


async def _append(plan: Plan, base: Path, batch: int) -> Run:
    records = make_records(TOPIC, QUEUES, RECORDS)
    payloads = [b"".join(records[start : start + batch]) for start in range(0, len(records), batch)]
    with scratch_directory("append", base) as directory:
        store = Store(StoreConfig(store_dir=str(directory / "store")), SystemClock())
        store.open(asyncio.get_running_loop())
        try:
            store.catalog.topic_put(
                TopicConfig(topic=TOPIC, queue_count=QUEUES, durability=Durability.ASYNC)
            )
            count = 0
            meter = Meter({})
            deadline = time.perf_counter() + plan.duration_ms / 1000
            while time.perf_counter() < deadline:
                for payload in payloads:
                    store.put(payload, _ignore)
                count += len(records)
                store.flush_async()  # as the engine does in the background
                await asyncio.sleep(0)
                if store.unsynced_bytes > store.config.unsynced_bytes_max // 2:
                    await store.durability.durable_to(store.stats(0).append_offset)
            seconds, cpu = meter.stop()
        finally:
            await store.close()
    return Run(rate=count / seconds, cpu=cpu)


def _ignore(*_answer: object) -> None:
    pass


@contextlib.contextmanager
def _mapped(directory: Path, size: int) -> Iterator[mmap.mmap]:
    with (directory / "map").open("w+b") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        with mmap.mmap(file.fileno(), size) as mapped:
            yield mapped
