"""Ending tasks for certain, and calls that go to a loop from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from .errors import WrongEventLoop

ResultT = TypeVar("ResultT")

# Longer than anything that a task does when it is cancelled, such as closing a socket.
CANCELLED_WAIT_S: Final = 3.0


async def end(*tasks: asyncio.Future[Any]) -> None:  # Any: their results are of no interest
    """Cancel them, and wait until they have ended, however they do.

    Repeated, as libraries may lose a cancellation (see ``within``).
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCELLED_WAIT_S)


async def within(timeout_s: float | None, work: Awaitable[ResultT]) -> ResultT:
    """The result of ``work``, which is cancelled when the time is over. Raises
    asyncio.TimeoutError.

    Instead of ``asyncio.wait_for``, which until Python 3.12 loses a cancellation that comes
    together with the result.
    """
    working = asyncio.ensure_future(work)
    try:
        await asyncio.wait({working}, timeout=timeout_s)
        if not working.done():
            raise asyncio.TimeoutError
        return working.result()
    finally:
        if not working.done():
            await end(working)
        if not working.cancelled():
            working.exception()  # nobody hears of it who was cancelled meanwhile


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
