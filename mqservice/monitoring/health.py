"""Is this process up, and can it do its work: ``/healthz`` and ``/readyz``.

Ready means that messages can be taken and handed out: PostgreSQL answers and the engine answers, or
one of several; then it is degraded until all of them do.
Worker and beat are reported as well, but a node without them is still ready: it is degraded. Beat
is so too when the engine got no tick for three seconds, whoever of beat, broker and worker it was.
The engine says so itself, also while PostgreSQL is away; only when it does not answer, the last
tick that was noted in PostgreSQL counts. Records that are damaged are named until somebody has seen
to them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError

from mqservice.lib.durations import SECOND_MS
from mqservice.lib.names import MAIN_SHARD
from mqservice.monitoring.heartbeats import TICK, heartbeat_ages_ms
from mqservice.monitoring.sampling import QUARANTINED, engine_stats
from mqservice.monitoring.ticks import LATE_MS
from mqservice.quotas.meters import are_quotas_degraded
from mqservice.shards.queries import known_shard_names, shard_names
from mqservice.store import StatsReply

HEARTBEAT_MS_MAX: Final = 30 * SECOND_MS
CONNECT_SECONDS_MAX: Final = 2  # libpq takes less for 2
BACKGROUND_PROCESSES: Final = ("worker", "beat")
# A part only while some engine takes no puts to replicated topics; engines call it so themselves.
REPLICATION: Final = "replication"
QUOTAS: Final = "quotas"  # a part only while each process keeps to an equal part of them


class PartState(enum.StrEnum):
    """UNKNOWN: it was never seen, or the place where it would be noted is away. DEGRADED: it shows
    life, but what it is there for is not done.
    """

    UP = "up"
    DEGRADED = "degraded"
    DOWN = "down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """State of each part, by its name."""

    parts: dict[str, PartState]

    @property
    def is_ready(self) -> bool:
        is_served = self.parts["engine"] in (PartState.UP, PartState.DEGRADED)
        return self.parts["database"] is PartState.UP and is_served

    @property
    def degraded(self) -> list[str]:
        """Parts without which messages flow, but not all is as it should be."""
        return [
            *(["engine"] if self.parts["engine"] is PartState.DEGRADED else []),
            *(
                name
                for name in (*BACKGROUND_PROCESSES, REPLICATION, QUOTAS, QUARANTINED)
                if self.parts.get(name) in (PartState.DOWN, PartState.DEGRADED)
            ),
        ]


def check_health() -> Health:
    """Ask every part. One new connection, one query, one call to the engine, all within limits."""
    has_database = is_database_up()
    found = {
        shard: engine_stats(shard)
        for shard in (shard_names() if has_database else known_shard_names())
    }
    known = [stats for stats in found.values() if stats is not None]
    stats = found[MAIN_SHARD] or next(iter(known), None)
    background = background_states(stats) if has_database else None
    engine = PartState.UP if len(known) == len(found) else PartState.DEGRADED
    is_damaged = any(each.quarantined_count for each in known)
    is_cut_off = any(REPLICATION in each.degraded for each in known)
    return Health(
        parts={
            "database": PartState.DOWN if background is None else PartState.UP,
            "engine": engine if known else PartState.DOWN,
            **(background or _judged({}, stats)),
            **({REPLICATION: PartState.DEGRADED} if is_cut_off else {}),
            **({QUOTAS: PartState.DEGRADED} if are_quotas_degraded() else {}),
            **({QUARANTINED: PartState.DEGRADED} if is_damaged else {}),
        }
    )


def is_database_up() -> bool:
    """Whether PostgreSQL lets a new session in. A pooled one could hang with the server."""
    try:
        psycopg.connect(settings.MQ_DATABASE_URL, connect_timeout=CONNECT_SECONDS_MAX).close()
    except psycopg.Error:
        return False
    return True


def background_states(stats: StatsReply | None) -> dict[str, PartState] | None:
    """Worker and beat by their heartbeats, and by what the engine says, unless that is None; None
    when PostgreSQL does not answer. One query.
    """
    try:
        ages_ms = heartbeat_ages_ms()
    except (DatabaseError, InterfaceError):
        return None
    return _judged(ages_ms, stats)


def _judged(ages_ms: dict[str, int], stats: StatsReply | None) -> dict[str, PartState]:
    states = {}
    for process in BACKGROUND_PROCESSES:
        age_ms = ages_ms.get(process)
        states[process] = (
            PartState.UNKNOWN
            if age_ms is None
            else PartState.UP
            if age_ms <= HEARTBEAT_MS_MAX
            else PartState.DOWN
        )
    if stats is None:
        is_silent = states["beat"] is PartState.UP and ages_ms.get(TICK, 0) > LATE_MS
    else:
        is_silent = states["beat"] is not PartState.DOWN and "beat" in stats.degraded
    if is_silent:
        states["beat"] = PartState.DEGRADED
    return states
