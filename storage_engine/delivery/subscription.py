"""One group on one topic: what is in flight on each of its queues, what comes next, who waits.

            take                      ack
    ready ────────▶ in flight (lease) ────▶ settled ──▶ consumer_offset moves over the prefix
      ▲                   │
      └── released ◀──────┘  nack (after its delay), lease end

    [Subscription] ── sources ──▶ [ProcessQueue] of each queue ── inflight ──▶ [Lease]
          └── waiting_receives       └── ordered, shared dispatch ──▶ [MessageGroups]

RocketMQ keeps this in its clients; here the engine has it, so that members may come and go.
Invariants: consumer_offset <= position <= max_offset of the queue, and position stays within
``span_max`` of the consumer offset; every offset in ``[consumer_offset, position)`` is in exactly
one of in flight, released, settled, skipped by a filter, passed over while its message group is
busy; only the span leaves the skipped ones out. A message has at most one lease. Receives that wait
are answered in order of arrival; ``delivery.py`` decides when. Loop thread only.
"""

from __future__ import annotations

import enum
import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator, Mapping, Set
from functools import partial
from typing import Final, NamedTuple

from storage_engine.delivery.clients import split_reader
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.due_heap import DueHeap
from storage_engine.delivery.filter_scan import SettlingScan
from storage_engine.delivery.members import SILENCE_MS_MAX, Members, Readers
from storage_engine.delivery.offset_bits import OffsetRuns, runs_of
from storage_engine.delivery.progress import Progress
from storage_engine.errors import NotLocal, StoreError, SubscriptionConflict
from storage_engine.filters.message_filter import EVERYTHING, Filter
from storage_engine.log.commit_log import CommitLog
from storage_engine.log.offset_at_time import offset_at_time
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.message_group import message_group_of
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.groups import Dispatch, GroupConfig, StartFrom

Taken = tuple[int, int, int, int]  # queue offset, physical offset, bytes of the record, attempt

_NEVER: Final = (-1, -1)
_GENERATION_BITS: Final = 40  # of the counter; the epoch of this run of the engine stands above it
_AT_ONCE: Final = (0, 0)  # of ``again``: nobody has had it, in this run of the engine
_AHEAD_MAX: Final = 200  # messages that wait so that others of one message group come first
_NO_ROOM: Final = -1  # bytes: nothing is taken, but looked at
StartOf = Callable[[ConsumeQueue], int]


class Verdict(enum.Enum):
    """What becomes of an ack: SETTLED is one of a message that is settled already, no failure."""

    SETTLE = enum.auto()
    SETTLED = enum.auto()
    MOVED = enum.auto()
    EXPIRED = enum.auto()


class Lease:
    """Messages that one receive leased to its member. ``count`` of them are still in flight.

    ``parts`` says which, until the lease ends; those settled meanwhile are in it too.
    ``started_ms``, ``until_ms``: wall clock. ``ends_ms``, ``deadline_ms``: monotonic; nothing lets
    it last beyond the latter. ``extended_end_ms``: when it ends as far as is known now, for one
    that extends itself (``auto_extend.py``). ``is_repeated``: its receive was, see ``attempts.py``;
    ``is_unnamed``: as in that receive. ``is_retaken``: it began when the one of the receive had
    ended; what it has comes again as if it had not been. ``refused``: what the member gave back, of
    the messages that were first given out together. ``released_before``: what ``released`` of the
    queue said of those that had been given out before, in case that this lease comes to nothing.
    """

    __slots__ = (
        "_first",
        "count",
        "deadline_ms",
        "ends_ms",
        "extended_end_ms",
        "generation",
        "is_repeated",
        "is_retaken",
        "is_unnamed",
        "member_id",
        "parts",
        "refused",
        "released_before",
        "started_ms",
        "until_ms",
    )

    def __init__(
        self, generation: int, member_id: str, started_ms: int = 0, deadline_ms: int = 0
    ) -> None:
        self.generation = generation
        self.member_id = member_id
        self.started_ms = self.until_ms = started_ms
        self.deadline_ms = deadline_ms
        self.ends_ms = 0
        self.count = 0
        self.parts: list[tuple[ProcessQueue, list[int]]] = []
        self.extended_end_ms: Callable[[int], int] | None = None
        self.is_repeated = False
        self.is_retaken = False
        self.is_unnamed = False
        self.refused: set[tuple[ProcessQueue, int]] | None = None
        self.released_before: dict[tuple[ProcessQueue, int], tuple[int, int]] | None = None
        self._first: Lease | None = None

    @property
    def first(self) -> Lease:
        """The lease under which these messages were first delivered, with all others of the same
        receive.
        """
        return self._first or self

    def extended_to(self, now_ms: int) -> int:
        """When it ends, for one whose time had come but that was extended meanwhile; else 0.

        Monotonic.
        """
        if self.extended_end_ms is None:
            return 0
        end_ms = min(self.extended_end_ms(now_ms), self.deadline_ms)
        if end_ms <= now_ms:
            return 0
        self.until_ms += end_ms - now_ms
        self.ends_ms = end_ms
        return end_ms

    def refuse(self, process_queue: ProcessQueue, queue_offset: int) -> None:
        """Its member gives a message back."""
        if self.refused is None:
            self.refused = set()
        self.refused.add((process_queue, queue_offset))

    def renewed(self) -> Lease:
        """An empty lease for some of its messages; their receipts remain valid under it."""
        lease = Lease(self.generation, self.member_id, self.started_ms, self.deadline_ms)
        lease.extended_end_ms, lease.is_repeated = self.extended_end_ms, self.is_repeated
        lease.is_unnamed, lease.is_retaken = self.is_unnamed, self.is_retaken
        lease._first = self.first
        return lease


# A generation that no request can say; see ``ProcessQueue.start_move``.
MOVING: Final = Lease(1 << 64, "")


class Failure(NamedTuple):
    """One message whose delivery failed, between its lease and the place it is moved to.

    ``delay_ms``: until it is delivered again; None: by the group's policy. ``is_dead``: never.
    ``delivered_ms``, ``failed_ms``: when the delivery began and ended, wall clock. ``generation``:
    of the lease it had. ``member_id``: who had it. ``has_vanished``: the member is gone without a
    word; a message that has not failed before is then delivered again at once.
    """

    process_queue: ProcessQueue
    queue_offset: int
    generation: int
    delay_ms: int | None
    reason: str
    delivered_ms: int
    failed_ms: int
    is_dead: bool = False
    member_id: str = ""
    has_vanished: bool = False


class _Group:
    """One message group. ``batch`` is the lease under which the last ones were taken, and
    ``batch_count`` how many; ``waiting`` is a heap of queue offsets.
    """

    __slots__ = ("batch", "batch_count", "leased_count", "text", "waiting")

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.batch: Lease | None = None
        self.batch_count = 0
        self.leased_count = 0
        self.waiting: list[int] = []


