"""The clients beside the least that could do their work, by turns.

bare socket loop ─▶ ┐                     batch REST by hand ─▶ ┐
AsyncClient ──────▶ ├─ confirmed acks/s   batch with linger ──▶ ┴─ stored messages/s
Client ───────────▶ ┘
Client in Node ───▶ beside AsyncClient
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import httpx
import msgspec
from mqservice_client import AsyncClient, Client

from bench.engine import fill
from bench.measure import MeasureFailed, Plan, Row, Run, Skipped, row_of
from bench.payloads import make_body
from bench.processes import Service, service_running
from bench.push_consumer import CREDIT_MSGS, consume
from mqservice.protocol.frames import Subprotocol
from tests.clients.typescript.package import dist, why_no_package

WORKLOAD: Final = "python-client"
QUEUES: Final = 4
BACKLOG_A_SECOND: Final = 250_000
BACKLOG_SHARE_MAX: Final = 0.95
BATCH: Final = 500
CONNECTIONS: Final = 4
ASYNC_TARGET: Final = 0.8
SYNC_TARGET: Final = 0.5
TYPESCRIPT_TARGET: Final = 0.6
PRODUCE_TARGET: Final = 0.8
IMPORT_MS_MAX: Final = 120.0
IDLE_MIB_MAX: Final = 35.0
CLIENT_PATH: Final = Path(__file__).resolve().parents[1] / "clients" / "python"
# Also while it is busy: a consumer that holds no message, after its first minute of life in short.
_IDLE: Final = """
import sys, time
from mqservice_client import Client
mq = Client(*sys.argv[1:3])
subscription = mq.subscribe(*sys.argv[3:5])
subscription.get("2s")
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
mq.close()
"""
_IMPORT: Final = """
import time
begun = time.perf_counter()
import mqservice_client
print((time.perf_counter() - begun) * 1000)
"""
Consuming = Callable[[Service, list[int]], Awaitable[None]]


async def measure_typescript(plan: Plan, base: Path) -> list[Row]:
    """The consumer of the TypeScript client beside that of the Python one."""
    if why := why_no_package():
        raise Skipped(why)
    targets = {TYPESCRIPT: TYPESCRIPT_TARGET}
    return await _consuming_rows(plan, base, ASYNC, targets, "typescript-client")


async def measure(plan: Plan, base: Path) -> list[Row]:
    return [
        *await _consuming_rows(plan, base, BARE, {ASYNC: ASYNC_TARGET, SYNC: SYNC_TARGET}),
        *await _producing_rows(plan, base),
    ]


async def _consuming_rows(
    plan: Plan, base: Path, beside: str, targets: dict[str, float], workload: str = WORKLOAD
) -> list[Row]:
    """Consumers of ``targets`` and the one that they are measured beside, by turns."""
    rates: dict[str, list[float]] = {name: [] for name in (beside, *targets)}
    for _ in range(plan.repeats):
        for name, taken in rates.items():
            async with service_running(base) as service:
                taken.append(await _rate(plan, service, CONSUMERS[name]))
    setting = (
        f"1 KiB bodies, {QUEUES} queues, MessagePack, credit {CREDIT_MSGS} messages, acks "
        f"confirmed, by turns, new service each run; {plan.text}"
    )
    rows = [_row(name, "msg/s", taken, setting) for name, taken in rates.items()]
    rows += [_ratio_row(name, beside, rates, setting, most) for name, most in targets.items()]
    return [msgspec.structs.replace(row, workload=workload) for row in rows]


async def _rate(plan: Plan, service: Service, consumer: Consuming) -> float:
    seconds = (plan.warm_up_ms + plan.duration_ms) / 1000
    topic = f"{service.namespace}%{service.topic}"
    filled = await fill(service.engine_socket, topic, QUEUES, round(BACKLOG_A_SECOND * seconds))
    counts = [0]
    work = asyncio.ensure_future(consumer(service, counts))
    await asyncio.wait({work}, timeout=plan.warm_up_ms / 1000)
    before, begun = counts[0], time.perf_counter()
    await asyncio.wait({work}, timeout=plan.duration_ms / 1000)
    rate = (counts[0] - before) / (time.perf_counter() - begun)
    if work.done():
        work.result()
    if counts[0] > filled * BACKLOG_SHARE_MAX:
        raise MeasureFailed(f"{counts[0]} of {filled} messages were consumed: too few to measure")
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    return rate


async def _consume_bare(service: Service, counts: list[int]) -> None:
    def confirmed(count: int) -> None:
        counts[0] += count

    await consume(service, Subprotocol.MSGPACK, confirmed)


async def _consume_async(service: Service, counts: list[int]) -> None:
    async with (
        AsyncClient(service.base_url, service.api_key) as mq,
        mq.subscribe(service.topic, service.group, prefetch=CREDIT_MSGS) as subscription,
    ):
        stats = subscription.stats
        async for message in subscription:
            assert message.body
            message.ack()
            counts[0] = stats.acked


async def _consume_sync(service: Service, counts: list[int]) -> None:
    """In a thread of its own, as a program without an event loop; ended by closing the client."""
    mq = Client(service.base_url, service.api_key)
    subscription = mq.subscribe(service.topic, service.group, prefetch=CREDIT_MSGS)

    def loop() -> None:
        stats = subscription.stats
        for message in subscription:
            assert message.body
            message.ack()
            counts[0] = stats.acked

    running = asyncio.ensure_future(asyncio.to_thread(loop))
    try:
        await asyncio.shield(running)
    finally:
        await asyncio.to_thread(mq.close)
        await running


async def _consume_typescript(service: Service, counts: list[int]) -> None:
    """In a process of Node, which says how many acks are confirmed."""
    env = {
        **os.environ,
        "CLIENT": dist().joinpath("index.js").as_uri(),
        "MQ_BASE_URL": service.base_url, "MQ_API_KEY": service.api_key,
        "TOPIC": service.topic, "GROUP": service.group, "PREFETCH": str(CREDIT_MSGS),
    }  # fmt: skip
    script = str(Path(__file__).with_name("typescript_consumer.mjs"))
    process = await asyncio.create_subprocess_exec(
        "node", script, env=env, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            counts[0] = int(line)
        raise MeasureFailed(f"the consumer in Node ended with {await process.wait()}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


BARE: Final = "bare socket loop"
ASYNC: Final = "AsyncClient, subscription"
SYNC: Final = "Client, subscription"
TYPESCRIPT: Final = "TypeScript client in Node, subscription"
CONSUMERS: Final[dict[str, Consuming]] = {
    BARE: _consume_bare,
    ASYNC: _consume_async,
    SYNC: _consume_sync,
    TYPESCRIPT: _consume_typescript,
}


async def _producing_rows(plan: Plan, base: Path) -> list[Row]:
    rates: dict[str, list[float]] = {HAND: [], LINGER: []}
    async with service_running(base) as service:
        for _ in range(plan.repeats):
            for name, produce in ((HAND, _produce_by_hand), (LINGER, _produce_batch)):
                seconds = plan.duration_ms / 1000
                rates[name].append(await produce(service, seconds) / seconds)
        imports, idle = [], []
        for _ in range(plan.repeats):
            imports.append(_said(_IMPORT))
            idle.append(
                _said(_IDLE, service.base_url, service.api_key, service.topic, service.group) / 1024
            )
    setting = (
        f"1 KiB bodies, {BATCH} messages a request, {CONNECTIONS} requests at a time, by turns; "
        f"{plan.text}"
    )
    return [
        _row(HAND, "msg/s", rates[HAND], setting),
        _row(LINGER, "msg/s", rates[LINGER], setting),
        _ratio_row(LINGER, HAND, rates, setting, PRODUCE_TARGET),
        _row("import mqservice_client", "ms", imports, "a new process each", IMPORT_MS_MAX),
        _row("idle consumer, resident", "MiB", idle, "a new process each", IDLE_MIB_MAX),
    ]


async def _produce_by_hand(service: Service, seconds: float) -> int:
    """What a careful program does with httpx and msgspec."""
    url = f"{service.base_url}/v1/ns/{service.namespace}/topics/{service.topic}/messages:batch"
    body = make_body().decode("latin1")
    headers = {"authorization": f"Bearer {service.api_key}", "content-type": "application/json"}
    deadline = time.perf_counter() + seconds
    stored = 0

    async def send(http: httpx.AsyncClient) -> None:
        nonlocal stored
        while time.perf_counter() < deadline:
            messages = [{"body": body} for _ in range(BATCH)]
            response = await http.post(url, content=msgspec.json.encode(messages), headers=headers)
            results = msgspec.json.decode(response.content)["results"]
            stored += sum(result["status"] == 201 for result in results)

    async with httpx.AsyncClient(trust_env=False) as http, asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(send(http))
    return stored


async def _produce_batch(service: Service, seconds: float) -> int:
    body = make_body().decode("latin1")
    deadline = time.perf_counter() + seconds
    async with AsyncClient(service.base_url, service.api_key) as mq:
        async with mq.batch(service.topic, messages_max=BATCH, requests_max=CONNECTIONS) as batch:
            while time.perf_counter() < deadline:
                await batch.send(body)
        return batch.stored


HAND: Final = "batch REST by hand (httpx)"
LINGER: Final = "AsyncClient, batch with linger"


def _said(code: str, *arguments: str) -> float:
    """The number that a program of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={"PYTHONPATH": str(CLIENT_PATH)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise MeasureFailed(done.stderr)
    return float(json.loads(done.stdout))


def _row(name: str, unit: str, rates: list[float], setting: str, most: float | None = None) -> Row:
    runs = [Run(rate=rate) for rate in rates]
    return row_of(
        runs, workload=WORKLOAD, name=name, unit=unit, setting=setting, target=most,
        is_less_better=most is not None,
    )  # fmt: skip


def _ratio_row(
    name: str, beside: str, rates: dict[str, list[float]], setting: str, target: float
) -> Row:
    """Each turn's rate beside that of the turn next to it."""
    runs = [Run(rate=rate / other) for rate, other in zip(rates[name], rates[beside], strict=True)]
    return row_of(
        runs, workload=WORKLOAD, name=f"{name} / {beside}", unit="ratio", setting=setting,
        target=target,
    )  # fmt: skip
