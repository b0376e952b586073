"""Packs puts that are sent together into as few frames as they fit.

put, put, put ──▶ [PutCoalescer] ── take() ──▶ (payload, waiters) of each frame
reply of a frame ──▶ complete_puts ─▶ each put's own results
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from storage_engine.errors import StoreError
from storage_engine.wire.client_types import PutResult, put_results
from storage_engine.wire.frames import decode_put_reply


class PutCall(Protocol):
    """Who is told how a put ended: an ``asyncio.Future``, or less. None of these may raise, and one
    of the last two is called, once, from the reading of a reply.
    """

    def done(self) -> bool:
        """Whether nobody waits any more."""

    def set_result(self, results: list[PutResult], /) -> None: ...

    def set_exception(self, error: StoreError, /) -> None: ...


class PutWaiter(NamedTuple):
    """One put call, and how much of a frame is its own."""

    call: PutCall
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

    def add(self, call: PutCall, records: list[bytes], put_bytes: int) -> None:
        """Take one put call in."""
        self._records += records
        self.put_bytes += put_bytes
        self._waiters.append(PutWaiter(call, len(records), put_bytes))

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


def complete_puts(waiters: list[PutWaiter], payload: bytes) -> None:
    """Give each put of a frame its part of the reply."""
    count = sum([waiter.record_count for waiter in waiters])
    results = put_results(*decode_put_reply(payload), count)
    start = 0
    for call, record_count, _ in waiters:
        if not call.done():
            call.set_result(results[start : start + record_count])
        start += record_count


def fail_puts(waiters: list[PutWaiter], error: StoreError) -> None:
    for waiter in waiters:
        if not waiter.call.done():
            waiter.call.set_exception(error)
