"""What clients asked, what they were told, and when: the history that is judged afterwards.

    producers, consumers ── Send, Delivery, Settle ──▶ [History] ──▶ history_checker

A send has one of three outcomes. *acked*: answered with a place. *refused*: answered with the
promise that nothing is stored. *unknown*: anything else; the message may exist or not. Times are
the driver's monotonic clock, nanoseconds.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from pathlib import Path
from typing import NamedTuple

Queue = tuple[str, int]


class Outcome(enum.StrEnum):
    """See the module's docstring."""

    ACKED = "acked"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Send(NamedTuple):
    """One message of one put. ``queue_offset`` is -1 unless acked."""

    producer: str
    sequence: int
    queue: Queue
    digest: str
    outcome: Outcome
    queue_offset: int
    begun_ns: int
    ended_ns: int


class Delivery(NamedTuple):
    """One message handed to a consumer of the one group."""

    queue: Queue
    queue_offset: int
    digest: str
    at_ns: int


class Settle(NamedTuple):
    """One ack of one message. ``is_answered``: with success."""

    queue: Queue
    queue_offset: int
    is_answered: bool
    ended_ns: int


class Served(NamedTuple):
    """One message that can be read at the end."""

    queue: Queue
    queue_offset: int
    digest: str


@dataclasses.dataclass(slots=True)
class History:
    """All that happened. Several threads append: that is atomic under the interpreter lock."""

    sends: list[Send] = dataclasses.field(default_factory=list)
    deliveries: list[Delivery] = dataclasses.field(default_factory=list)
    settles: list[Settle] = dataclasses.field(default_factory=list)
    served: list[Served] = dataclasses.field(default_factory=list)

    def count(self, outcome: Outcome) -> int:
        return sum(send.outcome is outcome for send in self.sends)

    def write(self, path: Path) -> None:
        """One JSON line for each event, to be judged again later."""
        with path.open("w") as file:
            for kind in ("sends", "deliveries", "settles", "served"):
                for event in getattr(self, kind):
                    file.write(json.dumps([kind, *event]) + "\n")


def digest_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
