"""A thousand tenants with ten topics each, made over REST and listed page by page.

tenants with keys (made by ``bench.many_tenants``) ─▶ PUT topics, several at a time ─▶ seconds
one tenant with as many topics as all of them ─▶ GET pages by cursor ─▶ ms of a page
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import httpx
import msgspec

from bench.measure import MeasureFailed, Plan, Row, Run, cpu_seconds, row_of
from bench.processes import Service, service_running

WORKLOAD: Final = "tenants"
TENANTS: Final = 1_000
TOPICS_EACH: Final = 10
AT_ONCE: Final = 8
CREATE_SECONDS_TARGET: Final = 120.0
PAGE_MS_TARGET: Final = 100.0
PAGE: Final = 100
LARGE_PAGE: Final = 1_000  # what is listed when no limit is given
LISTED: Final = 1_000


class Keyed(msgspec.Struct, frozen=True):
    """A tenant that ``bench.many_tenants`` made."""

    api_key: str
    namespace: str


async def measure(plan: Plan, base: Path) -> list[Row]:
    async with service_running(base) as service:
        began = time.perf_counter()
        tenants = _make_tenants(service, TENANTS)
        tenants_s = time.perf_counter() - began
        before = {name: _with_children_s(pid) for name, pid in service.pids.items()}
        began = time.perf_counter()
        await _make_topics(service, tenants, TOPICS_EACH)
        topics_s = time.perf_counter() - began
        cpu = {name: _with_children_s(pid) - before[name] for name, pid in service.pids.items()}
        del cpu["supervisor"]  # all are its children
        await _make_topics(service, tenants[:1], LISTED)
        page_ms = await _list_pages(service, tenants[0], PAGE)
        large_ms = await _list_pages(service, tenants[0], LARGE_PAGE)
    count = len(tenants) * TOPICS_EACH
    setting = f"{len(tenants):,} tenants, {TOPICS_EACH} topics each, {AT_ONCE} requests at a time"
    return [
        row_of(
            [
                Run(
                    rate=tenants_s + topics_s,
                    extra={
                        "tenants, s": tenants_s,
                        "topics, s": topics_s,
                        **{
                            f"{name}, ms of CPU a topic": 1e3 * s / count for name, s in cpu.items()
                        },
                    },
                )
            ],
            workload=WORKLOAD,
            name="tenants with their topics made",
            unit="s",
            setting=setting,
            target=CREATE_SECONDS_TARGET,
            is_less_better=True,
        ),
        row_of(
            [Run(rate=max(page_ms), extra={"median, ms": statistics.median(page_ms)})],
            workload=WORKLOAD,
            name=f"a page of {PAGE} topics, the slowest",
            unit="ms",
            setting=f"{setting}; one of them with {LISTED + TOPICS_EACH:,}",
            target=PAGE_MS_TARGET,
            is_less_better=True,
        ),
        row_of(
            [Run(rate=max(large_ms))],
            workload=WORKLOAD,
            name=f"a page of {LARGE_PAGE} topics",
            unit="ms",
            setting=f"{setting}; one of them with {LISTED + TOPICS_EACH:,}",
            target=PAGE_MS_TARGET,
            is_less_better=True,
        ),
    ]


def _with_children_s(pid: int) -> float:
    """CPU seconds of a process and its children: PostgreSQL has one for each connection."""
    children = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/stat")
        if _parent_of(path) == pid
    ]
    return cpu_seconds(pid) + sum(map(cpu_seconds, children))


def _parent_of(path: Path) -> int:
    """Of the process whose ``stat`` this is; 0 when it is gone."""
    try:
        return int(path.read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


async def _make_topics(service: Service, tenants: list[Keyed], each: int) -> None:
    waiting = [(tenant, number) for number in range(each) for tenant in tenants]
    waiting.reverse()

    async with httpx.AsyncClient(base_url=service.base_url, timeout=60) as http:

        async def work() -> None:
            while waiting:
                tenant, number = waiting.pop()
                path = f"/v1/ns/{tenant.namespace}/topics/t{each}-{number}"
                headers = {"authorization": f"Bearer {tenant.api_key}"}
                while True:
                    answer = await http.put(path, json={"queues": 1}, headers=headers)
                    if answer.status_code != 429:
                        break
                    await asyncio.sleep(answer.json()["retry_after_ms"] / 1_000)
                if answer.status_code != 201:
                    raise MeasureFailed(f"{path}: {answer.status_code} {answer.text[:300]}")

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())


async def _list_pages(service: Service, tenant: Keyed, limit: int) -> list[float]:
    """ms of each page of all topics of a tenant."""
    times, seen, after = [], 0, ""
    headers = {"authorization": f"Bearer {tenant.api_key}"}
    async with httpx.AsyncClient(base_url=service.base_url, headers=headers, timeout=60) as http:
        while True:
            began = time.perf_counter()
            answer = await http.get(
                f"/v1/ns/{tenant.namespace}/topics", params={"limit": limit, "after": after}
            )
            times.append((time.perf_counter() - began) * 1_000)
            page = answer.json()
            seen += len(page["topics"])
            if page["next"] is None:
                break
            after = page["next"]
    if seen != LISTED + TOPICS_EACH:
        raise MeasureFailed(f"{seen} topics were listed, not {LISTED + TOPICS_EACH}")
    return times


def _make_tenants(service: Service, count: int) -> list[Keyed]:
    """With the running service's own settings."""
    web = next(pid for name, pid in service.pids.items() if name.startswith("web"))
    pairs = Path(f"/proc/{web}/environ").read_bytes().split(b"\0")
    settings = dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)
    made = subprocess.run(
        [sys.executable, "-m", "bench.many_tenants", str(count)],
        env={**os.environ, **settings, "MQ_PROCESS": "manage"},
        capture_output=True,
        check=False,
    )
    if made.returncode:
        raise MeasureFailed(f"no tenants: {made.stderr.decode()[-500:]}")
    return msgspec.json.decode(made.stdout, type=list[Keyed])
