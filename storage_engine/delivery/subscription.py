"""One group on one topic: its queues, and the receives that wait for them.

What waits is answered in order of arrival; ``delivery.py`` decides when.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.process_queue import ProcessQueue
from storage_engine.queues.consume_queue import ConsumeQueue
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
    """One group on one topic: its queues, and who waits for them."""

    __slots__ = ("parked", "queues", "rotor")

    def __init__(self, queues: list[ProcessQueue]) -> None:
        self.queues = queues
        self.parked: OrderedDict[Parked, None] = OrderedDict()  # in order of arrival
        self.rotor = 0  # the queue to look at first, so that none starves


def add_queues(
    subscription: Subscription,
    group: str,
    topic: str,
    queues: list[ConsumeQueue],
    offsets: ConsumerOffsets,
    span_max: int,
    *,
    at_end: bool,
) -> list[ConsumeQueue]:
    """Let a group read the queues of a topic that it does not read yet; those queues.

    Its positions there are fixed now, at the ends of the queues or where they begin. Raises
    ``DiskFull``, ``SyncFailed``, with nothing changed.
    """
    positions = {
        queue.queue_id: queue.max_offset if at_end else queue.min_offset
        for queue in queues
        if offsets.find(group, topic, queue.queue_id) is None
    }
    if positions:
        offsets.begin(group, topic, positions)
    new = queues[len(subscription.queues) :]
    for queue in new:
        progress = offsets.find(group, topic, queue.queue_id)
        assert progress is not None
        subscription.queues.append(ProcessQueue(queue, progress, span_max))
    return new
