"""Celery tasks for long tasks. The scheduler sweeps each second; a lost or doubled turn is
harmless.

beat ──▶ sweep ── due rows ──▶ advance(task id) ──▶ a turn of a few seconds
"""

from __future__ import annotations

from mqservice.celery import app
from mqservice.lib.clock import SystemClock
from mqservice.tasks.limits import QUEUED_MS, SECOND_MS, TURN_LIMIT_S, TURN_SOFT_LIMIT_S
from mqservice.tasks.steps import take_turn
from mqservice.tasks.turns import find_due


@app.task(name="tasks.sweep", soft_time_limit=10, time_limit=15)
def sweep() -> None:
    """Ask for a turn for each task that is due, also for those whose worker is gone."""
    for public_id in find_due(SystemClock().now_ms()):
        advance.apply_async((public_id,), expires=QUEUED_MS / SECOND_MS)


@app.task(
    name="tasks.advance",
    acks_late=True,
    soft_time_limit=TURN_SOFT_LIMIT_S,
    time_limit=TURN_LIMIT_S,
)
def advance(public_id: str) -> None:
    """Go on with one task for a few seconds."""
    take_turn(public_id, SystemClock())
