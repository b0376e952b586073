"""Analytics at scale: scans of the log, whole nights of ever more messages, and what they take.

    engine ── 1 M, 10 M messages ──▶ store ──▶ scan, bodies skipped and not
                                        └────▶ python -m analytics run, 200 groups ──▶ seconds, MiB

``BENCH_ANALYTICS_MILLIONS`` says how many, such as ``1,10,50``; 50 million take 25 GB. Exports that
a night has from PostgreSQL are made up: each group behind and settling all day, as dense as marks
of so many groups are. Topics are read by two groups each.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from analytics.session import spark_problem
from bench.measure import (
    CLOCK_TICKS_PER_S,
    QUICK,
    USER_TICKS_AT,
    MeasureFailed,
    Plan,
    Row,
    Run,
    Skipped,
    row_of,
)
from bench.payloads import BORN_HOST, make_body
from bench.processes import engine_on, scratch_directory
from storage_engine.client import (
    AsyncStoreClient,
    StoreMessage,
    TopicConfig,
    encode_record,
    new_message_id,
)

WORKLOAD: Final = "analytics"
SIZES_ENV: Final = "BENCH_ANALYTICS_MILLIONS"
SIZES: Final = (1.0, 10.0)
QUICK_SIZES: Final = (0.1,)
TENANTS: Final = ("acme", "globex", "initech")
TOPICS: Final = 100
QUEUES: Final = 4
GROUPS: Final = 200
BODY_BYTES: Final = 200
LARGE_COUNT: Final = 1_000_000  # of 1 KiB, for the scan with bodies
FRAME: Final = 500
FRAMES_IN_FLIGHT: Final = 8
READY_MS: Final = 60_000
NIGHT_LIMIT_S: Final = 3_600
SCAN_TARGET: Final = 1_000_000.0
BODIES_TARGET: Final = 200.0
NIGHT_TARGET_S: Final = 300.0
NIGHT_TARGET_MILLIONS: Final = 10.0
SAMPLES: Final = 24 * 60
MARKS: Final = 24 * 60 * 2  # of 200 groups, as ``sampling.marks`` spaces them
DAY_MS: Final = 24 * 3_600 * 1_000
MIB: Final = 1024 * 1024
_POLL_S: Final = 0.5


async def measure(plan: Plan, base: Path) -> list[Row]:
    reason = spark_problem()
    if reason:
        raise Skipped(reason)
    sizes: tuple[float, ...] = QUICK_SIZES if plan == QUICK else SIZES
    if SIZES_ENV in os.environ:
        sizes = tuple(float(text) for text in os.environ[SIZES_ENV].split(","))
    rows: list[Row] = []
    nights: list[tuple[float, Run]] = []
    for millions in sizes:
        with scratch_directory("analytics", base) as directory:
            count = round(millions * 1_000_000)
            await _fill(directory / "store", count, BODY_BYTES)
            if millions == max(sizes):  # one segment would be one task, on one of two cores
                rows.append(_scan_row(directory / "store", plan, count))
            nights.append((millions, _night(directory, count)))
    large = LARGE_COUNT if plan != QUICK else LARGE_COUNT // 10
    with scratch_directory("analytics", base) as directory:
        await _fill(directory / "store", large, 1_024)
        rows.append(_bodies_row(directory / "store", plan, large))
    rows += [_night_row(millions, run) for millions, run in nights]
    if len(nights) > 1:
        rows.append(_growth_row(nights))
    return rows


async def _fill(store: Path, count: int, body_bytes: int) -> None:
    """Put ``count`` messages into all topics in turn, a frame a topic."""
    body = make_body()[:body_bytes]
    async with engine_on(store) as engine:
        client = AsyncStoreClient(engine.socket_path, client_name="bench")
        try:
            await client.wait_connected(READY_MS)
            frames = []
            for number in range(TOPICS):
                topic = f"{TENANTS[number % len(TENANTS)]}%topic{number:03}"
                await client.topic_put(TopicConfig(topic=topic, queue_count=QUEUES))
                frames.append([_record(topic, at, body) for at in range(FRAME)])
            waiting: set[asyncio.Future[Any]] = set()
            for at in range(0, count, FRAME):
                frame = frames[at // FRAME % TOPICS][: count - at]
                waiting.add(asyncio.ensure_future(client.put(frame)))
                if len(waiting) >= FRAMES_IN_FLIGHT:
                    _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.gather(*waiting)
        finally:
            await client.aclose()


def _record(topic: str, number: int, body: bytes) -> bytes:
    return encode_record(
        StoreMessage(
            topic=topic,
            queue_id=number % QUEUES,
            body=body,
            message_id=new_message_id(),
            born_timestamp_ms=time.time_ns() // 1_000_000,
            born_host=BORN_HOST,
            keys=[f"order-{number % 97}"],
        )
    )


def _scan_row(store: Path, plan: Plan, count: int) -> Row:
    runs = [_scan(store, "store_ms,record_bytes", count) for _ in range(plan.repeats)]
    return row_of(
        [Run(rate=found["records"] / found["seconds"]) for found in runs],
        workload=WORKLOAD,
        name="scan, bodies skipped",
        unit="records/s",
        setting=f"{count:,} records of {BODY_BYTES} bytes, local[2], starting Spark not counted",
        target=SCAN_TARGET,
    )


def _bodies_row(store: Path, plan: Plan, count: int) -> Row:
    runs = [_scan(store, "store_ms,body", count) for _ in range(plan.repeats)]
    return row_of(
        [Run(rate=found["bytes"] / found["seconds"] / 1e6) for found in runs],
        workload=WORKLOAD,
        name="scan with bodies",
        unit="MB/s",
        setting=f"{count:,} records of 1 KiB, every CRC checked, local[2]",
        target=BODIES_TARGET,
    )


def _scan(store: Path, columns: str, count: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.scan", str(store), columns],
        capture_output=True, text=True, check=False, timeout=NIGHT_LIMIT_S,
    )  # fmt: skip
    if done.returncode:
        raise MeasureFailed(f"the scan ended with {done.returncode}: {done.stderr[-1_000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if found["records"] != count:
        raise MeasureFailed(f"{found['records']} of {count} records were read")
    return found


def _night(directory: Path, count: int) -> Run:
    """A whole run as the service starts it, but for the rows' way into PostgreSQL."""
    now = dt.datetime.now(dt.UTC)
    first = (now - dt.timedelta(hours=1)).date()  # what was put before midnight
    _write_samples(directory / "lag.csv", first)
    _write_settles(directory / "settles.csv", first, count)
    arguments = [
        "--store", str(directory / "store"), "--lake", str(directory / "lake"),
        "--out", str(directory / "out"), "--from", first.isoformat(),
        "--to", (now.date() + dt.timedelta(days=1)).isoformat(),
        "--lag-samples", str(directory / "lag.csv"), "--settles", str(directory / "settles.csv"),
        "--rows", str(directory / "rows.jsonl"), "--master", "local[2]", "--progress",
        "--conf", f"spark.local.dir={directory}",
    ]  # fmt: skip
    log = directory / "night.log"
    began = time.perf_counter()
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "analytics", "run", *arguments],
            stdout=subprocess.PIPE, stderr=file, start_new_session=True,
        )  # fmt: skip
        steps, most_mib, said = _follow(process)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise MeasureFailed(f"the run ended with {process.returncode}: {log.read_text()[-1_000:]}")
    if sum(said["records"].values()) != count:
        raise MeasureFailed(f"{said['records']} were ingested, {count} put")
    extra = {"memory_mib": most_mib} | {
        f"{name}_cpu_s": round(took, 1) for name, took in steps.items()
    }
    return Run(rate=seconds, extra=extra)


