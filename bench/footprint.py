"""What the service costs before anybody uses it: memory, CPU, and the seconds of starts and stops.

    mqservice up ─▶ first start (makes the databases) ─▶ stop ─▶ started and stopped some times more
                                                          └─▶ memory of each process, idle CPU
                       once more, a day's messages produced and consumed ─▶ memory of each process

Memory is proportional (Pss): a page that several processes share counts in equal parts. All
processes count that descend from the supervisor, and the supervisor itself. ``python -m bench
--only footprint``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec
from mqservice_client import AsyncClient

from bench.measure import MeasureFailed, Plan, Row, Run, cpu_seconds, row_of
from bench.payloads import make_body
from bench.processes import free_port, scratch_directory
from mqservice.supervisor.quickstart import Quickstart, find_quickstart

WORKLOAD: Final = "footprint"
MEMORY_MIB_TARGET: Final = 450.0
IDLE_CPU_PERCENT_TARGET: Final = 3.0  # of one core
DAY_MEMORY_MIB_TARGET: Final = 550.0
START_S_TARGET: Final = 4.0
STOP_S_TARGET: Final = 3.0
COMMAND_CPU_S_TARGET: Final = 0.35
START_S_MAX: Final = 240
STOP_S_MAX: Final = 60
POLL_S: Final = 0.01
SETTLE_S: Final = 5.0
IDLE_WINDOW_S: Final = 20.0
# Of a command that asks the running service for little.
COMMAND: Final = ("topic", "list")
# Sixteen messages a second, with a key each; the log grows past one segment.
DAY_MESSAGES: Final = 1_400_000
BATCH: Final = 100
PRODUCERS: Final = 4
CONSUME_S_MAX: Final = 900
# Pages of the log that are durable are released every ten seconds.
RELEASE_S: Final = 30.0
_PSS: Final = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)


class _Started(msgspec.Struct, frozen=True):
    process: subprocess.Popen[bytes]
    facts: Quickstart
    seconds: float


async def measure(plan: Plan, base: Path) -> list[Row]:
    """Rows of starts, stops, memory, idle CPU and one command. Takes some four minutes."""
    with scratch_directory("footprint", base) as directory:
        environ = {
            **os.environ,
            "MQ_DATA_DIR": str(directory / "data"),
            "MQ_PORT": str(free_port()),
        }
        first: list[Run] = []
        later: list[Run] = []
        stops: list[Run] = []
        memory: list[Run] = []
        idle: list[Run] = []
        commands: list[Run] = []
        for number in range(plan.repeats + 1):
            async with _running(environ, directory) as started:
                (later if number else first).append(Run(rate=started.seconds))
                if number:
                    await asyncio.sleep(SETTLE_S)
                    memory.append(_memory(started))
                    idle.append(await _idle_cpu(started))
                    commands.append(_command(environ))
                stops.append(Run(rate=_stop(started.process)))
        async with _running(environ, directory) as started:
            await _day(started.facts)
            await asyncio.sleep(RELEASE_S)
            after_day = [_memory(started)]
    rows = [
        ("first start, databases made", "s", first, None),
        ("start to ready, warm disk", "s", later, START_S_TARGET),
        ("stop", "s", stops, STOP_S_TARGET),
        ("proportional memory of all processes after a start", "MiB", memory, MEMORY_MIB_TARGET),
        (
            f"proportional memory of all processes after {DAY_MESSAGES:,} messages",
            "MiB",
            after_day,
            DAY_MEMORY_MIB_TARGET,
        ),
        ("CPU of all processes, idle", "% of a core", idle, IDLE_CPU_PERCENT_TARGET),
        (f"CPU of mqservice {' '.join(COMMAND)}", "s", commands, COMMAND_CPU_S_TARGET),
    ]
    return [
        row_of(
            runs,
            workload=WORKLOAD,
            name=name,
            unit=unit,
            setting="mqservice up with its own databases, nobody connected",
            target=target,
            is_less_better=True,
        )
        for name, unit, runs, target in rows
    ]


@contextlib.asynccontextmanager
async def _running(environ: dict[str, str], directory: Path) -> AsyncIterator[_Started]:
    """A service that says it is ready, by its quickstart.json; ended whatever happens."""
    began = time.perf_counter()
    with (directory / "up.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs in this loop
            [sys.executable, "-m", "mqservice.cli.main", "up"],
            env=environ,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        quickstart = Path(environ["MQ_DATA_DIR"]) / "quickstart.json"
        while True:
            facts = find_quickstart(quickstart)
            if facts is not None and facts.pids.get("supervisor") == process.pid:
                break
            if process.poll() is not None or time.perf_counter() - began > START_S_MAX:
                raise MeasureFailed(f"mqservice up is not ready: {directory / 'up.log'}")
            await asyncio.sleep(POLL_S)
        yield _Started(process, facts, time.perf_counter() - began)
    finally:
        if process.poll() is None:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> float:
    """Seconds from SIGTERM to the end."""
    began = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    if process.wait(STOP_S_MAX) != 0:
        raise MeasureFailed(f"mqservice up ended with {process.returncode}")
    return time.perf_counter() - began


async def _day(facts: Quickstart) -> None:
    """Sends a day's messages over REST while a consumer acks them all over WebSocket."""
    body = make_body().decode()
    async with AsyncClient(facts.base_url, facts.api_key) as mq:

        async def consume() -> int:
            subscription = mq.subscribe(facts.topic, facts.group, prefetch=1_000)
            async with asyncio.timeout(CONSUME_S_MAX), subscription:
                async for message in subscription:
                    message.ack()
                    if subscription.stats.received >= DAY_MESSAGES:
                        break
            return subscription.stats.acked

        consumer = asyncio.ensure_future(consume())
        async with mq.batch(facts.topic, messages_max=BATCH, requests_max=PRODUCERS) as batch:
            for number in range(DAY_MESSAGES):
                await batch.send(body, keys=f"order-{number}")
        acked = await consumer
    if acked < DAY_MESSAGES:
        raise MeasureFailed(f"{acked:,} of {DAY_MESSAGES:,} messages were acked")


