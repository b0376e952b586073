"""Producing over REST with wrk, against a handler that does nothing, in the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from bench.measure import Meter, Plan, Row, Run, repeated, row_of
from bench.payloads import make_body
from bench.processes import Service, bare_running, scratch_directory, service_running
from bench.wrk import THREADS, require_wrk, run_wrk
from mqservice.cli.client import RestClient
from mqservice.cli.target import Target
from storage_engine.client import AsyncStoreClient

WORKLOAD: Final = "rest"
CONNECTIONS: Final = 64
BATCH: Final = 100
BATCH_CONNECTIONS: Final = 16
ONE_TARGET: Final = 12_000.0
RATIO_TARGET: Final = 0.4
BATCH_TARGET: Final = 80_000.0
JSON: Final = "application/json"
RAW: Final = "application/octet-stream"
ASYNC_TOPIC: Final = "bench-async"
QUEUES: Final = 4
CONNECT_MS_MAX: Final = 5_000


class _Load(msgspec.Struct, frozen=True, kw_only=True):
    """What wrk sends where."""

    url: str
    body_path: Path
    media_type: str
    key: str
    connections: int
    pids: dict[str, int]
    messages_a_request: int = 1
    engine_socket: str = ""


async def measure(plan: Plan, base: Path) -> list[Row]:
    require_wrk()
    with scratch_directory("bodies", base) as directory:
        raw, single, batch = _write_bodies(directory)
        async with service_running(base) as service, bare_running(base, service.web_count) as bare:
            await _create_async_topic(service)
            common = _Load(
                url=_messages_url(service, service.topic),
                body_path=single,
                media_type=JSON,
                key=service.api_key,
                connections=CONNECTIONS,
                pids=service.measured_pids,
                engine_socket=service.engine_socket,
            )
            idle = _Load(
                url=f"{bare.base_url}/",
                body_path=single,
                media_type=JSON,
                key="none",
                connections=CONNECTIONS,
                pids=bare.pids,
            )
            change = msgspec.structs.replace
            rows = await _against_bare(plan, common, idle, service.web_count)
            others = (
                ("produce one, raw body", change(common, body_path=raw, media_type=RAW), None),
                (
                    "produce one, JSON, async topic",
                    change(common, url=_messages_url(service, ASYNC_TOPIC)),
                    None,
                ),
                (
                    f"produce {BATCH} a request, JSON",
                    change(
                        common,
                        url=common.url + ":batch",
                        body_path=batch,
                        connections=BATCH_CONNECTIONS,
                        messages_a_request=BATCH,
                    ),
                    BATCH_TARGET,
                ),
            )
            for name, load, target in others:
                rows.append(await _row(plan, load, name, "msg/s", target, service.web_count))
    return rows


async def _against_bare(plan: Plan, load: _Load, idle: _Load, web_count: int) -> list[Row]:
    """Service and bare handler by turns, so that both meet the same machine; and their ratio."""
    await _load(load, plan.warm_up_ms)
    await _load(idle, plan.warm_up_ms)
    pairs = [
        (await _load(load, plan.duration_ms), await _load(idle, plan.duration_ms))
        for _ in range(plan.repeats)
    ]
    setting = _setting(plan, load, web_count) + "; by turns with the bare handler"
    one = row_of(
        [run for run, _ in pairs],
        workload=WORKLOAD,
        name="produce one, JSON",
        unit="msg/s",
        setting=setting,
        target=ONE_TARGET,
    )
    bare = row_of(
        [run for _, run in pairs],
        workload=WORKLOAD,
        name="bare handler, JSON",
        unit="req/s",
        setting=setting,
    )
    ratio = row_of(
        [Run(rate=run.rate / bare_run.rate) for run, bare_run in pairs],
        workload=WORKLOAD,
        name="one, JSON / bare",
        unit="ratio",
        setting="of each pair of neighbouring runs",
        target=RATIO_TARGET,
    )
    return [one, bare, ratio]


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
        setting=_setting(plan, load, web_count),
        target=target,
    )


def _setting(plan: Plan, load: _Load, web_count: int) -> str:
    return (
        f"wrk, {THREADS} thread, {load.connections} connections, {web_count} web processes, "
        f"1 KiB bodies; {plan.text}"
    )


def _messages_url(service: Service, topic: str) -> str:
    return f"{service.base_url}/v1/ns/{service.namespace}/topics/{topic}/messages"


async def _create_async_topic(service: Service) -> None:
    target = Target(base_url=service.base_url, key=service.api_key, namespace=service.namespace)
    async with RestClient(target) as client:
        await client.create_topic(ASYNC_TOPIC, queues=QUEUES, durability="async")


async def _load(load: _Load, duration_ms: int) -> Run:
    before = await _sync_count(load)
    meter = Meter(load.pids)
    result = await run_wrk(
        load.url,
        body_path=load.body_path,
        media_type=load.media_type,
        key=load.key,
        connections=load.connections,
        duration_ms=duration_ms,
    )
    seconds, cpu = meter.stop()
    extra = {
        "p50_ms": round(result.p50_us / 1000, 2),
        "p99_ms": round(result.p99_us / 1000, 2),
        "max_ms": round(result.max_us / 1000, 1),
    }
    if load.engine_socket:
        extra["syncs_per_s"] = round((await _sync_count(load) - before) / seconds)
    return Run(rate=result.rate * load.messages_a_request, cpu=cpu, extra=extra)


async def _sync_count(load: _Load) -> int:
    if not load.engine_socket:
        return 0
    client = AsyncStoreClient(load.engine_socket, client_name="bench")
    try:
        await client.wait_connected(CONNECT_MS_MAX)
        return (await client.stats()).sync_count
    finally:
        await client.aclose()


def _write_bodies(directory: Path) -> tuple[Path, Path, Path]:
    """Files with one raw body, one JSON message and one JSON batch."""
    body = make_body()
    message = msgspec.json.encode({"body": body.decode()})
    paths = (directory / "raw", directory / "one.json", directory / "batch.json")
    contents = (body, message, b"[" + b",".join([message] * BATCH) + b"]")
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths
