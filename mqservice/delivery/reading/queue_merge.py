"""One page of a topic's messages in log order, merged from its queues; changes nothing.

    positions ──▶ [QueueMerge] ── PULL per queue ──▶ engine
    records, new positions ◀──┘   smallest physical offset first, or the largest

Each queue is a lane with a position of its own, which moves over what was given or has not the
wanted tag. So nothing is given twice or left out, whatever is stored or expires between two pages:
what is new is behind the positions, and a position that has expired moves to the first message that
is left. A lane gives only after all others have shown what they have next, or that they are at
their end; when the pulls of a page are used up before that, the page is short and the positions say
how far they got.

With a filter or a text a page ends early after ``SCAN_PULL_COUNT_MAX`` pulls, and with a text after
``SCAN_BYTES_MAX`` of messages; it says how many it has looked at.

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
)
from mqservice.delivery.reading.walk import NO_END, BrowseQuery
from mqservice.store import FilterKind, PullHead, PullRequest, PullStatus, Record, Store

# Units that the engine passes over in one pull with a filter; see ``storage_engine.reads.pull``.
WINDOW_UNITS: Final = 800


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

    ``next_at`` is the physical offset of its next message, None while that is not known. Its
    records are in ``waiting``, unless they were let go for want of room.
    """

    queue_id: int
    position: int
    end: int
    waiting: deque[Record] = field(default_factory=deque)
    begin: int = -1  # where the page began; not known before the first pull
    pulled_to: int = 0  # behind all that the last pull looked at
    max_offset: int = 0  # of the queue at the last pull
    next_at: int | None = None
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

    def give(self, record: Record) -> None:
        self.position = record.queue_offset + 1

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
        self.is_done = self.position <= self.end
        return None

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
        self._pulls_left = pulls + 2 * count
        self._scan_bytes_left = SCAN_BYTES_MAX
        self._waiting_bytes = 0

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
        if await self._look_ahead():
            await self._merge(records)
        return MergedPage(
            records=records,
            positions=[lane.position for lane in self._lanes],
            is_last=all(lane.is_done for lane in self._lanes),
            scanned_count=sum(lane.scanned_count for lane in self._lanes),
        )

    async def _look_ahead(self) -> bool:
        """Learn what each lane has next; False when the pulls do not suffice for that."""
        unknown = [lane for lane in self._lanes if lane.is_unknown]
        # Every lane gets its first pull, so each page moves on: it gives, or a position moves.
        while unknown and self._pulls_left > 0:
            for start in range(0, len(unknown), PULLS_AT_ONCE_MAX):
                some = unknown[start : start + PULLS_AT_ONCE_MAX]
                await asyncio.gather(*(self._pull(lane) for lane in some))
            unknown = [lane for lane in unknown if lane.is_unknown]
        return not unknown

    async def _merge(self, records: list[Record]) -> None:
        order = [
            (lane.turn, index) for index, lane in enumerate(self._lanes) if lane.next_at is not None
        ]
        heapq.heapify(order)
        bytes_left = BROWSE_BYTES_MAX
        while order and len(records) < self._messages_max:
            _, index = heapq.heappop(order)
            lane = self._lanes[index]
            if not lane.waiting:
                await self._refill(lane, is_kept=True)
            else:
                record = lane.waiting[0]
                size_bytes = _size_bytes(record)
                if self._question.reads_bodies:
                    if self._scan_bytes_left <= 0:
                        return
                    self._scan_bytes_left -= size_bytes
                if self._question.matches_body(record.body):
                    if records and size_bytes > bytes_left:
                        return
                    bytes_left -= size_bytes
                    records.append(record)
                self._give(lane)
                if not lane.waiting and not lane.is_done:
                    await self._refill(lane)
            if lane.next_at is not None:
                heapq.heappush(order, (lane.turn, index))
            elif not lane.is_done:
                return  # nobody knows whether it comes before the others

    def _give(self, lane: _QueueCursor) -> None:
        record = lane.waiting.popleft()
        self._waiting_bytes -= _size_bytes(record)
        lane.give(record)
        if lane.waiting:
            lane.next_at = lane.waiting[0].physical_offset
        else:
            lane.pass_over()

    async def _refill(self, lane: _QueueCursor, *, is_kept: bool = False) -> None:
        """Pull until the lane knows its next message, is done, or the pulls are used up."""
        lane.next_at = None
        while lane.is_unknown and self._pulls_left > 0:
            await self._pull(lane, is_kept=is_kept)

    async def _pull(self, lane: _QueueCursor, *, is_kept: bool = False) -> None:
        """One pull. ``is_kept``: the lane is next, so its records stay whatever waits already."""
        self._pulls_left -= 1
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
        if wanted is None:
            return
        if not wanted:
            lane.pass_over()
            return
        lane.next_at = wanted[0].physical_offset
        size_bytes = sum(map(_size_bytes, wanted))
        if is_kept or self._waiting_bytes + size_bytes <= MERGE_BYTES_MAX:
            lane.waiting.extend(wanted)
            self._waiting_bytes += size_bytes
        else:
            lane.skip_to(wanted[0])


def _size_bytes(record: Record) -> int:
    """About what a message adds to an answer."""
    return len(record.body) + sum(len(k) + len(v) for k, v in record.properties.items())
