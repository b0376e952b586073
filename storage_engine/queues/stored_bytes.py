"""The bytes of all readable records of consume queues, without a counter on the put path.

    units appended since the last look ──▶ [StoredBytes] ◀── min_offset that was raised since
                                               │
                                               └──▶ bytes of a queue

A look reads the units that are new since the one before, 20 bytes a message, and forgets those that
can be read no more. Of each 4,096 units the sum is kept, because the units of what has expired may
be gone by the next look: 8 bytes for 4,096 messages. After a start everything is read once, a part
with each look. Nothing is written down. Loop thread only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.queues.consume_queues import ConsumeQueues

BLOCK_UNITS: Final = 4_096
SCAN_UNITS_MAX: Final = 262_144  # read by one look: 5 MB, some milliseconds


class StoredBytes:
    """See the module's docstring. ``start_scan`` a look, then ask ``measure``."""

    def __init__(self, queues: ConsumeQueues, look_units_max: int = SCAN_UNITS_MAX) -> None:
        self._queues = queues
        self._look_units_max = look_units_max
        self._units_left = look_units_max
        self._known: dict[bytes, list[_Counted | None]] = {}

    def start_scan(self) -> None:
        """A new look, with all of its units to read."""
        self._units_left = self._look_units_max
        if len(self._known) > len(self._queues.by_topic):
            gone = self._known.keys() - self._queues.by_topic.keys()
            for topic in gone:
                del self._known[topic]

    @property
    def is_exhausted(self) -> bool:
        """Whether this look has left units unread: what it told is too little."""
        return self._units_left < 0

    def measure(self, topic: bytes) -> int:
        """Bytes of all queues of a topic; 0 when there is none of that name."""
        queues = self._queues.by_topic.get(topic)
        if queues is None:
            return 0
        known = self._known.get(topic)
        if known is None:
            known = self._known[topic] = []
        if len(known) != len(queues):
            del known[len(queues) :]
            known += [None] * (len(queues) - len(known))
        total_bytes = 0
        for index, queue in enumerate(queues):
            low, high = queue.min_offset, queue.max_offset
            counted = known[index]
            if counted is None or counted.queue is not queue:
                if low >= high:
                    continue
                counted = known[index] = _Counted(queue)
            if counted.low != low or counted.high != high:
                self._units_left -= counted.follow(self._units_left)
            total_bytes += counted.total_bytes
        return total_bytes


class _Counted:
    """The units [low, high) of a queue were read; ``blocks`` are the sums of those they are in."""

    __slots__ = ("blocks", "high", "low", "queue", "total_bytes")

    def __init__(self, queue: ConsumeQueue) -> None:
        self.queue = queue
        self.low = self.high = queue.min_offset
        self.blocks: deque[int] = deque()
        self.total_bytes = 0

    def follow(self, units_max: int) -> int:
        """Go on to what can be read now; how many units that cost, above ``units_max`` when more
        are left.
        """
        queue = self.queue
        low = queue.min_offset
        high = max(queue.max_offset, low)
        if low >= self.high or low < self.low or high < self.high:
            self.low = self.high = low
            self.blocks.clear()
            self.total_bytes = 0
        read_count = self._forget_below(low) if low > self.low else 0
        stop = min(high, self.high + max(0, units_max - read_count))
        for at, sizes in queue.size_fields(self.high, stop):
            position = at
            for part in _parts(at, len(sizes)):
                self._add(position, int(sizes[position - at : position - at + part].sum()))
                position += part
        read_count += stop - self.high
        self.high = stop
        return read_count if stop == high else max(units_max, 0) + 1

    def _forget_below(self, low: int) -> int:
        for _ in range(low // BLOCK_UNITS - self.low // BLOCK_UNITS):
            self.total_bytes -= self.blocks.popleft()
        self.low = low
        # What is left of the block in which the queue begins now is read again.
        end = min((low // BLOCK_UNITS + 1) * BLOCK_UNITS, self.high)
        left_bytes = sum(int(sizes.sum()) for _, sizes in self.queue.size_fields(low, end))
        self.total_bytes += left_bytes - self.blocks[0]
        self.blocks[0] = left_bytes
        return end - low

    def _add(self, position: int, byte_count: int) -> None:
        if position // BLOCK_UNITS - self.low // BLOCK_UNITS == len(self.blocks):
            self.blocks.append(byte_count)
        else:
            self.blocks[-1] += byte_count
        self.total_bytes += byte_count


def _parts(start: int, count: int) -> Iterable[int]:
    """``count`` units from ``start`` on, cut where blocks end."""
    while count:
        part = min(count, BLOCK_UNITS - start % BLOCK_UNITS)
        yield part
        start += part
        count -= part
