"""What clients were told up to one moment, and therefore what a crash may not take back.

    workload ── Sent, Acked, Refused, Settled, … ──▶ [Promises.hear] ──▶ checker

An *acked* message of a sync topic stays, of an async topic unless it is in the unsafe suffix of its
queue; a *refused* one never exists; one that was only *sent* may go either way. Bodies are unique.
A scheduled message may move to a later offset, and be there twice; else only what may expire goes.
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


class KeySent(NamedTuple):
    """A put under the key of a request was begun: the message may exist, once."""

    queue: Queue
    body: bytes
    key: str


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


class MayExpire(NamedTuple):
    """From now on messages of the queue below an offset may be gone."""

    queue: Queue
    below: int


class Expired(NamedTuple):
    """Retention ran: messages of the queue below an offset never come back."""

    queue: Queue
    below: int


class Damaged(NamedTuple):
    """From now on bytes of this message on the disk may be wrong."""

    queue: Queue
    queue_offset: int
    physical_offset: int


class AlarmRaised(NamedTuple):
    """Somebody has met a damaged message: the alarm stays."""


Notice = (
    TopicMade | GroupMade | Sent | Acked | Refused | QueueSafe | SettleBegun | Settled
    | SettlesSafe | MayExpire | Expired | Damaged | AlarmRaised | KeySent
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
        self.keyed: dict[str, tuple[Queue, bytes]] = {}
        self.settling: dict[tuple[str, Queue], set[int]] = defaultdict(set)
        self.settled: dict[tuple[str, Queue], set[int]] = defaultdict(set)
        self.settled_safe: dict[tuple[str, Queue], set[int]] = {}
        self.may_expire_below: dict[Queue, int] = defaultdict(int)
        self.expired_below: dict[Queue, int] = defaultdict(int)
        self.damaged: dict[Queue, set[int]] = defaultdict(set)
        self.damaged_places: set[int] = set()  # physical offsets
        self.has_alarm = False

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
            case KeySent(queue, body, key):
                self.keyed[key] = queue, body
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
            case MayExpire(queue, below):
                self.may_expire_below[queue] = max(self.may_expire_below[queue], below)
            case Expired(queue, below):
                self.expired_below[queue] = max(self.expired_below[queue], below)
            case Damaged(queue, queue_offset, physical_offset):
                self.damaged[queue].add(queue_offset)
                self.damaged_places.add(physical_offset)
            case AlarmRaised():
                self.has_alarm = True
            case _:
                raise AssertionError(f"nobody understands {notice}")
