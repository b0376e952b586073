"""The engine alone, over its socket: puts with and without group commit, reads, leases."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench.engine_flood import PutFlood
from bench.measure import Meter, Plan, Row, Run, ratio_row, repeated
from bench.payloads import make_records
from bench.processes import EngineProcess, engine_running
from storage_engine.client import (
    AsyncStoreClient,
    Durability,
    GroupConfig,
    LeaseRef,
    PullRequest,
    ReceiveRequest,
    SettleRequest,
    TopicConfig,
)

WORKLOAD: Final = "engine"
QUEUES: Final = 4
RECORDS: Final = 20_000
FILL_BATCH: Final = 100
WRITERS: Final = 64  # who wait for the same sync
SYNC_SHARE: Final = 0.7
PULL_TARGET: Final = 300_000.0
PULL_MESSAGES: Final = 64
PULL_BYTES: Final = 1024 * 1024
RECEIVE_MESSAGES: Final = 64
LEASE_MS: Final = 60_000
FILL_MS_MAX: Final = 30_000


class _Puts(NamedTuple):
    """One way to put: records of a frame, durability, frames in flight, what is wanted."""

    records_a_frame: int
    durability: Durability
    window: int
    target: float | None = None

    @property
    def name(self) -> str:
        return f"put, {self.records_a_frame} a frame, {self.window:,} in flight, {self.durability}"


PUTS: Final = (
    _Puts(1, Durability.SYNC, 2_048, 60_000.0),
    _Puts(1, Durability.ASYNC, 2_048, 80_000.0),
    _Puts(1, Durability.SYNC, WRITERS),
    _Puts(1, Durability.ASYNC, WRITERS),
    _Puts(100, Durability.SYNC, WRITERS, 200_000.0),
    _Puts(100, Durability.ASYNC, WRITERS, 250_000.0),
)


async def measure(plan: Plan, base: Path) -> list[Row]:
    rows = {}
    for puts in PUTS:

        async def once(puts: _Puts = puts) -> Run:
            async with engine_running(base) as engine:
                return await _flood(plan, engine, puts)

        rows[puts] = await repeated(
            once,
            plan,
            workload=WORKLOAD,
            name=puts.name,
            unit="msg/s",
            setting=(
                f"1 KiB bodies, {QUEUES} queues, one connection, {puts.window} frames in flight, "
                f"new store each run; {plan.text}"
            ),
            target=puts.target,
        )
    ratios = [
        ratio_row(
            WORKLOAD,
            f"sync / async, {count} a frame, {WRITERS} in flight",
            rows[next(p for p in PUTS if p[:3] == (count, Durability.SYNC, WRITERS))],
            rows[next(p for p in PUTS if p[:3] == (count, Durability.ASYNC, WRITERS))],
            target=target,
        )
        # Single frames are held up by the disk's time for one sync, not by what the engine does.
        for count, target in ((1, None), (100, SYNC_SHARE))
    ]
    reads = [await _reads(plan, base, "pull"), await _reads(plan, base, "receive and ack")]
    return [*rows.values(), *ratios, *reads]


async def _flood(plan: Plan, engine: EngineProcess, puts: _Puts) -> Run:
    topic = "bench%put"
    client = AsyncStoreClient(engine.socket_path, client_name="bench")
    await client.wait_connected(plan.duration_ms)
    await client.topic_put(TopicConfig(topic=topic, queue_count=QUEUES, durability=puts.durability))
    records = make_records(topic, QUEUES, RECORDS)
    _, flood = await asyncio.get_running_loop().create_unix_connection(
        lambda: PutFlood(records, records_a_frame=puts.records_a_frame, window=puts.window),
        engine.socket_path,
    )
    await _sleep_unless_failed(plan.warm_up_ms, flood)
    before, stats_before = flood.frames_done, await client.stats()
    meter = Meter({"engine": engine.pid})
    await _sleep_unless_failed(plan.duration_ms, flood)
    done = flood.frames_done - before
    seconds, cpu = meter.stop()
    stats = await client.stats()
    flood.close()
    await client.aclose()
    syncs = stats.sync_count - stats_before.sync_count
    return Run(
        rate=done * puts.records_a_frame / seconds,
        cpu=cpu,
        extra={
            "syncs_per_s": round(syncs / seconds, 1),
            "mib_per_s": round(
                (stats.put_bytes - stats_before.put_bytes) / seconds / 1024 / 1024, 1
            ),
        },
    )


async def _sleep_unless_failed(ms: int, flood: PutFlood) -> None:
    await asyncio.wait({flood.failure}, timeout=ms / 1000)
    if flood.failure.done():
        flood.failure.result()


async def fill(
    socket_path: str,
    topic: str,
    queue_count: int,
    message_count: int,
    ms_max: int = FILL_MS_MAX,
) -> int:
    """Put about ``message_count`` 1 KiB messages into a topic, in batches of 100 that are spread
    over its queues as the service spreads them; returns how many were stored.
    """
    share = max(FILL_BATCH // queue_count, 1)
    records = make_records(topic, queue_count, RECORDS, neighbours_count=share)
    _, flood = await asyncio.get_running_loop().create_unix_connection(
        lambda: PutFlood(records, records_a_frame=FILL_BATCH, window=WRITERS), socket_path
    )
    deadline = time.perf_counter() + ms_max / 1000
    while flood.frames_done * FILL_BATCH < message_count and time.perf_counter() < deadline:
        await _sleep_unless_failed(20, flood)
    await flood.end()
    return flood.frames_done * FILL_BATCH


async def _reads(plan: Plan, base: Path, kind: str) -> Row:
    async def once() -> Run:
        async with engine_running(base) as engine:
            return await _read(plan, engine, kind)

    what = (
        f"{PULL_MESSAGES} a request, one request a queue in flight"
        if kind == "pull"
        else f"{RECEIVE_MESSAGES} a request, one at a time, each acked before the next"
    )
    return await repeated(
        once,
        plan,
        workload=WORKLOAD,
        name=kind,
        unit="msg/s",
        setting=f"1 KiB bodies, {QUEUES} queues, {what}, records decoded; {plan.text}",
        target=PULL_TARGET if kind == "pull" else None,
    )


async def _read(plan: Plan, engine: EngineProcess, kind: str) -> Run:
    topic = "bench%read"
    client = AsyncStoreClient(engine.socket_path, client_name="bench")
    await client.wait_connected(plan.duration_ms)
    await client.topic_put(
        TopicConfig(topic=topic, queue_count=QUEUES, durability=Durability.ASYNC)
    )
    await client.group_put(GroupConfig(group="bench%readers"))
    # Enough for the whole run at a rate that no engine of this kind reaches.
    await fill(engine.socket_path, topic, QUEUES, 150 * (plan.warm_up_ms + plan.duration_ms))
    counts = [0]
    if kind == "pull":
        work = [
            asyncio.create_task(_pull_for_ever(client, topic, queue, counts))
            for queue in range(QUEUES)
        ]
    else:
        work = [asyncio.create_task(_receive_for_ever(client, topic, counts))]
    await asyncio.wait(work, timeout=plan.warm_up_ms / 1000)
    before = counts[0]
    meter = Meter({"engine": engine.pid})
    await asyncio.wait(work, timeout=plan.duration_ms / 1000)
    done = counts[0] - before
    seconds, cpu = meter.stop()
    for task in work:
        task.cancel()
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, Exception):
            raise result
    await client.aclose()
    return Run(rate=done / seconds, cpu=cpu)


async def _pull_for_ever(
    client: AsyncStoreClient, topic: str, queue_id: int, counts: list[int]
) -> None:
    offset = 0
    while True:
        head, records = await client.pull(
            PullRequest(
                topic=topic,
                queue_id=queue_id,
                queue_offset=offset,
                messages_max=PULL_MESSAGES,
                bytes_max=PULL_BYTES,
            )
        )
        counts[0] += len(records)
        offset = head.next_offset if records else 0


async def _receive_for_ever(client: AsyncStoreClient, topic: str, counts: list[int]) -> None:
    request = ReceiveRequest(
        group="bench%readers",
        topic=topic,
        member_id="bench",
        messages_max=RECEIVE_MESSAGES,
        bytes_max=PULL_BYTES,
        wait_ms=1_000,
        lease_ms=LEASE_MS,
    )
    while True:
        received = await client.receive(request)
        head, records = received.head, received.records
        by_queue: dict[int, list[int]] = {}
        for record in records:
            by_queue.setdefault(record.queue_id, []).append(record.queue_offset)
        acks = [
            LeaseRef(
                topic=topic,
                queue_id=queue_id,
                lease_generation=head.lease_generation,
                queue_offsets=offsets,
            )
            for queue_id, offsets in by_queue.items()
        ]
        reply = await client.settle(SettleRequest(group="bench%readers", acks=acks))
        counts[0] += reply.acked_count
