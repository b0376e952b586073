"""What is degraded, for those who must not wait for anybody: the last answer, soon a new one.

    /healthz ── known ──▶ [DegradedWatch] ── older than a second ──▶ a thread asks the engine,
        ◀── what was known ──┘                                 or, without it, PostgreSQL

Kubernetes and its like restart a process whose liveness probe hangs. So the probe gets what is
known, and the question is asked beside it, within its own time limits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

import psycopg

from mqservice.lib.durations import SECOND_MS
from mqservice.monitoring.heartbeats import AGES, TICK
from mqservice.monitoring.sampling import QUARANTINED, engine_stats
from mqservice.monitoring.ticks import LATE_MS
from mqservice.shards.queries import known_shard_names

log = logging.getLogger(__name__)

FRESH_MS: Final = SECOND_MS
KNOWN_MS_MAX: Final = 10 * SECOND_MS  # what is known for longer is not known any more
CONNECT_SECONDS_MAX: Final = 2  # libpq takes less for 2


class DegradedWatch:
    """See the module's docstring. ``ask`` answers with names of parts. Thread-safe."""

    def __init__(
        self,
        ask: Callable[[], list[str]],
        now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._ask = ask
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._answer: list[str] = []
        self._asked_ms: int | None = None
        self._asking: threading.Thread | None = None

    def known(self) -> list[str]:
        """What is degraded; nothing while that is unknown. Never waits."""
        with self._lock:
            now_ms = self._now_ms()
            age_ms = None if self._asked_ms is None else now_ms - self._asked_ms
            if self._asking is None and (age_ms is None or age_ms >= FRESH_MS):
                self._asking = threading.Thread(
                    target=self._refresh, name="degraded watch", daemon=True
                )
                self._asking.start()
            return self._answer if age_ms is not None and age_ms <= KNOWN_MS_MAX else []

    def wait(self, timeout_s: float) -> None:
        """Until a question that is under way is answered; for tests."""
        asking = self._asking
        if asking is not None:
            asking.join(timeout_s)

    def _refresh(self) -> None:
        answer: list[str] = []
        try:
            answer = self._ask()
        finally:
            with self._lock:
                self._answer, self._asked_ms = answer, self._now_ms()
                self._asking = None


def ask_engine_or_postgres(dsn: str) -> list[str]:
    """What the engine says is degraded; if it does not answer, beat by ``ask_postgres``."""
    found = [engine_stats(shard) for shard in known_shard_names()]
    known = [stats for stats in found if stats is not None]
    if not known:
        return ["beat"] if ask_postgres(dsn) else []
    degraded = {name: None for stats in known for name in stats.degraded}
    return [
        *(["engine"] if len(known) < len(found) else []),
        *degraded,
        *([QUARANTINED] if any(stats.quarantined_count for stats in known) else []),
    ]


def ask_postgres(dsn: str) -> bool | None:
    """Whether the last tick was too long ago; None without an answer, or before the first tick."""
    try:
        with psycopg.connect(
            dsn,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS_MAX,
            options="-c statement_timeout=2000",
            application_name="mqservice health",
        ) as connection:
            ages: dict[str, int] = dict(connection.execute(AGES).fetchall())
    except psycopg.Error:
        return None
    return ages[TICK] > LATE_MS if TICK in ages else None