class MessageGroups:
    """Which messages of one queue must wait for others of their message group.

        new, its group idle ──▶ leased ──── settled ──▶ forgotten; the group's next one is ready
                                 │  ▲
                        released ▼  │ taken, when it is the first of its group and none is leased
        new, its group busy ──▶ waiting

    A message group is the exact text of the property, so no two share an order by chance. Each has
    a heap of its waiting offsets; its lowest one, the head, stands in a heap of heads while nothing
    of the group is leased. So neither a settle nor a take looks at more than it changes. Entries of
    both heaps that are no longer true are dropped when they come to the top. A group of which
    nothing is leased or waiting is forgotten.

    ``waiting_max``: messages that may be passed over, or given back, before no new ones are looked
    at. ``batch_max``, in the methods: how many of a message group may be in one batch.
    """

    __slots__ = ("_groups", "_heads", "_leased", "_waiting", "_waiting_max")

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._groups: dict[bytes, _Group] = {}
        self._leased: dict[int, _Group] = {}
        self._waiting: dict[int, _Group] = {}
        self._heads: list[int] = []

    def __contains__(self, queue_offset: int) -> bool:
        """Whether the message has a place in the order of a message group."""
        return queue_offset in self._leased or queue_offset in self._waiting

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= self._waiting_max

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def find_ready(self, lease: Lease, batch_max: int) -> int | None:
        """The lowest offset that may be taken under the lease, unless its delay is not over."""
        heads = self._heads
        while heads:
            group = self._waiting.get(heads[0])
            if group is not None and self._head_of(group) == heads[0]:
                is_own = group.batch is lease and group.batch_count < batch_max
                if is_own or not group.leased_count:
                    return heads[0]
            heapq.heappop(heads)
        return None

    def take_ready(self, lease: Lease) -> None:
        """Hold the message that ``find_ready`` found; the next of its group may follow it."""
        queue_offset = heapq.heappop(self._heads)
        group = self._waiting.pop(queue_offset)
        heapq.heappop(group.waiting)
        self._add_leased(group, queue_offset, lease)
        head = self._head_of(group)
        if head is not None:
            heapq.heappush(self._heads, head)

    def text_of(self, queue_offset: int) -> bytes:
        """The message group of a message that is held, empty for one without."""
        group = self._leased.get(queue_offset)
        return b"" if group is None else group.text

    def find_next(self, text: bytes, lease: Lease, batch_max: int) -> int | None:
        """The first message of a group that waits, of which others are held under the lease; its
        delay may not be over.
        """
        group = self._groups[text]
        is_own = group.batch is lease and group.batch_count < batch_max
        return self._head_of(group) if is_own else None

    def take_next(self, queue_offset: int, lease: Lease) -> None:
        """Hold the message that ``find_next`` found."""
        group = self._waiting.pop(queue_offset)
        heapq.heappop(group.waiting)
        self._add_leased(group, queue_offset, lease)

    def suspend(self) -> None:
        """What ``find_ready`` found is suspended; ``due`` comes when it is so no more."""
        heapq.heappop(self._heads)

    def due(self, queue_offset: int) -> None:
        """The delay of a released message has passed."""
        group = self._waiting.get(queue_offset)
        if group is not None and not group.leased_count and self._head_of(group) == queue_offset:
            heapq.heappush(self._heads, queue_offset)

    def may_take(self, text: bytes, lease: Lease, batch_max: int) -> bool:
        """Whether a message of the group that comes behind all known ones may be taken now."""
        group = self._groups.get(text)
        if group is None:
            return True
        is_own = group.batch is lease and group.batch_count < batch_max
        return is_own and self._head_of(group) is None

    def take_new(self, text: bytes, queue_offset: int, lease: Lease) -> None:
        """Hold a message that has not been known."""
        self._add_leased(self._group(text), queue_offset, lease)

    def skip(self, text: bytes, queue_offset: int) -> None:
        """Let a message wait that has not been known."""
        group = self._group(text)
        self._waiting[queue_offset] = group
        heapq.heappush(group.waiting, queue_offset)

    def adopt(self, text: bytes, queue_offset: int, lease: Lease | None) -> None:
        """Know a message from before the queue was read by message groups: in flight under a
        lease, or given back, then its delay must be told by ``due``.
        """
        if lease is None:
            self.skip(text, queue_offset)
        else:
            self.take_new(text, queue_offset, lease)

    def released(self, queue_offset: int) -> None:
        """A message that was held is to be delivered again, before what comes behind it."""
        group = self._leased.pop(queue_offset, None)
        if group is not None:
            self._waiting[queue_offset] = group
            heapq.heappush(group.waiting, queue_offset)
            self._remove(group)

    def forget(self, queue_offset: int) -> None:
        """A message is settled, or can no longer be read; its message group continues."""
        group = self._leased.pop(queue_offset, None)
        if group is not None:
            self._remove(group)
            return
        group = self._waiting.pop(queue_offset, None)
        if group is not None and not group.leased_count:
            self._offer(group)

    def forget_below(self, queue_offset: int) -> None:
        """All messages below are settled, or can be read no more."""
        for offset in [at for at in (*self._leased, *self._waiting) if at < queue_offset]:
            self.forget(offset)

    def drop_skipped(self, given_back: Container[int]) -> list[int]:
        """Know no more of the messages that wait without having been delivered; those."""
        dropped = [offset for offset in self._waiting if offset not in given_back]
        touched = {self._waiting.pop(offset) for offset in dropped}
        for group in touched:
            group.waiting = [offset for offset in group.waiting if offset in self._waiting]
            heapq.heapify(group.waiting)
            if not group.leased_count:
                self._offer(group)
        return dropped

    def _group(self, text: bytes) -> _Group:
        group = self._groups.get(text)
        if group is None:
            group = self._groups[text] = _Group(text)
        return group

    def _add_leased(self, group: _Group, queue_offset: int, lease: Lease) -> None:
        if group.batch is not lease:
            group.batch, group.batch_count = lease, 0
        group.batch_count += 1
        group.leased_count += 1
        self._leased[queue_offset] = group

    def _remove(self, group: _Group) -> None:
        group.leased_count -= 1
        if not group.leased_count:
            group.batch = None
            self._offer(group)

    def _offer(self, group: _Group) -> None:
        head = self._head_of(group)
        if head is not None:
            heapq.heappush(self._heads, head)
        else:
            del self._groups[group.text]

    def _head_of(self, group: _Group) -> int | None:
        waiting = group.waiting
        while waiting and self._waiting.get(waiting[0]) is not group:
            heapq.heappop(waiting)
        return waiting[0] if waiting else None


