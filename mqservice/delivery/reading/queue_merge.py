"""One page of a topic's messages in log order, merged from its queues; changes nothing.

    positions ──▶ [QueueMerge] ── PULL per queue ──▶ engine
    records, new positions ◀──┘   smallest physical offset first, or the largest

Each queue is a lane with a position of its own, which moves over what was given or has not the
wanted tag. So nothing is given twice or left out, whatever is stored or expires between two pages:
what is new is behind the positions, and a position that has expired moves to the first message that
is left. A lane gives only when no other has something that comes before it: each of the others has
shown what it has next, is at its end, or has been looked through past the time at which the message
was stored. When the pulls of a page are used up before that, the page is short and the positions
say how far they got.

                   position
    lane 0   ······|x··········   x: matches, stored at T
    lane 1   ···|······ e ·····   nothing found yet; stored at T or later is what comes behind e
    newest first (the newest is on the right): x waits until the position of lane 1 is at e or below

With a filter a page ends early after ``SCAN_PULL_COUNT_MAX`` pulls, with a text after
``TEXT_PULL_COUNT_MAX``, or ``SCAN_BYTES_MAX`` of messages and the rest of that pull; it says how
many it has looked at.

Memory is bounded: at most ``MERGE_BYTES_MAX`` of messages wait, and the pulls under way at the same
time. Of a lane beyond that only the place of its next message is kept. One event loop.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mqservice.delivery.limits import (
    BROWSE_BYTES_MAX,
    BROWSE_COUNT_MAX,
    MERGE_BYTES_MAX,
    PAGE_PULL_COUNT_MAX,
    PULLS_AT_ONCE_MAX,
    SCAN_BYTES_MAX,
    SCAN_PULL_COUNT_MAX,
    TEXT_PULL_COUNT_MAX,
)
from mqservice.delivery.reading.walk import NO_END, BrowseQuery
from mqservice.store import (
    FilterKind,
    OffsetAtTimeRequest,
    PullHead,
    PullRequest,
    PullStatus,
    Record,
    Store,
)

# Units that the engine passes over in one pull with a filter; see ``storage_engine.reads.pull``.
WINDOW_UNITS: Final = 800
# Of messages that wait, asked for in one look-up; each takes 20 to 30 records of the engine.
_TIMES_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRange:
    """What is still to be shown of a queue: offsets [position, end), or [end, position) newest
    first.
    """

    queue_id: int
    position: int
    end: int = NO_END


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedPage:
    """``positions`` are in the order of the ranges; ``is_last`` when all are at their ends.

    ``scanned_count``: messages behind the positions now that were not before.
    """

    records: list[Record]
    positions: list[int]
    is_last: bool
    scanned_count: int


@dataclass(slots=True, kw_only=True)
class _QueueCursor:
    """A queue on the way through a page.

    ``next_at`` is the physical offset of its next message, None while that is not known, and
    ``next_ms`` its store time. Its records are in ``waiting``, unless they were let go for want of
    room. ``edges``: the offset in this queue from which on messages were stored at a time or later;
    oldest first, later than it.
    """

    queue_id: int
    position: int
    end: int
    waiting: deque[Record] = field(default_factory=deque)
    begin: int = -1  # where the page began; not known before the first pull
    pulled_to: int = 0  # behind all that the last pull looked at
    max_offset: int = 0  # of the queue at the last pull
    next_at: int | None = None
    next_ms: int = 0
    edges: dict[int, int] = field(default_factory=dict)
    is_narrowed: bool = False  # by the last pull, which found too much for one
    is_done: bool = False

    @property
    def scanned_count(self) -> int:
        return abs(self.position - self.begin) if self.begin >= 0 else 0

    @property
    def is_unknown(self) -> bool:
        """Whether it may have a next message, and nobody knows which."""
        return not self.is_done and self.next_at is None

    @property
    def turn(self) -> int:
        """The lane with the smallest one gives next."""
        assert self.next_at is not None
        return self.next_at

    def window(self, messages_max: int) -> tuple[int, int]:
        """Where to pull, and how many messages."""
        return self.position, min(messages_max, self.end - self.position)

    def take(self, head: PullHead, records: list[Record]) -> list[Record] | None:
        """What of a pull is to be given, in this order; None where it only moved the lane."""
        self.max_offset = head.max_offset
        if self.begin < 0:
            self.begin = max(self.position, head.min_offset)
        if head.status is PullStatus.OFFSET_ILLEGAL and head.next_offset < self.position:
            self.is_done = True  # behind the end; a power cut may have taken what was there
            return None
        self.pulled_to = head.next_offset
        return [record for record in records if record.queue_offset < self.end]

    def is_past(self, time_ms: int) -> bool:
        """Whether nothing in it comes before what was stored at that time, which is an edge."""
        return self.position >= self.edges[time_ms]

    def give(self, record: Record) -> None:
        self.position = record.queue_offset + 1

    def look_at(self, record: Record) -> None:
        """It is the next."""
        self.next_at, self.next_ms = record.physical_offset, record.store_timestamp_ms

    def skip_to(self, record: Record) -> None:
        """Messages before the first wanted one need not be looked at again."""
        self.position = record.queue_offset

    def pass_over(self) -> None:
        """Nothing of the last pull is left to give."""
        self.position = max(self.position, min(self.pulled_to, self.end))
        self.next_at = None
        self.is_done = self.position >= min(self.end, self.max_offset)


@dataclass(slots=True, kw_only=True)
class _NewestFirstCursor(_QueueCursor):
    """The same from ``position`` down to ``end``: a pull reads a window below ``position``, which
    is made smaller until one pull holds all that is wanted of it.
    """

    width_max: int
    width: int = 0
    pulled_from: int = 0

    @property
    def turn(self) -> int:
        assert self.next_at is not None
        return -self.next_at

    def window(self, messages_max: int) -> tuple[int, int]:
        self.width = self.width or self.width_max
        self.pulled_from = max(self.end, self.position - self.width)
        if self.position == NO_END:  # the reply says where the queue ends
            self.pulled_from = self.position
        return self.pulled_from, max(1, min(messages_max, self.position - self.pulled_from))

    def take(self, head: PullHead, records: list[Record]) -> list[Record] | None:
        self.end = max(self.end, head.min_offset)
        self.is_narrowed = False
        if self.begin < 0:
            self.begin = max(self.end, min(self.position, head.max_offset))
        if self.position > head.max_offset:
            self.position = head.max_offset
        elif head.status is not PullStatus.OFFSET_ILLEGAL:
            if head.next_offset >= self.position:
                if 4 * len(records) <= self.width:  # a larger window holds few messages too
                    self.width = min(2 * self.width, self.width_max)
                self.pulled_to = self.pulled_from
                wanted = [record for record in records if record.queue_offset < self.position]
                return wanted[::-1]
            self.width = max(1, min(self.width // 2, head.next_offset - self.pulled_from))
            self.is_narrowed = True
        self.is_done = self.position <= self.end
        return None

    def is_past(self, time_ms: int) -> bool:
        return self.position <= self.edges[time_ms]

    def give(self, record: Record) -> None:
        self.position = record.queue_offset

    def skip_to(self, record: Record) -> None:
        self.position = record.queue_offset + 1

    def pass_over(self) -> None:
        self.position = max(self.end, min(self.position, self.pulled_to))
        self.next_at = None
        self.is_done = self.position <= self.end


class QueueMerge:
    """Makes one page of what ``question`` wants: its tags, its filter, its text."""

    def __init__(
        self,
        store: Store,
        topic: str,
        ranges: Sequence[QueueRange],
        *,
        question: BrowseQuery,
        messages_max: int,
    ) -> None:
        self._store = store
        self._topic = topic
        self._question = question
        self._messages_max = messages_max
        count = max(1, len(ranges))
        # Twice its share of each queue, so that most pages need one pull a queue.
        self._pull_messages = min(messages_max, -(-2 * messages_max // count))
        if question.reads_bodies:  # few of them may be wanted
            self._pull_messages = BROWSE_COUNT_MAX
        self._lanes = [self._lane(each) for each in ranges]
        self._pull_bytes = min(BROWSE_BYTES_MAX, MERGE_BYTES_MAX // count)
        pulls = SCAN_PULL_COUNT_MAX if question.is_scan else PAGE_PULL_COUNT_MAX
        if question.reads_bodies:
            pulls = TEXT_PULL_COUNT_MAX
        self._pulls_left = pulls + 2 * count
        self._look_ups_left = PAGE_PULL_COUNT_MAX + 2 * count
        self._scan_bytes_left = SCAN_BYTES_MAX
        self._waiting_bytes = 0
        # Lanes that may have a next message: those whose next is known, by their turns, and others.
        self._order: list[tuple[int, int]] = []
        self._unknown: list[int] = []

    def _lane(self, each: QueueRange) -> _QueueCursor:
        if not self._question.is_newest_first:
            return _QueueCursor(
                queue_id=each.queue_id,
                position=each.position,
                end=each.end,
                is_done=each.position >= each.end,
            )
        is_filtered = bool(self._question.tags or self._question.filter)
        return _NewestFirstCursor(
            queue_id=each.queue_id,
            position=each.position,
            end=each.end,
            is_done=each.position <= each.end,
            width_max=WINDOW_UNITS if is_filtered else self._pull_messages,
        )

    async def page(self) -> MergedPage:
        """The next messages; at least one pull a queue, and one if the page is not the last.

        Raises ``StoreError``.
        """
        records: list[Record] = []
        await self._merge(records)
        return MergedPage(
            records=records,
            positions=[lane.position for lane in self._lanes],
            is_last=all(lane.is_done for lane in self._lanes),
            scanned_count=sum(lane.scanned_count for lane in self._lanes),
        )

    async def _merge(self, records: list[Record]) -> None:
        # Every lane gets its first pull, so each page moves on: it gives, or a position moves.
        await self._pull_all([index for index, lane in enumerate(self._lanes) if not lane.is_done])
        bytes_left = BROWSE_BYTES_MAX
        while len(records) < self._messages_max and await self._find_next():
            _, index = heapq.heappop(self._order)
            lane = self._lanes[index]
            if not lane.waiting:
                lane.next_at = None
                await self._pull(lane, is_kept=True)
            else:
                record = lane.waiting[0]
                size_bytes = _size_bytes(record)
                if records and size_bytes > bytes_left:
                    return
                bytes_left -= size_bytes
                records.append(record)
                self._give(lane)
                if lane.is_unknown and self._pulls_left > 0:
                    await self._pull(lane)
            self._sort_in(index)

    async def _find_next(self) -> bool:
        """Pull until it is known which lane gives next; False when all are done, or the calls do
        not suffice for that.
        """
        while self._unknown:
            ahead = self._unknown
            if self._order:
                time_ms = self._lanes[self._order[0][1]].next_ms
                if not await self._find_edges(time_ms):
                    return False
                ahead = [index for index in ahead if not self._lanes[index].is_past(time_ms)]
                if not ahead:
                    return True
            if self._pulls_left <= 0:
                return False
            await self._pull_all(ahead)
        return bool(self._order)

    async def _find_edges(self, time_ms: int) -> bool:
        """Let all unknown lanes know the edge of that time, and at once those of messages that come
        next. False when that takes more look-ups than a page may.
        """
        lanes = [self._lanes[index] for index in self._unknown]
        lanes = [lane for lane in lanes if time_ms not in lane.edges]
        if len(lanes) > self._look_ups_left:
            return False
        self._look_ups_left -= len(lanes)
        known = (self._lanes[index] for _, index in self._order)
        times_ms = {record.store_timestamp_ms for lane in known for record in lane.waiting}
        times_ms.add(time_ms)
        is_newest_first = self._question.is_newest_first
        nearest_ms = sorted(times_ms, reverse=is_newest_first)[:_TIMES_AT_ONCE]
        nearest_ms.sort()
        for start in range(0, len(lanes), PULLS_AT_ONCE_MAX):
            some = lanes[start : start + PULLS_AT_ONCE_MAX]
            await asyncio.gather(*(self._look_up_edges(lane, nearest_ms) for lane in some))
        return True

    async def _look_up_edges(self, lane: _QueueCursor, times_ms: list[int]) -> None:
        """``times_ms`` ascend."""
        later_ms = 0 if self._question.is_newest_first else 1
        asked_ms = [time_ms + later_ms for time_ms in times_ms]
        reply = await self._store.offset_at_time(
            OffsetAtTimeRequest(
                topic=self._topic,
                queue_id=lane.queue_id,
                timestamp_ms=asked_ms[0],
                later_ms=asked_ms[1:],
            )
        )
        lane.edges |= zip(times_ms, [reply.queue_offset, *reply.later_offsets], strict=True)

    async def _pull_all(self, indexes: list[int]) -> None:
        """One pull of each."""
        for start in range(0, len(indexes), PULLS_AT_ONCE_MAX):
            some = indexes[start : start + PULLS_AT_ONCE_MAX]
            await asyncio.gather(*(self._pull(self._lanes[index]) for index in some))
        pulled = set(indexes)
        self._unknown = [index for index in self._unknown if index not in pulled]
        for index in indexes:
            self._sort_in(index)

    def _sort_in(self, index: int) -> None:
        """A lane that was pulled."""
        lane = self._lanes[index]
        if lane.next_at is not None:
            heapq.heappush(self._order, (lane.turn, index))
        elif not lane.is_done:
            self._unknown.append(index)

    def _give(self, lane: _QueueCursor) -> None:
        record = lane.waiting.popleft()
        self._waiting_bytes -= _size_bytes(record)
        lane.give(record)
        if lane.waiting:
            lane.look_at(lane.waiting[0])
        else:
            lane.pass_over()

    async def _pull(self, lane: _QueueCursor, *, is_kept: bool = False) -> None:
        """One pull. ``is_kept``: the lane is next, so its records stay whatever waits already."""
        queue_offset, messages_max = lane.window(self._pull_messages)
        head, records = await self._store.pull(
            PullRequest(
                topic=self._topic,
                queue_id=lane.queue_id,
                queue_offset=queue_offset,
                messages_max=messages_max,
                bytes_max=self._pull_bytes,
                tags=self._question.tags,
                filter=self._question.filter,
                filter_kind=FilterKind.SQL92 if self._question.filter else FilterKind.TAG,
            )
        )
        wanted = lane.take(head, records)
        # Else a page could end before any lane has moved, and the next one would do the same.
        if not lane.is_narrowed or lane.scanned_count:
            self._pulls_left -= 1
        if wanted is None:
            return
        if self._question.reads_bodies:
            wanted = self._with_text(wanted)
        if not wanted:
            lane.pass_over()
            return
        lane.look_at(wanted[0])
        size_bytes = sum(map(_size_bytes, wanted))
        if is_kept or self._waiting_bytes + size_bytes <= MERGE_BYTES_MAX:
            lane.waiting.extend(wanted)
            self._waiting_bytes += size_bytes
        else:
            lane.skip_to(wanted[0])

    def _with_text(self, records: list[Record]) -> list[Record]:
        """Those whose body is wanted. A page that looked through enough has no more pulls."""
        self._scan_bytes_left -= sum(map(_size_bytes, records))
        if self._scan_bytes_left <= 0:
            self._pulls_left = 0
        matches_body = self._question.matches_body
        return [record for record in records if matches_body(record.body)]


def _size_bytes(record: Record) -> int:
    """About what a message adds to an answer."""
    return len(record.body) + sum(len(k) + len(v) for k, v in record.properties.items())
