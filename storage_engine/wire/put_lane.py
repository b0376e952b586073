"""Puts of one durability on their way to the engine: what waits to be sent, and what was sent.

    put, put, put ──▶ [PutLane] ── take() ──▶ (payload, waiters) of each frame ── sent ──▶ engine
    each put's own results ◀── complete_puts ◀── reply of a frame ── answered ──┘

    local         one frame at a time ──▶ engine ── disk ──▶ reply
    replicated    up to eight frames ───▶ engine ── replicated log ──▶ reply

A frame is answered when all of it is as durable as its topics want. So puts that wait for the log
share no frame with others, and stand in nobody's way.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from storage_engine.errors import StoreError
from storage_engine.wire.client_types import PutResult
from storage_engine.wire.frames import decode_put_reply

# The engine would let the next puts wait for its running sync anyway: sent together afterwards they
# cost one frame, one sync and one reply.
LOCAL_FRAMES_MAX: Final = 1
# A log has several entries in flight, and takes ten times as long as a disk.
REPLICATED_FRAMES_MAX: Final = 8


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


class PutLane:
    """See the module's docstring. A single put is never cut, even if it exceeds ``frame_bytes``."""

    __slots__ = (
        "_frame_bytes",
        "_frame_count",
        "_frames_max",
        "_records",
        "_waiters",
        "inflight_bytes",
        "is_sending",
        "waiting_bytes",
    )

    def __init__(self, frames_max: int, frame_bytes: int) -> None:
        """At most ``frames_max`` under way, of about ``frame_bytes`` each."""
        self._frames_max = frames_max
        self._frame_bytes = frame_bytes
        self._records: list[bytes] = []
        self._waiters: list[PutWaiter] = []
        self._frame_count = 0  # sent and not answered
        self.inflight_bytes = 0  # of them
        self.waiting_bytes = 0
        self.is_sending = False  # what waits is sent in this turn of the loop

    def add(self, call: PutCall, records: list[bytes], put_bytes: int) -> bool:
        """Take one put call in; whether what waits may be sent. While enough is under way, more
        will come along with it.
        """
        self._records += records
        self.waiting_bytes += put_bytes
        self._waiters.append(PutWaiter(call, len(records), put_bytes))
        return self._frame_count < self._frames_max

    def take(self) -> list[tuple[bytes, list[PutWaiter]]]:
        """Everything added since the last call, as payloads of frames and who waits for each."""
        records, waiters = self._records, self._waiters
        self._records, self._waiters, self.waiting_bytes = [], [], 0
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

    def sent(self, frame_bytes: int) -> None:
        """A frame with a payload of ``frame_bytes`` is under way."""
        self._frame_count += 1
        self.inflight_bytes += frame_bytes

    def answered(self, frame_bytes: int) -> bool:
        """It is no more; whether something waits that may now be sent."""
        self._frame_count -= 1
        self.inflight_bytes -= frame_bytes
        return bool(self._waiters) and self._frame_count < self._frames_max

    def forget_sent(self) -> None:
        """The connection is gone."""
        self._frame_count = self.inflight_bytes = 0


def complete_puts(waiters: list[PutWaiter], payload: bytes) -> None:
    """Give each put of a frame its part of the reply."""
    results = decode_put_reply(payload, sum([waiter.record_count for waiter in waiters]))
    start = 0
    for call, record_count, _ in waiters:
        if not call.done():
            call.set_result(results[start : start + record_count])
        start += record_count


def fail_puts(waiters: list[PutWaiter], error: StoreError) -> None:
    for waiter in waiters:
        if not waiter.call.done():
            waiter.call.set_exception(error)