class _ByMessageGroup:
    """Which messages of a queue may be taken under one lease."""

    __slots__ = ("_batch_max", "_groups", "_lease", "_text")

    def __init__(self, groups: MessageGroups, lease: Lease, batch_max: int) -> None:
        self._groups = groups
        self._lease = lease
        self._batch_max = batch_max
        self._text = b""  # message group of the last one asked for

    @property
    def is_full(self) -> bool:
        return self._groups.is_full

    def find_ready(self) -> int | None:
        """See ``MessageGroups.find_ready``."""
        return self._groups.find_ready(self._lease, self._batch_max)

    def skips(self, queue_offset: int, look: SettlingScan) -> bool:
        """Whether the new message that the look has found must wait; then it does so from now."""
        properties = look.properties
        text = self._text = b"" if properties is None else message_group_of(properties)
        if not text or self._groups.may_take(text, self._lease, self._batch_max):
            return False
        self._groups.skip(text, queue_offset)
        look.discard_match()
        return True

    def take(self, queue_offset: int) -> None:
        """Record that the message asked for last is taken."""
        if self._text:
            self._groups.take_new(self._text, queue_offset, self._lease)


class _LookAhead:
    """New messages wait until one of a message group is among them, so that it can be taken before
    they are.
    """

    __slots__ = ("_groups", "_has_found", "_text")

    def __init__(self, groups: MessageGroups, text: bytes) -> None:
        self._groups = groups
        self._text = text
        self._has_found = False

    @property
    def is_full(self) -> bool:
        groups = self._groups
        return self._has_found or groups.is_full or groups.waiting_count >= _AHEAD_MAX

    def skips(self, queue_offset: int, look: SettlingScan) -> bool:
        """As of ``_ByMessageGroup``; a message without a group cannot wait for others."""
        text = b"" if look.properties is None else message_group_of(look.properties)
        if not text:
            return False
        self._groups.skip(text, queue_offset)
        self._groups.due(queue_offset)
        self._has_found = text == self._text
        look.discard_match()
        return True

    def take(self, queue_offset: int) -> None:
        raise AssertionError(f"{queue_offset} is looked at, not taken")


