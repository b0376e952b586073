"""Messages that one member has for a time, and whether its word about one counts."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage_engine.delivery.process_queue import ProcessQueue


class Verdict(enum.Enum):
    """What becomes of an ack: SETTLED is one of a message that is settled already, no failure."""

    SETTLE = enum.auto()
    SETTLED = enum.auto()
    MOVED = enum.auto()
    EXPIRED = enum.auto()


class Lease:
    """Messages given out together to one member. ``count`` of them are still in flight.

    ``parts`` says which, until the lease ends; those settled meanwhile are in it too.
    ``began_ms``: wall clock.
    """

    __slots__ = ("began_ms", "count", "generation", "member_id", "parts")

    def __init__(self, generation: int, member_id: str, began_ms: int = 0) -> None:
        self.generation = generation
        self.member_id = member_id
        self.began_ms = began_ms
        self.count = 0
        self.parts: list[tuple[ProcessQueue, list[int]]] = []
