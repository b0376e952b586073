"""Celery tasks for accounts: the audit log is retained for as long as is configured."""

from __future__ import annotations

from mqservice.accounts.retention import delete_old_audit
from mqservice.celery import app


@app.task(name="accounts.clean_up", soft_time_limit=25, time_limit=30)
def clean_up() -> None:
    """Drop the oldest entries that are too old, so many at a time."""
    delete_old_audit()
