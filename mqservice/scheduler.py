"""Beat that may run several times and sends once: the leader is who holds a lock in PostgreSQL.

    beat A ─┐                              ┌─ holds the lock: sends what is due
    beat B ─┴─ pg_try_advisory_lock(key) ──┴─ does not: asks again every second

The lock lives as long as its session, so a leader that dies frees it at once, and one that is cut
off frees it when the server misses it. Whoever takes over counts from now, so nothing is sent twice
for one moment; a tick in the gap is not made up for. Nothing is written to disk.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import psycopg
from celery import Celery
from celery.beat import Scheduler
from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections

log = logging.getLogger(__name__)

LOCK_KEY: Final = 0x6D71_6265_6174  # "mqbeat"
STANDBY_SECONDS: Final = 1.0
LEADER_SECONDS_MAX: Final = 1.0
HEARTBEAT_SECONDS: Final = 5.0


class LeaderLock:
    """A session advisory lock on a connection of its own: no pool, no transaction."""

    def __init__(self, dsn: str, key: int = LOCK_KEY) -> None:
        self._dsn = dsn
        self._key = key
        self._connection: psycopg.Connection[tuple[bool]] | None = None
        self.is_held = False

    def check(self) -> bool:
        """Whether the lock is ours now: asks the server that holds it, or tries to get it."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(
                    self._dsn,
                    autocommit=True,
                    connect_timeout=3,
                    application_name="mqservice beat leader",
                    keepalives_idle=5,
                    keepalives_interval=2,
                    keepalives_count=3,
                    tcp_user_timeout=10_000,
                )
            if self.is_held:
                self._connection.execute("SELECT 1")
            else:
                row = self._connection.execute(
                    "SELECT pg_try_advisory_lock(%s)", (self._key,)
                ).fetchone()
                self.is_held = row is not None and row[0]
        except psycopg.Error as exc:
            log.warning(
                "PostgreSQL did not answer about the leader's lock",
                extra={"action": "leader_lock_unknown", "error": str(exc)},
            )
            self.release()
        return self.is_held

    def release(self) -> None:
        """Give the lock up, if it is ours, by ending the session."""
        self.is_held = False
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class LeaderScheduler(Scheduler):
    """Celery's scheduler, silent while another beat leads."""

    def __init__(self, app: Celery, *args: Any, **kwargs: Any) -> None:  # Any: Celery's own
        self.lock = LeaderLock(settings.MQ_DATABASE_URL)
        self._next_heartbeat_at = 0.0
        super().__init__(app, *args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:  # Any: Celery's own signature
        """Send what is due, if we lead. Returns the seconds until the next call."""
        was_leader = self.lock.is_held
        if not self.lock.check():
            return STANDBY_SECONDS
        if not was_leader:
            self._begin_term()
        self._show_life()
        return min(float(super().tick(*args, **kwargs)), LEADER_SECONDS_MAX)

    def close(self) -> None:
        super().close()
        self.lock.release()

    def _begin_term(self) -> None:
        now = self.app.now()
        for entry in self.schedule.values():
            entry.last_run_at = now
        self._heap = None  # it was sorted by the old times
        log.info("This beat leads now", extra={"action": "leader_elected"})

    def _show_life(self) -> None:
        """Note that beat is alive, every few seconds; a failure is no reason not to send."""
        now = self.app.now().timestamp()
        if now < self._next_heartbeat_at:
            return
        self._next_heartbeat_at = now + HEARTBEAT_SECONDS
        from mqservice.monitoring.sampling import record_heartbeat  # needs Django to be set up

        try:
            record_heartbeat("beat")
        except (DatabaseError, InterfaceError) as exc:
            log.warning(
                "Beat's heartbeat was not recorded",
                extra={"action": "heartbeat_missed", "error": str(exc)},
            )
        finally:
            close_old_connections()
