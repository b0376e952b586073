"""The pages of the console, with a thousand topics in the namespace that they show.

service, 1,000 topics, 100 groups, a backlog, samples of hours ─▶ log in ─▶ GET each page, in turn
    ─▶ p95 in ms, CPU of the web processes for one, KiB of it and all that it loads, gzipped

``BENCH_CONSOLE_MILLIONS=10`` puts ten million messages into all topics instead; they take 8 GB.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import gzip
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, Final

import httpx
from mqservice_client import AsyncClient

from bench.measure import MeasureFailed, Plan, Row, Run, cpu_seconds, row_of
from bench.payloads import make_body
from bench.processes import Service, service_running

WORKLOAD: Final = "console"
TOPICS: Final = 1_000
GROUPS: Final = 100
MILLIONS: Final = os.environ.get("BENCH_CONSOLE_MILLIONS")
BACKLOG: Final = 300_000 if MILLIONS is None else round(float(MILLIONS) * 1_000_000)
BACKLOG_TOPICS: Final = 20 if MILLIONS is None else TOPICS
BATCH: Final = 500
AT_ONCE: Final = 8
PAGE_MS_TARGET: Final = 150.0
PAGE_KIB_TARGET: Final = 150.0
REQUESTS: Final = 40  # of each page in one run
_TOPIC: Final = "bench-0000"
_YESTERDAY: Final = "{yesterday}"
PAGES: Final = {
    "home": "",
    "topics": "topics",
    "topics by lag": "topics?sort=lag",
    "topics, found": "topics?q=77",
    "topic": f"topics/{_TOPIC}",
    "publish": f"topics/{_TOPIC}/publish",
    "settings": f"topics/{_TOPIC}/edit",
    "groups": "groups",
    "group": "groups/bench-0",
    "offset reset": "groups/bench-0/reset",
    "messages": f"messages?q=topic:{_TOPIC}",
    "messages by key": f"messages?q=topic:{_TOPIC}+key:key-7",
    "messages by text": f"messages?q=topic:{_TOPIC}+body:nowhere",
    "messages by key, all topics": "messages?q=key-7",
    "one message by its key, all topics": "messages?q=order-299999",
    "search": "search?q=bench",
    "palette": "search.json?q=order-299999",
    "quick start": "quick-start",
    "live tail": f"tail?topic={_TOPIC}",
    "dead letters": "dead-letters",
    "issues": "issues",
    "schedules": "schedules",
    "clients": "clients",
    "alerts": "alerts",
    "usage": "usage",
    "audit": "audit",
    "keys": "keys",
    "definitions": "definitions",
    "reports": "reports",
    "report": f"reports/{_YESTERDAY}",
    "chart of rates": "charts/rates?span=1h",
    "chart of lag": "charts/lag?span=6h",
}
_LOADED: Final = re.compile(r'<(?:script|link)[^>]+(?:src|href)="(/static/[^"]+)"')


async def measure(plan: Plan, base: Path) -> list[Row]:
    async with service_running(base) as service:
        await _fill(service)
        _make_past(service)
        web = [pid for name, pid in service.pids.items() if name.startswith("web")]
        async with httpx.AsyncClient(
            base_url=service.base_url, timeout=60, headers={"accept-encoding": "identity"}
        ) as http:
            await _log_in(http, service)
            weights = {name: await _weight_kib(http, path) for name, path in _paths(service)}
            rows = []
            for name, path in _paths(service):
                runs = [
                    await _run(http, path, web, count=min(REQUESTS, plan.duration_ms // 200))
                    for _ in range(plan.repeats)
                ]
                rows.append(_row(name, runs, weights[name]))
    heaviest = max(weights, key=weights.__getitem__)
    rows.append(
        row_of(
            [Run(rate=weights[heaviest])],
            workload=WORKLOAD,
            name=f"console / heaviest page, {heaviest}, with all it loads",
            unit="KiB gzipped",
            setting=_setting(),
            target=PAGE_KIB_TARGET,
            is_less_better=True,
        )
    )
    return rows


def _row(name: str, runs: list[Run], weight_kib: float) -> Row:
    return row_of(
        [
            Run(rate=run.rate, extra={**run.extra, "KiB gzipped, loaded": round(weight_kib, 1)})
            for run in runs
        ],
        workload=WORKLOAD,
        name=f"console / {name}, p95",
        unit="ms",
        setting=_setting(),
        target=PAGE_MS_TARGET,
        is_less_better=True,
    )


def _setting() -> str:
    return (
        f"{TOPICS:,} topics, {GROUPS} groups, {BACKLOG:,} messages in {BACKLOG_TOPICS} topics, "
        f"hours of samples; one request at a time, {REQUESTS} of each page"
    )


def _paths(service: Service) -> list[tuple[str, str]]:
    yesterday = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1)
    return [
        (name, f"/console/{service.namespace}/{path.replace(_YESTERDAY, yesterday.isoformat())}")
        for name, path in PAGES.items()
    ]


async def _run(http: httpx.AsyncClient, path: str, web: list[int], count: int) -> Run:
    await _get(http, path)
    times_ms = []
    before = sum(map(cpu_seconds, web))
    for _ in range(count):
        began = time.perf_counter()
        await _get(http, path)
        times_ms.append(1e3 * (time.perf_counter() - began))
    cpu_ms = 1e3 * (sum(map(cpu_seconds, web)) - before) / count
    return Run(
        rate=statistics.quantiles(times_ms, n=20, method="inclusive")[-1],
        extra={
            "median, ms": round(statistics.median(times_ms), 1),
            "CPU of web processes, ms": round(cpu_ms, 1),
        },
    )


async def _get(http: httpx.AsyncClient, path: str) -> str:
    answer = await http.get(path)
    if answer.status_code != 200:
        raise MeasureFailed(f"{path}: {answer.status_code} {answer.text[:300]}")
    return answer.text


async def _weight_kib(http: httpx.AsyncClient, path: str) -> float:
    """What a browser with an empty cache would fetch, gzipped."""
    text = await _get(http, path)
    contents = [text.encode()]
    for address in sorted(set(_LOADED.findall(text))):
        contents.append((await http.get(address)).content)
    return sum(len(gzip.compress(content)) for content in contents) / 1024


async def _log_in(http: httpx.AsyncClient, service: Service) -> None:
    page = await http.get("/account/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    if token is None:
        raise MeasureFailed("the log-in has no form")
    answer = await http.post(
        "/account/login/",
        data={
            "login": service.username,
            "password": service.password,
            "csrfmiddlewaretoken": token[1],
        },
        headers={"referer": f"{service.base_url}/account/login/"},
    )
    if answer.status_code != 302:
        raise MeasureFailed(f"nobody can sign in: {answer.status_code}")


async def _fill(service: Service) -> None:
    """Topics, groups that have begun to read, messages."""
    topics = [f"bench-{number:04}" for number in range(TOPICS)]
    groups = [f"bench-{number}" for number in range(GROUPS)]
    body = make_body().decode("latin-1")[:400]
    async with AsyncClient(service.base_url, service.api_key, timeout="5m") as mq:
        await _all(mq.topics.create(name, queues=4) for name in topics)
        await _all(mq.groups.create(name) for name in groups)
        of_topic = BACKLOG // BACKLOG_TOPICS
        for place, name in enumerate(topics[:BACKLOG_TOPICS]):
            async with mq.batch(name, messages_max=BATCH) as batch:
                for number in range(of_topic):
                    keys = [f"key-{number % 50}", f"order-{place * of_topic + number}"]
                    await batch.send(body, keys=keys, tag="created")
        for number, name in enumerate(groups):
            async with mq.subscribe(topics[number % 5], name, prefetch=1) as messages:
                if await messages.get("60s") is None:
                    raise MeasureFailed(f"{name} got no message")


async def _all(calls: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Several at a time."""
    waiting = iter(calls)

    async def work() -> None:
        for call in waiting:
            await call

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


def _make_past(service: Service) -> None:
    """With the running service's own settings."""
    web = next(pid for name, pid in service.pids.items() if name.startswith("web"))
    pairs = Path(f"/proc/{web}/environ").read_bytes().split(b"\0")
    settings = dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)
    made = subprocess.run(
        [sys.executable, "-m", "bench.console_past", service.namespace],
        env={**os.environ, **settings, "MQ_PROCESS": "manage"},
        capture_output=True,
        check=False,
    )
    if made.returncode:
        raise MeasureFailed(f"no samples: {made.stderr.decode()[-500:]}")
