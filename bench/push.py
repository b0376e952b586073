"""Consuming: WebSocket push with confirmed acks, and receive with settle over REST."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from bench.engine import fill
from bench.http_client import LeanHttp
from bench.measure import MeasureFailed, Meter, Plan, Row, Run, repeated
from bench.processes import Service, service_running
from bench.push_consumer import CREDIT_MSGS, consume
from mqservice.protocol.frames import Subprotocol

WORKLOAD: Final = "push"
QUEUES: Final = 4
PUSH_TARGETS: Final = {Subprotocol.MSGPACK: 150_000.0, Subprotocol.JSON: 100_000.0}
RECEIVE_TARGET: Final = 40_000.0
RECEIVE_MESSAGES: Final = 64
RECEIVE_CONNECTIONS: Final = 8
BACKLOG_SHARE_MAX: Final = 0.95
# Messages put in beforehand for each second of the run: more than can be consumed.
BACKLOG_A_SECOND: Final = {"push": 250_000, "receive": 150_000}


async def measure(plan: Plan, base: Path) -> list[Row]:
    rows = []
    for subprotocol in (Subprotocol.MSGPACK, Subprotocol.JSON):
        rows.append(
            await _row(
                plan,
                base,
                _pushing(subprotocol),
                "push",
                name=f"WebSocket push with acks, {subprotocol.removeprefix('mq.v1.')}",
                how=(
                    f"one consumer, credit {CREDIT_MSGS} messages and 8 MiB, each frame decoded "
                    "and acked with confirmation"
                ),
                target=PUSH_TARGETS[subprotocol],
            )
        )
    rows.append(
        await _row(
            plan,
            base,
            _receiving,
            "receive",
            name=f"REST receive {RECEIVE_MESSAGES} and settle",
            how=f"{RECEIVE_CONNECTIONS} connections, each receives, then acks all of it",
            target=RECEIVE_TARGET,
        )
    )
    return rows


class _Received(msgspec.Struct):
    """A message of an answer, as far as it is looked at."""

    receipt: str
    body: str


class _Answer(msgspec.Struct):
    messages: list[_Received]


_decode = msgspec.json.Decoder(_Answer).decode
Consuming = Callable[[Service, list[int]], Awaitable[None]]


async def _row(
    plan: Plan,
    base: Path,
    consume: Consuming,
    kind: str,
    *,
    name: str,
    how: str,
    target: float | None,
) -> Row:
    async def once() -> Run:
        async with service_running(base) as service:
            return await _consume(plan, service, consume, kind)

    return await repeated(
        once,
        plan,
        workload=WORKLOAD,
        name=name,
        unit="msg/s",
        setting=f"1 KiB bodies, {QUEUES} queues, {how}, new service each run; {plan.text}",
        target=target,
    )


async def _consume(plan: Plan, service: Service, consume: Consuming, kind: str) -> Run:
    seconds = (plan.warm_up_ms + plan.duration_ms) / 1000
    filled = await fill(
        service.engine_socket,
        f"{service.namespace}%{service.topic}",
        QUEUES,
        round(BACKLOG_A_SECOND[kind] * seconds),
    )
    counts = [0]
    work = asyncio.ensure_future(consume(service, counts))
    await asyncio.wait({work}, timeout=plan.warm_up_ms / 1000)
    before = counts[0]
    meter = Meter(service.measured_pids)
    await asyncio.wait({work}, timeout=plan.duration_ms / 1000)
    done = counts[0] - before
    passed, cpu = meter.stop()
    if work.done():
        work.result()
    if counts[0] > filled * BACKLOG_SHARE_MAX:
        raise MeasureFailed(f"{counts[0]} of {filled} messages were consumed: too few to measure")
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    return Run(rate=done / passed, cpu=cpu)


def _pushing(subprotocol: Subprotocol) -> Consuming:
    async def consume_counted(service: Service, counts: list[int]) -> None:
        def confirmed(count: int) -> None:
            counts[0] += count

        await consume(service, subprotocol, confirmed)

    return consume_counted


async def _receiving(service: Service, counts: list[int]) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(RECEIVE_CONNECTIONS):
            group.create_task(_receive(service, counts))


async def _receive(service: Service, counts: list[int]) -> None:
    root = f"/v1/ns/{service.namespace}"
    http = await LeanHttp.connect(service.base_url, key=service.api_key)
    try:
        while True:
            content = await http.post(
                f"{root}/topics/{service.topic}/groups/{service.group}:receive",
                b'{"max":%d,"wait":"1s"}' % RECEIVE_MESSAGES,
            )
            messages = _decode(content).messages
            if not messages:
                continue
            receipts = b",".join(b'"%s"' % message.receipt.encode() for message in messages)
            await http.post(f"{root}/groups/{service.group}:settle", b'{"ack":[' + receipts + b"]}")
            counts[0] += len(messages)
    finally:
        http.close()
