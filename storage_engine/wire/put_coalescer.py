"""Puts that travel together, cut into as few frames as they fit.

put, put, put ──▶ [PutCoalescer] ── take() ──▶ (payload, waiters) of each frame
reply of a frame ──▶ answer_puts ──▶ each put's own results
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from storage_engine.errors import StoreError
from storage_engine.wire.client_types import PutResult, put_results
from storage_engine.wire.frames import decode_put_reply


class PutWaiter(NamedTuple):
    """One put call: its future, and how much of a frame is its own."""

    future: asyncio.Future[list[PutResult]]
    record_count: int
    put_bytes: int


class PutCoalescer:
    """See the module's docstring. A single put is never cut, even if it exceeds ``frame_bytes``."""

    def __init__(self, frame_bytes: int) -> None:
        self._frame_bytes = frame_bytes
        self._records: list[bytes] = []
        self._waiters: list[PutWaiter] = []
        self.put_bytes = 0  # of what waits

    @property
    def is_empty(self) -> bool:
        return not self._waiters

    def add(
        self, future: asyncio.Future[list[PutResult]], records: list[bytes], put_bytes: int
    ) -> asyncio.Future[list[PutResult]]:
        """Take one put call in; its future."""
        self._records += records
        self.put_bytes += put_bytes
        self._waiters.append(PutWaiter(future, len(records), put_bytes))
        return future

    def take(self) -> list[tuple[bytes, list[PutWaiter]]]:
        """Everything added since the last call, as payloads of frames and who waits for each."""
        records, waiters = self._records, self._waiters
        self._records, self._waiters, self.put_bytes = [], [], 0
        frames: list[tuple[bytes, list[PutWaiter]]] = []
        at = start = frame_bytes = 0
        of_frame: list[PutWaiter] = []
        for waiter in waiters:
            if of_frame and frame_bytes + waiter.put_bytes > self._frame_bytes:
                frames.append((b"".join(records[start:at]), of_frame))
                start, frame_bytes, of_frame = at, 0, []
            of_frame.append(waiter)
            frame_bytes += waiter.put_bytes
            at += waiter.record_count
        if of_frame:
            frames.append((b"".join(records[start:]), of_frame))
        return frames


def answer_puts(waiters: list[PutWaiter], payload: bytes) -> None:
    """Give each put of a frame its part of the reply."""
    store_timestamp_ms, offsets = decode_put_reply(payload)
    start = 0
    for future, record_count, _ in waiters:
        if not future.done():
            future.set_result(
                put_results(store_timestamp_ms, offsets[start : start + record_count])
            )
        start += record_count


def fail_puts(waiters: list[PutWaiter], error: StoreError) -> None:
    for waiter in waiters:
        if not waiter.future.done():
            waiter.future.set_exception(error)


def failed_put(error: StoreError) -> asyncio.Future[list[PutResult]]:
    """The future of a put that was not sent."""
    future: asyncio.Future[list[PutResult]] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future
