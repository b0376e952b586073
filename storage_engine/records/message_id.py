"""IDs that producers give their messages: unique without coordination.

    01 | node 6 bytes | pid 2 | seconds since 2021-01-01 UTC 4 | sequence 4

written as 34 upper-case hex digits.

Form of RocketMQ's gRPC clients. The node part is random for each process instead of a MAC address,
so that two containers with the same address and pid still differ.
"""

from __future__ import annotations

import itertools
import os
from typing import Final

from storage_engine.clock import SystemClock

_EPOCH_S: Final = 1_609_459_200  # 2021-01-01T00:00:00Z
_clock = SystemClock()


class _Sequence:
    """What the ids of this process have in common; made anew after a fork."""

    def __init__(self) -> None:
        self.head = f"01{os.urandom(6).hex()}{os.getpid() & 0xFFFF:04x}".upper()
        self.counter = itertools.count()
        self.of_second = -1, self.head  # the second of the last id, and what such ids begin with


_sequence = _Sequence()


def _restart_sequence() -> None:
    global _sequence
    _sequence = _Sequence()


os.register_at_fork(after_in_child=_restart_sequence)


def new_message_id(now_ms: int | None = None) -> str:
    """34 hex digits, different from every other one of any process. ``now_ms``: the time of day,
    where the caller knows it.
    """
    sequence = _sequence
    seconds = (_clock.now_ms() if now_ms is None else now_ms) // 1_000
    second, head = sequence.of_second
    if second != seconds:
        head = f"{sequence.head}{seconds - _EPOCH_S:08X}"
        sequence.of_second = seconds, head
    return f"{head}{next(sequence.counter) & 0xFFFF_FFFF:08X}"
