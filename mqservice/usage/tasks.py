"""Celery tasks for usage. Each may run twice, or not at all for a while."""

from __future__ import annotations

import logging

from mqservice.celery import app
from mqservice.lib.clock import SystemClock
from mqservice.store import StoreError, blocking_client
from mqservice.usage import writing

log = logging.getLogger(__name__)


@app.task(name="usage.measure_storage", soft_time_limit=40, time_limit=50)
def measure_storage() -> None:
    """Write down how much topics hold."""
    try:
        with blocking_client() as client:
            writing.measure_storage(client, SystemClock().now_ms())
    except StoreError as exc:
        log.warning(
            "Could not measure storage: the storage engine is not responding",
            extra={"action": "storage_measure_skipped", "error": type(exc).__name__},
        )


@app.task(name="usage.clean_up", soft_time_limit=40, time_limit=50)
def clean_up() -> None:
    """Drop what is older than it is kept."""
    writing.clean_up(SystemClock().now_ms())
