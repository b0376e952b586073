"""Celery tasks for schedules. Running twice at once sends nothing twice: see ``sending``."""

from __future__ import annotations

from mqservice.celery import app
from mqservice.lib.clock import SystemClock
from mqservice.schedules.limits import SWEEP_LIMIT_S, SWEEP_SOFT_LIMIT_S
from mqservice.schedules.sending import sweep


@app.task(name="schedules.sweep", soft_time_limit=SWEEP_SOFT_LIMIT_S, time_limit=SWEEP_LIMIT_S)
def sweep_schedules() -> None:
    """Send all messages whose time has come."""
    sweep(SystemClock())
