"""One group on one topic: its queues, and the receives that wait for them.

What waits is answered in order of arrival; ``delivery.py`` decides when.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from storage_engine.delivery.process_queue import ProcessQueue
from storage_engine.wire.protocol import ReceiveRequest


class Delivered(NamedTuple):
    """What a receive got. ``records`` are (physical_offset, record_bytes); attempts run along."""

    lease_generation: int
    lease_until_ms: int
    records: list[tuple[int, int]]
    attempts: list[int]


class Parked:
    """A receive that waits. ``answer`` is called exactly once, unless ``cancel`` came first."""

    __slots__ = ("answer", "is_done", "request", "subscription")

    def __init__(
        self,
        request: ReceiveRequest,
        subscription: Subscription,
        answer: Callable[[Delivered], None],
    ) -> None:
        self.request = request
        self.subscription = subscription
        self.answer = answer
        self.is_done = False


class Subscription:
    """One group on one topic: its queues, and who waits for them.

    ``queues`` are the topic's, by queue id; ``retry`` is the queue of the group's retry topic for
    messages of this topic; ``sources`` are all of them.
    """

    __slots__ = ("group", "parked", "queues", "retry", "rotor", "sources")

    def __init__(self, group: str) -> None:
        self.group = group
        self.queues: list[ProcessQueue] = []
        self.retry: ProcessQueue | None = None
        self.sources: list[ProcessQueue] = []
        self.parked: OrderedDict[Parked, None] = OrderedDict()  # in order of arrival
        self.rotor = 0  # the queue to look at first, so that none starves
