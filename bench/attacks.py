"""A neighbour's latency while one hostile WebSocket client of another tenant attacks its process.

    quiet:   REST publishes at a steady rate ─▶ one web process ─▶ 201        p99
    attack:  the same, and one socket that sends pings, fragments, ... ──▶    p99 again

Quiet and attack alternate, so that a busy machine touches both alike; each row is their ratio.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

import msgspec
from mqservice_client import AsyncClient

from bench.measure import MeasureFailed, Plan, Row, Run, row_of
from bench.neighbours import RATE, p99_of, steady
from bench.processes import Service, service_running
from bench.second_tenant import SecondTenant, second_tenant_of
from bench.socket_attacker import ATTACKS, AttackReport

WORKLOAD: Final = "attacks"
CONNECTIONS: Final = 32  # so many that no message waits for the answer to another one
TENANT: Final = "attacker"
QUOTA: Final = 1_000_000  # so that it is not the quota that stops it
RATIO_MAX: Final = 3.0
TOPIC: Final = "quick"  # whose messages do not wait for the disk, which is busy with others too
LEAD_S: Final = 0.5  # for the attacker's process to start


async def measure(plan: Plan, base: Path) -> list[Row]:
    async with service_running(base, MQ_WEB_WORKERS="1") as service:
        await _make_topic(service)
        web = next(pid for name, pid in service.pids.items() if name.startswith("web"))
        setting = (
            f"neighbour: {RATE} msg/s over {CONNECTIONS} connections, 1 KiB bodies, async topic; "
            f"one web process; one attacking socket; {plan.text}"
        )
        rows = []
        for index, name in enumerate(ATTACKS):
            runs = []
            for repeat in range(plan.repeats):
                # What an attack still owes would keep the next one out.
                attacker = second_tenant_of(web, f"{TENANT}-{index}-{repeat}", QUOTA)
                runs.append(await _run(plan, service, attacker, name))
            rows.append(
                row_of(
                    runs,
                    workload=WORKLOAD,
                    name=f"p99 under attack / quiet: {name}",
                    unit="ratio",
                    setting=setting,
                    target=RATIO_MAX,
                    is_less_better=True,
                )
            )
        return rows


async def _make_topic(service: Service) -> None:
    async with AsyncClient(service.base_url, service.api_key) as mq:
        await mq.topics.create(TOPIC, durability="async")


async def _run(plan: Plan, service: Service, attacker: SecondTenant, name: str) -> Run:
    seconds = plan.duration_ms / 1_000
    quiet, quiet_errors = await steady(service, seconds, TOPIC, CONNECTIONS)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.socket_attacker", service.ws_url, attacker.api_key,
        attacker.topic, attacker.group, name, str(seconds + LEAD_S),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    await asyncio.sleep(LEAD_S)
    attacked, errors = await steady(service, seconds, TOPIC, CONNECTIONS)
    output, _ = await process.communicate()
    if process.returncode:
        raise MeasureFailed(f"the attacker of {name} failed")
    report = msgspec.json.decode(output, type=AttackReport)
    return Run(
        rate=p99_of(attacked) / p99_of(quiet),
        extra={
            "quiet p99, ms": round(p99_of(quiet), 2),
            "attacked p99, ms": round(p99_of(attacked), 2),
            "attacked max, ms": round(max(attacked), 2),
            "errors": quiet_errors + errors,
            "MiB sent": round(report.bytes_sent / 2**20, 1),
            "connections": report.connections,
        },
    )
