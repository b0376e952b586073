"""The state of background work: Celery's workers, the length of its queues, the leading scheduler.

    workers ◀── broadcast, half a second ── [find_workers]      Valkey ── LLEN ──▶ [queue_lengths]
    pg_locks ──▶ [find_leader]                                  heartbeats ──▶ [signs_of_life]

Each is None, or empty, where nobody can be asked: that is unknown, not zero.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import connection
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from mqservice.celery import QUEUES, app
from mqservice.leader_lock import APPLICATION_NAME
from mqservice.lib.durations import SECOND_MS
from mqservice.lib.valkey import valkey_client
from mqservice.monitoring.models import Heartbeat

log = logging.getLogger(__name__)

QUERIES_MAX: Final = 2  # times; workers often miss a broadcast that follows on another
REPLY_SECONDS: Final = 0.5  # a broadcast has no end; whoever has not answered by then is not shown
WORKERS_MAX: Final = 200
_VALKEY_SECONDS_MAX: Final = 0.5
_LEADER: Final = """
SELECT activity.pid, host(activity.client_addr), activity.backend_start
FROM pg_locks AS lock JOIN pg_stat_activity AS activity USING (pid)
WHERE lock.locktype = 'advisory' AND lock.granted AND activity.application_name = %s
    AND activity.datname = current_database()
LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """``task_count``: run since its start; ``slots``: how many it runs at a time."""

    name: str
    pid: int | None
    slots: int | None
    uptime_ms: int | None
    task_count: int | None
    queues: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """``length``: tasks that wait in it; ``workers`` read it, all of them where ``is_known``."""

    name: str
    length: int | None
    workers: list[str]
    is_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The beat that holds the lock: since when, from where (None: by a socket of the machine)."""

    database_pid: int
    address: str | None
    since: datetime


def find_workers() -> list[Worker] | None:
    """Who answers within half a second, twice; None when the broker does not."""
    asking = app.control.inspect(timeout=REPLY_SECONDS)
    try:
        stats = _collect_replies(asking.stats)
        queues = _collect_replies(asking.active_queues) if stats else {}
    except (OperationalError, RedisError, OSError) as exc:
        log.info(
            "Could not ask which workers run: Valkey is unavailable",
            extra={"action": "worker_query_failed", "error": str(exc)},
        )
        return None
    return [
        _worker(name, stats[name], queues.get(name) or []) for name in sorted(stats)[:WORKERS_MAX]
    ]


def _collect_replies(ask: Callable[[], Any]) -> dict[str, Any]:  # Any: Celery's own answers
    """By worker; asked again while nobody answers."""
    for _ in range(QUERIES_MAX):
        if found := ask():
            return dict(found)
    return {}


def queue_lengths() -> dict[str, int] | None:
    """Tasks that wait, by queue; None while Valkey is away. One round trip."""
    client = valkey_client(settings.MQ_VALKEY_URL, _VALKEY_SECONDS_MAX)
    try:
        pipe = client.pipeline(transaction=False)
        for name in QUEUES:
            pipe.llen(name)
        return dict(zip(QUEUES, (int(length) for length in pipe.execute()), strict=True))
    except (RedisError, OSError):
        return None
    finally:
        client.close()


def queues_of(workers: list[Worker] | None, lengths: dict[str, int] | None) -> list[Queue]:
    """All queues that there are, with who reads them."""
    return [
        Queue(
            name=name,
            length=None if lengths is None else lengths.get(name),
            workers=[worker.name for worker in workers or [] if name in worker.queues],
            is_known=workers is not None and all(worker.queues for worker in workers),
        )
        for name in QUEUES
    ]


def find_leader() -> Leader | None:
    """None when no beat leads. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_LEADER, [APPLICATION_NAME])
        row = cursor.fetchone()
    return None if row is None else Leader(database_pid=row[0], address=row[1], since=row[2])


def signs_of_life() -> list[Heartbeat]:
    """The last of each kind of process. One query."""
    return list(Heartbeat.objects.order_by("process"))


def _worker(name: str, stats: dict[str, Any], queues: list[dict[str, Any]]) -> Worker:
    pool = stats.get("pool") or {}
    totals = stats.get("total") or {}
    uptime_s = stats.get("uptime")
    return Worker(
        name=name,
        pid=stats.get("pid"),
        slots=pool.get("max-concurrency"),
        uptime_ms=None if uptime_s is None else int(uptime_s) * SECOND_MS,
        task_count=sum(int(count) for count in totals.values()),
        queues=[str(queue.get("name", "")) for queue in queues],
    )
