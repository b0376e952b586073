"""Producing over REST with wrk, against a handler that does nothing, in the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from bench.measure import Meter, Plan, Row, Run, ratio_row, repeated
from bench.payloads import make_body
from bench.processes import bare_running, scratch_directory, service_running
from bench.wrk import THREADS, require_wrk, run_wrk

WORKLOAD: Final = "rest"
CONNECTIONS: Final = 64
BATCH: Final = 100
BATCH_CONNECTIONS: Final = 16
ONE_TARGET: Final = 12_000.0
RATIO_TARGET: Final = 0.4
BATCH_TARGET: Final = 80_000.0
JSON: Final = "application/json"
RAW: Final = "application/octet-stream"


class _Load(msgspec.Struct, frozen=True, kw_only=True):
    """What wrk sends where."""

    url: str
    body_path: Path
    media_type: str
    key: str
    connections: int
    pids: dict[str, int]
    messages_a_request: int = 1


async def measure(plan: Plan, base: Path) -> list[Row]:
    require_wrk()
    rows: list[Row] = []
    with scratch_directory("bodies", base) as directory:
        raw, single, batch = _write_bodies(directory)
        async with service_running(base) as service:
            root = f"{service.base_url}/v1/ns/{service.namespace}/topics/{service.topic}/messages"
            web_count = service.web_count
            for name, path, media_type, target in (
                ("produce one, JSON", single, JSON, ONE_TARGET),
                ("produce one, raw body", raw, RAW, None),
            ):
                load = _Load(
                    url=root,
                    body_path=path,
                    media_type=media_type,
                    key=service.api_key,
                    connections=CONNECTIONS,
                    pids=service.measured_pids,
                )
                rows.append(await _row(plan, load, name, "msg/s", target, web_count))
            load = _Load(
                url=f"{root}:batch",
                body_path=batch,
                media_type=JSON,
                key=service.api_key,
                connections=BATCH_CONNECTIONS,
                pids=service.measured_pids,
                messages_a_request=BATCH,
            )
            name = f"produce {BATCH} a request, JSON"
            rows.append(await _row(plan, load, name, "msg/s", BATCH_TARGET, web_count))
        async with bare_running(base, web_count) as bare:
            load = _Load(
                url=f"{bare.base_url}/",
                body_path=single,
                media_type=JSON,
                key="none",
                connections=CONNECTIONS,
                pids=bare.pids,
            )
            bare_row = await _row(plan, load, "bare handler, JSON", "req/s", None, web_count)
    ratio = ratio_row(WORKLOAD, "one, JSON / bare", rows[0], bare_row, target=RATIO_TARGET)
    return [*rows, bare_row, ratio]


async def _row(
    plan: Plan, load: _Load, name: str, unit: str, target: float | None, web_count: int
) -> Row:
    await _load(load, plan.warm_up_ms)

    async def once() -> Run:
        return await _load(load, plan.duration_ms)

    return await repeated(
        once,
        plan,
        workload=WORKLOAD,
        name=name,
        unit=unit,
        setting=(
            f"wrk, {THREADS} thread, {load.connections} connections, {web_count} web processes, "
            f"1 KiB bodies, durability sync; {plan.text}"
        ),
        target=target,
    )


async def _load(load: _Load, duration_ms: int) -> Run:
    meter = Meter(load.pids)
    result = await run_wrk(
        load.url,
        body_path=load.body_path,
        media_type=load.media_type,
        key=load.key,
        connections=load.connections,
        duration_ms=duration_ms,
    )
    _, cpu = meter.stop()
    return Run(
        rate=result.rate * load.messages_a_request,
        cpu=cpu,
        extra={
            "p50_ms": round(result.p50_us / 1000, 2),
            "p99_ms": round(result.p99_us / 1000, 2),
            "max_ms": round(result.max_us / 1000, 1),
        },
    )


def _write_bodies(directory: Path) -> tuple[Path, Path, Path]:
    """Files with one raw body, one JSON message and one JSON batch."""
    body = make_body()
    message = msgspec.json.encode({"body": body.decode()})
    paths = (directory / "raw", directory / "one.json", directory / "batch.json")
    contents = (body, message, b"[" + b",".join([message] * BATCH) + b"]")
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths
