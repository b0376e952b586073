"""Which messages are due next: the soonest in memory, all of them in the consume queues.

    units (due time of each), as they came ──▶ [DueIndex] ── peek, take ─▶ in order of due time

      near      messages before the frontier, in order; at most some ``near_max`` of them
      far       for each block of units the earliest due time behind the frontier, or none

The consume queues of the schedule topic are the index on disk: they are derived from the log,
rebuilt with it, and each unit says when its message is due. A message is known by its ``Key``
(due time, queue, offset). A look ahead moves the frontier: it reads only the blocks in which
something comes before the new one. Where that is too much for the memory, the frontier moves less
far. So 10 million messages take 20 KB beside what is near, however they are mixed. Loop thread
only.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

BLOCK_UNITS: Final = 4_096
NEAR_MAX: Final = 100_000  # about 14 MB
AHEAD_MS: Final = 60_000
_NEVER: Final = 1 << 62

# One message, in order of delivery: when it is due (ms), queue id, queue offset; a plain tuple
# since there are very many.
Key = tuple[int, int, int]


class DueQueue(Protocol):
    """A queue of messages that wait."""

    @property
    def start(self) -> int:
        """All messages below it are done with."""

    @property
    def end(self) -> int: ...

    def is_pending(self, queue_offset: int) -> bool: ...

    def due_times(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """(queue offset of the first, due time of each) of the messages in ``[start, stop)``, in
        pieces.
        """


class _Followed:
    """A queue and what is known of its blocks; ``far[0]`` is that of block ``first_block``.

    Messages below ``seen`` have been looked at when they came, or will be by their block.
    """

    __slots__ = ("far", "first_block", "queue", "seen")

    def __init__(self, queue: DueQueue, block_units: int) -> None:
        self.queue = queue
        self.seen = queue.end
        self.first_block = queue.start // block_units
        block_count = -(-self.seen // block_units) - self.first_block
        self.far = [0] * max(block_count, 0)  # not known: to be read by the first look


class _Lookahead:
    """A look ahead that is under way: blocks to read, and what was found before ``until``."""

    __slots__ = ("blocks", "ends", "found", "until")

    def __init__(self, until: Key, ends: dict[int, int]) -> None:
        self.until = until
        self.ends = ends  # messages from there on came since: ``arrived`` has seen them
        self.blocks: deque[tuple[int, int]] = deque()  # (queue, block)
        self.found: list[Key] = []


class DueIndex:
    """See the module's docstring. ``near_max`` bounds what is near, twice over while a look ahead
    is under way.
    """

    def __init__(self, *, near_max: int = NEAR_MAX, block_units: int = BLOCK_UNITS) -> None:
        self._near_max = near_max
        self._block_units = block_units
        self._followed: dict[int, _Followed] = {}
        self._frontier: Key = (-_NEVER, 0, 0)
        self._run: list[Key] = []  # what looks have found, the first one last
        self._heap: list[Key] = []  # what came since, and is before the frontier
        self._look: _Lookahead | None = None

    def follow(self, queue_id: int, queue: DueQueue) -> None:
        """Know a queue's messages too; those it has now are found by looking ahead."""
        assert queue_id not in self._followed
        self._cancel_lookahead()
        self._followed[queue_id] = _Followed(queue, self._block_units)
        if self._followed[queue_id].far:
            # What it has may come before all that is near: begin anew, over blocks that are known.
            self._retreat_to((-_NEVER, 0, 0))

    @property
    def near_count(self) -> int:
        """Messages held in memory."""
        return len(self._run) + len(self._heap) + (len(self._look.found) if self._look else 0)

    def arrived(self, queue_id: int) -> None:
        """Take note of what a queue has got since the last time."""
        followed = self._followed[queue_id]
        for first, due_times in followed.queue.due_times(followed.seen, followed.queue.end):
            for queue_offset, due_ms in enumerate(due_times.tolist(), start=first):
                key = (due_ms, queue_id, queue_offset)
                if key < self._frontier:
                    heapq.heappush(self._heap, key)
                elif self._look is not None and key < self._look.until:
                    self._look.found.append(key)
                else:
                    self._put_far(key)
        followed.seen = followed.queue.end
        if len(self._heap) > self._near_max:
            self._cancel_lookahead()
            self._shed()
        self._bound_lookahead()

    # In order ---------------------------------------------------------------------------------

    def peek(self) -> Key | None:
        """The message that is due first; None when none is near. It may be done with by now."""
        run, heap = self._run, self._heap
        if heap and (not run or heap[0] < run[-1]):
            return heap[0]
        return run[-1] if run else None

    def take(self, until_ms: int, count_max: int) -> list[Key]:
        """Remove and return the first messages that are due by then, in order."""
        run, heap, taken = self._run, self._heap, list[Key]()
        bound = (until_ms + 1,)
        if not heap:
            # All stand in order: those that are due are one piece at the end.
            first = max(len(run) - count_max, 0)
            first = bisect_left(run, True, first, key=lambda key: key < bound)
            taken = run[first:][::-1]
            del run[first:]
            return taken
        while len(taken) < count_max:
            if heap and (not run or heap[0] < run[-1]):
                if heap[0] >= bound:
                    break
                taken.append(heapq.heappop(heap))
            elif run and run[-1] < bound:
                taken.append(run.pop())
            else:
                break
        return taken

    def put_back(self, keys: list[Key]) -> None:
        """Have messages again that were taken."""
        for key in keys:
            heapq.heappush(self._heap, key)

    # Looking ahead ----------------------------------------------------------------------------

    def look_ahead(self, now_ms: int, units_max: int) -> bool:
        """Let all that is due soon be near, as far as ``units_max`` units read go.

        True when the look must go on: something that is due now may not be near yet.
        """
        look = self._look
        if look is None:
            is_far = self._frontier[0] > now_ms + AHEAD_MS // 2
            if is_far or len(self._run) + len(self._heap) > self._near_max // 2:
                return False
            look = self._start_lookahead((now_ms + AHEAD_MS, 0, 0))
        while look.blocks and units_max > 0:
            units_max -= self._read(look, *look.blocks.popleft())
            self._bound_lookahead()
        if look.blocks:
            return self._frontier[0] <= now_ms
        self._look = None
        self._frontier = max(self._frontier, look.until)
        self._run += look.found
        self._run.sort(reverse=True)
        return self._frontier[0] <= now_ms and self.peek() is None

    def _start_lookahead(self, until: Key) -> _Lookahead:
        until = max(until, (self._frontier[0] + 1, 0, 0))
        units = self._block_units
        look = self._look = _Lookahead(
            until, {id_: each.seen for id_, each in self._followed.items()}
        )
        for queue_id, followed in self._followed.items():
            gone = min(followed.queue.start // units - followed.first_block, len(followed.far))
            if gone > 0:
                del followed.far[:gone]
            followed.first_block = max(followed.first_block, followed.first_block + gone)
            look.blocks += [
                (queue_id, block)
                for block, due_ms in enumerate(followed.far, start=followed.first_block)
                if due_ms <= until[0]
            ]
        return look

    def _read(self, look: _Lookahead, queue_id: int, block: int) -> int:
        """Find what one block has before ``look.until``; the units read."""
        followed, units = self._followed[queue_id], self._block_units
        queue = followed.queue
        start = max(block * units, queue.start)
        stop = min((block + 1) * units, followed.seen)
        end, low, high = look.ends[queue_id], self._frontier, look.until
        later_ms = _NEVER
        for first, due_times in queue.due_times(start, stop):
            later = due_times[due_times > high[0]]
            if len(later):
                later_ms = min(later_ms, int(later.min()))
            wanted = np.flatnonzero((due_times >= low[0]) & (due_times <= high[0]))
            times = due_times[wanted].tolist()
            for index, due_ms in zip(wanted.tolist(), times, strict=True):
                key = (due_ms, queue_id, first + index)
                if key < low or not queue.is_pending(first + index):
                    continue
                if key >= high:
                    later_ms = min(later_ms, due_ms)
                elif first + index < end:
                    look.found.append(key)
        followed.far[block - followed.first_block] = later_ms
        return max(stop - start, 1)

    def _bound_lookahead(self) -> None:
        """Look less far ahead when more was found than fits."""
        look = self._look
        if look is None or len(look.found) <= self._near_max:
            return
        look.found.sort()
        kept = self._near_max // 2
        look.until = look.found[kept]
        for key in look.found[kept:]:
            self._put_far(key)
        del look.found[kept:]

    def _cancel_lookahead(self) -> None:
        look, self._look = self._look, None
        for key in look.found if look else ():
            self._put_far(key)

    def _shed(self) -> None:
        """Keep only the first half of what fits near."""
        near = sorted(self._run + self._heap)
        self._retreat(near, self._near_max // 2)

    def _retreat_to(self, frontier: Key) -> None:
        near = sorted(self._run + self._heap)
        kept = next((at for at, key in enumerate(near) if key >= frontier), len(near))
        self._retreat(near, kept)
        self._frontier = min(self._frontier, frontier)

    def _retreat(self, near: list[Key], kept: int) -> None:
        if kept < len(near):
            self._frontier = min(self._frontier, near[kept])
            for key in near[kept:]:
                self._put_far(key)
        self._run, self._heap = near[:kept][::-1], []

    def _put_far(self, key: Key) -> None:
        """Let a look find a message again by its block."""
        due_ms, queue_id, queue_offset = key
        followed = self._followed[queue_id]
        at = queue_offset // self._block_units - followed.first_block
        if at < 0:
            return  # done with: the queue begins behind it
        far = followed.far
        if at >= len(far):
            far += [_NEVER] * (at + 1 - len(far))
        far[at] = min(far[at], due_ms)
