"""The conditions that beat asks PostgreSQL for before it sends a sweep (``ASKED_BEFORE``)."""

from __future__ import annotations

from django.db import connection


def holds(condition: str, now_ms: int) -> bool:
    """What the database answers at that time."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {condition}", {"now_ms": now_ms})
        row: tuple[bool] = cursor.fetchone()
        return row[0]
