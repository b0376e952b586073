"""A session advisory lock in PostgreSQL whose holder must prove that it is alive.

    holder ── a question every half second ──▶ session ── silent for 1.5 s, host gone ──▶ free

A holder that is killed frees the lock at once, because its connection ends. For one that stands
still or whose host vanished the server does it: ``idle_session_timeout`` and keepalives of the
server's own end the session. Nobody else can have the lock before that, so there are never two
holders; a holder learns that it is one no more by its next question, which it has to ask before it
acts.
"""

from __future__ import annotations

import logging
from typing import Final

import psycopg

log = logging.getLogger(__name__)

LOCK_KEY: Final = 0x6D71_6265_6174  # "mqbeat"
APPLICATION_NAME: Final = "mqservice beat leader"
IDLE_MS_MAX: Final = 1_500
_SESSION_OPTIONS: Final = " ".join(
    f"-c {name}={value}"
    for name, value in {
        "idle_session_timeout": IDLE_MS_MAX,
        "statement_timeout": IDLE_MS_MAX,
        "tcp_keepalives_idle": 1,
        "tcp_keepalives_interval": 1,
        "tcp_keepalives_count": 1,
    }.items()
)


class LeaderLock:
    """See the module's docstring. A connection of its own: no pool, no transaction."""

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
                    connect_timeout=2,  # libpq takes less for 2
                    application_name=APPLICATION_NAME,
                    options=_SESSION_OPTIONS,
                    keepalives_idle=1,
                    keepalives_interval=1,
                    keepalives_count=1,
                    tcp_user_timeout=IDLE_MS_MAX,
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
                "Could not check the leader lock: the database is not responding",
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
