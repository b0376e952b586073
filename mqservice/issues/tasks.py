"""Celery tasks for issues. Each may run twice, or not at all for a while.

beat ──▶ scan ── new dead letters ──▶ issues      beat ──▶ clean_up ── quiet, old ──▶ resolved, gone
"""

from __future__ import annotations

import logging

from mqservice.celery import app
from mqservice.issues.retention import delete_old, resolve_quiet
from mqservice.issues.scanning import scan
from mqservice.lib.clock import SystemClock
from mqservice.store import StoreError, blocking_client

log = logging.getLogger(__name__)


@app.task(name="issues.scan", soft_time_limit=25, time_limit=30)
def scan_dead_letters() -> None:
    """Count new dead letters by their causes."""
    try:
        with blocking_client() as client:
            scan(client, SystemClock())
    except StoreError as exc:
        log.warning(
            "Could not count dead letters: the storage engine is not responding",
            extra={"action": "scan_skipped", "error": type(exc).__name__},
        )


@app.task(name="issues.clean_up", soft_time_limit=40, time_limit=50)
def clean_up() -> None:
    """Resolve what has been quiet, drop what is too old."""
    now_ms = SystemClock().now_ms()
    resolve_quiet(now_ms)
    delete_old(now_ms)
