"""The tick: once a second (``MQ_TICK_MS``) the engine is told to deliver what is due until the tick
after the next, each message at its time.

beat ──▶ worker ── DELIVER_DUE ──▶ engine          ── taken ──▶ heartbeat ``tick`` ──▶ health

The engine ticks itself when none has come for three seconds, so a dead worker delays nobody; health
says so then.
"""

from __future__ import annotations

import time
from typing import Final

from django.conf import settings

from mqservice.lib.durations import SECOND_MS
from mqservice.monitoring.heartbeats import TICK, record_heartbeat
from mqservice.store import StoreClient

LATE_MS: Final = 3 * SECOND_MS  # the engine's own patience
_AHEAD_TICKS: Final = 2  # one that comes late, or is lost, delays nobody
_NOTED_MS_MIN: Final = 900  # a tick of 100 ms need not write ten times a second

_noted_ms = 0


def tick_engine(client: StoreClient) -> None:
    """Let the engine deliver what is due, and note that it has taken the tick.

    One call and at most one statement a second. Raises ``StoreError`` or ``DatabaseError``.
    """
    global _noted_ms
    client.deliver_due(ahead_ms=min(_AHEAD_TICKS * settings.MQ_TICK_MS, LATE_MS))
    now_ms = time.monotonic_ns() // 1_000_000
    if now_ms - _noted_ms >= _NOTED_MS_MIN:
        record_heartbeat(TICK)
        _noted_ms = now_ms
