"""The bytes of scheduled messages per namespace, without a counter on the put path.

    units appended to the schedule since the last look ──▶ [PendingBytes] ◀── what was settled since
                                                                │
                                                                └──▶ bytes of a namespace

A unit of the schedule does not know whose message it is; the record does. A look reads the units
that are new since the one before, and with what is left of its measure counts older blocks of
4,096 anew, one after the other, where messages were delivered or cancelled. So a message counts
from the next look on, and for a while longer than it waits; never too short. Of each block the sums
are kept, in memory only. Loop thread only.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

from storage_engine.log.commit_log import CommitLog
from storage_engine.schedule.source import Source, real_topic, real_topics

BLOCK_UNITS: Final = 4_096
SCAN_UNITS_MAX: Final = 8_192  # read by one look, 5 to 10 ms


class _Queue:
    """Of one source the units below ``end`` were counted; ``blocks`` are the sums of those they are
    in, the first one being number ``first``.
    """

    __slots__ = ("blocks", "end", "first", "seen", "stale_count", "turn")

    def __init__(self) -> None:
        self.blocks: deque[Counter[str]] = deque()
        self.first = self.end = 0
        self.seen = (0, 0)  # what of the source tells that something was settled
        self.stale_count = 0
        self.turn = 0  # the block, from ``first`` on, that is counted anew next


class PendingBytes:
    """See the module's docstring. ``scan``, then ask ``measure``.

    Args:
        sources: the schedule's, which may become more.
        namespace_of: whose a topic is.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        sources: Sequence[Source],
        namespace_of: Callable[[bytes], str],
        look_units_max: int = SCAN_UNITS_MAX,
    ) -> None:
        self._commit_log = commit_log
        self._sources = sources
        self._namespace_of = namespace_of
        self._look_units_max = look_units_max
        self._units_left = 0
        self._queues: list[_Queue] = []
        self._total: Counter[str] = Counter()
        self.is_exhausted = False  # the last look has left new units: what it told is too little

    def measure(self, namespace: str) -> int:
        """Bytes of its messages that were to come at the last look."""
        return self._total[namespace]

    def scan(self) -> None:
        """Count what is new, and some of what has changed."""
        self._units_left = self._look_units_max
        self._queues += [_Queue() for _ in self._sources[len(self._queues) :]]
        self.is_exhausted = False
        for known, source in zip(self._queues, self._sources, strict=True):
            self._drop_below(known, source.start)
            self._continue(known, source)
        for known, source in zip(self._queues, self._sources, strict=True):
            self._recount(known, source)

    def _drop_below(self, known: _Queue, start: int) -> None:
        while known.blocks and (known.first + 1) * BLOCK_UNITS <= start:
            self._subtract(known.blocks.popleft())
            known.first += 1
            known.turn = max(known.turn - 1, 0)
        if not known.blocks:
            known.first, known.end = start // BLOCK_UNITS, max(start, known.end)

    def _continue(self, known: _Queue, source: Source) -> None:
        while known.end < source.end:
            if self._units_left <= 0:
                self.is_exhausted = True
                return
            block = known.end // BLOCK_UNITS - known.first
            stop = min((known.first + block + 1) * BLOCK_UNITS, source.end)
            sums = self._count(source, max(known.end, source.start), stop)
            while len(known.blocks) <= block:
                known.blocks.append(Counter())
            known.blocks[block].update(sums)
            self._total.update(sums)
            known.end = stop

    def _recount(self, known: _Queue, source: Source) -> None:
        seen = source.start, source.progress.settled.count
        if seen != known.seen:
            known.seen, known.stale_count = seen, len(known.blocks)
        known.stale_count = min(known.stale_count, len(known.blocks))
        while known.stale_count and self._units_left > 0:
            known.turn %= len(known.blocks)
            begins = (known.first + known.turn) * BLOCK_UNITS
            stop = min(begins + BLOCK_UNITS, known.end)
            sums = self._count(source, max(begins, source.start), stop)
            self._total.update(sums)
            self._subtract(known.blocks[known.turn])
            known.blocks[known.turn] = sums
            known.stale_count -= 1
            known.turn += 1

    def _subtract(self, sums: Counter[str]) -> None:
        for namespace, byte_count in sums.items():
            if self._total[namespace] > byte_count:
                self._total[namespace] -= byte_count
            else:
                del self._total[namespace]

    def _count(self, source: Source, start: int, stop: int) -> Counter[str]:
        """Bytes of each namespace among the units [start, stop) that are not settled."""
        self._units_left -= stop - start
        sums: Counter[str] = Counter()
        if start >= stop:
            return sums
        queue, settled = source.queue, source.progress.settled
        offsets = queue.physical_offsets(start, stop)
        topics = real_topics(self._commit_log, offsets)
        sizes = [size for _, part in queue.size_fields(start, stop) for size in part.tolist()]
        by_topic: Counter[bytes] = Counter()
        for row, (topic, size) in enumerate(zip(topics, sizes, strict=True)):
            if settled.count and start + row in settled:
                continue
            if topic is None:
                topic = real_topic(self._commit_log.properties(int(offsets[row]), size) or b"")
            by_topic[topic] += size
        for topic, size in by_topic.items():
            sums[self._namespace_of(topic)] += size
        return sums
