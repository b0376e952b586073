"""The schedule: how late messages are that all come due within one second, and what a million cost.

    100,000 messages over one second ─▶ engine ticks itself, 100 ms ─▶ lateness of each
                                     ─▶ told to deliver every second ─▶ lateness of each
    900,000 messages within a year, a checkpoint every 5 s ─▶ memory
                                   ─▶ 100,000 more ─▶ kill -9 ─▶ start again

Lateness is the store time of the message in its topic less the time it was due. Puts of another
topic go on meanwhile, one after the other; the slowest is told.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from random import Random
from typing import Final

from bench.measure import MeasureFailed, Plan, Row, Run, row_of
from bench.payloads import BORN_HOST, SEED, make_body, make_records
from bench.processes import EngineProcess, engine_on, engine_running, scratch_directory
from storage_engine.client import (
    AsyncStoreClient,
    PullRequest,
    StoreMessage,
    TopicConfig,
    Wait,
    encode_record,
    new_message_id,
    scheduled,
)

WORKLOAD: Final = "schedule"
TOPIC: Final = "bench%due"
OTHER: Final = "bench%other"
QUEUES: Final = 4
DUE_COUNT: Final = 100_000
DUE_WITHIN_MS: Final = 1_000
LEAD_MS: Final = 20_000  # time to put them all before the first is due
PENDING_COUNT: Final = 1_000_000
UNSAVED_COUNT: Final = 100_000  # of them, put since the last checkpoint
CHECKPOINT_S: Final = 5  # as Celery beat has it
PUT_ALL_COUNT: Final = 50_000
PENDING_BODY: Final = b"pending " * 12
YEAR_MS: Final = 365 * 24 * 3_600 * 1_000
FRAME: Final = 500
FRAMES_IN_FLIGHT: Final = 8
DELIVERED_MS_MAX: Final = 60_000
LATE_TARGET_MS: Final = {100: 300.0, 1_000: 1_500.0}
MEMORY_TARGET_MIB: Final = 200.0
START_TARGET_S: Final = 5.0
_PULL_MESSAGES: Final = 1_000


async def measure(plan: Plan, base: Path) -> list[Row]:
    rows = [await _lateness(plan, base, tick_ms) for tick_ms in LATE_TARGET_MS]
    return rows + await _pending(base)


async def _lateness(plan: Plan, base: Path, tick_ms: int) -> Row:
    runs = []
    for _ in range(plan.repeats):
        async with engine_running(base) as engine:
            runs.append(await _due_at_once(engine, tick_ms))
    who = "asks every second" if tick_ms == 1_000 else "does not ask: the engine ticks by itself"
    return row_of(
        runs,
        workload=WORKLOAD,
        name=f"lateness, 99th percentile, tick of {tick_ms} ms",
        unit="ms",
        setting=(
            f"{DUE_COUNT:,} messages of 1 KiB due over {DUE_WITHIN_MS} ms, {QUEUES} queues; "
            f"beat {who}; {plan.repeats} runs"
        ),
        target=LATE_TARGET_MS[tick_ms],
        is_less_better=True,
    )


async def _due_at_once(engine: EngineProcess, tick_ms: int) -> Run:
    client = AsyncStoreClient(engine.socket_path, client_name="bench")
    await client.wait_connected(DELIVERED_MS_MAX)
    try:
        for topic in (TOPIC, OTHER):
            await client.topic_put(TopicConfig(topic=topic, queue_count=QUEUES))
        if tick_ms == 1_000:
            await client.deliver_due()  # from now on beat is there
        first_ms = time.time_ns() // 1_000_000 + LEAD_MS
        body = make_body()
        due = {
            new_message_id(): first_ms + number * DUE_WITHIN_MS // DUE_COUNT
            for number in range(DUE_COUNT)
        }
        await _put_all(
            client,
            [
                _record(message_id, number % QUEUES, body, at_ms)
                for number, (message_id, at_ms) in enumerate(due.items())
            ],
        )
        if time.time_ns() // 1_000_000 >= first_ms:
            raise MeasureFailed(f"the messages were not put within {LEAD_MS} ms")
        beat = asyncio.ensure_future(_beat(client, first_ms)) if tick_ms == 1_000 else None
        slowest_ms = await _put_until_delivered(client, first_ms)
        if beat is not None:
            beat.cancel()
        late_ms = sorted([stored - due[id_] for id_, stored in await _stored_times(client)])
    finally:
        await client.aclose()
    if len(late_ms) != DUE_COUNT or late_ms[0] < 0:
        raise MeasureFailed(f"{len(late_ms)} of {DUE_COUNT} came, the first {late_ms[:1]} ms late")
    return Run(
        rate=float(late_ms[DUE_COUNT * 99 // 100]),
        extra={
            "median_ms": float(late_ms[DUE_COUNT // 2]),
            "most_ms": float(late_ms[-1]),
            "slowest_other_put_ms": slowest_ms,
        },
    )


def _record(message_id: str, queue_id: int, body: bytes, deliver_at_ms: int) -> bytes:
    plain = StoreMessage(
        topic=TOPIC,
        queue_id=queue_id,
        body=body,
        message_id=message_id,
        born_timestamp_ms=deliver_at_ms,
        born_host=BORN_HOST,
    )
    return encode_record(scheduled(plain, Wait(deliver_at_ms=deliver_at_ms)))


async def _put_all(client: AsyncStoreClient, records: list[bytes]) -> None:
    waiting: set[asyncio.Future[object]] = set()
    for at in range(0, len(records), FRAME):
        waiting.add(asyncio.ensure_future(_put(client, records[at : at + FRAME])))
        if len(waiting) >= FRAMES_IN_FLIGHT:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
    await asyncio.gather(*waiting)


async def _put(client: AsyncStoreClient, records: list[bytes]) -> None:
    for result in await client.put(records):
        if result.error is not None:
            raise result.error


async def _beat(client: AsyncStoreClient, first_ms: int) -> None:
    """As Celery beat would, and as badly as it can: the first tick is one just before."""
    await asyncio.sleep((first_ms - 5) / 1_000 - time.time())
    while True:
        await client.deliver_due(ahead_ms=2_000)  # as ``monitoring.ticks`` does
        await asyncio.sleep(1)


async def _put_until_delivered(client: AsyncStoreClient, first_ms: int) -> float:
    """Put one message after the other until all are delivered; how long the slowest took."""
    (record,) = make_records(OTHER, QUEUES, 1)
    slowest_s = 0.0
    await asyncio.sleep((first_ms - 500) / 1_000 - time.time())
    deadline = time.monotonic() + DELIVERED_MS_MAX / 1_000
    while (await client.stats()).scheduled_count:
        if time.monotonic() > deadline:
            raise MeasureFailed(f"not delivered within {DELIVERED_MS_MAX} ms")
        began = time.monotonic()
        await _put(client, [record])
        slowest_s = max(slowest_s, time.monotonic() - began)
    return slowest_s * 1_000


async def _stored_times(client: AsyncStoreClient) -> list[tuple[str, int]]:
    found = []
    for queue_id in range(QUEUES):
        offset = 0
        while True:
            head, records = await client.pull(
                PullRequest(
                    topic=TOPIC,
                    queue_id=queue_id,
                    queue_offset=offset,
                    messages_max=_PULL_MESSAGES,
                    bytes_max=4 * 1024 * 1024,
                )
            )
            if not records:
                break
            found += [(record.message_id, record.store_timestamp_ms) for record in records]
            offset = head.next_offset
    return found


# A million --------------------------------------------------------------------------------------


async def _pending(base: Path) -> list[Row]:
    random = Random(SEED)
    setting = (
        f"{PENDING_COUNT:,} messages of {len(PENDING_BODY)} bytes due within a year, a checkpoint "
        f"every {CHECKPOINT_S} s, {UNSAVED_COUNT:,} of them since the last one"
    )
    with scratch_directory("pending", base) as directory:
        async with engine_on(directory / "store") as engine:
            client = AsyncStoreClient(engine.socket_path, client_name="bench")
            await client.wait_connected(DELIVERED_MS_MAX)
            await client.topic_put(TopicConfig(topic=TOPIC, queue_count=QUEUES))
            before_mib = _anonymous_mib(engine.pid)
            now_ms = time.time_ns() // 1_000_000
            checkpoints = asyncio.ensure_future(_checkpoints(client))
            await _put_pending(client, random, now_ms, PENDING_COUNT - UNSAVED_COUNT)
            await asyncio.sleep(2)  # some ticks, and a look ahead
            grown_mib = _anonymous_mib(engine.pid) - before_mib
            checkpoints.cancel()
            await client.checkpoint()
            await _put_pending(client, random, now_ms, UNSAVED_COUNT)
            await client.aclose()
            os.kill(engine.pid, signal.SIGKILL)
        began = time.monotonic()
        async with engine_on(directory / "store") as engine:
            started_s = time.monotonic() - began
            client = AsyncStoreClient(engine.socket_path, client_name="bench")
            await client.wait_connected(DELIVERED_MS_MAX)
            count = (await client.stats()).scheduled_count
            restarted_mib = _anonymous_mib(engine.pid)
            await client.aclose()
    if count != PENDING_COUNT:
        raise MeasureFailed(f"{count:,} of {PENDING_COUNT:,} messages are pending after a kill")
    return [
        row_of(
            [Run(rate=grown_mib, extra={"after_restart_mib": restarted_mib})],
            workload=WORKLOAD,
            name="memory for messages to come",
            unit="MiB",
            setting=setting,
            target=MEMORY_TARGET_MIB,
            is_less_better=True,
        ),
        row_of(
            [Run(rate=started_s)],
            workload=WORKLOAD,
            name="start after kill -9 with messages to come",
            unit="s",
            setting=setting,
            target=START_TARGET_S,
            is_less_better=True,
        ),
    ]


async def _checkpoints(client: AsyncStoreClient) -> None:
    while True:
        await asyncio.sleep(CHECKPOINT_S)
        await client.checkpoint()


async def _put_pending(client: AsyncStoreClient, random: Random, now_ms: int, count: int) -> None:
    for _ in range(count // PUT_ALL_COUNT):
        await _put_all(
            client,
            [
                _record(
                    new_message_id(),
                    number % QUEUES,
                    PENDING_BODY,
                    now_ms + 600_000 + random.randrange(YEAR_MS - 700_000),
                )
                for number in range(PUT_ALL_COUNT)
            ],
        )


def _anonymous_mib(pid: int) -> float:
    """Memory that is the process's own: maps of the store's files are the page cache's."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1_024
    raise MeasureFailed(f"no RssAnon in /proc/{pid}/status")
