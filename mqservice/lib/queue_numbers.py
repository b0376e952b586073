"""Checks that a topic has a queue: one rule and one code for every request that names one."""

from __future__ import annotations

from typing import Final

QUEUE_NOT_FOUND: Final = "QUEUE_NOT_FOUND"


def queue_fault(queue_id: int, queue_count: int) -> str | None:
    """Why there is no such queue; None when there is. Its code is ``QUEUE_NOT_FOUND``."""
    if 0 <= queue_id < queue_count:
        return None
    return f"the topic has queues 0 to {queue_count - 1}, found {queue_id}"
