"""What authorisation adds to producing over REST: CPU of a web process for one request, by turns.

key with scopes ─────▶ web process of the service   ─┐
key with 16 patterns ▶ the same                      ├─ POST, CPU / requests
any header ──────────▶ one that asks nobody anything ─┘
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import httpx

from bench.http_client import LeanHttp
from bench.measure import MeasureFailed, Plan, Row, Run, cpu_seconds, row_of
from bench.payloads import make_body
from bench.processes import Service, free_port, service_running

WORKLOAD: Final = "authorisation"
TARGET: Final = 0.05
CONNECTIONS: Final = 16
TURNS: Final = 5  # of each kind in one run
READY_S_MAX: Final = 60.0


async def measure(plan: Plan, base: Path) -> list[Row]:
    async with service_running(base) as service:
        settings = settings_of(service)
        patterns = made_key(service, settings, "patterns")
        web = [pid for name, pid in service.pids.items() if name.startswith("web")]
        port = free_port()
        constant = _start_constant(service, settings, port)
        try:
            url = f"http://127.0.0.1:{port}"
            await _until_ready(url, constant)
            kinds = (
                (service.base_url, service.api_key, web),
                (service.base_url, patterns, web),
                (url, "none", [constant.pid]),
            )
            runs: list[list[float]] = [[], [], []]
            turn_s = plan.duration_ms / 1_000 / TURNS
            for turn in range(1 + plan.repeats * TURNS):
                for taken, kind in zip(runs, kinds, strict=True):
                    cost_us = await _cost_us(service, *kind, turn_s)
                    if turn:  # the first only warms up
                        taken.append(cost_us)
        finally:
            constant.terminate()
            constant.wait()
    scopes_us, patterns_us, constant_us = (sorted(taken)[len(taken) // 2] for taken in runs)
    setting = (
        f"1 KiB bodies, {CONNECTIONS} connections, CPU of the web process for a request, median of "
        f"{len(runs[0])} turns; {plan.text}"
    )
    return [
        row_of(
            [
                Run(
                    rate=max(0.0, cost_us - constant_us) / cost_us,
                    extra={"us": cost_us, "us without": constant_us},
                )
            ],
            workload=WORKLOAD,
            name=f"authorisation / produce one, key with {name}",
            unit="ratio",
            setting=setting,
            target=TARGET,
            is_less_better=True,
        )
        for name, cost_us in (("scopes", scopes_us), ("16 patterns", patterns_us))
    ]


async def _cost_us(
    service: Service, base_url: str, key: str, pids: list[int], seconds: float
) -> float:
    """CPU of ``pids`` for each request of as many as fit into ``seconds``."""
    body = b'{"body":"%s"}' % make_body()
    path = f"/v1/ns/{service.namespace}/topics/{service.topic}/messages"
    deadline = time.perf_counter() + seconds
    before = sum(map(cpu_seconds, pids))

    async def produce() -> int:
        http = await LeanHttp.connect(base_url, key=key)
        count = 0
        try:
            while time.perf_counter() < deadline:
                await http.post(path, body)
                count += 1
        finally:
            http.close()
        return count

    count = sum(await asyncio.gather(*(produce() for _ in range(CONNECTIONS))))
    return (sum(map(cpu_seconds, pids)) - before) * 1e6 / max(1, count)


def _start_constant(
    service: Service, settings: dict[str, str], port: int
) -> subprocess.Popen[bytes]:
    environ = {**settings, "MQ_PORT": str(port), "MQ_BENCH_KEY": service.api_key}
    environ.pop("MQ_WEB_REUSE_PORT", None)
    return subprocess.Popen([sys.executable, "-m", "bench.constant_web"], env=environ)


def settings_of(service: Service) -> dict[str, str]:
    """What the web process of the service was started with."""
    web = next(pid for name, pid in service.pids.items() if name.startswith("web"))
    pairs = Path(f"/proc/{web}/environ").read_bytes().split(b"\0")
    return dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)


def made_key(service: Service, settings: dict[str, str], kind: str) -> str:
    """A key of ``bench.make_key``."""
    made = subprocess.run(
        [sys.executable, "-m", "bench.make_key", service.namespace, kind],
        env={**os.environ, **settings, "MQ_PROCESS": "manage"},
        capture_output=True,
        check=False,
    )
    if made.returncode:
        raise MeasureFailed(f"no key: {made.stderr.decode()[-500:]}")
    return made.stdout.decode()


async def _until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.perf_counter() + READY_S_MAX
    async with httpx.AsyncClient() as http:
        while time.perf_counter() < deadline:
            if process.poll() is not None:
                raise MeasureFailed(f"the web process ended with {process.returncode}")
            try:
                if (await http.get(f"{url}/readyz")).status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.2)
    raise MeasureFailed("the web process was not ready in time")
