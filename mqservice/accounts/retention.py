"""Deletes old audit entries, by the one database function that may delete any.

A trigger refuses every other DELETE, every UPDATE and TRUNCATE.
"""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.db import connection

_DELETED_PER_CALL: Final = 5_000


def delete_old_audit(at_most: int = _DELETED_PER_CALL) -> int:
    """Drop the oldest entries that are older than is configured; how many. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT mq_drop_old_audit(make_interval(days => %s), %s)",
            [settings.MQ_AUDIT_DAYS, at_most],
        )
        [dropped] = cursor.fetchone()
    return int(dropped)
