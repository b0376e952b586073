"""What clients of the service saw, in the order in which it happened; times are monotonic seconds.

clients, nemesis ── events ──▶ [History] ──▶ judge
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

KILL_STEP_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Event:
    at: float = field(default_factory=time.monotonic, kw_only=True)


@dataclass(frozen=True, slots=True)
class Offered(Event):
    """A producer is about to send; ``sequence`` counts its messages. ``delay_s``: it wants them to
    come that much later, so that their order says nothing.
    """

    body: str
    producer: str
    sequence: int
    message_group: str | None = None
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Accepted(Event):
    """The service said that it has the message, and where."""

    body: str
    queue: int
    offset: int


@dataclass(frozen=True, slots=True)
class Refused(Event):
    """The service said that it has nothing of the message."""

    body: str


@dataclass(frozen=True, slots=True)
class Delivered(Event):
    """A consumer got it. ``batch``: which answer or frame, ``lease_ms`` how long from then on it is
    its own.

    ``late_s``: how long before that its lease had begun, where the answer says so.
    """

    body: str
    consumer: str
    batch: int
    queue: int
    offset: int
    attempt: int
    lease_ms: int
    late_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AckBegun(Event):
    body: str
    consumer: str


@dataclass(frozen=True, slots=True)
class Acked(Event):
    """The service confirmed the ack."""

    body: str
    consumer: str


@dataclass(frozen=True, slots=True)
class GivenBack(Event):
    """A nack was sent, or the consumer went away with the message; confirmed or not."""

    body: str
    consumer: str


@dataclass(frozen=True, slots=True)
class Killed(Event):
    """A process of the service was killed."""

    process: str


def killed_within(process: str, since_s: float, until_s: float) -> list[Killed]:
    """It ended and was replaced somewhere between, so that each moment may have been the one."""
    steps = int((until_s - since_s) / KILL_STEP_S) + 1
    return [Killed(process, at=since_s + KILL_STEP_S * step) for step in range(steps)]


@dataclass(frozen=True, slots=True)
class OwnerLost(Event):
    """A shard lost its owner, and had the next one by ``until``. Leases of the old one are gone,
    and what was settled in its last moments comes again.
    """

    shard: str
    until: float


@dataclass(frozen=True, slots=True)
class Cut(Event):
    """Nothing, or only one way, passed between clients and service; until then what had been sent
    before may have come late. What a client saw meanwhile says little of when it happened.
    """

    until: float


class History:
    """Thread-safe."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._lock = threading.Lock()

    def add(self, event: Event) -> None:
        with self._lock:
            self.events.append(event)

    def of(self, kind: type[Event]) -> list[Event]:
        with self._lock:
            return [event for event in self.events if type(event) is kind]
