"""Ending tasks for certain, and calls that go to a loop from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, Final

from .errors import WrongEventLoop

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


def call_on(
    loop: asyncio.AbstractEventLoop, thread_id: int, function: Callable[[], object]
) -> None:
    """In the next turn of the loop, which ``thread_id`` runs. Raises WrongEventLoop."""
    if threading.get_ident() != thread_id:
        # The loop of a client that is being closed takes nothing more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(function)
    elif loop.is_closed():
        raise WrongEventLoop("the event loop that this client belongs to is closed")
    else:
        loop.call_soon(function)