class ProcessQueue:
    """One group on one queue; see the module's docstring.

    What a member may take depends on the order that the group wants, and on the dispatch:

        no order ─────────────▶ ``take``                   waits for nothing that is in flight
        exclusive dispatch ───▶ ``take_in_order``          one batch of the queue at a time
        shared dispatch ──────▶ ``take_by_message_group``  one batch of each message group at a time

    In the last two what fails keeps its place: it comes again, when its delay is over, before
    anything behind it, which is the queue or the message group. A message without a message group
    has no order in shared dispatch. A member that settles in order, and gives back what is behind a
    failure, sees order in all that is settled; with batches of one, every member does.

    ``released``: queue offset → (when it may be taken again, monotonic ms; generation of its last
    lease); ``ready_heap`` has (when, queue offset) of them, and may be stale. ``message_groups``:
    None unless the queue is read by message groups.
    """

    __slots__ = (
        "_moved",
        "_seen_to",
        "_span_max",
        "inflight",
        "message_groups",
        "owner",
        "position",
        "progress",
        "queue",
        "ready_heap",
        "released",
    )

    def __init__(
        self, queue: ConsumeQueue, progress: Progress, span_max: int, owner: Subscription
    ) -> None:
        self._span_max = span_max
        self.owner = owner
        self.queue = queue
        self.progress = progress
        self.position = max(progress.consumer_offset, queue.min_offset)
        self.inflight: dict[int, Lease] = {}
        self.released: dict[int, tuple[int, int]] = {}
        self.ready_heap: list[tuple[int, int]] = []
        self.message_groups: MessageGroups | None = None
        self._moved: dict[int, tuple[int, int]] = {}
        self._seen_to = 0  # position has been here before it went back

    def take(
        self,
        lease: Lease,
        now_ms: int,
        messages_max: int,
        bytes_max: int,
        *,
        is_first: bool,
        look: SettlingScan | None = None,
    ) -> list[Taken]:
        """Lease messages that are ready: released ones first, then new ones, in order.

        ``is_first`` lets the first message exceed ``bytes_max``, so that a large one is not stuck.
        ``look``: of the new ones only those that it wants; what was given back it has wanted.

        Returns:
            (queue_offset, physical_offset, record_bytes, attempt) of each; attempt counts from 1.
        """
        if self.message_groups is not None:
            self.leave_message_groups()
        if self.progress.consumer_offset < self.queue.min_offset:
            self.forget_below_min()  # retention could not settle them, or has not yet
        taken: list[Taken] = []
        heap = self.ready_heap
        while heap and len(taken) < messages_max and heap[0][0] <= now_ms:
            ready_ms, queue_offset = heap[0]
            if self.released.get(queue_offset, _NEVER)[0] != ready_ms:
                heapq.heappop(heap)
                continue
            physical_offset, record_bytes, _ = self.queue.unit(queue_offset)
            if record_bytes > bytes_max and not (is_first and not taken):
                return self.leased(sorted(taken), lease)
            heapq.heappop(heap)
            self._take_released(queue_offset, lease)
            self.inflight[queue_offset] = lease
            taken.append((queue_offset, physical_offset, record_bytes, 1))
            bytes_max -= record_bytes
        taken.sort()  # they were given back in any order, and a batch has that of the queue
        count = messages_max - len(taken)
        if count and look is None:
            self.take_new(taken, lease, count, bytes_max, is_first=is_first)
        elif count and look is not None:
            self.take_filtered(taken, lease, count, bytes_max, look, is_first=is_first)
        return self.leased(taken, lease)

    def next_places(self, count: int, now_ms: int) -> list[int]:
        """Physical offsets of ``count`` messages that ``take`` would begin with, about: what was
        settled out of order is among them; of what was given back only the first is.
        """
        heap, queue = self.ready_heap, self.queue
        if not heap and self.position >= queue.max_offset:
            return []
        while heap and self.released.get(heap[0][1], _NEVER)[0] != heap[0][0]:
            heapq.heappop(heap)
        first = max(self._first_new, queue.min_offset)
        end = min(first + count, self.span_end)
        places = [unit[0] for unit in queue.units(first, end - first)]
        if heap and heap[0][0] <= now_ms and heap[0][1] >= queue.min_offset:
            places.append(queue.unit(heap[0][1])[0])
        return places

    @property
    def _first_new(self) -> int:
        # The consumer offset is ahead after a restart, when receipts from before were settled.
        return max(self.position, self.progress.consumer_offset)

    def leased(self, taken: list[Taken], lease: Lease) -> list[Taken]:
        """Count what was taken under a lease, and say which attempt each is."""
        lease.count += len(taken)
        failures = self.progress.failures
        if failures:
            return [(*each[:3], failures.get(each[0], 0) + 1) for each in taken]
        return taken

    def take_new(
        self,
        taken: list[Taken],
        lease: Lease,
        count: int,
        bytes_max: int,
        *,
        is_first: bool,
    ) -> None:
        """Lease messages from ``position`` on, and add them to ``taken``."""
        queue_offset = self._first_new
        inflight = self.inflight
        settled, passed = self.progress.settled, self._passed()
        end = len(taken) + count
        max_offset = stop = min(self.queue.max_offset, self.span_end)
        while queue_offset < max_offset and len(taken) < end:
            if passed.count:
                # Before a restart, or a change of the filter, above the consumer offset.
                queue_offset = passed.end_of(queue_offset)
                stop = passed.first_from(queue_offset, max_offset)
            units = list(self.queue.units(queue_offset, min(end - len(taken), stop - queue_offset)))
            all_bytes = sum([record_bytes for _, record_bytes, _ in units])
            if not settled and all_bytes <= bytes_max:  # nearly always
                offsets = range(queue_offset, queue_offset + len(units))
                inflight.update(dict.fromkeys(offsets, lease))
                taken += [(at, unit[0], unit[1], 1) for at, unit in enumerate(units, queue_offset)]
                bytes_max -= all_bytes
                queue_offset += len(units)
                continue
            for physical_offset, record_bytes, _ in units:
                if settled and queue_offset in settled:
                    # Settled before a restart, above the consumer offset.
                    queue_offset += 1
                    continue
                if record_bytes > bytes_max and not (is_first and not taken):
                    self.position = queue_offset
                    return
                inflight[queue_offset] = lease
                taken.append((queue_offset, physical_offset, record_bytes, 1))
                bytes_max -= record_bytes
                queue_offset += 1
        self.position = queue_offset

    def take_filtered(
        self,
        taken: list[Taken],
        lease: Lease,
        count: int,
        bytes_max: int,
        look: SettlingScan,
        *,
        is_first: bool,
        order: _ByMessageGroup | _LookAhead | None = None,
    ) -> None:
        """The same through a filter; what it does not want is skipped.

        ``order`` says which of the others must wait.
        """
        progress = self.progress
        settled, passed = progress.settled, self._passed()
        queue_offset = self.position
        end = len(taken) + count
        while len(taken) < end and not look.is_spent:
            queue_offset = passed.end_of(max(queue_offset, progress.consumer_offset))
            stop = passed.first_from(queue_offset, min(self.queue.max_offset, self.span_end))
            if queue_offset >= stop:
                break
            units = self.queue.units(queue_offset, min(stop - queue_offset, look.units_left))
            while len(taken) < end:
                unwanted_count, unit = look.next_match(units)
                if unwanted_count:
                    look.skip(progress, queue_offset, unwanted_count)
                    queue_offset += unwanted_count
                if unit is None:
                    break
                # What was skipped may have moved the consumer offset over others, settled before.
                if queue_offset < progress.consumer_offset or queue_offset in settled:
                    queue_offset += 1
                    continue
                physical_offset, record_bytes, _ = unit
                if order is not None and order.skips(queue_offset, look):
                    queue_offset += 1
                    if order.is_full:
                        self.position = queue_offset
                        return
                    continue
                if record_bytes > bytes_max and not (is_first and not taken):
                    self.position = queue_offset
                    return
                if order is not None:
                    order.take(queue_offset)
                self.inflight[queue_offset] = lease
                taken.append((queue_offset, physical_offset, record_bytes, 1))
                bytes_max -= record_bytes
                queue_offset += 1
        self.position = queue_offset

    def take_in_order(
        self,
        lease: Lease,
        now_ms: int,
        messages_max: int,
        bytes_max: int,
        *,
        is_first: bool,
        look: SettlingScan | None = None,
    ) -> list[Taken]:
        """As ``take``: the next batch of the queue, once the last one is settled."""
        if self.message_groups is not None:
            self.leave_message_groups()
        if self.progress.consumer_offset < self.queue.min_offset:
            self.forget_below_min()
        taken: list[Taken] = []
        if self.inflight:
            return taken
        again = self.released
        is_held_up = False
        for queue_offset in sorted(again):
            physical_offset, record_bytes, _ = self.queue.unit(queue_offset)
            is_held_up = (
                again[queue_offset][0] > now_ms
                or len(taken) >= messages_max
                or (record_bytes > bytes_max and not (is_first and not taken))
            )
            if is_held_up:
                break
            self._take_released(queue_offset, lease)
            self.inflight[queue_offset] = lease
            taken.append((queue_offset, physical_offset, record_bytes, 1))
            bytes_max -= record_bytes
        self.ready_heap = sorted((ready_ms, at) for at, (ready_ms, _) in again.items())
        count = 0 if is_held_up else messages_max - len(taken)
        if count and look is None:
            self.take_new(taken, lease, count, bytes_max, is_first=is_first)
        elif count and look is not None:
            self.take_filtered(taken, lease, count, bytes_max, look, is_first=is_first)
        return self.leased(taken, lease)

    def take_by_message_group(
        self,
        lease: Lease,
        now_ms: int,
        messages_max: int,
        bytes_max: int,
        *,
        is_first: bool,
        look: SettlingScan | None = None,
        waiting_max: int,
    ) -> list[Taken]:
        """As ``take``: of each message group the next batch, once the last is settled.

        Known ones first, then new ones; what comes in one batch stands in the order of the queue.
        ``look`` reads each new message once. ``waiting_max``: see ``MessageGroups``.
        """
        assert look is not None
        try:
            groups, order = self._by_message_group(lease, look, waiting_max)
        except NotLocal as exc:
            look.end_at(exc)
            return []
        taken: list[Taken] = []
        room = messages_max
        queue, again, heap = self.queue, self.released, self.ready_heap
        while heap and heap[0][0] <= now_ms:
            ready_ms, queue_offset = heap[0]
            if again.get(queue_offset, _NEVER)[0] == ready_ms and queue_offset not in groups:
                physical_offset, record_bytes, _ = queue.unit(queue_offset)
                if not room or (record_bytes > bytes_max and not (is_first and not taken)):
                    return self.leased(sorted(taken), lease)
                self._take_released(queue_offset, lease)
                self.inflight[queue_offset] = lease
                taken.append((queue_offset, physical_offset, record_bytes, 1))
                bytes_max -= record_bytes
                room -= 1
            heapq.heappop(heap)
            groups.due(queue_offset)
        while room and (head := order.find_ready()) is not None:
            if again.get(head, _NEVER)[0] > now_ms:
                groups.suspend()
                continue
            physical_offset, record_bytes, _ = queue.unit(head)
            if record_bytes > bytes_max and not (is_first and not taken):
                return self.leased(sorted(taken), lease)
            self._take_released(head, lease)
            groups.take_ready(lease)
            self.inflight[head] = lease
            taken.append((head, physical_offset, record_bytes, 1))
            bytes_max -= record_bytes
            room -= 1
        if room and not order.is_full:
            self.take_filtered(taken, lease, room, bytes_max, look, is_first=is_first, order=order)
        return self.leased(sorted(taken), lease)

    def next_by_message_group(
        self, lease: Lease, now_ms: int, look: SettlingScan, *, waiting_max: int
    ) -> int | None:
        """Physical offset of the message that ``take_by_message_group`` would take first."""
        try:
            groups, order = self._by_message_group(lease, look, waiting_max)
        except NotLocal as exc:
            look.end_at(exc)
            return None
        queue, again, heap = self.queue, self.released, self.ready_heap
        while heap and heap[0][0] <= now_ms:
            ready_ms, queue_offset = heap[0]
            if again.get(queue_offset, _NEVER)[0] == ready_ms and queue_offset not in groups:
                return queue.unit(queue_offset)[0]
            heapq.heappop(heap)
            groups.due(queue_offset)
        while (head := order.find_ready()) is not None:
            if again.get(head, _NEVER)[0] <= now_ms:
                return queue.unit(head)[0]
            groups.suspend()
        if order.is_full:
            return None
        self.take_filtered([], lease, 1, _NO_ROOM, look, is_first=False, order=order)
        has_stopped = look.is_spent or order.is_full
        if has_stopped or self.position >= min(queue.max_offset, self.span_end):
            return None
        return queue.unit(self.position)[0]

    def take_message_group(
        self,
        lease: Lease,
        now_ms: int,
        messages_max: int,
        bytes_max: int,
        *,
        is_first: bool,
        look: SettlingScan,
        waiting_max: int,
    ) -> list[Taken]:
        """As ``take_by_message_group``, of one message group alone: that of the message that comes
        first. Others in front of its later messages are passed over.
        """
        taken = self.take_by_message_group(
            lease, now_ms, 1, bytes_max, is_first=is_first, look=look, waiting_max=waiting_max
        )
        groups, queue, again = self.message_groups, self.queue, self.released
        assert groups is not None, "it was read by message groups"
        text = groups.text_of(taken[0][0]) if taken else b""
        if not text:
            return taken
        batch_max = self.owner.config.batch_per_group
        bytes_max -= taken[0][2]
        more: list[Taken] = []
        while len(taken) + len(more) < messages_max:
            head = groups.find_next(text, lease, batch_max)
            if head is None and len(taken) + len(more) < batch_max:
                ahead = _LookAhead(groups, text)
                if not ahead.is_full:
                    self.take_filtered([], lease, 1, _NO_ROOM, look, is_first=False, order=ahead)
                head = groups.find_next(text, lease, batch_max)
            if head is None or again.get(head, _NEVER)[0] > now_ms:
                break
            physical_offset, record_bytes, _ = queue.unit(head)
            if record_bytes > bytes_max:
                break
            self._take_released(head, lease)
            groups.take_next(head, lease)
            self.inflight[head] = lease
            more.append((head, physical_offset, record_bytes, 1))
            bytes_max -= record_bytes
        return [*taken, *self.leased(more, lease)]

    def _by_message_group(
        self, lease: Lease, look: SettlingScan, waiting_max: int
    ) -> tuple[MessageGroups, _ByMessageGroup]:
        """The order of message groups, from now on if it was another."""
        if self.progress.consumer_offset < self.queue.min_offset:
            self.forget_below_min()
        groups = self.message_groups
        if groups is None:
            groups = self.message_groups = self._known_groups(waiting_max, look)
        return groups, _ByMessageGroup(groups, lease, self.owner.config.batch_per_group)

    def _known_groups(self, waiting_max: int, look: SettlingScan) -> MessageGroups:
        """With what is in flight, or was released, while the queue was not read by message groups.

        Reads these once, some us each. Raises ``NotLocal``, with nothing changed.
        """
        groups = MessageGroups(waiting_max)
        for queue_offset in sorted({*self.inflight, *self.released}):
            properties = look.read(*self.queue.unit(queue_offset)[:2])
            text = b"" if properties is None else message_group_of(properties)
            if text:
                groups.adopt(text, queue_offset, self.inflight.get(queue_offset))
        return groups

    def _passed(self) -> OffsetRuns:
        """Offsets that are not new, from ``position`` on, but for those settled one by one."""
        skipped = self.progress.skipped
        if self.position >= self._seen_to:
            return skipped
        passed = OffsetRuns()
        known = runs_of((*self.inflight, *self.released))
        for first, count in (*known, *self.progress.settled.runs(), *skipped):
            passed.add(first, first + count)
        return passed

    def leave_message_groups(self) -> None:
        """Read the queue by message groups no more: none waits for another."""
        assert self.message_groups is not None
        for queue_offset in self.message_groups.drop_skipped(self.released):
            self.released[queue_offset] = _AT_ONCE
        self.message_groups = None
        # Those that wait for nothing but their turn are in the heap no more.
        self.ready_heap = sorted((ready_ms, at) for at, (ready_ms, _) in self.released.items())

    def judge_again(self) -> None:
        """There is another filter, which what was passed over has not been judged by: go back."""
        groups = self.message_groups
        passed_over = [] if groups is None else groups.drop_skipped(self.released)
        if passed_over:
            self._seen_to = max(self._seen_to, self.position)
            self.position = min(self.position, *passed_over)

    @property
    def has_gone_back(self) -> bool:
        """Whether messages from ``position`` on may already be in flight or released."""
        return self.position < self._seen_to

    def is_in_order(self, queue_offset: int) -> bool:
        """Whether others wait for a message that is in flight, so that it must keep its place."""
        if not self.owner.config.is_ordered or self is self.owner.retry:
            return False
        return self.message_groups is None or queue_offset in self.message_groups

    def attempts(self, queue_offset: int) -> int:
        """Deliveries of a message in this place that have failed."""
        return self.progress.failures.get(queue_offset, 0)

    def ready_ms(self, queue_offset: int) -> int | None:
        """When (monotonic) a released message may be leased again."""
        again = self.released.get(queue_offset)
        return None if again is None else again[0]

    def can_settle(self, queue_offset: int, generation: int, first_generation: int) -> Verdict:
        """What becomes of an ack of a message by a receipt with a lease of that generation.

        A message whose lease has ended may still be settled while nobody else has had it since;
        after a restart of the engine too, which forgets leases: then ``generation`` is below
        ``first_generation`` of this run.
        """
        lease = self.inflight.get(queue_offset)
        if lease is not None:
            return Verdict.SETTLE if lease.generation == generation else Verdict.EXPIRED
        moved = self._moved.get(queue_offset)
        if moved is not None:
            return Verdict.MOVED if moved[0] == generation else Verdict.EXPIRED
        if generation < self.progress.lease_floor:
            return Verdict.EXPIRED
        if self.progress.is_settled(queue_offset):
            return Verdict.SETTLED
        again = self.released.get(queue_offset)
        if again is not None and again is not _AT_ONCE:
            return Verdict.SETTLE if again[1] == generation else Verdict.EXPIRED
        is_before = generation < first_generation and queue_offset < self.queue.max_offset
        return Verdict.SETTLE if is_before else Verdict.EXPIRED

    def find_moved(self, queue_offset: int) -> tuple[Verdict, ProcessQueue, int]:
        """The same for a moved message, and where it is now; not delivered since."""
        generation, retry_offset = self._moved[queue_offset]
        retry = self.owner.retry
        if retry is None or retry_offset < 0:  # dead, or it waits
            return Verdict.EXPIRED, self, queue_offset
        lease = retry.inflight.get(retry_offset)
        if lease is not None and lease.generation == generation:
            return Verdict.SETTLE, retry, retry_offset
        if lease is not None or retry_offset in retry._moved:
            return Verdict.EXPIRED, retry, retry_offset
        is_settled = retry.progress.is_settled(retry_offset)
        return Verdict.SETTLED if is_settled else Verdict.SETTLE, retry, retry_offset

    def place_of(self, queue_offset: int, generation: int) -> tuple[ProcessQueue, int]:
        """Where a message is that had a lease of that generation: here, or it was moved."""
        retry, moved = self.owner.retry, self._moved.get(queue_offset)
        if retry is None or moved is None or moved[0] != generation or moved[1] < 0:
            return self, queue_offset
        return retry, moved[1]

    def retake(self, queue_offset: int, lease: Lease, *, is_moved: bool) -> bool:
        """Lease a message again whose lease of the same generation has ended; False if it is
        settled, somebody else has had it since, or it has an order.

        ``is_moved``: it was moved here meanwhile, so that it may be new in this queue.
        """
        again = self.released.get(queue_offset)
        is_new = is_moved and again in (None, _AT_ONCE)
        if not is_new and (again is None or again[1] != lease.generation):
            return False
        if not is_moved and self.owner.config.is_ordered:
            return False
        if again is None:
            readable = range(self.position, min(self.queue.max_offset, self.span_end))
            if queue_offset not in readable or self.progress.is_settled(queue_offset):
                return False
            for passed in range(self.position, queue_offset):
                if not self.progress.is_settled(passed):
                    self.released[passed] = _AT_ONCE
                    heapq.heappush(self.ready_heap, (_AT_ONCE[0], passed))
            self.position = queue_offset + 1
        self.released.pop(queue_offset, None)
        self.inflight[queue_offset] = lease
        lease.count += 1
        lease.parts.append((self, [queue_offset]))
        return True

    @property
    def span_end(self) -> int:
        """What has been taken stays below it, whatever is settled above the consumer offset."""
        return self.progress.consumer_offset + self._span_max + self.progress.skipped.count

    @property
    def first_readable(self) -> int:
        """Where the messages begin that the group may not have settled."""
        return max(self.progress.consumer_offset, self.queue.min_offset)

    def unsettled_count(self, end: int | None = None) -> int:
        """Messages that can be read, below ``end`` or all, and that the group has not settled,
        whether its filter matches or not.
        """
        first = self.first_readable
        end = self.queue.max_offset if end is None else end
        # A queue that was emptied may begin behind what is visible of it.
        return max(end - first - self.progress.settled_count(first, end), 0)

    def others_leased_until_ms(self, member_id: str) -> int | None:
        """When the last lease of anybody with a name but this member ends, monotonic; None without
        any. Costs a look at all in flight.
        """
        ends_ms = [
            each.ends_ms
            for each in self.inflight.values()
            if each.member_id != member_id and each is not MOVING and not each.is_unnamed
        ]
        return max(ends_ms, default=None)

    def forget(self, first: int, count: int) -> None:
        """Drop what is known about offsets that have just been settled."""
        inflight, again, failures = self.inflight, self.released, self.progress.failures
        for queue_offset in range(first, first + count):
            lease = inflight.pop(queue_offset, None)
            if lease is not None:
                lease.count -= 1
        if again or failures:
            for queue_offset in range(first, first + count):
                again.pop(queue_offset, None)
                failures.pop(queue_offset, None)
        if self.message_groups is not None:
            for queue_offset in range(first, first + count):
                self.message_groups.forget(queue_offset)

    def forget_below_min(self) -> None:
        """Drop what is known about messages that retention has made unreadable."""
        low = self.queue.min_offset
        for queue_offset in [offset for offset in self.inflight if offset < low]:
            self.inflight.pop(queue_offset).count -= 1
        self.forget_below(low)

    def forget_below(self, queue_offset: int) -> None:
        """Drop what is known about messages below that have just been settled; none is in
        flight.
        """
        for known in (self.released, self.progress.failures):
            for offset in [offset for offset in known if offset < queue_offset]:
                del known[offset]
        if self.message_groups is not None:
            self.message_groups.forget_below(queue_offset)
        self.position = max(self.position, queue_offset)

    def restart(self) -> None:
        """Restart at the consumer offset after a reset: messages that were in flight, released or
        moved count as never delivered. Without a lease nothing can be settled.
        """
        for lease in self.inflight.values():
            lease.count -= 1
        for known in (self.inflight, self.released, self._moved, self.progress.failures):
            known.clear()
        self.ready_heap.clear()
        self.message_groups = None
        self._seen_to = 0
        self.position = max(self.progress.consumer_offset, self.queue.min_offset)

    def moved(self, queue_offset: int, generation: int, retry_offset: int) -> None:
        """Remember where a message was moved that had a lease of that generation; -1: it is not in
        this queue any more.

        For acks that come late; the oldest are forgotten.
        """
        places = self._moved
        places[queue_offset] = generation, retry_offset
        if len(places) > self._span_max:
            del places[next(iter(places))]

    def start_move(self, queue_offset: int) -> None:
        """Remove a message from its lease: it is being moved, and cannot be settled.

        ``forget`` follows when it is there.
        """
        self.inflight[queue_offset].count -= 1
        self.inflight[queue_offset] = MOVING
        MOVING.count += 1

    def release(self, queue_offset: int, ready_ms: int, *, is_attempt: bool = True) -> None:
        """Make a leased message available again from ``ready_ms`` (monotonic) on."""
        lease = self.inflight.pop(queue_offset)
        lease.count -= 1
        if is_attempt:
            failures = self.progress.failures
            failures[queue_offset] = failures.get(queue_offset, 0) + 1
        if self.message_groups is not None:
            self.message_groups.released(queue_offset)
        self.released[queue_offset] = ready_ms, lease.generation
        heapq.heappush(self.ready_heap, (ready_ms, queue_offset))

    def _take_released(self, queue_offset: int, lease: Lease) -> None:
        """A message that may have been given out before is leased again."""
        before = self.released.pop(queue_offset, None)
        if before is not None:
            if lease.released_before is None:
                lease.released_before = {}
            lease.released_before[self, queue_offset] = before

    def give_back(self, queue_offset: int) -> None:
        """Make available at once what was leased and given to nobody: receipts of those who had it
        before are as good as they were, also from before this run.
        """
        given_before = self.inflight[queue_offset].released_before or {}
        before = given_before.get((self, queue_offset), _AT_ONCE)
        self.release(queue_offset, _AT_ONCE[0], is_attempt=False)
        is_of_this_run = before is not _AT_ONCE
        self.released[queue_offset] = (_AT_ONCE[0], before[1]) if is_of_this_run else _AT_ONCE

    def move(self, queue_offset: int, lease: Lease) -> None:
        """Put a message that is in flight under another lease."""
        self.inflight[queue_offset].count -= 1
        self.inflight[queue_offset] = lease
        lease.count += 1
        lease.parts.append((self, [queue_offset]))


