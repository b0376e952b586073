"""When keys were last used: collected in memory, written in batches, outside of requests.

    look-up of a key ── note ──▶ [KeyUses] ── write_uses, each WRITE_MS ──▶ one UPDATE

A key in use is looked up each half minute, so ``last_used_at`` is right within a minute or so. What
a process had not written when it was killed is lost; the next use tells it again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import datetime, timedelta
from typing import Final

from asgiref.sync import sync_to_async
from django.db import DatabaseError, InterfaceError, close_old_connections, connection

log = logging.getLogger(__name__)

WRITE_MS: Final = 10_000
USES_MAX: Final = 10_000  # keys that wait to be written; more are not noted
STEP: Final = timedelta(minutes=1)  # a use so soon after the last one written is not written

# Rows that somebody changes just now are passed over: a later use comes to them.
_WRITE: Final = """
UPDATE accounts_apikey AS key SET last_used_at = used.at
FROM unnest(%s::text[], %s::timestamptz[]) AS used(public_id, at)
WHERE key.public_id = used.public_id AND key.id IN (
    SELECT each.id FROM accounts_apikey AS each
    JOIN unnest(%s::text[], %s::timestamptz[]) AS wanted(public_id, at)
        ON each.public_id = wanted.public_id
    WHERE each.last_used_at IS NULL OR each.last_used_at < wanted.at - make_interval(secs => %s)
    ORDER BY each.id FOR UPDATE OF each SKIP LOCKED
)
"""


class KeyUses:
    """The latest use of each key that is not written yet. Thread-safe."""

    def __init__(self, uses_max: int = USES_MAX) -> None:
        self._uses_max = uses_max
        self._lock = threading.Lock()
        self._at: dict[str, datetime] = {}

    def note(self, public_id: str, at: datetime) -> None:
        with self._lock:
            if public_id in self._at or len(self._at) < self._uses_max:
                self._at[public_id] = at

    def take(self) -> dict[str, datetime]:
        """All that wait; they are forgotten here."""
        with self._lock:
            taken, self._at = self._at, {}
        return taken

    def write(self) -> int:
        """Write what waits; how many keys were changed. One statement, none if nothing waits.

        Raises DatabaseError or InterfaceError; what was taken is lost then.
        """
        taken = self.take()
        if not taken:
            return 0
        ids, times = list(taken), list(taken.values())
        with connection.cursor() as cursor:
            cursor.execute(_WRITE, [ids, times, ids, times, STEP.seconds])
            return int(cursor.rowcount)


async def write_uses(pause_ms: int = WRITE_MS) -> None:
    """Write what waits, again and again until cancelled, and a last time then."""
    try:
        while True:
            await asyncio.sleep(pause_ms / 1_000)
            await sync_to_async(_write)()
    finally:
        await asyncio.shield(sync_to_async(_write)())


def _write() -> None:
    try:
        uses.write()
    except (DatabaseError, InterfaceError) as exc:
        log.warning(
            "Could not save when API keys were last used",
            extra={"action": "key_uses_lost", "error": str(exc)},
        )
    finally:
        if not connection.in_atomic_block:  # a test's transaction has to live on
            close_old_connections()


uses: Final = KeyUses()
