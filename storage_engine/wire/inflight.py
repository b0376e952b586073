"""A request that was sent and waits for its reply."""

from __future__ import annotations

import asyncio

from storage_engine.errors import StoreError
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.protocol import Op
from storage_engine.wire.put_coalescer import PutWaiter, fail_puts


class InFlight:
    """``future`` is None when nobody waits; a PUT frame has ``puts`` instead."""

    __slots__ = ("deadline_ms", "future", "op", "origin", "put_bytes", "puts")

    def __init__(self, op: Op, future: asyncio.Future[bytes] | None, deadline_ms: int) -> None:
        self.op = op
        self.future = future
        self.deadline_ms = deadline_ms
        self.origin: ReceiveRequest | None = None
        self.puts: list[PutWaiter] = []
        self.put_bytes = 0


def fail_entry(entry: InFlight, error: StoreError) -> None:
    """Tell whoever waits for this request that it failed."""
    if entry.future is not None and not entry.future.done():
        entry.future.set_exception(error)
    fail_puts(entry.puts, error)
