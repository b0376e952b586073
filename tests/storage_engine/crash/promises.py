"""What clients were told up to one moment, and therefore what a crash may not take back.

    workload ── Sent, Acked, Refused, Settled, … ──▶ [Promises.hear] ──▶ checker

An *acked* message of a sync topic stays, of an async topic unless it is in the unsafe suffix of its
queue; a *refused* one never exists; one that was only *sent* may go either way. Bodies are unique.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from tests.storage_engine.crash.violation import Violation

Queue = tuple[str, int]


class TopicMade(NamedTuple):
    """The topic's creation was answered."""

    topic: str
    queue_count: int


class GroupMade(NamedTuple):
    group: str


class Sent(NamedTuple):
    """A put was begun: from now on the message may exist."""

    queue: Queue
    body: bytes


class Acked(NamedTuple):
    """A put was answered. ``is_safe``: with the promise that the disk has it."""

    queue: Queue
    queue_offset: int
    body: bytes
    is_safe: bool


class Refused(NamedTuple):
    """A put was answered: nothing of it is stored nor ever will be."""

    body: bytes


class QueueSafe(NamedTuple):
    """The async queue is durable below an offset."""

    queue: Queue
    below: int


class SettleBegun(NamedTuple):
    group: str
    queue: Queue
    queue_offset: int


class SettlesSafe(NamedTuple):
    """All settles answered so far are durable."""


class Settled(NamedTuple):
    """A settle was answered."""

    group: str
    queue: Queue
    queue_offset: int


class RetentionBegun(NamedTuple):
    """From now on the oldest segments may be deleted."""


Notice = (
    TopicMade | GroupMade | Sent | Acked | Refused | QueueSafe | SettleBegun | Settled
    | SettlesSafe | RetentionBegun
)  # fmt: skip


class Promises:
    """See the module's docstring."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self.groups: set[str] = set()
        self.sent: dict[bytes, Queue] = {}
        self.order: dict[bytes, int] = {}  # in which order they were sent
        self.acked: dict[Queue, dict[int, bytes]] = defaultdict(dict)
        self.safe_below: dict[Queue, int] = defaultdict(int)
        self.refused: set[bytes] = set()
        self.settling: dict[tuple[str, Queue], set[int]] = defaultdict(set)
        self.settled: dict[tuple[str, Queue], set[int]] = defaultdict(set)
        self.settled_safe: dict[tuple[str, Queue], set[int]] = {}
        self.may_expire = False

    def hear(self, notice: object) -> None:
        """Take one notice; they come in order."""
        match notice:
            case TopicMade(topic, queue_count):
                self.topics[topic] = queue_count
            case GroupMade(group):
                self.groups.add(group)
            case Sent(queue, body):
                assert body not in self.sent, "bodies are unique"
                self.order[body] = len(self.sent)
                self.sent[body] = queue
            case Acked(queue, queue_offset, body, is_safe):
                if self.acked[queue].setdefault(queue_offset, body) != body:
                    raise Violation("inconsistent-offset", f"{queue} at {queue_offset}, twice")
                if is_safe:
                    self.safe_below[queue] = max(self.safe_below[queue], queue_offset + 1)
            case Refused(body):
                self.refused.add(body)
            case QueueSafe(queue, below):
                self.safe_below[queue] = max(self.safe_below[queue], below)
            case SettleBegun(group, queue, queue_offset):
                self.settling[group, queue].add(queue_offset)
            case Settled(group, queue, queue_offset):
                self.settled[group, queue].add(queue_offset)
            case SettlesSafe():
                self.settled_safe = {key: set(value) for key, value in self.settled.items()}
            case RetentionBegun():
                self.may_expire = True
            case _:
                raise AssertionError(f"nobody understands {notice}")
