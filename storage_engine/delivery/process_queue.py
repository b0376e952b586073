"""One group on one queue: what is in flight, what comes next, what is settled.

            take                      ack
    ready ────────▶ in flight (lease) ────▶ settled ──▶ consumer_offset moves over the prefix
      ▲                   │
      └── again ◀─────────┘  nack (after its delay), lease end

RocketMQ keeps this in its clients; here the engine has it, so that members may come and go.
Invariants: consumer_offset <= position <= max_offset of the queue, and position stays within
``span_max`` of the consumer offset; every offset in ``[consumer_offset, position)`` is in exactly
one of in flight, again, settled, skipped by a filter; only the span leaves the skipped ones out. A
message has at most one lease. Loop thread only.
"""

from __future__ import annotations

import enum
import heapq
from typing import TYPE_CHECKING, Final

from storage_engine.delivery.progress import Progress
from storage_engine.queues.consume_queue import ConsumeQueue

if TYPE_CHECKING:
    from storage_engine.delivery.looking import SettlingLook
    from storage_engine.delivery.subscription import Subscription

_NEVER: Final = (-1, -1)


class Verdict(enum.Enum):
    """What becomes of an ack: SETTLED is one of a message that is settled already, no failure."""

    SETTLE = enum.auto()
    SETTLED = enum.auto()
    MOVED = enum.auto()
    EXPIRED = enum.auto()


class Lease:
    """Messages given out together to one member. ``count`` of them are still in flight.

    ``parts`` says which, until the lease ends; those settled meanwhile are in it too.
    ``began_ms``: wall clock. ``ends_ms``, ``deadline_ms``: monotonic; no extend leads beyond the
    latter.
    """

    __slots__ = ("began_ms", "count", "deadline_ms", "ends_ms", "generation", "member_id", "parts")

    def __init__(
        self, generation: int, member_id: str, began_ms: int = 0, deadline_ms: int = 0
    ) -> None:
        self.generation = generation
        self.member_id = member_id
        self.began_ms = began_ms
        self.deadline_ms = deadline_ms
        self.ends_ms = 0
        self.count = 0
        self.parts: list[tuple[ProcessQueue, list[int]]] = []


_ON_ITS_WAY: Final = Lease(0, "")


