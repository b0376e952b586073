"""How many retries of each group are scheduled, and the age of the oldest; exact at any number of
scheduled messages.

    units of SCHEDULE_TOPIC_XXXX ── each read once, a slice a turn ──▶ [ScheduledRetries]
    Progress of the schedule ── settled: delivered, cancelled, moved ──────▶ │
                                           retry queue ── count, oldest ◀────┘

A consume queue of the schedule does not say where its messages go; the records do. Each unit is
read once: after a start all that are there, then those that are new, a slice each tick. A retry is
kept as 14 bytes, by blocks of 4,096 units; messages of producers are not kept. What the schedule
settles is taken away at once, so counts are right whenever all units were read, and unknown until
then. Nothing is written down: a start reads the schedule again, a million messages in less than a
second.

Beyond ``_PLACES_MAX`` retries in all, counts of the retry queue that has the most are unknown until
those are over; nobody else's. Loop thread only.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from storage_engine.config import SECOND_MS
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.offset_bits import Run
from storage_engine.reader.property_values import Values, property_values
from storage_engine.records.record import split_properties
from storage_engine.records.record_parts import store_timestamp_of
from storage_engine.records.retry_record import FIRST_STORED_MS, RETRY_TOPIC, first_stored_ms
from storage_engine.records.schedule_topic import REAL_QUEUE_ID, REAL_TOPIC
from storage_engine.records.topic_names import RETRY_PREFIX
from storage_engine.schedule.schedule import Schedule
from storage_engine.schedule.source import TOPIC_BYTES_MAX, Source, real_topics

_SLICE: Final = 4_096  # units read in a turn; 1 to 5 ms
_ALONE_COST: Final = 32  # of reading a record by itself, in units
_ALONE_MAX: Final = 16  # so few are read one by one, which is quicker
_BLOCK_BITS: Final = 12
_BLOCK_UNITS: Final = 1 << _BLOCK_BITS
_PLACES_MAX: Final = 5_000_000  # of all groups; 70 MB
_AT_ONCE_MAX: Final = 50_000  # places among which the oldest is looked for in one go; about 1 ms
_PASS_PAUSE_MS: Final = SECOND_MS
_PASS_BLOCKS: Final = 32
_NEVER: Final = 1 << 62
_OVER: Final = -1
_PREFIX: Final = RETRY_PREFIX.encode()
_PROPERTIES: Final = (
    (REAL_QUEUE_ID.encode(), 10),
    (RETRY_TOPIC.encode(), TOPIC_BYTES_MAX),
    (FIRST_STORED_MS.encode(), 15),
)

RetryQueue = tuple[str, int]  # retry topic, queue id
_Retry = tuple[RetryQueue, str, int]  # where it goes, of which topic, when that stored it, ms


@dataclass(frozen=True, slots=True)
class Waiting:
    """Retries for one queue of a retry topic. ``oldest_stored_ms``: when the oldest of the messages
    was first stored in its topic; None without any.
    """

    count: int
    oldest_stored_ms: int | None


class _Target:
    """Where retries go, and of which topic they are; those below ``gone_below`` in the log, which
    stand under another number, go nowhere any more.
    """

    __slots__ = ("count", "gone_below", "oldest_ms", "queue", "retry_of")

    def __init__(self, queue: RetryQueue, retry_of: str, gone_below: int) -> None:
        self.queue = queue
        self.retry_of = retry_of
        self.gone_below = gone_below
        self.count = 0
        self.oldest_ms = _NEVER


class _Block:
    """Retries among 4,096 units: where in the block, number of the target (or over), and when the
    message was first stored.
    """

    __slots__ = ("alive", "offsets", "stored", "targets")

    def __init__(self) -> None:
        self.offsets = array("H")
        self.targets = array("i")
        self.stored = array("q")
        self.alive = 0

    def add(self, offset: int, target: int, stored_ms: int) -> None:
        self.offsets.append(offset)
        self.targets.append(target)
        self.stored.append(stored_ms)
        self.alive += 1

    def compact(self) -> None:
        kept = [at for at, target in enumerate(self.targets) if target != _OVER]
        self.offsets = array("H", [self.offsets[at] for at in kept])
        self.stored = array("q", [self.stored[at] for at in kept])
        self.targets = array("i", [self.targets[at] for at in kept])

    def columns(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Targets and times; not to be kept, for the arrays cannot grow meanwhile."""
        return np.frombuffer(self.targets, np.int32), np.frombuffer(self.stored, np.int64)


