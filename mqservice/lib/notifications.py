"""Notifications of PostgreSQL as they come, on a connection that listens and does nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg


async def payloads(connection: psycopg.AsyncConnection[Any]) -> AsyncIterator[str]:  # Any: rows
    """Until the connection ends: then ``psycopg.Error``. psycopg's own wait for them wakes up ten
    times a second, which was a quarter of what an idle web process did.
    """
    loop = asyncio.get_running_loop()
    while True:
        async for notification in connection.notifies(timeout=0):
            yield notification.payload
        readable = loop.create_future()
        loop.add_reader(connection.fileno(), _set, readable)
        try:
            await readable
        finally:
            loop.remove_reader(connection.fileno())


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():  # the loop may call once more before the reader is gone
        future.set_result(None)
