"""One group on one queue: what is in flight, what comes next, what is settled.

            take                      ack
    ready ────────▶ in flight (lease) ────▶ settled ──▶ consumer_offset moves over the prefix
      ▲                   │
      └── again ◀─────────┘  nack (after its delay), lease end

RocketMQ keeps this in its clients; here the engine has it, so that members may come and go.
Invariants: consumer_offset <= position <= max_offset of the queue, and position stays within
``span_max`` of the consumer offset; every offset in ``[consumer_offset, position)`` is in exactly
one of in flight, again, settled, skipped by a filter, passed over while its message group is busy;
only the span leaves the skipped ones out. A message has at most one lease. ``take`` waits for no
message that is in flight; what does is in ``ordered_take.py``. Loop thread only.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from storage_engine.delivery.lease import MOVING, Lease, Verdict
from storage_engine.delivery.offset_runs import OffsetRuns, runs_of
from storage_engine.delivery.progress import Progress
from storage_engine.queues.consume_queue import ConsumeQueue

if TYPE_CHECKING:
    from storage_engine.delivery.filter_scan import SettlingScan
    from storage_engine.delivery.message_groups import MessageGroups
    from storage_engine.delivery.ordered_take import ByMessageGroup
    from storage_engine.delivery.subscription import Subscription

Taken = tuple[int, int, int, int]  # queue offset, physical offset, bytes of the record, attempt

NEVER: Final = (-1, -1)
_AT_ONCE: Final = (0, 0)  # of ``again``: nobody has had it, in this run of the engine


class ProcessQueue:
    """See the module's docstring.

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
            if self.released.get(queue_offset, NEVER)[0] != ready_ms:
                heapq.heappop(heap)
                continue
            physical_offset, record_bytes, _ = self.queue.unit(queue_offset)
            if record_bytes > bytes_max and not (is_first and not taken):
                return self.leased(sorted(taken), lease)
            heapq.heappop(heap)
            del self.released[queue_offset]
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
        # The consumer offset is ahead after a restart, when receipts from before were settled.
        queue_offset = max(self.position, self.progress.consumer_offset)
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
        order: ByMessageGroup | None = None,
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
        _, retry_offset = self._moved[queue_offset]
        retry = self.owner.retry
        if retry is None or retry_offset < 0:  # dead, or it waits
            return Verdict.EXPIRED, self, queue_offset
        if retry_offset in retry.inflight or retry_offset in retry._moved:
            return Verdict.EXPIRED, retry, retry_offset
        is_settled = retry.progress.is_settled(retry_offset)
        return Verdict.SETTLED if is_settled else Verdict.SETTLE, retry, retry_offset

    @property
    def span_end(self) -> int:
        """What has been taken stays below it, whatever is settled above the consumer offset."""
        return self.progress.consumer_offset + self._span_max + self.progress.skipped.count

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

    def move(self, queue_offset: int, lease: Lease) -> None:
        """Put a message that is in flight under another lease."""
        self.inflight[queue_offset].count -= 1
        self.inflight[queue_offset] = lease
        lease.count += 1
        lease.parts.append((self, [queue_offset]))
