"""Is this process up, and can it do its work: ``/healthz`` and ``/readyz``.

Ready means that messages can be taken and handed out: PostgreSQL answers and the engine answers.
Worker and beat are reported as well, but a node without them is still ready.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import psycopg
from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from mqservice.monitoring.models import Heartbeat
from mqservice.monitoring.sampling import engine_stats

HEARTBEAT_AGE_MAX: Final = timedelta(seconds=30)
CONNECT_SECONDS_MAX: Final = 2  # libpq takes less for 2
BACKGROUND_PROCESSES: Final = ("worker", "beat")


class PartState(enum.StrEnum):
    """UNKNOWN: it was never seen, or the place where it would be noted is away."""

    UP = "up"
    DOWN = "down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """State of each part, by its name."""

    parts: dict[str, PartState]

    @property
    def is_ready(self) -> bool:
        return all(self.parts[name] is PartState.UP for name in ("database", "engine"))


def check_health() -> Health:
    """Ask every part. One new connection, one query, one call to the engine, all within limits."""
    background = background_states() if is_database_up() else None
    return Health(
        parts={
            "database": PartState.DOWN if background is None else PartState.UP,
            "engine": PartState.DOWN if engine_stats() is None else PartState.UP,
            **(background or dict.fromkeys(BACKGROUND_PROCESSES, PartState.UNKNOWN)),
        }
    )


def is_database_up() -> bool:
    """Whether PostgreSQL lets a new session in. A pooled one could hang with the server."""
    try:
        psycopg.connect(settings.MQ_DATABASE_URL, connect_timeout=CONNECT_SECONDS_MAX).close()
    except psycopg.Error:
        return False
    return True


def background_states() -> dict[str, PartState] | None:
    """Worker and beat by their heartbeats; None when PostgreSQL does not answer. One query."""
    try:
        beats = dict(Heartbeat.objects.values_list("process", "beaten_at"))
    except (DatabaseError, InterfaceError):
        return None
    oldest = timezone.now() - HEARTBEAT_AGE_MAX
    states = {}
    for process in BACKGROUND_PROCESSES:
        at = beats.get(process)
        states[process] = (
            PartState.UNKNOWN if at is None else PartState.UP if at >= oldest else PartState.DOWN
        )
    return states