class ScheduledRetries:
    """See the module's docstring."""

    def __init__(self, parts: EngineParts, schedule: Schedule) -> None:
        self._clock = parts.clock
        self._commit_log = parts.commit_log
        self._gone_below = parts.min_offsets.gone_below
        self._later = parts.loop.call_soon
        self._schedule = schedule
        self._seen: list[int] = []  # by queue of the schedule: all below was read
        self._starts: list[int] = []  # and all below is over
        self._blocks: list[dict[int, _Block]] = []
        self._targets: list[_Target | None] = []
        self._free: list[int] = []  # numbers of targets that are used no more
        self._numbers: dict[tuple[RetryQueue, str], int] = {}
        self._of_queue: dict[RetryQueue, list[str]] = {}  # topics that its retries are of
        # Those with too many: queue of the schedule → behind the last retry that is not kept.
        self._lost: dict[RetryQueue, dict[int, int]] = {}
        self._place_count = 0
        self._dirty: set[int] = set()  # whose oldest may be over
        self._pass: Iterator[None] | None = None
        self._looked_for: dict[int, int] = {}  # by the pass: target → the oldest that came since
        self._pass_ms: int | None = None  # when the last pass began
        self._has_turn = False
        self._is_asked = False

    def of(self, retry_topic: str, queue_id: int) -> Waiting | None:
        """What waits for a queue of a retry topic; None while, or where, it is not known."""
        self._is_asked = True
        self._read_on()
        if self._is_behind():
            self._schedule_turn()
            return None
        queue = retry_topic, queue_id
        if self._is_dropped(queue):
            return None
        if self._dirty:
            self._find_oldest()
        found = [target for number in self._current(queue) if (target := self._targets[number])]
        count = sum([target.count for target in found])
        oldest_ms = min([target.oldest_ms for target in found], default=_NEVER)
        return Waiting(count, oldest_ms if count else None)

    def tick(self) -> None:
        """Read what is new; nothing before anybody has asked."""
        if not self._is_asked or self._schedule.is_stopped:
            return
        self._read_on()
        if self._pass is not None:
            self._continue_pass()

    # Reading --------------------------------------------------------------------------------

    def _is_behind(self) -> bool:
        sources = self._schedule.sources
        return any(seen < source.end for seen, source in zip(self._seen, sources, strict=True))

    def _schedule_turn(self) -> None:
        if not self._has_turn:
            self._has_turn = True
            self._later(self._turn)

    def _turn(self) -> None:
        self._has_turn = False
        if self._schedule.is_stopped:
            return
        self._read_on()
        if self._is_behind():
            self._schedule_turn()

    def _read_on(self) -> None:
        """Read the next slice of what has not been read."""
        left = _SLICE
        for queue_id, source in enumerate(self._schedule.sources):
            if queue_id == len(self._seen):
                self._follow(queue_id, source)
            self._pass_over(queue_id, source)
            while left > 0 and self._seen[queue_id] < source.end:
                left -= self._read(queue_id, source, left)

    def _follow(self, queue_id: int, source: Source) -> None:
        self._seen.append(source.start)
        self._starts.append(source.start)
        self._blocks.append({})
        source.progress.on_settled = partial(self._settled, queue_id)

    def _pass_over(self, queue_id: int, source: Source) -> None:
        """What is below the start of a queue is over, settled or not."""
        start, before = source.start, self._starts[queue_id]
        if start > before:
            self._starts[queue_id] = start
            self._seen[queue_id] = max(self._seen[queue_id], start)
            self._settled(queue_id, [(before, start - before)])

    def _read(self, queue_id: int, source: Source, units_max: int) -> int:
        """Read units of one block; what that has cost, in units."""
        start = self._seen[queue_id]
        block_number = start >> _BLOCK_BITS
        stop = min(source.end, start + units_max, (block_number + 1) << _BLOCK_BITS)
        physical_offsets = source.queue.physical_offsets(start, stop)
        topics: Values = [None] * (stop - start)
        if stop - start > _ALONE_MAX:
            topics = real_topics(self._commit_log, physical_offsets)
        cost = len(topics)
        rows = [
            row
            for row, topic in enumerate(topics)
            if (topic is None or topic.startswith(_PREFIX))
            and not source.progress.is_settled(start + row)
        ]
        known = self._columns(physical_offsets, rows, topics)
        for row, found in zip(rows, known, strict=True):
            if found is None:
                if cost >= 2 * _SLICE:  # many had to be read one by one
                    self._seen[queue_id] = start + row
                    return cost
                cost += _ALONE_COST
                found = self._read_alone(source, start + row)
            if found is not None:
                self._keep(queue_id, start + row, int(physical_offsets[row]), *found)
        self._seen[queue_id] = stop
        return cost

    def _columns(
        self, physical_offsets: NDArray[np.int64], rows: list[int], topics: Values
    ) -> list[_Retry | None]:
        """What those messages are; None where each must be read by itself."""
        if len(rows) <= _ALONE_MAX:
            return [None] * len(rows)
        queue_ids, retried, stored = property_values(
            self._commit_log, physical_offsets[rows], _PROPERTIES
        )
        return [
            ((topic.decode(), int(queue_id)), retry_of.decode(), int(stored_ms))
            if topic
            and queue_id
            and queue_id.isdigit()
            and retry_of
            and stored_ms
            and stored_ms.isdigit()
            else None
            for topic, queue_id, retry_of, stored_ms in zip(
                [topics[row] for row in rows], queue_ids, retried, stored, strict=True
            )
        ]

    def _read_alone(self, source: Source, queue_offset: int) -> _Retry | None:
        """Where a message goes, of which topic it is, and when it was first stored; None when it is
        no retry.
        """
        physical_offset, record_bytes, _ = source.queue.unit(queue_offset)
        content = self._commit_log.properties(physical_offset, record_bytes)
        if content is None:
            return None
        *_, properties = split_properties(content.decode("utf-8", "replace"))
        topic, queue_id = properties.get(REAL_TOPIC, ""), properties.get(REAL_QUEUE_ID, "")
        if not (topic.startswith(RETRY_PREFIX) and queue_id.isascii() and queue_id.isdigit()):
            return None
        head = self._commit_log.read_many([(physical_offset, record_bytes)])
        named = {name.encode(): value.encode() for name, value in properties.items()}
        stored_ms = first_stored_ms(named, store_timestamp_of(head))
        return (topic, int(queue_id)), properties.get(RETRY_TOPIC, ""), stored_ms

    # Places ---------------------------------------------------------------------------------

    def _keep(
        self,
        queue_id: int,
        queue_offset: int,
        physical_offset: int,
        queue: RetryQueue,
        retry_of: str,
        stored_ms: int,
    ) -> None:
        if physical_offset < self._gone_below(queue[0], retry_of):
            return
        if self._is_dropped(queue):
            self._lost[queue][queue_id] = queue_offset + 1
            return
        number = self._number_of(queue, retry_of)
        target = self._targets[number]
        assert target is not None
        blocks, block_number = self._blocks[queue_id], queue_offset >> _BLOCK_BITS
        block = blocks.get(block_number)
        if block is None:
            block = blocks[block_number] = _Block()
        block.add(queue_offset & (_BLOCK_UNITS - 1), number, stored_ms)
        target.count += 1
        target.oldest_ms = min(target.oldest_ms, stored_ms)
        if number in self._looked_for:
            self._looked_for[number] = min(self._looked_for[number], stored_ms)
        self._place_count += 1
        if self._place_count > _PLACES_MAX:
            self._drop_largest()

    def _number_of(self, queue: RetryQueue, retry_of: str) -> int:
        """The number of a target; another one than before its topic was deleted or purged."""
        gone_below = self._gone_below(queue[0], retry_of)
        number = self._numbers.get((queue, retry_of))
        if number is not None:
            target = self._targets[number]
            assert target is not None
            if target.gone_below >= gone_below:
                return number
        number = self._free.pop() if self._free else len(self._targets)
        if number == len(self._targets):
            self._targets.append(None)
        self._targets[number] = _Target(queue, retry_of, gone_below)
        self._dirty.discard(number)
        self._numbers[queue, retry_of] = number
        known = self._of_queue.setdefault(queue, [])
        if retry_of not in known:
            known.append(retry_of)
        return number

    def _current(self, queue: RetryQueue) -> list[int]:
        """Numbers of the targets whose messages still go somewhere."""
        found = []
        for retry_of in self._of_queue.get(queue, ()):
            number = self._numbers[queue, retry_of]
            target = self._targets[number]
            assert target is not None
            if target.gone_below >= self._gone_below(queue[0], retry_of):
                found.append(number)
        return found

    def _settled(self, queue_id: int, runs: Iterable[Run]) -> None:
        """Messages of the schedule were delivered, cancelled, or moved to another place in it."""
        blocks = self._blocks[queue_id]
        if not blocks:
            return
        for first, count in runs:
            end = first + count
            numbers: Iterable[int] = range(first >> _BLOCK_BITS, ((end - 1) >> _BLOCK_BITS) + 1)
            if count > len(blocks) << _BLOCK_BITS:
                numbers = list(blocks)
            for number in numbers:
                block = blocks.get(number)
                if block is not None:
                    base = number << _BLOCK_BITS
                    self._forget(block, first - base, end - base)
                    if not block.alive:
                        del blocks[number]

    def _forget(self, block: _Block, first: int, end: int) -> None:
        """Those at ``[first, end)`` of a block are over."""
        offsets, targets = block.offsets, block.targets
        at = bisect_left(offsets, first)
        while at < len(offsets) and offsets[at] < end:
            number = targets[at]
            if number != _OVER:
                targets[at] = _OVER
                block.alive -= 1
                self._place_count -= 1
                self._take_from(number, block.stored[at])
            at += 1
        if block.alive and 4 * block.alive < len(offsets):
            block.compact()

    def _take_from(self, number: int, stored_ms: int) -> None:
        target = self._targets[number]
        assert target is not None
        target.count -= 1
        if stored_ms <= target.oldest_ms or number in self._looked_for:
            self._dirty.add(number)
        if target.count == 0:
            # No place has the number any more, so another target may get it.
            self._targets[number] = None
            self._free.append(number)
            self._dirty.discard(number)
            self._looked_for.pop(number, None)
            if self._numbers.get((target.queue, target.retry_of)) == number:
                del self._numbers[target.queue, target.retry_of]
                known = self._of_queue[target.queue]
                known.remove(target.retry_of)
                if not known:
                    del self._of_queue[target.queue]

    # Too many -------------------------------------------------------------------------------

    def _drop_largest(self) -> None:
        """Keep nothing of the retry queue that has the most; its counts are unknown from now on."""
        known = [target for target in self._targets if target is not None]
        queue = max(known, key=lambda target: target.count).queue
        numbers = {
            number for number, each in enumerate(self._targets) if each and each.queue == queue
        }
        lost_ends = self._lost[queue] = {}
        for queue_id, blocks in enumerate(self._blocks):
            for block_number, block in list(blocks.items()):
                own = [at for at, number in enumerate(block.targets) if number in numbers]
                for at in own:
                    offset = block.offsets[at]
                    end = (block_number << _BLOCK_BITS) + offset + 1
                    lost_ends[queue_id] = max(lost_ends.get(queue_id, 0), end)
                    stored_ms, number = block.stored[at], block.targets[at]
                    block.targets[at] = _OVER
                    block.alive -= 1
                    self._place_count -= 1
                    self._take_from(number, stored_ms)
                if block.alive:
                    block.compact()
                else:
                    del blocks[block_number]

    def _is_dropped(self, queue: RetryQueue) -> bool:
        """Until all those are over that were not kept."""
        ends = self._lost.get(queue)
        if ends is None:
            return False
        sources = self._schedule.sources
        if any(sources[queue_id].start < end for queue_id, end in ends.items()):
            return True
        del self._lost[queue]
        return False

    # The oldest -----------------------------------------------------------------------------

    def _find_oldest(self) -> None:
        """Find the oldest of each target again: at once, or in steps if there are very many.

        Until it is found, the one that is over stands for it.
        """
        if self._pass is not None:
            return
        now_ms = self._clock.monotonic_ms()
        are_few = self._place_count <= _AT_ONCE_MAX
        if not are_few and self._pass_ms is not None and now_ms < self._pass_ms + _PASS_PAUSE_MS:
            return
        self._pass, self._pass_ms = self._passing(), now_ms
        if are_few:
            for _ in self._pass:
                pass
            self._pass = None

    def _continue_pass(self) -> None:
        assert self._pass is not None
        for _ in range(_PASS_BLOCKS):
            if next(self._pass, self) is self:
                self._pass = None
                return

    def _passing(self) -> Iterator[None]:
        """Go through all blocks, one a step."""
        self._looked_for, self._dirty = dict.fromkeys(self._dirty, _NEVER), set()
        oldest = np.full(len(self._targets), _NEVER, np.int64)
        places = [(at, number) for at, blocks in enumerate(self._blocks) for number in blocks]
        for queue_id, block_number in places:
            block = self._blocks[queue_id].get(block_number)
            if block is not None:
                _add_oldest(oldest, block)
            yield
        for number, since_ms in self._looked_for.items():
            target = self._targets[number]
            assert target is not None
            target.oldest_ms = min(int(oldest[number]), since_ms)
        self._looked_for = {}


def _add_oldest(oldest: NDArray[np.int64], block: _Block) -> None:
    targets, stored = block.columns()
    is_known = (targets != _OVER) & (targets < len(oldest))
    np.minimum.at(oldest, targets[is_known], stored[is_known])
