"""Reads the messages that a topic got since the last check, from the ends of its queues.

    ends of the queues ──▶ what is new ──▶ at most N of the newest of each ──▶ filter ─▶ NewMessages
          (one call)        (counted)              (a call for each queue)

Places are kept here, in memory: no group, no lease and no consumer offset is touched. Each look
ends at the ends of the queues, so that a tail that cannot keep up passes messages over and says how
many, and never falls behind. What a look costs is bounded: calls, messages, bytes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from mqservice.console.tail.rows import TailFilter
from mqservice.lib.durations import SECOND_MS
from mqservice.store import (
    PullRequest,
    QueueStats,
    Record,
    Store,
    TopicRef,
    shown_record,
)

SHOWN_PER_S_MAX: Final = 200
LOOKED_PER_S_MAX: Final = 1_000  # where a filter leaves most of them out
FIRST_ROWS: Final = 10  # that were there when it began, as ``tail`` does
QUEUES_MAX: Final = 32  # that are read in one look
BYTES_MAX: Final = 1024 * 1024  # of bodies in one look, and one message more
WINDOW_MS: Final = 3 * SECOND_MS  # that rate and share are of
_PULL_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessages:
    """``records``: those to show, the oldest first. ``per_s``: stored in the topic, None until two
    looks were made. ``one_of``: one of how many that fit is shown, 1.0 for each.
    """

    records: list[Record]
    per_s: float | None
    one_of: float


@dataclass(frozen=True, slots=True)
class _Counts:
    at_ms: int
    arrived: int
    looked: int
    matched: int
    shown: int


@dataclass(frozen=True, slots=True)
class _Range:
    """What is new in a queue: ``[start, end)``."""

    queue_id: int
    start: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.start


class Tail:
    """One reader of one topic; see the module. ``topic`` is the engine's name."""

    def __init__(self, store: Store, topic: str) -> None:
        self._store = store
        self._topic = topic
        self._ends: dict[int, int] | None = None
        self._turn = 0
        self._looked_ms: int | None = None
        self._room = 0.0  # messages that may be shown, up to a second's worth
        self._window: deque[_Counts] = deque()

    async def read_new(self, wanted: TailFilter, now_ms: int) -> NewMessages:
        """What came since the last look; the newest that were there, the first time.

        ``now_ms`` is monotonic. Raises ``StoreError``, and then has read nothing: the next look
        begins where this one did.
        """
        stats = await self._store.topic_stats(TopicRef(topic=self._topic))
        ranges, is_first = self._new(stats.queues), self._ends is None
        passed_ms = SECOND_MS if self._looked_ms is None else now_ms - self._looked_ms
        # A second's worth at most, however long nobody looked.
        share = min(SECOND_MS, max(0, passed_ms)) / SECOND_MS
        room = min(SHOWN_PER_S_MAX, self._room + SHOWN_PER_S_MAX * share)
        shown_max = FIRST_ROWS if is_first else int(room)
        looked_max = shown_max
        if is_first or not wanted.is_all:
            looked_max = max(shown_max, round(LOOKED_PER_S_MAX * share))
        found = await self._read(ranges, looked_max)
        self._ends = {queue.queue_id: queue.max_offset for queue in stats.queues}
        self._looked_ms = now_ms
        self._turn += 1
        fitting = [record for record in found if wanted.matches(record)]
        fitting.sort(key=lambda record: record.physical_offset)
        records = fitting[-shown_max:] if shown_max else []
        self._room = room - len(records)
        arrived = 0 if is_first else sum(each.count for each in ranges)
        counted = (0, 0, 0) if is_first else (len(found), len(fitting), len(records))
        self._count(_Counts(now_ms, arrived, *counted))
        return NewMessages(records=records, per_s=self._per_s(), one_of=self._one_of())

    def rest(self) -> None:
        """Nobody looks for a while: a rate from before would say nothing afterwards."""
        self._window.clear()

    def _new(self, queues: list[QueueStats]) -> list[_Range]:
        found = []
        for queue in queues:
            if self._ends is None:
                start = queue.min_offset
            else:
                # A queue that is new since began at its start. An end that went back is that of a
                # log which lost its last messages with the power.
                start = min(
                    max(self._ends.get(queue.queue_id, 0), queue.min_offset), queue.max_offset
                )
            if start < queue.max_offset:
                found.append(_Range(queue.queue_id, start, queue.max_offset))
        return found

    async def _read(self, ranges: list[_Range], messages_max: int) -> list[Record]:
        """The newest of each range. Queues take turns where there are too many of them."""
        if not ranges or not messages_max:
            return []
        first = self._turn % len(ranges)
        picked = (ranges[first:] + ranges[:first])[: min(QUEUES_MAX, messages_max)]
        shares = fair_shares([each.count for each in picked], messages_max)
        found: list[Record] = []
        bytes_left = BYTES_MAX
        for each, share in zip(picked, shares, strict=True):
            _, records = await self._store.pull(
                PullRequest(
                    topic=self._topic,
                    queue_id=each.queue_id,
                    queue_offset=each.end - min(share, _PULL_MAX),
                    messages_max=min(share, _PULL_MAX),
                    bytes_max=bytes_left,
                )
            )
            found += [shown_record(record) for record in records if record.queue_offset < each.end]
            bytes_left -= sum(len(record.body) for record in records)
            if bytes_left <= 0:
                break
        return found

    def _count(self, counts: _Counts) -> None:
        self._window.append(counts)
        while counts.at_ms - self._window[0].at_ms > WINDOW_MS:
            self._window.popleft()

    def _per_s(self) -> float | None:
        passed_ms = self._window[-1].at_ms - self._window[0].at_ms
        if passed_ms <= 0:
            return None
        # What the first look of the window found had come before it.
        arrived = sum(each.arrived for each in list(self._window)[1:])
        return arrived * SECOND_MS / passed_ms

    def _one_of(self) -> float:
        arrived = sum(each.arrived for each in self._window)
        looked = sum(each.looked for each in self._window)
        matched = sum(each.matched for each in self._window)
        shown = sum(each.shown for each in self._window)
        return (arrived / looked if looked else 1.0) * (matched / shown if shown else 1.0)


def fair_shares(counts: list[int], total_max: int) -> list[int]:
    """Of each so many that they are ``total_max`` together, at least one: all of a small one, and
    an equal part of the large ones. There are not more than ``total_max`` counts, none is 0.
    """
    shares = [0] * len(counts)
    left = total_max
    by_count = sorted(range(len(counts)), key=counts.__getitem__)
    for place, index in enumerate(by_count):
        shares[index] = min(counts[index], left // (len(counts) - place))
        left -= shares[index]
    return shares
