"""Restarts processes of a running service one by one, each after the previous one is ready again.

    names ──▶ SIGTERM ──▶ it gives back what it holds, ends ──▶ the supervisor starts it anew
                ▲──────────── ready again ◀───────────────────────────┘

The supervisor is told nothing: a process that ends is started again, and who does it is in
``quickstart.json``. Databases are not among them: their ends stop the service.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from mqservice.lib.names import MAIN_SHARD
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import ConfigInvalid, StartFailed
from mqservice.supervisor.processes import (
    ANALYTICS_STOP_MS,
    ENGINE_STOP_MS,
    WEB_STOP_MS,
    WORKER_STOP_MS,
)
from mqservice.supervisor.quickstart import Quickstart, find_quickstart
from mqservice.supervisor.readiness import is_listening, is_unix_socket_open, is_url_ok

# The engine last: what depends on it has then been replaced while it answered.
KINDS: Final = ("web", "clock", "worker", "analytics", "beat", "engine")
ALL: Final = "all"
START_WAIT_MS: Final = 300_000  # an engine reads its log back
POLL_WAIT_S: Final = 0.05
_STOP_MS: Final = {"web": WEB_STOP_MS, "engine": ENGINE_STOP_MS, "analytics": ANALYTICS_STOP_MS}


async def restart(data_dir: DataDir, kind: str, *, say: Callable[[str], None]) -> None:
    """Replace the processes of one of ``KINDS``, or of ``ALL``, one after the other.

    Raises ConfigInvalid: nothing of that kind runs, and nothing was done; StartFailed: one did not
    come back.
    """
    facts = _facts(data_dir)
    if not facts.own_url:
        raise ConfigInvalid(
            "the running supervisor is of a version that cannot restart processes: "
            "stop the service and start it again"
        )
    kinds = KINDS if kind == ALL else (kind,)
    names = [name for each in kinds for name in sorted(facts.pids) if _kind_of(name) == each]
    if not names:
        raise ConfigInvalid(f"no {kind!r} process runs in {data_dir.path}")
    for name in names:
        started_ms = _monotonic_ms()
        pid = await _restart_one(data_dir, name)
        say(f"{name} is ready again as process {pid} after {_monotonic_ms() - started_ms} ms")


async def _restart_one(data_dir: DataDir, name: str) -> int:
    """Its new pid."""
    before = _facts(data_dir).pids.get(name)
    if before is not None:
        _signal(before, signal.SIGTERM)
        limit_ms = _STOP_MS.get(_kind_of(name), WORKER_STOP_MS)
        if not await _wait_until(lambda: _has_exited(before), limit_ms):
            _signal(before, signal.SIGKILL)
    deadline_ms = _monotonic_ms() + START_WAIT_MS
    while _monotonic_ms() < deadline_ms:
        facts = _facts(data_dir)
        pid = facts.pids.get(name)
        if pid not in (None, before) and await _is_ready(data_dir, name, facts):
            assert pid is not None
            return pid
        await asyncio.sleep(POLL_WAIT_S)
    raise StartFailed(f"{name} was not ready within {START_WAIT_MS} ms; see {data_dir.logs}")


async def _is_ready(data_dir: DataDir, name: str, facts: Quickstart) -> bool:
    """Whether the new process does its work; of Celery's there is no sign but being there."""
    kind = _kind_of(name)
    if kind == "web" and not await is_listening(facts.pids[name], _port(facts)):
        return False
    if kind == "engine":
        shard = name.partition("-")[2] or MAIN_SHARD
        if not await is_unix_socket_open(data_dir.socket_of(shard)):
            return False
    return await is_url_ok(f"{facts.own_url}/readyz")


async def _wait_until(condition: Callable[[], bool], within_ms: int) -> bool:
    deadline_ms = _monotonic_ms() + within_ms
    while not condition():
        if _monotonic_ms() > deadline_ms:
            return False
        await asyncio.sleep(POLL_WAIT_S)
    return True


def _has_exited(pid: int) -> bool:
    return not os.path.exists(f"/proc/{pid}")


def _port(facts: Quickstart) -> int:
    port = urlsplit(facts.own_url).port
    assert port is not None, facts.own_url
    return port


def _kind_of(name: str) -> str:
    return name.partition("-")[0]


def _facts(data_dir: DataDir) -> Quickstart:
    facts = find_quickstart(data_dir.quickstart)
    if facts is None or not facts.pids:
        raise ConfigInvalid(f"no service runs in {data_dir.path}")
    return facts


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended in between, and comes back as well
    except PermissionError:
        raise ConfigInvalid(f"process {pid} belongs to another user") from None


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
