"""A replica takes over a shard whose owner was killed: how long, and what following costs.

    fill ──▶ owner ── entries ──▶ log in a directory ──▶ replica
               ✕ kill -9                                  └─ own ──▶ the first put that the log has

The owner is killed right after the last put, when the replica has queues and index yet to fill, or
once the replica is idle, as it is under any load that lasts. Beside the times comes the silence
after which a node is taken for lost, 5 s. The large store, of
``BENCH_TAKEOVER_MILLIONS`` messages in 10,000 queues, is left out without that variable.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.engine_flood import PutFlood
from bench.measure import MeasureFailed, Meter, Plan, Row, Run, row_of
from bench.payloads import make_records
from bench.processes import EngineProcess, Quiet, engine_on, replica_on, scratch_directory
from storage_engine.client import AsyncStoreClient, Durability, TopicConfig
from storage_engine.wire.role import RoleStatus

WORKLOAD: Final = "takeover"
SMALL_COUNT: Final = 120_000
SMALL_QUEUES: Final = 4
LARGE_QUEUES: Final = 10_000
QUEUES_A_TOPIC: Final = 100
BODY_BYTES: Final = 100
BATCH: Final = 100
WINDOW: Final = 32
PROBE: Final = "bench%probe"
EPOCH: Final = 1_000  # above that of the owner, which counts from 1
WAIT_MS_MAX: Final = 1_800_000
# Of the times that are wanted, 10 and 20 s, without the silence before.
SMALL_TARGET_S: Final = 5.0
LARGE_TARGET_S: Final = 15.0


async def measure(plan: Plan, base: Path) -> list[Row]:
    rows: list[Row] = []
    for is_idle in (True, False):
        rows += await _rows(
            base, SMALL_COUNT, SMALL_QUEUES, plan.repeats, SMALL_TARGET_S, is_idle=is_idle
        )
    millions = float(os.environ.get("BENCH_TAKEOVER_MILLIONS", "0"))
    if millions:
        count = round(millions * 1_000_000)
        for is_idle in (True, False):
            rows += await _rows(base, count, LARGE_QUEUES, 1, LARGE_TARGET_S, is_idle=is_idle)
    return rows


async def _rows(
    base: Path,
    message_count: int,
    queue_count: int,
    repeats: int,
    target_s: float,
    *,
    is_idle: bool,
) -> list[Row]:
    runs = [
        await _take_over(base, message_count, queue_count, is_idle=is_idle) for _ in range(repeats)
    ]
    when = "the replica idle" if is_idle else "right after the last put"
    setting = (
        f"{message_count:,} messages of {BODY_BYTES} bytes in {queue_count:,} queues, log and "
        "snapshots in a directory"
    )
    return [
        row_of(
            [taken for taken, _ in runs],
            workload=WORKLOAD,
            name=f"kill -9 to the next replicated put, {message_count:,} messages, {when}",
            unit="s",
            setting=setting,
            target=target_s,
            is_less_better=True,
        ),
        row_of(
            [followed for _, followed in runs],
            workload=WORKLOAD,
            name=f"puts while a replica follows, {message_count:,} messages, then {when}",
            unit="msg/s",
            setting=setting,
        ),
    ]


async def _take_over(
    base: Path, message_count: int, queue_count: int, *, is_idle: bool
) -> tuple[Run, Run]:
    with (
        scratch_directory("takeover", base) as directory,
        scratch_directory("s", Path(tempfile.gettempdir())) as short,
    ):
        (directory / "log").mkdir()
        log = {"replicated_log": (directory / "log").as_uri()}
        async with engine_on(directory / "owner", **log) as owner:
            with replica_on(directory / "replica", short, **log) as replica:
                followed = await _fill(owner, replica, message_count, queue_count)
                await _put_replicated(owner.socket_path)
                await _wait_for_end(short / "control")
                quiet = Quiet({"replica": replica.pid})
                while is_idle and not await quiet.is_quiet():
                    pass
                os.kill(owner.pid, signal.SIGKILL)
                begun = time.perf_counter()
                await _ask(short / "control", f"own {EPOCH}")
                fenced_s = time.perf_counter() - begun
                await _put_replicated(replica.socket_path)
                taken_s = time.perf_counter() - begun
    return Run(rate=taken_s, extra={"fenced_s": round(fenced_s, 3)}), followed


async def _fill(
    owner: EngineProcess, replica: EngineProcess, message_count: int, queue_count: int
) -> Run:
    per_topic = min(queue_count, QUEUES_A_TOPIC)
    topics = [f"bench%t{number}" for number in range(queue_count // per_topic)]
    client = AsyncStoreClient(owner.socket_path, client_name="bench")
    await client.wait_connected(WAIT_MS_MAX)
    await client.topic_put(
        TopicConfig(topic=PROBE, queue_count=1, durability=Durability.REPLICATED)
    )
    for topic in topics:
        await client.topic_put(
            TopicConfig(topic=topic, queue_count=per_topic, durability=Durability.ASYNC)
        )
    await client.aclose()
    # A frame for each queue in turn: 10,000 queues have more files than an engine keeps mapped.
    rounds = -(-2 * WINDOW // queue_count)
    records = [
        record
        for topic in topics
        for record in make_records(
            topic,
            per_topic,
            rounds * per_topic * BATCH,
            neighbours_count=BATCH,
            body_bytes=BODY_BYTES,
        )
    ]
    _, flood = await asyncio.get_running_loop().create_unix_connection(
        lambda: PutFlood(records, records_a_frame=BATCH, window=WINDOW), owner.socket_path
    )
    meter = Meter({"owner": owner.pid, "replica": replica.pid})
    while flood.frames_done * BATCH < message_count:
        await asyncio.wait({flood.failure}, timeout=0.02)
        if flood.failure.done():
            flood.failure.result()
    await flood.end()
    await _put_replicated(owner.socket_path)  # until the log has all of it
    seconds, cpu = meter.stop()
    return Run(rate=flood.frames_done * BATCH / seconds, cpu=cpu)


async def _put_replicated(socket_path: str) -> None:
    """Returns once the log has it."""
    client = AsyncStoreClient(socket_path, client_name="bench")
    await client.wait_connected(WAIT_MS_MAX)
    (result,) = await client.put(make_records(PROBE, 1, 1, body_bytes=BODY_BYTES))
    await client.aclose()
    if result.error is not None:
        raise MeasureFailed(f"the put was refused: {result.error}")


async def _wait_for_end(control: Path) -> None:
    """Until the replica has all that the log had when this was called."""
    asked = time.monotonic()
    while True:
        status = await _ask(control, "status")
        if 0 <= status.behind_ms < (time.monotonic() - asked) * 1_000:
            return
        await asyncio.sleep(0.05)


async def _ask(control: Path, line: str) -> RoleStatus:
    reader, writer = await asyncio.open_unix_connection(control)
    writer.write(line.encode() + b"\n")
    answer = await reader.readline()
    writer.close()
    if not answer:
        raise MeasureFailed(f"the replica did not answer {line!r}")
    return msgspec.json.decode(answer, type=RoleStatus)