class ProcessQueue:
    """See the module's docstring."""

    __slots__ = (
        "_again",
        "_attempts",
        "_moved",
        "_ready_heap",
        "_span_max",
        "inflight",
        "owner",
        "position",
        "progress",
        "queue",
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
        # queue offset → (when it may be taken again, monotonic ms; generation of its last lease)
        self._again: dict[int, tuple[int, int]] = {}
        self._ready_heap: list[
            tuple[int, int]
        ] = []  # the same as (when, queue offset); may be stale
        self._moved: dict[int, tuple[int, int]] = {}
        self._attempts: dict[int, int] = {}  # deliveries so far, of messages that were given back

    def take(
        self,
        lease: Lease,
        now_ms: int,
        messages_max: int,
        bytes_max: int,
        *,
        is_first: bool,
        look: SettlingLook | None = None,
    ) -> list[tuple[int, int, int, int]]:
        """Lease messages that are ready: those given back first, then new ones, in order.

        ``is_first`` lets the first message exceed ``bytes_max``, so that a large one is not stuck.
        ``look``: of the new ones only those that it wants; what was given back it has wanted.

        Returns:
            (queue_offset, physical_offset, record_bytes, attempt) of each; attempt counts from 1.
        """
        if self.progress.consumer_offset < self.queue.min_offset:
            self.forget_below_min()  # retention could not settle them, or has not yet
        taken: list[tuple[int, int, int, int]] = []
        heap = self._ready_heap
        while heap and len(taken) < messages_max and heap[0][0] <= now_ms:
            ready_ms, queue_offset = heap[0]
            if self._again.get(queue_offset, _NEVER)[0] != ready_ms:
                heapq.heappop(heap)
                continue
            physical_offset, record_bytes, _ = self.queue.unit(queue_offset)
            if record_bytes > bytes_max and not (is_first and not taken):
                lease.count += len(taken)
                return taken
            heapq.heappop(heap)
            del self._again[queue_offset]
            attempt = self._attempts.get(queue_offset, 0) + 1
            self.inflight[queue_offset] = lease
            taken.append((queue_offset, physical_offset, record_bytes, attempt))
            bytes_max -= record_bytes
        count = messages_max - len(taken)
        if count and look is None:
            self._take_new(taken, lease, count, bytes_max, is_first=is_first)
        elif count and look is not None:
            self._take_wanted(taken, lease, count, bytes_max, look, is_first=is_first)
        lease.count += len(taken)
        return taken

    def _take_new(
        self,
        taken: list[tuple[int, int, int, int]],
        lease: Lease,
        count: int,
        bytes_max: int,
        *,
        is_first: bool,
    ) -> None:
        # The consumer offset is ahead after a restart, when receipts from before were settled.
        queue_offset = max(self.position, self.progress.consumer_offset)
        inflight = self.inflight
        settled, skipped = self.progress.settled, self.progress.skipped
        end = len(taken) + count
        span_end = self.progress.consumer_offset + self._span_max + skipped.count
        max_offset = stop = min(self.queue.max_offset, span_end)
        while queue_offset < max_offset and len(taken) < end:
            if skipped.count:
                # Before a restart, or a change of the filter, above the consumer offset.
                queue_offset = skipped.end_of(queue_offset)
                stop = skipped.first_from(queue_offset, max_offset)
            for physical_offset, record_bytes, _ in self.queue.units(
                queue_offset, min(end - len(taken), stop - queue_offset)
            ):
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

    def _take_wanted(
        self,
        taken: list[tuple[int, int, int, int]],
        lease: Lease,
        count: int,
        bytes_max: int,
        look: SettlingLook,
        *,
        is_first: bool,
    ) -> None:
        """The same through a filter; what it does not want is skipped."""
        progress = self.progress
        settled, skipped = progress.settled, progress.skipped
        queue_offset = max(self.position, progress.consumer_offset)
        end = len(taken) + count
        while len(taken) < end and not look.is_spent:
            queue_offset = skipped.end_of(queue_offset)
            span_end = progress.consumer_offset + self._span_max + skipped.count
            stop = skipped.first_from(queue_offset, min(self.queue.max_offset, span_end))
            if queue_offset >= stop:
                break
            units = self.queue.units(queue_offset, min(stop - queue_offset, look.units_left))
            while len(taken) < end:
                unwanted_count, unit = look.next_wanted(units)
                if unwanted_count:
                    look.skip(progress, queue_offset, unwanted_count)
                    queue_offset += unwanted_count
                if unit is None:
                    break
                if settled and queue_offset in settled:
                    queue_offset += 1
                    continue
                physical_offset, record_bytes, _ = unit
                if record_bytes > bytes_max and not (is_first and not taken):
                    self.position = queue_offset
                    return
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
        look: SettlingLook | None = None,
    ) -> list[tuple[int, int, int, int]]:
        """Lease the next batch of an ordered group, as ``take`` does, once the last one is settled.

        What was given back comes first, when its delay is over, in the order of the queue.
        """
        if self.progress.consumer_offset < self.queue.min_offset:
            self.forget_below_min()
        taken: list[tuple[int, int, int, int]] = []
        if self.inflight:
            return taken
        is_held_up = False
        for queue_offset in sorted(self._again):
            physical_offset, record_bytes, _ = self.queue.unit(queue_offset)
            is_held_up = (
                self._again[queue_offset][0] > now_ms
                or len(taken) >= messages_max
                or (record_bytes > bytes_max and not (is_first and not taken))
            )
            if is_held_up:
                break
            del self._again[queue_offset]
            attempt = self._attempts.get(queue_offset, 0) + 1
            self.inflight[queue_offset] = lease
            taken.append((queue_offset, physical_offset, record_bytes, attempt))
            bytes_max -= record_bytes
        self._ready_heap = sorted((ready_ms, at) for at, (ready_ms, _) in self._again.items())
        count = 0 if is_held_up else messages_max - len(taken)
        if count and look is None:
            self._take_new(taken, lease, count, bytes_max, is_first=is_first)
        elif count and look is not None:
            self._take_wanted(taken, lease, count, bytes_max, look, is_first=is_first)
        lease.count += len(taken)
        return taken

    def attempts(self, queue_offset: int) -> int:
        """Deliveries of a message in this place that have failed, since the engine's start."""
        return self._attempts.get(queue_offset, 0)

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
        again = self._again.get(queue_offset)
        if again is not None:
            return Verdict.SETTLE if again[1] == generation else Verdict.EXPIRED
        is_before = generation < first_generation and queue_offset < self.queue.max_offset
        return Verdict.SETTLE if is_before else Verdict.EXPIRED

    def find_moved(self, queue_offset: int) -> tuple[Verdict, ProcessQueue, int]:
        """The same for a message that was moved, and where it is now; nobody has had it since."""
        _, retry_offset = self._moved[queue_offset]
        retry = self.owner.retry
        if retry is None or retry_offset < 0:  # dead, or it waits
            return Verdict.EXPIRED, self, queue_offset
        if retry_offset in retry.inflight or retry_offset in retry._moved:
            return Verdict.EXPIRED, retry, retry_offset
        is_settled = retry.progress.is_settled(retry_offset)
        return Verdict.SETTLED if is_settled else Verdict.SETTLE, retry, retry_offset

    def is_leased_beside(self, member_id: str) -> bool:
        """Whether anybody but this member holds messages; costs a look at all in flight."""
        leases = self.inflight.values()
        return any(each.member_id != member_id and each is not _ON_ITS_WAY for each in leases)

    def forget(self, first: int, count: int) -> None:
        """Drop what is known about offsets that have just been settled."""
        inflight, again = self.inflight, self._again
        for queue_offset in range(first, first + count):
            lease = inflight.pop(queue_offset, None)
            if lease is not None:
                lease.count -= 1
        if again or self._attempts:
            for queue_offset in range(first, first + count):
                again.pop(queue_offset, None)
                self._attempts.pop(queue_offset, None)

    def unsettled_below_min(self) -> int:
        """How many messages below the queue's min_offset the group has not settled."""
        progress = self.progress
        span = range(progress.consumer_offset, self.queue.min_offset)
        settled_count = sum([offset in span for offset in progress.settled])
        return len(span) - settled_count - progress.skipped.count_below(span.stop)

    def forget_below_min(self) -> None:
        """Drop what is known about messages that retention has made unreadable."""
        low = self.queue.min_offset
        for queue_offset in [offset for offset in self.inflight if offset < low]:
            self.inflight.pop(queue_offset).count -= 1
        for known in (self._again, self._attempts):
            for queue_offset in [offset for offset in known if offset < low]:
                del known[queue_offset]
        self.position = max(self.position, low)

    def forget_below(self, queue_offset: int) -> None:
        """Drop what is known about messages below that have just been settled; none is in
        flight.
        """
        for known in (self._again, self._attempts):
            for offset in [offset for offset in known if offset < queue_offset]:
                del known[offset]
        self.position = max(self.position, queue_offset)

    def begin_again(self) -> None:
        """Go on where the consumer offset was reset to: whatever was in flight, given back or
        moved is as if it had never been delivered. What has no lease settles nothing.
        """
        for lease in self.inflight.values():
            lease.count -= 1
        for known in (self.inflight, self._again, self._moved, self._attempts):
            known.clear()
        self._ready_heap.clear()
        self.position = max(self.progress.consumer_offset, self.queue.min_offset)

    def moved(self, queue_offset: int, generation: int, retry_offset: int) -> None:
        """Remember where a message has gone that had a lease of that generation; -1: no more here.

        For acks that come late; the oldest are forgotten.
        """
        places = self._moved
        places[queue_offset] = generation, retry_offset
        if len(places) > self._span_max:
            del places[next(iter(places))]

    def hold(self, queue_offset: int) -> None:
        """Take a message from its lease: it is on its way to another place, nobody can settle it.

        ``forget`` follows when it is there.
        """
        self.inflight[queue_offset].count -= 1
        self.inflight[queue_offset] = _ON_ITS_WAY
        _ON_ITS_WAY.count += 1

    def give_back(self, queue_offset: int, ready_ms: int, *, is_attempt: bool = True) -> None:
        """Make a leased message available again from ``ready_ms`` (monotonic) on."""
        lease = self.inflight.pop(queue_offset)
        lease.count -= 1
        if is_attempt:
            self._attempts[queue_offset] = self._attempts.get(queue_offset, 0) + 1
        self._again[queue_offset] = ready_ms, lease.generation
        heapq.heappush(self._ready_heap, (ready_ms, queue_offset))

    def move(self, queue_offset: int, lease: Lease) -> None:
        """Put a message that is in flight under another lease."""
        self.inflight[queue_offset].count -= 1
        self.inflight[queue_offset] = lease
        lease.count += 1
        lease.parts.append((self, [queue_offset]))