def min_offset_of(queue: ConsumeQueue) -> int:
    """All that can be read."""
    return queue.min_offset


def start_of(group: GroupConfig, commit_log: CommitLog) -> StartOf:
    """Where a group begins on queues that it has never read, by its settings."""
    match group.start_from:
        case StartFrom.EARLIEST:
            return min_offset_of
        case StartFrom.LATEST:
            return lambda queue: queue.max_offset
        case StartFrom.TIMESTAMP:
            return lambda queue: offset_at_time(commit_log, queue, group.start_ms)


def start_at(positions: Mapping[int, int], otherwise: StartOf) -> StartOf:
    """At these positions, by queue id; on other queues ``otherwise``."""
    return partial(_position_or, positions, otherwise) if positions else otherwise


def _position_or(positions: Mapping[int, int], otherwise: StartOf, queue: ConsumeQueue) -> int:
    position = positions.get(queue.queue_id)
    return otherwise(queue) if position is None else position


class Delivered(NamedTuple):
    """What a receive got. ``records`` are (physical_offset, record_bytes); attempts run along.

    ``refusal``: nothing, because what it waited for was deleted. ``first_until_ms``: as in
    ``ReceiveHead``. ``content``: the records back to back, where they have been read already.
    """

    lease_generation: int
    lease_until_ms: int
    records: list[tuple[int, int]]
    attempts: list[int]
    refusal: StoreError | None = None
    lease: Lease | None = None
    first_until_ms: int = 0
    content: bytes | None = None

    def read(self, read_records: Callable[[list[tuple[int, int]]], bytes]) -> bytes:
        """Its records, back to back."""
        return read_records(self.records) if self.content is None else self.content


