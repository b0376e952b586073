"""wrk, the HTTP load generator: runs it and reads its figures.

body, path ─▶ [run_wrk] ─▶ wrk -s lua/produce.lua ─▶ RESULT line ─▶ WrkResult
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.measure import MeasureFailed, Skipped

SCRIPT: Final = Path(__file__).parent / "lua" / "produce.lua"
REQUESTS_SCRIPT: Final = Path(__file__).parent / "lua" / "requests.lua"
RESULT_PREFIX: Final = "RESULT "
# One generator thread leaves the most of two cores to what is measured.
THREADS: Final = 1


class WrkResult(msgspec.Struct, frozen=True, kw_only=True):
    requests: int
    duration_us: int
    errors_status: int
    errors_socket: int
    p50_us: int
    p99_us: int
    max_us: int

    @property
    def rate(self) -> float:
        return self.requests * 1_000_000 / self.duration_us


class LoadFailed(MeasureFailed):
    """wrk could not run, or answers were not 2xx."""


def require_wrk() -> None:
    """Raises Skipped when wrk is not installed."""
    if shutil.which("wrk") is None:
        raise Skipped("wrk is not installed; on Debian: apt-get install wrk")


async def run_wrk(
    url: str, *, body_path: Path, media_type: str, key: str, connections: int, duration_ms: int
) -> WrkResult:
    """Load ``url`` for ``duration_ms``, rounded up to whole seconds, which is what wrk takes.

    Raises:
        LoadFailed: it ended badly, or any answer was not 2xx: such a rate would mean nothing.
    """
    environ = {
        **os.environ,
        "MQ_BENCH_BODY": str(body_path),
        "MQ_BENCH_TYPE": media_type,
        "MQ_BENCH_KEY": key,
    }
    return await _run(url, SCRIPT, environ, connections, duration_ms)


async def run_requests(
    url: str, requests_path: Path, *, connections: int, duration_ms: int
) -> WrkResult:
    """Load the host of ``url`` with whole requests, as ``write_requests`` wrote them, in turn.

    Raises:
        LoadFailed: as ``run_wrk``.
    """
    environ = {**os.environ, "MQ_BENCH_REQUESTS": str(requests_path)}
    return await _run(url, REQUESTS_SCRIPT, environ, connections, duration_ms)


def write_requests(path: Path, requests: Sequence[bytes]) -> None:
    """The file that ``lua/requests.lua`` reads."""
    path.write_bytes(b"".join(b"%d\n%s" % (len(request), request) for request in requests))


async def _run(
    url: str, script: Path, environ: dict[str, str], connections: int, duration_ms: int
) -> WrkResult:
    seconds = -(-duration_ms // 1000)
    process = await asyncio.create_subprocess_exec(
        "wrk",
        f"-t{THREADS}",
        f"-c{connections}",
        f"-d{seconds}s",
        "-s",
        str(script),
        url,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    lines = [
        line.removeprefix(RESULT_PREFIX)
        for line in out.decode().splitlines()
        if line.startswith(RESULT_PREFIX)
    ]
    if process.returncode or not lines:
        raise LoadFailed(f"wrk ended with {process.returncode}: {err.decode() or out.decode()}")
    result = msgspec.json.decode(lines[0], type=WrkResult)
    if result.errors_status or result.errors_socket or not result.requests:
        raise LoadFailed(
            f"{url}: of {result.requests} requests {result.errors_status} were not answered with "
            f"2xx, {result.errors_socket} broke"
        )
    return result