def _memory(started: _Started) -> Run:
    """MiB of all, and of each process of the supervisor with what descends from it."""
    of_each = {
        name: sum(_pss_kib(each) for each in _descendants(pid)) / 1024
        for name, pid in started.facts.pids.items()
        if name != "supervisor"
    }
    total = sum(_pss_kib(each) for each in _descendants(started.process.pid)) / 1024
    of_each["supervisor"] = total - sum(of_each.values())
    return Run(rate=total, extra={f"{name}_mib": round(mib, 1) for name, mib in of_each.items()})


async def _idle_cpu(started: _Started) -> Run:
    """Percent of a core over the window, of all and of each with what descends from it."""
    before = _cpu_seconds(started)
    began = time.perf_counter()
    await asyncio.sleep(IDLE_WINDOW_S)
    seconds = time.perf_counter() - began
    used = {
        name: 100 * (cpu - before[name]) / seconds for name, cpu in _cpu_seconds(started).items()
    }
    each = {f"{name}_percent": round(percent, 1) for name, percent in used.items()}
    return Run(rate=sum(used.values()), extra=each)


def _cpu_seconds(started: _Started) -> dict[str, float]:
    return {
        name: sum(map(cpu_seconds, [pid] if name == "supervisor" else _descendants(pid)))
        for name, pid in started.facts.pids.items()
    }


def _command(environ: dict[str, str]) -> Run:
    """CPU seconds of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "mqservice.cli.main", *COMMAND],
        env=environ,
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(rate=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _descendants(pid: int) -> list[int]:
    """The process and its children's children, as many as there are."""
    found = [pid]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in children.read_text().split()]
    return found


def _pss_kib(pid: int) -> int:
    try:
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0
