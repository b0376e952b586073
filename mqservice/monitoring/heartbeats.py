"""Heartbeats of background processes: written by them, read by monitoring.

All times are PostgreSQL's, so that machines whose clocks differ agree on ages.
"""

from __future__ import annotations

import os
import socket
from typing import Final

from django.db import connection

TICK: Final = "tick"

_BEAT: Final = """
INSERT INTO monitoring_heartbeat (process, host, pid, beaten_at)
VALUES (%s, %s, %s, clock_timestamp())
ON CONFLICT (process) DO UPDATE SET
    host = excluded.host, pid = excluded.pid, beaten_at = excluded.beaten_at
"""
AGES: Final = (
    "SELECT process, (extract(epoch FROM clock_timestamp() - beaten_at) * 1000)::bigint"
    " FROM monitoring_heartbeat"
)


def record_heartbeat(process: str) -> None:
    """Note that ``process`` is alive. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(_BEAT, (process, socket.gethostname()[:128], os.getpid()))


def heartbeat_ages_ms() -> dict[str, int]:
    """How long ago each process showed life. One query."""
    with connection.cursor() as cursor:
        cursor.execute(AGES)
        return dict(cursor.fetchall())
