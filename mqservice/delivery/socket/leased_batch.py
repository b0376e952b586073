"""The messages pushed in one frame, kept as columns until a part of them is settled.

A consumer mostly acks a frame as it came. Then no message needs to be looked at by itself: not one
object is made for it, and none is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, cast

from mqservice.store import Received


class Delivery(NamedTuple):
    """What must be remembered of a message that the client holds.

    ``topic`` is the engine's, which is another one once a delivery has failed.
    """

    topic: str
    queue_id: int
    lease_generation: int
    queue_offset: int
    body_bytes: int
    lease_until_ms: int
    extend_until_ms: int  # how long its lease is extended by itself; 0: never
    attempt: int


# As ``Delivery(*fields)``, without its function in Python.
_delivery: Final = cast("Callable[[tuple[Any, ...]], Delivery]", partial(tuple.__new__, Delivery))


class LeasedBatch:
    """Messages of one receive, in its order. Times are wall clock, ms.

    ``tags`` follow each other; ``body_bytes`` is the sum.
    """

    __slots__ = (
        "_attempts",
        "_queue_ids",
        "_queue_offsets",
        "_sizes",
        "_topics",
        "body_bytes",
        "extend_until_ms",
        "lease_generation",
        "lease_until_ms",
        "tags",
    )

    def __init__(self, first_tag: int, received: Received, extend_until_ms: int) -> None:
        head, columns = received.head, received.columns
        self.tags = range(first_tag, first_tag + received.count)
        self.lease_generation = head.lease_generation
        self.lease_until_ms = head.lease_until_ms
        self.extend_until_ms = extend_until_ms
        self._attempts = head.attempts
        self._topics: Sequence[str]
        self._queue_ids: Sequence[int]
        self._queue_offsets: Sequence[int]
        if columns is not None:
            self._topics = [columns.topic] * received.count
            self._queue_ids, self._queue_offsets = columns.queue_ids, columns.queue_offsets
        else:
            records = received.records
            self._topics = [record.topic for record in records]
            self._queue_ids = [record.queue_id for record in records]
            self._queue_offsets = [record.queue_offset for record in records]
        self._sizes = received.body_sizes
        self.body_bytes = sum(self._sizes)

    def deliveries(self) -> Iterator[tuple[int, Delivery]]:
        """Each message by itself, with its tag."""
        fields = zip(
            self._topics,
            self._queue_ids,
            repeat(self.lease_generation),
            self._queue_offsets,
            self._sizes,
            repeat(self.lease_until_ms),
            repeat(self.extend_until_ms),
            self._attempts,
        )
        return zip(self.tags, map(_delivery, fields), strict=True)

    def places(self) -> Iterable[tuple[str, int, Sequence[int]]]:
        """Topic, queue id, offsets in the queue, for each queue that it has messages of."""
        topics, queue_ids, offsets = self._topics, self._queue_ids, self._queue_offsets
        count = len(offsets)
        if topics.count(topics[0]) == count and queue_ids.count(queue_ids[0]) == count:  # mostly
            return [(topics[0], queue_ids[0], offsets)]
        found: dict[tuple[str, int], list[int]] = {}
        for topic, queue_id, offset in zip(topics, queue_ids, offsets, strict=True):
            found.setdefault((topic, queue_id), []).append(offset)
        return [(*queue, some) for queue, some in found.items()]
