"""One queue of the schedule topic, and how far its messages have been delivered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from storage_engine.delivery.progress import Progress
from storage_engine.log.commit_log import CommitLog
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.reader.property_values import Values, property_value, property_values
from storage_engine.records.schedule_topic import REAL_TOPIC

REAL_TOPIC_NAME: Final = REAL_TOPIC.encode()
TOPIC_BYTES_MAX: Final = 127


def real_topics(commit_log: CommitLog, physical_offsets: NDArray[np.int64]) -> Values:
    """See ``property_values``."""
    return property_values(commit_log, physical_offsets, [(REAL_TOPIC_NAME, TOPIC_BYTES_MAX)])[0]


def real_topic(properties: bytes) -> bytes:
    """The topic that a scheduled record is for; empty when it does not say so."""
    return property_value(properties, REAL_TOPIC_NAME) or b""


class Source:
    """See the module's docstring. ``moving``: queue offsets of messages on their way."""

    __slots__ = ("moving", "progress", "queue")

    def __init__(self, queue: ConsumeQueue, progress: Progress) -> None:
        self.queue = queue
        self.progress = progress
        self.moving: set[int] = set()

    @property
    def start(self) -> int:
        """The first message that may still be to come."""
        return max(self.progress.consumer_offset, self.queue.min_offset)

    @property
    def end(self) -> int:
        return self.queue.max_offset

    @property
    def pending_count(self) -> int:
        """Messages that are still to come."""
        start, settled = self.start, self.progress.settled
        above = settled.count
        if self.progress.consumer_offset < start:
            above = settled.count_in(start, self.queue.max_offset)
        return self.queue.max_offset - start - above

    def is_pending(self, queue_offset: int) -> bool:
        progress = self.progress
        return (
            queue_offset >= progress.consumer_offset
            and queue_offset >= self.queue.min_offset
            and queue_offset not in self.moving
            and not (progress.settled.count and queue_offset in progress.settled)
            and not (progress.skipped.count and queue_offset in progress.skipped)
        )

    def due_times(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """See ``ConsumeQueue.tag_fields``; what is due when is what a unit here says instead."""
        return self.queue.tag_fields(max(start, self.queue.min_offset), stop)