def _follow(process: subprocess.Popen[bytes]) -> tuple[dict[str, float], float, dict[str, Any]]:
    """CPU seconds of each step, the most memory of all its processes, its last line. Any: JSON."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    steps: dict[str, float] = {}
    most_mib, text, said = 0.0, b"", {}
    step, since_s, cpu_s = "start", 0.0, 0.0
    while True:
        is_over = process.poll() is not None
        used = list(_used_by_session(process.pid))
        most_mib = max(most_mib, sum(resident for resident, _ in used) / MIB)
        cpu_s = max(cpu_s, sum(ticks for _, ticks in used) / CLOCK_TICKS_PER_S)
        text += process.stdout.read() or b""
        *lines, text = text.split(b"\n")
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):
                said = json.loads(line)
                steps[step] = cpu_s - since_s
                step, since_s = said.get("step", "end"), cpu_s
        if is_over:
            return steps, round(most_mib), said
        time.sleep(_POLL_S)


def _used_by_session(session: int) -> Iterator[tuple[int, int]]:
    """(resident bytes, ticks of CPU) of each process of a session with its children that ended.

    Pages that processes share count once each.
    """
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks = sum(map(int, fields[USER_TICKS_AT : USER_TICKS_AT + 4]))
                yield int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), ticks


def _groups() -> Iterator[tuple[str, str, str]]:
    """(tenant, group, topic); two of a topic."""
    for number in range(GROUPS):
        topic = number % TOPICS
        yield TENANTS[topic % len(TENANTS)], f"group{number:03}", f"topic{topic:03}"


def _write_samples(path: Path, date: dt.date) -> None:
    day_ms = round(dt.datetime.combine(date, dt.time(), dt.UTC).timestamp() * 1_000)
    with path.open("w") as file:
        file.write("sampled_at_ms,tenant,group,topic,lag,lag_ms\n")
        for tenant, group, topic in _groups():
            for minute in range(SAMPLES):
                at_ms = day_ms + minute * DAY_MS // SAMPLES
                behind = (minute * 37) % 5_000
                file.write(f"{at_ms},{tenant},{group},{topic},{behind},{behind}\n")


def _write_settles(path: Path, date: dt.date, count: int) -> None:
    end_ms = round(dt.datetime.combine(date, dt.time(), dt.UTC).timestamp() * 1_000) + DAY_MS
    end_ms = min(end_ms, time.time_ns() // 1_000_000)
    of_queue = count // TOPICS // QUEUES
    marks = min(MARKS, of_queue)
    with path.open("w") as file:
        file.write("tenant,group,topic,queue_id,what,from_offset,to_offset,after_ms,before_ms\n")
        for tenant, group, topic in _groups():
            for queue_id in range(QUEUES):
                for mark in range(marks):
                    first, end = mark * of_queue // marks, (mark + 1) * of_queue // marks
                    at_ms = end_ms - (marks - mark)
                    for what in ("delivered", "settled"):
                        file.write(
                            f"{tenant},{group},{topic},{queue_id},{what},{first},{end},"
                            f"{at_ms - 1},{at_ms}\n"
                        )


def _night_row(millions: float, run: Run) -> Row:
    return row_of(
        [run],
        workload=WORKLOAD,
        name=f"whole night, {millions:g} M messages",
        unit="s",
        setting=(
            f"{GROUPS} groups on {TOPICS} topics of {QUEUES} queues, all reports, local[2], the "
            "start of Spark included"
        ),
        target=NIGHT_TARGET_S if millions == NIGHT_TARGET_MILLIONS else None,
        is_less_better=True,
    )


def _growth_row(nights: list[tuple[float, Run]]) -> Row:
    """What a further million takes, from the smallest to the largest."""
    (first, small), *_, (last, large) = nights
    run = Run(
        rate=(large.rate - small.rate) / (last - first),
        course=[(millions * 1e6, night.rate) for millions, night in nights],
        course_of=("messages of the day", "seconds of the whole night"),
    )
    return row_of(
        [run],
        workload=WORKLOAD,
        name="each further million messages",
        unit="s",
        setting=f"from {first:g} to {last:g} M",
        is_less_better=True,
    )
