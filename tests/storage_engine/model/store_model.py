"""What a store holds and must answer, in dicts and lists alone.

    machine ── put, settled, damaged, expired ──▶ [StoreModel] ──▶ what every read must give

A record that was damaged on the disk stays in its place and is never given. Where the engine may
choose (how much of a page damaged records take up), the model says what every choice has in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.wire.reads import PullHead, PullStatus
from storage_engine.wire.topics import TopicConfig

Queue = tuple[str, int]


class Stored(NamedTuple):
    """One message that was acknowledged, or moved. ``keys`` begins with its id.

    A scheduled one goes to ``target`` at ``due_ms``. Of one that failed: how often, from which
    topic, when its first and its last failed delivery began; ``reason`` is that of a dead letter.
    """

    body: bytes
    tag: str | None
    keys: tuple[str, ...]
    stamp: int
    physical_offset: int
    record_bytes: int
    due_ms: int = 0
    target: Queue | None = None
    failures: int = 0
    origin: str = ""
    first_ms: int = 0
    last_ms: int = 0
    reason: str = ""


class QueueModel:
    """One queue: ``records[n]`` is the message at queue offset n, readable or not any more."""

    def __init__(self) -> None:
        self.records: list[Stored] = []
        self.damaged: set[int] = set()
        self.min_offset = 0

    @property
    def max_offset(self) -> int:
        return len(self.records)

    def whole(self, start: int = 0, end: int | None = None) -> list[int]:
        """Offsets in a range that can be read."""
        first, last = max(start, self.min_offset), self.max_offset if end is None else end
        return [offset for offset in range(first, last) if offset not in self.damaged]

    def has_damage(self, start: int) -> bool:
        return any(offset >= max(start, self.min_offset) for offset in self.damaged)

    def offset_at_time(self, timestamp_ms: int) -> int:
        later = [at for at in self.whole() if self.records[at].stamp >= timestamp_ms]
        return later[0] if later else self.max_offset

    def first_at_or_above(self, physical_offset: int) -> int:
        below = range(self.min_offset, self.max_offset)
        return next(
            (at for at in below if self.records[at].physical_offset >= physical_offset),
            self.max_offset,
        )

    def is_same_begin(self, offset: int) -> bool:
        """Whether the queue may begin there: only damaged messages are between."""
        low, high = sorted((offset, self.min_offset))
        return all(at in self.damaged for at in range(low, high))

    def check_pull(
        self, head: PullHead, given: list[int], offset: int, count: int, bytes_max: int,
        tags: list[str],
    ) -> None:  # fmt: skip
        """Compare the answer to a pull with the one there must be."""
        low, high = self.min_offset, self.max_offset
        assert (head.min_offset, head.max_offset) == (low, high)
        if not low <= offset <= high:
            expected = PullStatus.OFFSET_ILLEGAL, low if offset < low else high
            assert (head.status, head.next_offset, given) == (*expected, [])
        elif offset == high:
            assert (head.status, head.next_offset, given) == (PullStatus.NO_NEW_MSG, offset, [])
        else:
            if not self.has_damage(offset):
                assert head.next_offset == self._page_end(offset, count, bytes_max, tags)
            assert offset < head.next_offset <= high
            passed = self.whole(offset, head.next_offset)
            assert given == [at for at in passed if self._has(at, tags)]
            assert len(given) <= count
            assert head.status is (PullStatus.FOUND if given else PullStatus.NO_MATCHED_MSG)

    def _page_end(self, offset: int, count: int, bytes_max: int, tags: list[str]) -> int:
        taken = 0
        while offset < self.max_offset and taken < count:
            record_bytes = self.records[offset].record_bytes
            if self._has(offset, tags):
                if taken and record_bytes > bytes_max:
                    break
                taken += 1
                bytes_max -= record_bytes
            offset += 1
        return offset

    def _has(self, offset: int, tags: list[str]) -> bool:
        return not tags or self.records[offset].tag in tags


class StoreModel:
    """All topics and queues; see the module's docstring."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicConfig] = {}
        self.queues: dict[Queue, QueueModel] = {}
        self.stamp = 0  # store time of the newest message: it never goes back
        self.log_start = 0
        self.is_pristine = True  # nothing damaged, nothing deleted, no file made in vain

    def topic_put(self, topic: TopicConfig) -> None:
        self.topics[topic.topic] = topic
        for queue_id in range(topic.queue_count):
            self.queues.setdefault((topic.topic, queue_id), QueueModel())

    def readable(self) -> Iterator[tuple[Queue, QueueModel, int]]:
        """Every message that must be given to whoever asks."""
        for name, queue in self.queues.items():
            for offset in queue.whole():
                yield name, queue, offset

    def damaged_in_log(self) -> list[Stored]:
        """Damaged messages whose segments are still there."""
        return [
            queue.records[at]
            for queue in self.queues.values()
            for at in queue.damaged
            if queue.records[at].physical_offset >= self.log_start
        ]

    def with_key(
        self, topic: str, key: str, *, below: int, from_ms: int, to_ms: int
    ) -> list[bytes]:
        """Bodies of the messages with a key, newest first."""
        found = [
            queue.records[offset]
            for name, queue, offset in self.readable()
            if name[0] == topic and key in queue.records[offset].keys
        ]
        found = [one for one in found if from_ms <= one.stamp <= to_ms]
        found = [one for one in found if one.physical_offset < below]
        return [one.body for one in sorted(found, key=lambda one: -one.physical_offset)]

    # Retention --------------------------------------------------------------------------------

    def expire(self, now_ms: int, retention_ms: int, held: dict[Queue, int]) -> None:
        """Let every queue begin behind the messages whose time is over."""
        for name, queue in self.queues.items():
            if name[0] == SCHEDULE_TOPIC or queue.min_offset == queue.max_offset:
                continue
            own_ms = self.topics[name[0]].retention_ms or retention_ms
            until_ms = now_ms - min(own_ms, retention_ms)
            is_damaged = queue.min_offset in queue.damaged
            if is_damaged or queue.records[queue.min_offset].stamp < until_ms:
                self._raise(name, queue.offset_at_time(until_ms), held)

    def force(self, below: int, held: dict[Queue, int]) -> None:
        """Let every queue begin at ``below`` of the log.

        The scheduled messages there are appended again first; where the store says.
        """
        for name, queue in self.queues.items():
            if name[0] != SCHEDULE_TOPIC:
                self._raise(name, queue.first_at_or_above(below), held)

    def _raise(self, name: Queue, offset: int, held: dict[Queue, int]) -> None:
        queue = self.queues[name]
        queue.min_offset = max(queue.min_offset, min(offset, held.get(name, offset)))
