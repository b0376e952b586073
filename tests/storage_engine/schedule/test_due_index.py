"""The due index against a sorted list: arrivals, looks, deliveries, cancels, restarts, jumps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from storage_engine.schedule.due_index import AHEAD_MS, DueIndex, Key
from tests.sizes import sized

BLOCK_UNITS = 4
NEAR_MAX = 6
QUEUES = 2
# About the end of what a look sees, and many at the same time.
delays = st.one_of(
    st.sampled_from([0, 1, 5, AHEAD_MS // 2, AHEAD_MS - 1, AHEAD_MS, AHEAD_MS + 1]),
    st.integers(-1_000, 3 * AHEAD_MS),
)


class ListedQueue:
    """Due times in the order they came; those done with."""

    def __init__(self) -> None:
        self.due: list[int] = []
        self.done: set[int] = set()
        self.first = 0

    @property
    def start(self) -> int:
        start = self.first
        while start in self.done:
            start += 1
        return start

    @property
    def end(self) -> int:
        return len(self.due)

    def is_pending(self, queue_offset: int) -> bool:
        return queue_offset >= self.first and queue_offset not in self.done

    def due_times(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        start = max(start, self.first)
        for first in range(start, stop, 3):  # as files of three units would give it
            yield first, np.array(self.due[first : min(first + 3, stop)], np.int64)

    def pending(self) -> set[int]:
        return {at for at in range(self.first, self.end) if at not in self.done}


class DueMachine(RuleBasedStateMachine):
    """Whatever happens, what is due comes out in order, each once, and little is in memory."""

    @initialize(counts=st.lists(st.lists(delays, max_size=30), min_size=QUEUES, max_size=QUEUES))
    def start(self, counts: list[list[int]]) -> None:
        self.now_ms = 1_000_000
        self.queues = [ListedQueue() for _ in range(QUEUES)]
        for queue, due in zip(self.queues, counts, strict=True):
            queue.due = [self.now_ms + delay for delay in due]
        self._open()

    def _open(self) -> None:
        self.index = DueIndex(near_max=NEAR_MAX, block_units=BLOCK_UNITS)
        for queue_id, queue in enumerate(self.queues):
            self.index.follow(queue_id, queue)

    @rule(queue_id=st.integers(0, QUEUES - 1), due=st.lists(delays, min_size=1, max_size=12))
    def arrive(self, queue_id: int, due: list[int]) -> None:
        self.queues[queue_id].due += [self.now_ms + delay for delay in due]
        self.index.arrived(queue_id)

    @rule(by_ms=st.integers(0, AHEAD_MS), units=st.sampled_from([1, 4, 100]))
    def look(self, by_ms: int, units: int) -> None:
        self.now_ms += by_ms
        self.index.look_ahead(self.now_ms, units)

    @rule(by_ms=st.sampled_from([-5_000, -AHEAD_MS]))
    def clock_goes_back(self, by_ms: int) -> None:
        self.now_ms += by_ms

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        queue = self.queues[data.draw(st.integers(0, QUEUES - 1))]
        if queue.pending():
            queue.done.add(data.draw(st.sampled_from(sorted(queue.pending()))))

    @rule(queue_id=st.integers(0, QUEUES - 1), count=st.integers(1, 10))
    def retention_takes_the_first(self, queue_id: int, count: int) -> None:
        queue = self.queues[queue_id]
        queue.first = min(queue.start + count, queue.end)

    @rule(count=st.integers(1, 40), puts_back=st.booleans())
    def deliver(self, count: int, puts_back: bool) -> None:
        """What comes out is the first of what is due; when nothing does, nothing is."""
        while self.index.look_ahead(self.now_ms, 1_000):
            pass
        for _ in range(count):
            key = self._pop_due()
            expected = self._due()
            if key is None:
                while self.index.look_ahead(self.now_ms, 1_000):
                    pass
                key = self._pop_due()
            assert key == (min(expected) if expected else None)
            if key is None:
                return
            if puts_back:
                self.index.put_back([key])
                return
            self.queues[key[1]].done.add(key[2])

    def _pop_due(self) -> Key | None:
        while taken := self.index.take(self.now_ms, 1):
            (key,) = taken
            if self.queues[key[1]].is_pending(key[2]):
                return key
        return None

    def _due(self) -> list[Key]:
        return [
            (queue.due[at], queue_id, at)
            for queue_id, queue in enumerate(self.queues)
            for at in queue.pending()
            if queue.due[at] <= self.now_ms
        ]

    @rule()
    def restart(self) -> None:
        self._open()

    @invariant()
    def memory_is_bounded(self) -> None:
        if hasattr(self, "index"):
            # What a queue got at once may stand in the heap until the next arrival.
            assert self.index.near_count <= 3 * NEAR_MAX + 12


TestDueIndex = pytest.mark.sized(DueMachine.TestCase)
TestDueIndex.settings = settings(
    max_examples=sized(80, torture=1_000), stateful_step_count=40, deadline=None
)


def test_ten_million_messages_take_little_memory_and_come_in_order() -> None:
    rng = np.random.default_rng(7)
    due = rng.integers(0, 365 * 86_400_000, 10_000_000)

    class Far:
        start, end = 0, len(due)

        def is_pending(self, queue_offset: int) -> bool:
            return True

        def due_times(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
            yield start, due[start:stop]

    index = DueIndex()
    index.follow(0, Far())
    now_ms, found = 0, list[Key]()
    for _ in range(120):  # an hour, half a minute at a time
        now_ms += 30_000
        while index.look_ahead(now_ms, 200_000):
            pass
        while index._look is not None:
            index.look_ahead(now_ms, 200_000)
        assert index.near_count < 1_000
        found += index.take(now_ms, 10_000)
    expected = sorted((int(due[at]), 0, int(at)) for at in np.flatnonzero(due <= now_ms))
    assert found == expected
    assert len(found) > 500
