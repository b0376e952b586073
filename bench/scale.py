"""A store that has grown: memory while it does, and how long a start takes then.

    fill to GROWN_BYTES ─▶ memory at the first GiB and at the end ─▶ kill -9 ─▶ start again
    1,000,000 messages, kill -9, checkpoint and derived files deleted ─▶ start: all is read again
    10,000 queues with messages in each ─▶ start, maps and descriptors

Takes minutes and the disk it names; ``python -m bench --only scale``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Final

from bench.engine import fill
from bench.measure import Plan, Row, Run, Skipped, cpu_seconds, row_of
from bench.processes import EngineProcess, engine_on, scratch_directory
from storage_engine.client import (
    AsyncStoreClient,
    Durability,
    StoreMessage,
    TopicConfig,
    encode_record,
    new_message_id,
)

WORKLOAD: Final = "scale"
GIB: Final = 1024**3
GROWN_BYTES: Final = 20 * GIB
TOPIC: Final = "bench%grown"
QUEUES: Final = 4
MESSAGE_BYTES: Final = 1_230  # of a record of 1 KiB, about
RECOVERED_COUNT: Final = 1_000_000
RECOVERY_TARGET: Final = 100_000.0  # records a second: 1,000,000 in 10 s
START_TARGET_S: Final = 10.0  # "in seconds"
QUEUE_COUNT: Final = 10_000
QUEUES_A_TOPIC: Final = 100
FILL_MS_MAX: Final = 600_000


async def measure(plan: Plan, base: Path) -> list[Row]:
    free_bytes = shutil.disk_usage(base).free
    if free_bytes < GROWN_BYTES * 5 // 4:
        raise Skipped(
            f"{base} has {free_bytes // GIB} GiB free, {GROWN_BYTES * 5 // 4 // GIB} needed"
        )
    return [*await _grow(base), await recover(base), await _many_queues(base)]


async def _grow(base: Path) -> list[Row]:
    with scratch_directory("grown", base) as directory:
        async with engine_on(directory / "store") as engine:
            await _topic(engine, TOPIC)
            count = first = await _fill_to(engine, GIB)
            course = [(1.0, _anonymous_mib(engine.pid))]
            started = time.perf_counter()
            for gib in range(2, GROWN_BYTES // GIB + 1):
                count += await _fill_to(engine, gib * GIB)
                course.append((float(gib), _anonymous_mib(engine.pid)))
            rate = (count - first) / (time.perf_counter() - started)
            await _checkpoint(engine)
            os.kill(engine.pid, signal.SIGKILL)
        seconds, _ = await _start_seconds(directory / "store")
    setting = f"{count:,} messages of 1 KiB, {GROWN_BYTES // GIB} GiB, {QUEUES} queues"
    return [
        row_of(
            [
                Run(
                    rate=rate,
                    extra={"mib_at_1_gib": course[0][1], "mib_at_end": course[-1][1]},
                    course=course,
                    course_of=("size of the log, GiB", "memory but mapped files, MiB"),
                )
            ],
            workload=WORKLOAD,
            name=f"fill from 1 to {GROWN_BYTES // GIB} GiB, async",
            unit="msg/s",
            setting=setting,
        ),
        row_of(
            [Run(rate=seconds, extra={"messages": float(count)})],
            workload=WORKLOAD,
            name="start after kill -9, all behind a checkpoint",
            unit="s",
            setting=setting,
            target=START_TARGET_S,
            is_less_better=True,
        ),
    ]


async def recover(base: Path, count_wanted: int = RECOVERED_COUNT) -> Row:
    """Put so many messages, kill, delete what is derived, start: a store under ``base``."""
    with scratch_directory("recover", base) as directory:
        store = directory / "store"
        async with engine_on(store) as engine:
            await _topic(engine, TOPIC)
            count = await fill(engine.socket_path, TOPIC, QUEUES, count_wanted, FILL_MS_MAX)
            os.kill(engine.pid, signal.SIGKILL)
        (store / "checkpoint").unlink(missing_ok=True)
        for derived in ("consumequeue", "index"):
            shutil.rmtree(store / derived)
        seconds, cpu = await _start_seconds(store)
    return row_of(
        [
            Run(
                rate=count / seconds,
                extra={"seconds": seconds, "cpu_seconds": cpu, "messages": float(count)},
            )
        ],
        workload=WORKLOAD,
        name="start after kill -9, nothing behind a checkpoint",
        unit="records/s",
        setting="1 KiB bodies; consume queues and index deleted too, so everything is read again",
        target=RECOVERY_TARGET,
    )


async def _many_queues(base: Path) -> Row:
    topics = [f"bench%many{number}" for number in range(QUEUE_COUNT // QUEUES_A_TOPIC)]
    with scratch_directory("many", base) as directory:
        async with engine_on(directory / "store", map_count_max=1_024) as engine:
            client = AsyncStoreClient(engine.socket_path, client_name="bench")
            await client.wait_connected(FILL_MS_MAX)
            for topic in topics:
                await client.topic_put(
                    TopicConfig(
                        topic=topic, queue_count=QUEUES_A_TOPIC, durability=Durability.ASYNC
                    )
                )
            started = time.perf_counter()
            for _ in range(2):
                for topic in topics:
                    await client.put(_one_a_queue(topic))
            rate = 2 * QUEUE_COUNT / (time.perf_counter() - started)
            maps = _queue_map_count(engine.pid)
            descriptors = len(os.listdir(f"/proc/{engine.pid}/fd"))
            await client.checkpoint()
            await client.aclose()
            os.kill(engine.pid, signal.SIGKILL)
        seconds, _ = await _start_seconds(directory / "store")
    return row_of(
        [
            Run(
                rate=seconds,
                extra={
                    "puts_per_s": round(rate),
                    "maps": float(maps),
                    "descriptors": float(descriptors),
                },
            )
        ],
        workload=WORKLOAD,
        name=f"start with {QUEUE_COUNT:,} queues",
        unit="s",
        setting="2 messages in each queue, 1,024 maps at most",
        target=START_TARGET_S,
        is_less_better=True,
    )


def _one_a_queue(topic: str) -> list[bytes]:
    return [
        encode_record(
            StoreMessage(
                topic=topic,
                queue_id=queue_id,
                body=b"x" * 100,
                message_id=new_message_id(),
                born_timestamp_ms=time.time_ns() // 1_000_000,
                born_host=("127.0.0.1", 1),
            )
        )
        for queue_id in range(QUEUES_A_TOPIC)
    ]


async def _topic(engine: EngineProcess, topic: str) -> None:
    client = AsyncStoreClient(engine.socket_path, client_name="bench")
    await client.wait_connected(FILL_MS_MAX)
    await client.topic_put(
        TopicConfig(topic=topic, queue_count=QUEUES, durability=Durability.ASYNC)
    )
    await client.aclose()


async def _checkpoint(engine: EngineProcess) -> None:
    client = AsyncStoreClient(engine.socket_path, client_name="bench")
    await client.wait_connected(FILL_MS_MAX)
    await client.checkpoint()
    await client.aclose()


async def _fill_to(engine: EngineProcess, log_bytes: int) -> int:
    """Put messages until the log has that many bytes; how many."""
    client = AsyncStoreClient(engine.socket_path, client_name="bench")
    await client.wait_connected(FILL_MS_MAX)
    count = 0
    while (missing := log_bytes - (await client.stats()).append_offset) > 0:
        wanted = max(missing // MESSAGE_BYTES, 10_000)
        count += await fill(engine.socket_path, TOPIC, QUEUES, wanted, FILL_MS_MAX)
    await client.aclose()
    return count


async def _start_seconds(store_path: Path) -> tuple[float, float]:
    """From the start of the process until it answers: by the clock, and of the processors."""
    started = time.perf_counter()
    async with engine_on(store_path) as engine:
        seconds = time.perf_counter() - started
        cpu = cpu_seconds(engine.pid)
        await asyncio.sleep(0)
    return round(seconds, 2), round(cpu, 2)


def _queue_map_count(pid: int) -> int:
    return Path(f"/proc/{pid}/maps").read_text().count("/consumequeue/")


def _anonymous_mib(pid: int) -> float:
    """Memory of the process that is no page of a file."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0
