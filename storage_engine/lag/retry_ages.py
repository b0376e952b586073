"""When the oldest message that waits in a group's retry queue was first stored in its topic.

    records of the retry queue ── FIRST_STORED_MS of each, read once ──▶ [RetryAges] ── oldest

Retries come in the order of their delays, so the first of the queue need not be the oldest. Of each
1,024 messages the times are kept, 8 bytes each; of those far behind the consumer offset, which
nobody settles yet, only the least. A call reads some thousand messages; what is left is read in
later turns of the loop, and until then the age is unknown. Loop thread only.
"""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np

from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.subscription import ProcessQueue
from storage_engine.reader.property_values import property_value, property_values
from storage_engine.records.record_parts import store_timestamp_of
from storage_engine.records.retry_record import (
    FIRST_DELIVERY_MS,
    FIRST_STORED_MS,
    first_stored_ms,
)

_BLOCK_BITS: Final = 10
_BLOCK_UNITS: Final = 1 << _BLOCK_BITS
_SLICE: Final = 2_048  # messages read by a call; 1 to 3 ms
_ALONE_COST: Final = 16  # of reading a record by itself, in messages
_ALONE_MAX: Final = 16  # so few are read one by one, which is quicker
_WHOLE_BLOCKS_MAX: Final = 8  # from the consumer offset on, whose times are kept
_PROPERTY: Final = FIRST_STORED_MS.encode(), 15


class _Block:
    """Times of the messages from ``first`` on; of one that is far off only ``least_ms``."""

    __slots__ = ("end", "first", "least_ms", "stored")

    def __init__(self, first: int) -> None:
        self.first = self.end = first
        self.least_ms: int | None = None
        self.stored = array("q")

    def add(self, times: list[int]) -> None:
        self.stored.extend(times)
        self.end += len(times)
        least_ms = min(times)
        self.least_ms = least_ms if self.least_ms is None else min(self.least_ms, least_ms)

    @property
    def is_whole(self) -> bool:
        return len(self.stored) == self.end - self.first


class RetryAges:
    """See the module's docstring. One for each retry queue that somebody has asked about."""

    __slots__ = ("_blocks", "_commit_log", "_has_turn", "_later", "_process_queue", "_reset_count")

    def __init__(self, process_queue: ProcessQueue, parts: EngineParts) -> None:
        self._process_queue = process_queue
        self._commit_log = parts.commit_log
        self._later = parts.loop.call_soon
        self._blocks: dict[int, _Block] = {}
        self._reset_count = 0
        self._has_turn = False

    def oldest_ms(self) -> int | None:
        """Of the messages that are not settled; None without any, or while it is not known."""
        if not self._read_on():
            if not self._has_turn:
                self._has_turn = True
                self._later(self._turn)
            return None
        low, high = self._span()
        known = [
            oldest_ms
            for block in self._blocks.values()
            if (oldest_ms := self._oldest_in(block, low, high)) is not None
        ]
        return min(known, default=None)

    def _turn(self) -> None:
        self._has_turn = False
        process_queue = self._process_queue
        if process_queue.owner.retry is process_queue and not self._read_on():
            self._has_turn = True
            self._later(self._turn)

    def _span(self) -> tuple[int, int]:
        return self._process_queue.first_readable, self._process_queue.queue.max_offset

    def _read_on(self) -> bool:
        """Read a slice of what is not known; whether all is known then."""
        low, high = self._span()
        progress = self._process_queue.progress
        if progress.reset_count != self._reset_count:
            self._reset_count = progress.reset_count
            self._blocks.clear()
        first_block, left = low >> _BLOCK_BITS, _SLICE
        for number in [number for number in self._blocks if number < first_block]:
            del self._blocks[number]
        for number in range(first_block, ((high - 1) >> _BLOCK_BITS) + 1 if high > low else 0):
            base = number << _BLOCK_BITS
            end = min(base + _BLOCK_UNITS, high)
            is_near = number < first_block + _WHOLE_BLOCKS_MAX
            block = self._blocks.get(number)
            if block is None or (is_near and not block.is_whole):
                block = self._blocks[number] = _Block(max(base, low))
            while block.end < end:
                if left <= 0:
                    return False
                left -= self._read(block, end)
            if not is_near and block.end == base + _BLOCK_UNITS:
                block.stored = array("q")
        return True

    def _read(self, block: _Block, end: int) -> int:
        """Read messages of a block, all or some; what that has cost, in messages."""
        queue, start = self._process_queue.queue, block.end
        units = list(queue.units(start, end - start))
        values: list[bytes | None] = [None] * len(units)
        if len(units) > _ALONE_MAX:
            physical_offsets = queue.physical_offsets(start, end)
            (values,) = property_values(self._commit_log, physical_offsets, [_PROPERTY])
        cost, times = len(units), list[int]()
        for (physical_offset, record_bytes, _), value in zip(units, values, strict=True):
            if value is not None and value.isdigit():
                times.append(int(value))
                continue
            if cost >= 2 * _SLICE:
                break
            cost += _ALONE_COST
            times.append(self._read_alone(physical_offset, record_bytes))
        block.add(times)
        return cost

    def _read_alone(self, physical_offset: int, record_bytes: int) -> int:
        known = self._commit_log.times_in_bucket(physical_offset)
        if known is not None:
            return known[0]  # nobody waits for the bucket to learn an age
        content = self._commit_log.properties(physical_offset, record_bytes)
        names = (FIRST_STORED_MS.encode(), FIRST_DELIVERY_MS.encode())
        properties = {name: property_value(content or b"", name) or b"" for name in names}
        head = self._commit_log.read_many([(physical_offset, record_bytes)])
        return first_stored_ms(properties, store_timestamp_of(head))

    def _oldest_in(self, block: _Block, low: int, high: int) -> int | None:
        if not block.is_whole:
            return block.least_ms
        process_queue = self._process_queue
        start, oldest_ms = max(block.first, low), None
        end = min(block.end, high)
        times = np.frombuffer(block.stored, np.int64)
        while (start := process_queue.progress.first_unsettled(start, end)) < end:
            stop = process_queue.progress.settled.first_from(start, end)
            least_ms = int(times[start - block.first : stop - block.first].min())
            oldest_ms = least_ms if oldest_ms is None else min(oldest_ms, least_ms)
            start = stop
        return oldest_ms
