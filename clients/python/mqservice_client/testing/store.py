"""Topics, groups and what is delivered to whom: the rules of the service, in memory.

    put ─▶ Topic ─▶ Progress of each group ─ take ─▶ Lease ─┬─ settle ─▶ done, or as below
                                                            └─ expire ─▶ again, or dead letter

Nothing here waits: ``FakeService`` calls ``tick`` when time has passed. One lock protects it all.
"""

from __future__ import annotations

import itertools
import zlib
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final

import msgspec

from ..protocol.problem_texts import MEANINGS

DAY_MS: Final = 86_400_000
KEY_MS: Final = 10 * 60_000
DELAY_LEVELS_S: Final = (
    1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200,
)  # fmt: skip
LEVEL_OF_FIRST_RETRY: Final = 2
STATUSES: Final = {
    "IDEMPOTENCY_KEY_REUSED": 409, "CONFLICT": 409, "ALREADY_DELIVERED": 409,
    "SUBSCRIPTION_CONFLICT": 409, "PRECONDITION_FAILED": 412,
}  # fmt: skip


class Refusal(Exception):
    """What the service would refuse; ``errors`` are (pointer, detail)."""

    def __init__(self, code: str, detail: str, errors: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(detail)
        assert code in MEANINGS
        self.code = code
        self.detail = detail
        self.errors = list(errors)
        self.status = STATUSES.get(code, 404 if code.endswith("NOT_FOUND") else 400)


class FakeMessage(msgspec.Struct, kw_only=True):
    """A message of a topic. ``offset`` is -1 until it is delivered for the first time."""

    id: str
    topic: str
    body: bytes
    tag: str | None = None
    keys: list[str] = []
    message_group: str | None = None
    properties: dict[str, str] = {}
    queue: int = 0
    offset: int = -1
    stored_ms: int = 0
    deliver_at_ms: int | None = None
    recall_handle: str | None = None

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode()

    def json(self) -> Any:  # Any: whatever was sent
        """The body read as JSON."""
        return msgspec.json.decode(self.body)


class DeadLetter(msgspec.Struct):
    """A message that a group gave up."""

    message: FakeMessage
    reason: str
    attempts: int
    at_ms: int


class Lease(msgspec.Struct, eq=False):
    """A message in somebody's hands, until ``until_ms``."""

    number: int
    message: FakeMessage
    attempt: int
    holder: Hashable
    taken_ms: int
    until_ms: int


class Progress:
    """What one group, or one client of a broadcast group, has still to do of one topic."""

    def __init__(self, group: Group, topic: Topic, messages: Iterable[FakeMessage]) -> None:
        self.group = group
        self.topic = topic
        self.pending: deque[FakeMessage] = deque(messages)
        self.waiting: list[tuple[int, int, FakeMessage]] = []
        self.leases: dict[int, Lease] = {}
        # Of deliveries that ended without a result, by number: a late ack may still count.
        self.expired: dict[int, FakeMessage] = {}
        self.done: set[int] = set()
        self.failures: dict[str, int] = {}

    def forget(self, message: FakeMessage) -> bool:
        """Take it out of what is still to be delivered; whether it was there."""
        if self.pending and self.pending[0] is message:
            self.pending.popleft()
            return True
        before = len(self.pending) + len(self.waiting)
        self.pending = deque(each for each in self.pending if each is not message)
        self.waiting = [each for each in self.waiting if each[2] is not message]
        return len(self.pending) + len(self.waiting) < before


class Topic:
    """Its queues, and messages that wait for their time."""

    def __init__(self, name: str, settings: dict[str, Any], now_ms: int) -> None:
        self.name = name
        self.settings = settings  # Any: JSON, as it is shown
        self.created_ms = now_ms
        self.revision = 1
        self.queues: list[list[FakeMessage]] = []
        self.starts: list[int] = []
        self.scheduled: dict[str, FakeMessage] = {}
        self.turn = 0
        self.resize()

    def resize(self) -> None:
        while len(self.queues) < self.settings["queues"]:
            self.queues.append([])
            self.starts.append(0)

    def messages(self) -> list[FakeMessage]:
        """All that are stored, in the order in which they were."""
        return sorted(itertools.chain(*self.queues), key=lambda each: each.id)


class Group:
    """Its settings, its progress on each topic, and its dead letters."""

    def __init__(self, name: str, settings: dict[str, Any], now_ms: int) -> None:
        self.name = name
        self.settings = settings
        self.created_ms = now_ms
        self.revision = 1
        self.is_paused = False
        self.progress: dict[tuple[str, str | None], Progress] = {}
        self.dead_letters: list[DeadLetter] = []

    @property
    def is_broadcast(self) -> bool:
        return bool(self.settings["dispatch"] == "broadcast")


class Store:
    """All topics and groups. ``on_lost`` is told of each lease that somebody loses, and why."""

    def __init__(self, now_ms: Callable[[], int], on_lost: Callable[[Lease, str], None]) -> None:
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.now_ms = now_ms
        self._on_lost = on_lost
        self._numbers = itertools.count(1)
        # By topic and key: what it was used for, the message, and when.
        self._keys: dict[tuple[str, str], tuple[bytes, FakeMessage, int]] = {}

    def topic(self, name: str) -> Topic:
        if name not in self.topics:
            raise Refusal("TOPIC_NOT_FOUND", f"there is no topic {name}")
        return self.topics[name]

    def group(self, name: str) -> Group:
        if name not in self.groups:
            raise Refusal("GROUP_NOT_FOUND", f"there is no group {name}")
        return self.groups[name]

    # Messages -------------------------------------------------------------------------------

    def put(
        self,
        topic: Topic,
        message: FakeMessage,
        *,
        queue: int | None,
        delay_ms: int | None,
        key: str | None,
    ) -> tuple[FakeMessage, bool]:
        """Store a message, once for each key; the message, and whether it was there before."""
        now_ms = self.now_ms()
        content = msgspec.json.encode((message.body, message.tag, message.keys, queue))
        place = None if key is None else (topic.name, key)
        if place is not None and place in self._keys:
            used_for, before, at_ms = self._keys[place]
            if now_ms - at_ms < KEY_MS:
                if used_for != content:
                    raise Refusal("IDEMPOTENCY_KEY_REUSED", f"{key} was used for something else")
                return before, True
        message.id = f"{next(self._numbers):032X}"
        message.queue = self._choose_queue(topic, message, queue)
        message.stored_ms = now_ms
        if delay_ms:
            message.deliver_at_ms = now_ms + delay_ms
            message.recall_handle = f"rc_{message.id}"
            topic.scheduled[message.recall_handle] = message
        else:
            self._append(topic, message)
        if place is not None:
            self._keys[place] = (content, message, now_ms)
        return message, False

    def deliver_now(self, topic: Topic, message: FakeMessage) -> None:
        """Store a scheduled message whose time has come."""
        assert message.recall_handle is not None
        del topic.scheduled[message.recall_handle]
        self._append(topic, message)

    def scheduled(self, handle: str) -> tuple[Topic, FakeMessage]:
        for topic in self.topics.values():
            if handle in topic.scheduled:
                return topic, topic.scheduled[handle]
            if any(each.recall_handle == handle for each in topic.messages()):
                raise Refusal("ALREADY_DELIVERED", "the message has been delivered")
        raise Refusal("MESSAGE_NOT_FOUND", "there is no such scheduled message")

    def purge(self, topic: Topic) -> list[tuple[int, int, int]]:
        """Delete all messages; queue, start and end of what was deleted."""
        found = []
        for number, queue in enumerate(topic.queues):
            end = topic.starts[number] + len(queue)
            found.append((number, topic.starts[number], end))
            topic.starts[number] = end
            queue.clear()
        for progress in self.all_progress():
            if progress.topic is topic:
                progress.pending.clear()
                progress.waiting.clear()
        return found

    def delete_topic(self, topic: Topic) -> None:
        del self.topics[topic.name]
        for group in self.groups.values():
            for place in [each for each in group.progress if each[0] == topic.name]:
                del group.progress[place]

    # Delivery -------------------------------------------------------------------------------

    def progress(self, topic: Topic, group: Group, client_id: str | None) -> Progress:
        """What the group has to do there; it begins with its ``start_from``."""
        if group.is_broadcast and client_id is None:
            raise Refusal("BAD_REQUEST", "a broadcast group needs a client_id")
        place = (topic.name, client_id if group.is_broadcast else None)
        if place not in group.progress:
            begins_at_end = group.settings["start_from"] == "latest"
            messages = [] if begins_at_end else topic.messages()
            group.progress[place] = Progress(group, topic, messages)
        return group.progress[place]

    def take(
        self,
        progress: Progress,
        holder: Hashable,
        *,
        count: int,
        bytes_max: int,
        lease_ms: int | None,
        auto_extend_ms: int | None,
        tags: frozenset[str] | None,
    ) -> list[Lease]:
        """Lease the next messages: at least one if there is one, however large."""
        if progress.group.is_paused:
            return []
        settings = progress.group.settings
        now_ms = self.now_ms()
        lease_ms = max(lease_ms or settings["lease_ms"], auto_extend_ms or 0)
        until_ms = now_ms + min(lease_ms, settings["consume_timeout_ms"])
        taken: list[Lease] = []
        for message in self._deliverable(progress, tags):
            if len(taken) == count or (bytes_max < len(message.body) and taken):
                break
            bytes_max -= len(message.body)
            progress.forget(message)
            lease = Lease(
                number=next(self._numbers),
                message=message,
                attempt=progress.failures.get(message.id, 0) + 1,
                holder=holder,
                taken_ms=now_ms,
                until_ms=until_ms,
            )
            progress.leases[lease.number] = lease
            taken.append(lease)
        return taken

    def find(self, group: Group, number: int) -> Progress | None:
        """Where a delivery belongs."""
        for progress in group.progress.values():
            if number in progress.leases or number in progress.expired or number in progress.done:
                return progress
        return None

    def settle(
        self,
        progress: Progress,
        number: int,
        *,
        is_ack: bool,
        delay_ms: int | None = None,
        reason: str = "",
        is_dead: bool = False,
    ) -> str:
        """End a delivery; empty, or the code of why that had no effect."""
        if number in progress.done:
            return ""
        lease = progress.leases.pop(number, None)
        if lease is None:
            late = progress.expired.get(number)
            if is_ack and late is not None and progress.forget(late):
                progress.done.add(number)
                return ""
            return "LEASE_EXPIRED"
        progress.done.add(number)
        if is_dead and not progress.group.is_broadcast:
            self._bury(progress, lease, reason)
        elif not is_ack:
            self._fail(progress, lease, delay_ms=delay_ms, reason=reason)
        return ""

    def extend(self, progress: Progress, number: int, lease_ms: int) -> str:
        lease = progress.leases.get(number)
        if lease is None:
            return "LEASE_EXPIRED"
        longest_ms = lease.taken_ms + progress.group.settings["consume_timeout_ms"]
        lease.until_ms = min(self.now_ms() + lease_ms, longest_ms)
        return ""

    def release(self, progress: Progress, holder: Hashable) -> int:
        """Give back what somebody holds, without an attempt counted; how many messages."""
        theirs = [lease for lease in progress.leases.values() if lease.holder == holder]
        for lease in theirs:
            del progress.leases[lease.number]
            progress.expired[lease.number] = lease.message
        back = sorted((lease.message for lease in theirs), key=lambda each: each.id)
        progress.pending.extendleft(reversed(back))
        return len(theirs)

    def tick(self) -> bool:
        """Deliver what is due, and end leases whose time is over; whether there was anything."""
        now_ms = self.now_ms()
        has_changed = False
        for topic in self.topics.values():
            for message in sorted(topic.scheduled.values(), key=_due_ms):
                if _due_ms(message) <= now_ms:
                    self.deliver_now(topic, message)
                    has_changed = True
        for progress in self.all_progress():
            for lease in [each for each in progress.leases.values() if each.until_ms <= now_ms]:
                del progress.leases[lease.number]
                progress.expired[lease.number] = lease.message
                self._on_lost(lease, "lease_expired")
                self._fail(progress, lease, delay_ms=0, reason="lease expired")
                has_changed = True
            due = [each for each in progress.waiting if each[0] <= now_ms]
            if due:
                has_changed = True
                progress.waiting = [each for each in progress.waiting if each[0] > now_ms]
                progress.pending.extendleft(message for _, _, message in sorted(due)[::-1])
        return has_changed

    def all_progress(self) -> Iterator[Progress]:
        for group in self.groups.values():
            yield from group.progress.values()

    def redrive(self, group: Group, letters: list[DeadLetter]) -> int:
        """Send dead letters to their topics again, as messages of the same ids."""
        moved = 0
        for letter in letters:
            if letter.message.topic in self.topics:
                group.dead_letters.remove(letter)
                progress = self.progress(self.topics[letter.message.topic], group, None)
                progress.failures.pop(letter.message.id, None)
                progress.pending.append(letter.message)
                moved += 1
        return moved

    # Inside ---------------------------------------------------------------------------------

    def _append(self, topic: Topic, message: FakeMessage) -> None:
        queue = topic.queues[message.queue]
        message.offset = topic.starts[message.queue] + len(queue)
        queue.append(message)
        for progress in self.all_progress():
            if progress.topic is topic:
                progress.pending.append(message)

    def _choose_queue(self, topic: Topic, message: FakeMessage, queue: int | None) -> int:
        count = len(topic.queues)
        if queue is not None:
            if not 0 <= queue < count:
                raise Refusal(
                    "QUEUE_NOT_FOUND", f"topic {topic.name} has {count} queues, found {queue}"
                )
            return queue
        if message.message_group is not None:
            return zlib.crc32(message.message_group.encode()) % count
        topic.turn += 1
        return (topic.turn - 1) % count

    def _deliverable(
        self, progress: Progress, tags: frozenset[str] | None
    ) -> Iterator[FakeMessage]:
        """Messages in order, without those that wait for one of their message group."""
        is_ordered = bool(progress.group.settings["ordered"])
        busy: set[str | None] = set()
        if is_ordered:
            busy = {lease.message.message_group for lease in progress.leases.values()}
            busy |= {message.message_group for _, _, message in progress.waiting}
            busy.discard(None)
        for message in list(progress.pending):
            if tags is not None and message.tag not in tags:
                progress.forget(message)
            elif message.message_group not in busy:
                if is_ordered and message.message_group is not None:
                    busy.add(message.message_group)
                yield message

    def _fail(self, progress: Progress, lease: Lease, *, delay_ms: int | None, reason: str) -> None:
        group = progress.group
        if group.is_broadcast:
            return  # failures are dropped there
        progress.failures[lease.message.id] = lease.attempt
        attempts_max = group.settings["max_attempts"]
        if attempts_max is not None and lease.attempt >= attempts_max:
            self._bury(progress, lease, reason)
            return
        if delay_ms is None:
            delay_ms = retry_delay_ms(group.settings["retry"], lease.attempt)
        due_ms = self.now_ms() + delay_ms
        progress.waiting.append((due_ms, next(self._numbers), lease.message))

    def _bury(self, progress: Progress, lease: Lease, reason: str) -> None:
        progress.group.dead_letters.append(
            DeadLetter(lease.message, reason, lease.attempt, self.now_ms())
        )


def retry_delay_ms(policy: dict[str, Any], attempt: int) -> int:
    """How long a message waits after its failure number ``attempt``, from 1."""
    if policy["policy"] == "list":
        delays: list[int] = policy["delays_ms"]
        return delays[min(attempt, len(delays)) - 1]
    if policy["policy"] == "exponential":
        factor = policy.get("factor") or 2.0
        return int(min(policy["start_ms"] * factor ** (attempt - 1), policy["cap_ms"]))
    level = min(attempt - 1 + LEVEL_OF_FIRST_RETRY, len(DELAY_LEVELS_S) - 1)
    return DELAY_LEVELS_S[level] * 1000


def _due_ms(message: FakeMessage) -> int:
    assert message.deliver_at_ms is not None
    return message.deliver_at_ms