class WaitingReceive:
    """A receive that waits. ``reply`` is called exactly once, unless ``cancel`` came first."""

    __slots__ = ("is_done", "reply", "request", "subscription")

    def __init__(
        self,
        request: ReceiveRequest,
        subscription: Subscription,
        reply: Callable[[Delivered], None],
    ) -> None:
        self.request = request
        self.subscription = subscription
        self.reply = reply
        self.is_done = False


class Subscription:
    """One group on one topic: its queues, and who waits for them.

    ``queues`` are the topic's, by queue id; ``retry`` is the queue of the group's retry topic for
    messages of this topic, once one has failed; ``sources`` are all of them. ``config`` is the
    group's as the last receive found it; ``members`` count for an exclusive one only, ``readers``
    for all. ``filter`` is the one of all readers: with two, each message would be tested by whoever
    came first, and lost to the other. ``serve`` stands in each source's arrivals.
    """

    __slots__ = (
        "_rotor",
        "config",
        "filter",
        "group",
        "members",
        "queues",
        "readers",
        "retry",
        "serve",
        "sources",
        "topic",
        "waiting_receives",
    )

    def __init__(
        self, config: GroupConfig, topic: str, serve: Callable[[Subscription], None]
    ) -> None:
        self.config = config
        self.group = config.group
        self.members = Members()
        self.readers = Readers()
        self.filter = EVERYTHING
        self.topic = topic
        self.serve = partial(serve, self)  # give what is ready to those who wait
        self.queues: list[ProcessQueue] = []
        self.retry: ProcessQueue | None = None
        self.sources: list[ProcessQueue] = []
        self.waiting_receives: OrderedDict[WaitingReceive, None] = (
            OrderedDict()
        )  # in order of arrival
        self._rotor = 0

    def join(
        self, member_id: str, wanted: Filter, now_ms: int, *, is_unnamed: bool = False
    ) -> bool:
        """Hear of a member, and read through its filter; True when that is another than before.

        Raises ``SubscriptionConflict`` while others read the topic through the one of before.
        """
        is_other = wanted is not self.filter and wanted != self.filter
        if is_other:
            others_ms = self._other_members_ms(member_id, now_ms)
            if others_ms:
                conflict = SubscriptionConflict(
                    f"the group reads this topic with the {self.filter.kind} filter "
                    f"{self.filter}; use that filter, use another group, or wait "
                    "until two minutes after the last other member has gone"
                )
                conflict.retry_after_ms = others_ms
                raise conflict
            self.filter = wanted
            for process_queue in self.queues:
                process_queue.judge_again()
        self.readers.reader_seen(member_id, now_ms, is_unnamed=is_unnamed)
        return is_other

    def _other_members_ms(self, member_id: str, now_ms: int) -> int:
        """How long any other member waits, has leases, or counts as present; 0 if there is none. It
        may be shorter, or longer if they send more requests.
        """
        left_ms = self.readers.other_readers_ms(member_id, now_ms)
        for parked in self.waiting_receives:
            request = parked.request
            if request.member_id != member_id:
                there_ms = request.wait_ms if request.is_unnamed else SILENCE_MS_MAX
                left_ms = max(left_ms, there_ms, 1)
        for process_queue in self.sources:
            ends_ms = process_queue.others_leased_until_ms(member_id)
            if ends_ms is not None:
                left_ms = max(left_ms, ends_ms - now_ms, 1)
        return left_ms

    @property
    def is_exclusive(self) -> bool:
        return self.config.dispatch is Dispatch.EXCLUSIVE

    @property
    def reads_before_taking(self) -> bool:
        """Whether each new message is read before it is known if it may be taken."""
        return not self.filter.is_all or (self.config.is_ordered and not self.is_exclusive)

    def sources_of(self, member_id: str) -> list[ProcessQueue]:
        """What a member may read now. Retries have no order, so they are for all."""
        if not self.is_exclusive:
            return self.sources
        found = [self.queues[queue_id] for queue_id in self.queue_ids_of(member_id)]
        return [*found, self.retry] if self.retry and len(self.members) else found

    def has_handed_over(self, process_queue: ProcessQueue, member_id: str) -> bool:
        """Whether a member that is still there reads the queue no more: others do now. What it
        leaves behind there is no failure of its own.
        """
        return (
            self.is_exclusive
            and member_id in self.members
            and process_queue not in self.sources_of(member_id)
        )

    def rotor_of(self, member_id: str) -> int:
        """Which of ``sources_of`` to look at first, so that none starves."""
        return self.members.rotor_of(member_id) if self.is_exclusive else self._rotor

    def turn(self, member_id: str, rotor: int) -> None:
        """Set ``rotor_of``."""
        if self.is_exclusive:
            self.members.turn(member_id, rotor)
        else:
            self._rotor = rotor

    def queue_ids_of(self, member_id: str) -> list[int]:
        """The queues that are assigned to a member of an exclusive group."""
        config = self.config
        return self.members.queues_of(
            member_id, len(self.queues), config.strategy, config.assignment
        )

    def add_queues(
        self,
        queues: list[ConsumeQueue],
        offsets: ConsumerOffsets,
        span_max: int,
        start_of: StartOf,
        *,
        is_synced: bool = True,
    ) -> list[ProcessQueue]:
        """Read the queues of the topic that are not read yet; those queues.

        The group's positions there are fixed now, where ``start_of`` says. Raises ``DiskFull``,
        ``SyncFailed``, with nothing changed.
        """
        new = queues[len(self.queues) :]
        added = self._read(self.topic, new, offsets, span_max, start_of, is_synced=is_synced)
        self.queues += added
        return self._sourced(added)

    def add_retry(
        self, queue: ConsumeQueue, offsets: ConsumerOffsets, span_max: int
    ) -> list[ProcessQueue]:
        """Read the queue of the retry topic too. Raises ``DiskFull``, ``SyncFailed``."""
        added = self._read(queue.topic, [queue], offsets, span_max, min_offset_of)
        (self.retry,) = added
        return self._sourced(added)

    def _read(
        self,
        topic: str,
        queues: list[ConsumeQueue],
        offsets: ConsumerOffsets,
        span_max: int,
        start_of: StartOf,
        *,
        is_synced: bool = True,
    ) -> list[ProcessQueue]:
        positions = {
            queue.queue_id: start_of(queue)
            for queue in queues
            if offsets.find(self.group, topic, queue.queue_id) is None
        }
        if positions:
            offsets.start_group(self.group, topic, positions, is_synced=is_synced)
        added = []
        for queue in queues:
            progress = offsets.find(self.group, topic, queue.queue_id)
            assert progress is not None
            added.append(ProcessQueue(queue, progress, span_max, self))
        return added

    def _sourced(self, added: list[ProcessQueue]) -> list[ProcessQueue]:
        self.sources = [*self.queues, self.retry] if self.retry else self.queues.copy()
        return added

    def count_retries(
        self,
        lease: Lease,
        records: list[tuple[int, int]],
        attempts: list[int],
        damaged: list[int],
        retries_before: Callable[[tuple[int, int]], int],
    ) -> None:
        """Add to the attempts what came before the records from the retry queue."""
        at = 0
        for process_queue, queue_offsets in lease.parts if self.retry is not None else ():
            end = at + len(queue_offsets)
            for index in range(at, end) if process_queue is self.retry else ():
                if index not in damaged:
                    attempts[index] += retries_before(records[index])
            at = end


