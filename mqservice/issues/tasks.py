"""Celery tasks for issues. Each may run twice, or not at all for a while.

beat ──▶ scan ── new dead letters ──▶ issues      beat ──▶ clean_up ── quiet, old ──▶ resolved, gone
"""

from __future__ import annotations

from mqservice.celery import app
from mqservice.issues.retention import delete_old, resolve_quiet
from mqservice.issues.scanning import scan
from mqservice.lib.clock import SystemClock
from mqservice.shards.sweeps import each_shard


@app.task(name="issues.scan", soft_time_limit=25, time_limit=30)
def scan_dead_letters() -> None:
    """Count new dead letters by their causes."""
    each_shard(
        lambda client: scan(client, SystemClock()),
        action="scan_skipped",
        failure="Could not count dead letters: the storage engine is not responding",
    )


@app.task(name="issues.clean_up", soft_time_limit=40, time_limit=50)
def clean_up() -> None:
    """Resolve what has been quiet, drop what is too old."""
    now_ms = SystemClock().now_ms()
    resolve_quiet(now_ms)
    delete_old(now_ms)
