"""Where records of a topic go, and what is awaited before they are acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from storage_engine.errors import QueueNotFound, StoreError
from storage_engine.queues.consume_queue import ConsumeQueue

# What is awaited before a put is answered. Bits: those of a frame's records add up.
BUFFERED: Final = 0
SYNCED: Final = 1
REPLICATED: Final = 2 | SYNCED


class Route(NamedTuple):
    """Where records of a topic go. ``queues`` may be longer than what is writable.

    ``awaits``: one of BUFFERED, SYNCED, REPLICATED.
    """

    queues: list[ConsumeQueue]
    writable_count: int
    awaits: int
    is_schedule: bool
    topic_hash: int  # for the key index
    refusal: int = QueueNotFound.code  # of a record for a queue that is not writable


class Confirmation(Protocol):
    """Who knows when a put is as durable as its topic wants: the disk, or the replicated log."""

    @property
    def confirmed_offset(self) -> int:
        """The log below it is."""

    def wait(self, end_offset: int, done: Callable[[StoreError | None], None]) -> None:
        """Call ``done`` once the log is, below ``end_offset``; or with why nobody knows."""