class Subscriptions:
    """Those of all groups, by group, topic and queue, and their leases by when they end.

    ``first_generation``: leases below it are from before this start.
    """

    def __init__(self, epoch: int) -> None:
        self._all: dict[tuple[str, str], Subscription] = {}
        self._by_group: dict[str, dict[str, Subscription]] = {}  # the same, by topic
        self._process_queues: dict[tuple[str, str, int], ProcessQueue] = {}
        self.first_generation = (epoch << _GENERATION_BITS) + 1
        self._generations = itertools.count(self.first_generation)
        self.leases: DueHeap[Lease] = DueHeap(lambda lease: lease.count > 0)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._all.values())

    def find(self, group: str, topic: str) -> Subscription | None:
        return self._all.get((group, topic))

    def find_queue(self, group: str, topic: str, queue_id: int) -> ProcessQueue | None:
        """``topic`` may be the group's retry topic."""
        return self._process_queues.get((group, topic, queue_id))

    def of_group(self, group: str) -> list[Subscription]:
        """Of one group, or of one client as a group of its own."""
        return list(self._by_group.get(group, {}).values())

    def next_generation(self) -> int:
        """One that no lease has: those before are lower, those to come are higher."""
        return next(self._generations)

    def add(self, subscription: Subscription) -> None:
        group, topic = subscription.group, subscription.topic
        self._all[group, topic] = self._by_group.setdefault(group, {})[topic] = subscription

    def follow(self, added: list[ProcessQueue]) -> None:
        """Find these queues too, and serve those who wait when something arrives there."""
        for process_queue in added:
            owner, queue = process_queue.owner, process_queue.queue
            self._process_queues[owner.group, queue.topic, queue.queue_id] = process_queue
            queue.arrivals.append(owner.serve)

    def remove(self, gone: list[Subscription]) -> None:
        """Find them and their queues no more."""
        served = {subscription.serve for subscription in gone}
        for queue in {source.queue for subscription in gone for source in subscription.sources}:
            # Serving may go through the list just now.
            queue.arrivals = [each for each in queue.arrivals if each not in served]
        for subscription in gone:
            group, topic = subscription.group, subscription.topic
            del self._all[group, topic], self._by_group[group][topic]
            if not self._by_group[group]:
                del self._by_group[group]
            for source in subscription.sources:
                del self._process_queues[group, source.queue.topic, source.queue.queue_id]

    def member_counts(self, now_ms: int) -> dict[str, int]:
        """Members by group, on whatever topics; groups without are left out.

        Costs a look at every group.
        """
        members: dict[str, set[tuple[str, str]]] = {}
        for subscription in self:
            present = subscription.readers.present(now_ms)
            if present:
                group, client_id = split_reader(subscription.group)
                known = members.setdefault(group, set())
                known.update([(client_id, member_id) for member_id in present])
        return {group: len(member_ids) for group, member_ids in members.items()}

    @property
    def inflight_count(self) -> int:
        """Messages under a lease; costs a look at every queue of every group."""
        return sum([len(queue.inflight) for each in self for queue in each.sources])

    def inflight_counts(self, namespaces: Set[str]) -> dict[str, int]:
        """The same by namespace, of these; costs a look at the names of all groups."""
        counts: dict[str, int] = {}
        for subscription in self:
            namespace = subscription.group.partition("%")[0]
            if namespace in namespaces:
                count = sum([len(queue.inflight) for queue in subscription.sources])
                counts[namespace] = counts.get(namespace, 0) + count
        return counts
