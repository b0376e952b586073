"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from typing import Any, Final

# Longer than anything that a task does when it is cancelled, such as closing a socket.
CANCELLED_WAIT_S: Final = 3.0


async def end(*tasks: asyncio.Task[Any]) -> None:  # Any: their results are of no interest
    """Cancel them, and wait until they have ended, however they do.

    Until Python 3.12 ``wait_for`` loses a cancellation that comes together with what it waits for,
    hence the repeats.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCELLED_WAIT_S)
