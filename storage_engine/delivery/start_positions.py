"""Where a group begins on queues that it has never read.

by its settings when it first subscribes to a topic, else where the queue begins: it was added
later, and all of it is the group's
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.wire.groups import GroupConfig, StartFrom

StartOf = Callable[[ConsumeQueue], int]
OffsetAtTime = Callable[[ConsumeQueue, int], int]  # queue, epoch ms


def min_offset_of(queue: ConsumeQueue) -> int:
    """All that can be read."""
    return queue.min_offset


def start_of(group: GroupConfig, offset_at_time: OffsetAtTime) -> StartOf:
    """By the group's settings."""
    match group.start_from:
        case StartFrom.EARLIEST:
            return min_offset_of
        case StartFrom.LATEST:
            return lambda queue: queue.max_offset
        case StartFrom.TIMESTAMP:
            return lambda queue: offset_at_time(queue, group.start_ms)


def start_at(positions: Mapping[int, int], otherwise: StartOf) -> StartOf:
    """At these positions, by queue id; on other queues ``otherwise``."""
    return partial(_position_or, positions, otherwise) if positions else otherwise


def _position_or(positions: Mapping[int, int], otherwise: StartOf, queue: ConsumeQueue) -> int:
    position = positions.get(queue.queue_id)
    return otherwise(queue) if position is None else position
