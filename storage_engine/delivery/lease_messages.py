"""Leases messages for one receive, from all queues that its member may read.

    receive, serve ──▶ [MessageLeaser] ── take ──▶ ProcessQueue of each queue ──▶ records, attempts
                           └── damaged ones ──▶ settled: nobody can ever read them

Loop thread only.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby, repeat
from operator import itemgetter
from typing import Final

from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.filter_scan import SettlingScan
from storage_engine.delivery.subscription import (
    Delivered,
    Lease,
    ProcessQueue,
    Subscription,
    Subscriptions,
    Taken,
)
from storage_engine.errors import NotLocal, StoreError
from storage_engine.records.record_parts import HEAD_BYTES_MAX, reconsume_times_of
from storage_engine.wire.deliveries import ReceiveRequest

log = logging.getLogger(__name__)

_LOOKED_MIN: Final = 16  # messages of each queue, to find the oldest
_FETCH_AGAIN_S: Final = 1.0  # after the bucket has not answered
_Found = tuple[ProcessQueue, list[Taken]]


def _oldest_first(
    queues: list[ProcessQueue], count: int, now_ms: int
) -> list[tuple[ProcessQueue, int]]:
    """How many messages of each queue are among the ``count`` that have waited longest, as far as
    a look at what comes next says; then all that have any, for what that look took wrongly as new.
    """
    # A look at twice its share of each queue finds them unless the queues are very uneven.
    looked = max(2 * count // len(queues), min(count, _LOOKED_MIN))
    ready = [
        (physical_offset, index)
        for index, queue in enumerate(queues)
        for physical_offset in queue.next_places(looked, now_ms)
    ]
    ready.sort()
    shares = Counter([index for _, index in ready[:count]])
    every = dict.fromkeys([index for _, index in ready], count)
    return [(queues[index], share) for part in (shares, every) for index, share in part.items()]


def _as_stored(found: list[_Found]) -> list[_Found]:
    """In the order in which all messages were stored; a queue comes as often as it takes."""
    every = [(queue, each) for queue, taken in found for each in taken]
    every.sort(key=lambda entry: entry[1][1])
    runs = groupby(every, key=itemgetter(0))
    return [(queue, [each for _, each in run]) for queue, run in runs]


class MessageLeaser:
    """See the module's docstring."""

    def __init__(self, parts: EngineParts, subscriptions: Subscriptions) -> None:
        self._config = parts.config
        self._clock = parts.clock
        self._consumer_offsets = parts.consumer_offsets
        self._commit_log = parts.commit_log
        self._read = parts.read_checked
        self._next_generation = subscriptions.next_generation
        self._lease_until = subscriptions.leases.push
        self._waiting_max = parts.config.message_group_waiting_max
        self._take_by_message_group = partial(
            ProcessQueue.take_by_message_group, waiting_max=self._waiting_max
        )
        self._loop = parts.loop
        self._fetching: asyncio.Task[None] | None = None
        self.delivered_count = 0
        self.damaged_count = 0

    def take(
        self, subscription: Subscription, request: ReceiveRequest, look: SettlingScan | None
    ) -> Delivered | None:
        """Lease what is ready; records that cannot be read as written are settled instead. Queues
        whose next message cannot be fetched from the bucket are left out, if others have some.

        Raises ``NotLocal``, with nothing leased: what comes next only the bucket has.
        """
        if subscription.config.is_paused:
            return None
        absent: NotLocal | None = None
        left_out: set[ProcessQueue] = set()
        while (delivered := self._lease(subscription, request, look, left_out)) is not None:
            lease, records, attempts = delivered
            try:
                content, damaged = self._read(records)
            except NotLocal as exc:
                first_queue = lease.parts[0][0]
                self._give_back(lease, exc.here_count)
                if not exc.here_count:
                    if not exc.is_failing:
                        raise
                    absent = absent or exc
                    left_out.add(first_queue)
                    continue
                records, attempts = records[: exc.here_count], attempts[: exc.here_count]
                content, damaged = self._read(records)
            subscription.count_retries(lease, records, attempts, damaged, self._retries_before)
            if damaged:
                self._skip(lease, damaged)
                lost = frozenset(damaged)
                records = [entry for at, entry in enumerate(records) if at not in lost]
                attempts = [entry for at, entry in enumerate(attempts) if at not in lost]
            if records:
                if absent is not None:
                    self._fetch_later(absent)
                self.delivered_count += len(records)
                given = records, attempts, None, lease
                return Delivered(lease.generation, lease.until_ms, *given, content=content)
        if look is not None and look.absent is not None:
            raise look.absent
        if absent is not None:
            raise absent
        return None

    def _fetch_later(self, absent: NotLocal) -> None:
        """Try again to bring what was left out, although nobody waits for it."""
        if self._fetching is not None:
            return

        def ended(task: asyncio.Task[None]) -> None:
            has_failed = not task.cancelled() and task.exception() is not None
            self._loop.call_later(_FETCH_AGAIN_S if has_failed else 0, self._fetch_ended)

        self._fetching = self._loop.create_task(absent.fetch())
        self._fetching.add_done_callback(ended)

    def _fetch_ended(self) -> None:
        self._fetching = None

    def stop(self) -> None:
        """Wait for nothing more from the bucket."""
        if self._fetching is not None:
            self._fetching.cancel()

    def _give_back(self, lease: Lease, first: int) -> None:
        """All messages of a new lease from its ``first`` on, as if nobody had had them."""
        places = [(queue, offset) for queue, offsets in lease.parts for offset in offsets]
        for queue, offset in places[first:]:
            queue.give_back(offset)
        kept = set(places[:first])
        lease.parts = [
            (queue, [offset for offset in offsets if (queue, offset) in kept])
            for queue, offsets in lease.parts
        ]

    def _oldest_groups(
        self,
        queues: list[ProcessQueue],
        lease: Lease,
        now_ms: int,
        count: int,
        bytes_max: int,
        look: SettlingScan,
    ) -> list[_Found]:
        """The message group with the message that has waited longest, as much of it as there is,
        then the next one.
        """
        places: dict[ProcessQueue, int] = {}
        found: list[_Found] = []

        def look_at(queue: ProcessQueue) -> None:
            place = queue.next_by_message_group(lease, now_ms, look, waiting_max=self._waiting_max)
            if place is not None and len(queue.inflight) < self._config.inflight_count_max:
                places[queue] = place

        for queue in queues:
            look_at(queue)
        while places and count:
            queue = min(places, key=places.__getitem__)
            del places[queue]
            taken = queue.take_message_group(
                lease,
                now_ms,
                min(count, self._config.inflight_count_max - len(queue.inflight)),
                bytes_max,
                is_first=not found,
                look=look,
                waiting_max=self._waiting_max,
            )
            if taken:
                found.append((queue, taken))
                count -= len(taken)
                bytes_max -= sum([each[2] for each in taken])
                look_at(queue)
        return found

    def _retries_before(self, record: tuple[int, int]) -> int:
        """How often a record was moved before it got its place."""
        physical_offset, record_bytes = record
        head = physical_offset, min(record_bytes, HEAD_BYTES_MAX)
        return reconsume_times_of(self._commit_log.read_many([head]))

    def _skip(self, lease: Lease, damaged: list[int]) -> None:
        """Settle messages of a lease, given by their index in it, that are damaged."""
        places = [(queue, offset) for queue, offsets in lease.parts for offset in offsets]
        settled = [(queue, [(offset, 1)]) for queue, offset in (places[at] for at in damaged)]
        try:
            self._consumer_offsets.settle([(queue.progress, runs) for queue, runs in settled])
        except StoreError as exc:  # they stay under the lease, and are looked at again after it
            log.warning(
                "Could not settle damaged messages; they stay leased",
                extra={"action": "damaged_settle_failed", "reason": str(exc)},
            )
            return
        for queue, runs in settled:
            queue.forget(*runs[0])
        gone = {(queue, runs[0][0]) for queue, runs in settled}
        lease.parts = [
            (queue, [offset for offset in offsets if (queue, offset) not in gone])
            for queue, offsets in lease.parts
        ]
        self.damaged_count += len(damaged)

    def _lease(
        self,
        subscription: Subscription,
        request: ReceiveRequest,
        look: SettlingScan | None,
        left_out: set[ProcessQueue],
    ) -> tuple[Lease, list[tuple[int, int]], list[int]] | None:
        """``left_out``: queues whose messages are none for now."""
        now_ms = self._clock.monotonic_ms()
        deadline_ms = now_ms + subscription.config.consume_timeout_ms
        lease = Lease(0, request.member_id, self._clock.now_ms(), deadline_ms)
        lease.is_unnamed = request.is_unnamed
        found: list[_Found] = []
        count_left = request.messages_max
        bytes_left = min(request.bytes_max, self._config.receive_bytes_max)
        queues = subscription.sources_of(request.member_id)
        take_new: Callable[..., list[Taken]] = ProcessQueue.take
        if subscription.config.is_ordered:
            take_new = (
                ProcessQueue.take_in_order
                if subscription.is_exclusive
                else self._take_by_message_group
            )
        first = subscription.rotor_of(request.member_id)
        sources = (*queues[first:], *queues[:first])
        turns: Iterable[tuple[ProcessQueue, int]] = zip(sources, repeat(count_left))
        is_by_group = take_new is self._take_by_message_group
        if request.ignores_queues and sources[0] is not subscription.retry:
            if is_by_group and look is not None:
                found = self._oldest_groups(
                    [each for each in subscription.queues if each not in left_out],
                    lease,
                    now_ms,
                    count_left,
                    bytes_left,
                    look,
                )
                count_left -= sum([len(taken) for _, taken in found])
                bytes_left -= sum([each[2] for _, taken in found for each in taken])
            elif look is None:
                turns = [*_oldest_first(subscription.queues, count_left, now_ms), *turns]
        if left_out:
            turns = [each for each in turns if each[0] not in left_out]
        for process_queue, share in turns:
            room = self._config.inflight_count_max - len(process_queue.inflight)
            count = min(count_left, share, room)
            if count <= 0:
                continue
            take, own = take_new, look
            if process_queue is subscription.retry:
                # What is in there has matched before, and has no order.
                take, own = ProcessQueue.take, None
            taken = take(
                process_queue, lease, now_ms, count, bytes_left, is_first=not found, look=own
            )
            if taken:
                found.append((process_queue, taken))
                count_left -= len(taken)
                if not count_left:
                    break
                bytes_left -= sum([each[2] for each in taken])
        if queues and (found or (look is not None and look.is_spent)):
            subscription.turn(request.member_id, (first + 1) % len(queues))
        if not found:
            return None
        if request.ignores_queues and len(found) > 1 and not is_by_group:
            found = _as_stored(found)
        lease_ms = min(request.lease_ms, subscription.config.consume_timeout_ms)
        return lease, *self._start(lease, found, lease_ms, now_ms)

    def _start(
        self, lease: Lease, found: list[_Found], lease_ms: int, now_ms: int
    ) -> tuple[list[tuple[int, int]], list[int]]:
        """The records of what was taken under it, and which attempt each is."""
        records: list[tuple[int, int]] = []
        attempts: list[int] = []
        for process_queue, taken in found:
            offsets, places, sizes, counts = zip(*taken, strict=True)
            lease.parts.append((process_queue, list(offsets)))
            records += zip(places, sizes, strict=True)
            attempts += counts
        lease.generation = self._next_generation()
        lease.until_ms, lease.ends_ms = lease.started_ms + lease_ms, now_ms + lease_ms
        self._lease_until(lease.ends_ms, lease)
        return records, attempts
