"""Celery tasks for usage. Each may run twice, or not at all for a while."""

from __future__ import annotations

from mqservice.celery import app
from mqservice.lib.clock import SystemClock
from mqservice.shards.sweeps import each_shard
from mqservice.usage import writing


@app.task(name="usage.measure_storage", soft_time_limit=40, time_limit=50)
def measure_storage() -> None:
    """Write down how much topics hold."""
    each_shard(
        lambda client: writing.measure_storage(client, SystemClock().now_ms()),
        action="storage_measure_skipped",
        failure="Could not measure storage: the storage engine is not responding",
    )


@app.task(name="usage.clean_up", soft_time_limit=40, time_limit=50)
def clean_up() -> None:
    """Drop what is older than it is kept."""
    writing.clean_up(SystemClock().now_ms())
