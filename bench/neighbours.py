"""A tenant at twenty times its quota beside one that keeps to its own; and what asking costs.

    full:   as much as one tenant produces ─▶ CPU of a web process for one request
    quiet:  victim at a steady rate ─▶ POST ─▶ answer                         its p99
    noisy:  the same, and a neighbour that sends 20 times what it may ─▶ 429   its p99 again

The last figure is of the same run: CPU of authorisation and quota of one request, measured by
itself, against what a web process used for one request under full load.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.http_client import LeanHttp
from bench.measure import MeasureFailed, Plan, Row, Run, cpu_seconds, row_of
from bench.payloads import make_body
from bench.processes import Service, service_running
from bench.second_tenant import SecondTenant, second_tenant_of

WORKLOAD: Final = "neighbours"
RATE: Final = 200  # messages a second of the victim
CONNECTIONS: Final = 4
QUOTA: Final = 100  # messages a second of the neighbour
TIMES: Final = 20
NOISY_CONNECTIONS: Final = 8
FULL_CONNECTIONS: Final = 32
P99_TARGET: Final = 2.0
COST_TARGET: Final = 0.05
COST_ROUNDS: Final = 20_000
TENANT: Final = "noisy"


class _Noise(msgspec.Struct):
    """Answers the neighbour got."""

    stored: int = 0
    refused: int = 0
    refused_without_retry_after: int = 0
    others: int = 0


class _Outcome(msgspec.Struct, kw_only=True):
    quiet_ms: float
    noisy_ms: float
    errors: int
    noise: _Noise
    seconds: float
    cpu_us_each: float  # of a web process, for one request that was stored
    noise_cores: float  # that all web processes used while there was noise
    quiet_cores: float


async def measure(plan: Plan, base: Path) -> list[Row]:
    outcomes = []
    for _ in range(plan.repeats):
        async with service_running(base) as service:
            outcomes.append(await _run(plan, service))
    setting = (
        f"victim: {RATE} msg/s over {CONNECTIONS} connections; neighbour: quota {QUOTA} msg/s, "
        f"{TIMES * QUOTA} sent over {NOISY_CONNECTIONS}; 1 KiB bodies, sync topics; {plan.text}"
    )
    cost_us = _cost_us()

    def row(
        name: str, runs: list[Run], unit: str, target: float | None, *, is_less: bool = True
    ) -> Row:
        return row_of(
            runs,
            workload=WORKLOAD,
            name=name,
            unit=unit,
            setting=setting,
            target=target,
            is_less_better=is_less,
        )

    return [
        row(
            "p99 of the victim, noisy / quiet",
            [
                Run(
                    rate=outcome.noisy_ms / outcome.quiet_ms,
                    extra={
                        "quiet, ms": outcome.quiet_ms,
                        "noisy, ms": outcome.noisy_ms,
                        "quiet, cores of web": outcome.quiet_cores,
                        "noisy, cores of web": outcome.noise_cores,
                    },
                )
                for outcome in outcomes
            ],
            "ratio",
            P99_TARGET,
        ),
        row("errors of the victim", [Run(rate=one.errors) for one in outcomes], "count", 0.0),
        row(
            "stored of the neighbour / its quota",
            [
                Run(
                    rate=(one.noise.stored - QUOTA) / one.seconds / QUOTA,
                    extra={"refused a second": one.noise.refused / one.seconds},
                )
                for one in outcomes
            ],
            "ratio",
            1.1,  # less the bucket that was full at first
        ),
        row(
            "refusals without Retry-After, other answers",
            [
                Run(rate=one.noise.refused_without_retry_after + one.noise.others)
                for one in outcomes
            ],
            "count",
            0.0,
        ),
        row(
            "authorisation and quota / CPU of one produce",
            [Run(rate=cost_us / one.cpu_us_each, extra={"us": cost_us}) for one in outcomes],
            "ratio",
            COST_TARGET,
        ),
    ]


async def _run(plan: Plan, service: Service) -> _Outcome:
    neighbour = second_tenant_of(
        next(pid for name, pid in service.pids.items() if name.startswith("web")), TENANT, QUOTA
    )
    seconds = (plan.warm_up_ms + plan.duration_ms) / 1_000
    web = [pid for name, pid in service.pids.items() if name.startswith("web")]
    before = sum(map(cpu_seconds, web))
    count = await _saturate(service, seconds)
    cpu_us = (sum(map(cpu_seconds, web)) - before) * 1e6 / max(1, count)
    before, quiet_began = sum(map(cpu_seconds, web)), time.perf_counter()
    quiet, quiet_errors = await steady(service, seconds)
    quiet_cores = (sum(map(cpu_seconds, web)) - before) / (time.perf_counter() - quiet_began)
    before = sum(map(cpu_seconds, web))
    noise, ended = _Noise(), asyncio.Event()
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(NOISY_CONNECTIONS):
            group.create_task(_make_noise(service, neighbour, noise, ended))
        noisy, noisy_errors = await steady(service, seconds)
        ended.set()
    if not noise.refused:
        raise MeasureFailed(f"the neighbour was never refused: {noise}")
    passed_s = time.perf_counter() - began
    return _Outcome(
        noise_cores=(sum(map(cpu_seconds, web)) - before) / passed_s,
        quiet_cores=quiet_cores,
        quiet_ms=p99_of(quiet),
        noisy_ms=p99_of(noisy),
        errors=quiet_errors + noisy_errors,
        noise=noise,
        seconds=passed_s,
        cpu_us_each=cpu_us,
    )


def p99_of(late_ms: list[float]) -> float:
    if not late_ms:
        raise MeasureFailed("the victim was never answered")
    return sorted(late_ms)[min(int(len(late_ms) * 0.99), len(late_ms) - 1)]


async def steady(
    service: Service, seconds: float, topic: str = "", connections: int = CONNECTIONS
) -> tuple[list[float], int]:
    """(ms from when each request was due to its answer, errors) of the victim."""
    late_ms: list[float] = []
    errors = 0
    body = b'{"body":"%s"}' % make_body()
    path = f"/v1/ns/{service.namespace}/topics/{topic or service.topic}/messages"
    count, began = round(RATE * seconds), time.perf_counter()

    async def produce(numbers: range) -> None:
        nonlocal errors
        http = await LeanHttp.connect(service.base_url, key=service.api_key)
        try:
            for number in numbers:
                due = began + number / RATE
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                status, _, _ = await http.exchange(path, body)
                errors += status != 201
                late_ms.append((time.perf_counter() - due) * 1_000)
        finally:
            http.close()

    async with asyncio.TaskGroup() as group:
        for first in range(connections):
            group.create_task(produce(range(first, count, connections)))
    return late_ms, errors


async def _saturate(service: Service, seconds: float) -> int:
    """How many messages were stored by connections that wait for nothing but answers."""
    body = b'{"body":"%s"}' % make_body()
    path = f"/v1/ns/{service.namespace}/topics/{service.topic}/messages"
    deadline = time.perf_counter() + seconds

    async def produce() -> int:
        http = await LeanHttp.connect(service.base_url, key=service.api_key)
        count = 0
        try:
            while time.perf_counter() < deadline:
                await http.post(path, body)
                count += 1
        finally:
            http.close()
        return count

    return sum(await asyncio.gather(*(produce() for _ in range(FULL_CONNECTIONS))))


async def _make_noise(
    service: Service, neighbour: SecondTenant, noise: _Noise, ended: asyncio.Event
) -> None:
    """Send at this connection's part of the rate, whatever the answers say."""
    http = await LeanHttp.connect(service.base_url, key=neighbour.api_key)
    path = f"/v1/ns/{neighbour.namespace}/topics/{neighbour.topic}/messages"
    body = b'{"body":"%s"}' % make_body()
    pause_s, due = NOISY_CONNECTIONS / (TIMES * QUOTA), time.perf_counter()
    try:
        while not ended.is_set():
            due += pause_s
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            status, head, _ = await http.exchange(path, body)
            noise.stored += status == 201
            noise.refused += status == 429
            noise.refused_without_retry_after += status == 429 and b"retry-after:" not in head
            noise.others += status not in (201, 429)
    finally:
        http.close()


def _cost_us() -> float:
    """CPU of what a request is asked before and told after it is stored."""
    made = subprocess.run(
        [sys.executable, "-m", "bench.asking", str(COST_ROUNDS)], capture_output=True, check=False
    )
    if made.returncode:
        raise MeasureFailed(f"the cost of asking: {made.stderr.decode()[-500:]}")
    return float(made.stdout)
