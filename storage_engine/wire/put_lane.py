"""Puts of one durability on their way to the engine: what waits to be sent, and what was sent.

    put ──▶ [PutLane local] ────── one frame at a time ──▶ engine ── disk ──▶ reply
    put ──▶ [PutLane replicated] ─ up to eight frames ───▶ engine ── replicated log ──▶ reply

A frame is answered when all of it is as durable as its topics want. So puts that wait for the log
share no frame with others, and stand in nobody's way.
"""

from __future__ import annotations

from typing import Final

from storage_engine.wire.put_coalescer import PutCoalescer

# The engine would let the next puts wait for its running sync anyway: sent together afterwards they
# cost one frame, one sync and one reply.
LOCAL_FRAMES_MAX: Final = 1
# A log has several entries in flight, and takes ten times as long as a disk.
REPLICATED_FRAMES_MAX: Final = 8


class PutLane:
    """See the module's docstring."""

    __slots__ = ("frame_count", "frames_max", "inflight_bytes", "is_sending", "waiting")

    def __init__(self, frames_max: int, frame_bytes: int) -> None:
        self.frames_max = frames_max
        self.waiting = PutCoalescer(frame_bytes)
        self.frame_count = 0  # sent and not answered
        self.inflight_bytes = 0  # of them
        self.is_sending = False  # what waits is sent in this turn of the loop

    @property
    def may_send(self) -> bool:
        """False while enough is under way and little waits: more will come along with it."""
        return self.frame_count < self.frames_max

    def forget_sent(self) -> None:
        """The connection is gone."""
        self.frame_count = self.inflight_bytes = 0
