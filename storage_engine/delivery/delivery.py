"""Gives messages to the members of groups and takes their settles.

    receive ──▶ [Delivery] ── take ──▶ ProcessQueue of each queue ── records ──▶ reply
       └─ nothing ready: parked ── new message, nack delay, lease end ──▶ served in order of arrival
    settle ──▶ [Delivery] ──▶ consumer_offsets (journal) ──▶ reply
    nack, lease end ──▶ [Delivery] ── Failure ──▶ retries

Shared dispatch: any member of a group may lease from any queue. Leases and parked receives are
looked at every tick. A message whose delivery failed goes to another place (``retries.py``) and
comes from there again. Every wait, lease and number in flight has a maximum in ``StoreConfig``.
Loop thread only.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from storage_engine.clock import Clock
from storage_engine.config import SECOND_MS, StoreConfig
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.due_heap import DueHeap
from storage_engine.delivery.failure import Failure
from storage_engine.delivery.process_queue import Lease, ProcessQueue
from storage_engine.delivery.receive_limits import check_limits
from storage_engine.delivery.settling import Settling
from storage_engine.delivery.start_positions import (
    OffsetAtTime,
    StartOf,
    min_offset_of,
    start_at,
    start_of,
)
from storage_engine.delivery.subscription import Delivered, Parked, Subscription
from storage_engine.errors import StoreBusy, StoreError
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.groups import GroupConfig

log = logging.getLogger(__name__)

_GENERATION_BITS: Final = 40  # of the counter; the epoch of this run of the engine stands above it


class Delivery:
    """See the module's docstring. Times of leases and waits are monotonic."""

    def __init__(
        self,
        config: StoreConfig,
        clock: Clock,
        consumer_offsets: ConsumerOffsets,
        epoch: int,
        damaged: Callable[[list[tuple[int, int]]], list[int]],
        retries_before: Callable[[tuple[int, int]], int],
        fail: Callable[[Failure], None],
        offset_at_time: OffsetAtTime,
    ) -> None:
        self._offset_at_time = offset_at_time
        self._damaged = damaged
        self._retries_before = retries_before
        self._fail = fail
        self._config = config
        self._clock = clock
        self._consumer_offsets = consumer_offsets
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        self._process_queues: dict[tuple[str, str, int], ProcessQueue] = {}
        first_generation = (epoch << _GENERATION_BITS) + 1
        self._generations = itertools.count(first_generation)
        self._leases: DueHeap[Lease] = DueHeap(lambda lease: lease.count > 0)
        self._waits: DueHeap[Parked] = DueHeap(lambda parked: not parked.is_done)
        self._delays: DueHeap[Subscription] = DueHeap(lambda subscription: True)
        self._exclusive: dict[Subscription, None] = {}  # with members
        self._members_next_ms = 0
        self.parked_count = 0
        self.delivered_count = 0
        self.damaged_count = 0  # messages that nobody can ever read, passed over
        self._settling = Settling(
            config,
            clock,
            consumer_offsets,
            first_generation,
            lambda *key: self._process_queues.get(key),
            fail,
            self._leases.push,
            self.serve,
        )
        self.settle = self._settling.settle

    # Receiving ------------------------------------------------------------------------------

    def receive(
        self,
        group: GroupConfig,
        queues: list[ConsumeQueue],
        request: ReceiveRequest,
        answer: Callable[[Delivered], None],
    ) -> Parked | None:
        """Answer now when something is ready or no wait is asked for, else park.

        Raises:
            BadRequest: a limit of the request is out of range.
            StoreBusy: too many receives are parked.
            DiskFull: the group's first position on a queue cannot be written.
        """
        check_limits(self._config, request)
        subscription = self.subscribe(group, request.topic, queues)
        subscription.config = group
        if subscription.is_exclusive:
            self._heard(subscription, request.member_id)
        has_turn = subscription.is_exclusive or not subscription.parked
        delivered = self._take(subscription, request) if has_turn else None
        if delivered is None and request.wait_ms > 0:
            if self.parked_count >= self._config.parked_count_max:
                raise StoreBusy(f"{self.parked_count} receives are parked already")
            parked = Parked(request, subscription, answer)
            subscription.parked[parked] = None
            self.parked_count += 1
            self._waits.push(self._clock.monotonic_ms() + request.wait_ms, parked)
            return parked
        answer(delivered or _NOTHING)
        return None

    def subscribe(
        self,
        group: GroupConfig,
        topic: str,
        queues: list[ConsumeQueue],
        positions: Mapping[int, int] | None = None,
    ) -> Subscription:
        """The group on the topic, its positions fixed on all queues.

        ``positions``: where it begins on queues that it has never read, by queue id; elsewhere by
        the group's start position, or where a queue begins that was added later. Raises
        ``DiskFull``, ``SyncFailed``.
        """
        subscription = self._subscriptions.get((group.group, topic))
        if subscription is None:
            subscription = Subscription(group, topic, self.serve)
            self._subscriptions[group.group, topic] = subscription
        if len(subscription.queues) < len(queues):
            has_started = self._consumer_offsets.has_started(group.group, topic)
            start = min_offset_of if has_started else start_of(group, self._offset_at_time)
            self._add_queues(subscription, queues, start_at(positions or {}, start))
        return subscription

    def _add_queues(
        self, subscription: Subscription, queues: list[ConsumeQueue], start: StartOf
    ) -> None:
        known = self._consumer_offsets, self._config.inflight_span_max
        self._follow(subscription.add_queues(queues, *known, start))

    def add_retry(self, subscription: Subscription, queue: ConsumeQueue) -> None:
        """Deliver from the queue of the retry topic too. Raises ``DiskFull``, ``SyncFailed``."""
        known = self._consumer_offsets, self._config.inflight_span_max
        self._follow(subscription.add_retry(queue, *known))

    def _follow(self, added: list[ProcessQueue]) -> None:
        for process_queue in added:
            owner, queue = process_queue.owner, process_queue.queue
            self._process_queues[owner.group, queue.topic, queue.queue_id] = process_queue
            queue.arrivals.append(owner.arrived)

    def queues_added(self, topic: str, queues: list[ConsumeQueue]) -> None:
        """Let those who wait on a topic be woken by its new queues too."""
        for (_, name), subscription in self._subscriptions.items():
            if name == topic and subscription.parked:
                try:
                    self._add_queues(subscription, queues, min_offset_of)
                except StoreError as exc:
                    log.warning("not yet", extra={"action": "queues_put_off", "reason": str(exc)})

    def _take(self, subscription: Subscription, request: ReceiveRequest) -> Delivered | None:
        """Lease what is ready; records that cannot be read as written are settled instead."""
        if subscription.config.is_paused:
            return None
        while (delivered := self._lease(subscription, request)) is not None:
            lease, records, attempts = delivered
            damaged = self._damaged(records)
            subscription.count_retries(lease, records, attempts, damaged, self._retries_before)
            if damaged:
                self._skip(lease, damaged)
                lost = frozenset(damaged)
                records = [entry for at, entry in enumerate(records) if at not in lost]
                attempts = [entry for at, entry in enumerate(attempts) if at not in lost]
            if records:
                self.delivered_count += len(records)
                until_ms = self._clock.now_ms() + request.lease_ms
                return Delivered(lease.generation, until_ms, records, attempts)
        return None

    def _skip(self, lease: Lease, damaged: list[int]) -> None:
        """Settle messages of a lease, given by their place in it, that nobody can ever read."""
        places = [(queue, offset) for queue, offsets in lease.parts for offset in offsets]
        settled = [(queue, [(offset, 1)]) for queue, offset in (places[at] for at in damaged)]
        try:
            self._consumer_offsets.settle([(queue.progress, runs) for queue, runs in settled])
        except StoreError as exc:  # they stay under the lease, and are looked at again after it
            log.warning("damaged stay", extra={"action": "damaged_put_off", "reason": str(exc)})
            return
        for queue, runs in settled:
            queue.forget(*runs[0])
        self.damaged_count += len(damaged)

    def _lease(
        self, subscription: Subscription, request: ReceiveRequest
    ) -> tuple[Lease, list[tuple[int, int]], list[int]] | None:
        now_ms = self._clock.monotonic_ms()
        lease = Lease(0, request.member_id, self._clock.now_ms())
        records: list[tuple[int, int]] = []
        attempts: list[int] = []
        bytes_left = min(request.bytes_max, self._config.receive_bytes_max)
        queues = subscription.sources_of(request.member_id)
        first = subscription.rotor
        for index in range(first, first + len(queues)):
            process_queue = queues[index % len(queues)]
            room = self._config.inflight_count_max - len(process_queue.inflight)
            count = min(request.messages_max - len(records), room)
            if count <= 0:
                continue
            take = process_queue.take
            if subscription.config.is_ordered and process_queue is not subscription.retry:
                take = process_queue.take_in_order
            taken = take(lease, now_ms, count, bytes_left, is_first=not records)
            if taken:
                lease.parts.append((process_queue, [entry[0] for entry in taken]))
                records += [(entry[1], entry[2]) for entry in taken]
                attempts += [entry[3] for entry in taken]
                bytes_left -= sum([entry[2] for entry in taken])
                if len(records) >= request.messages_max:
                    break
        if not records:
            return None
        subscription.rotor = (first + 1) % len(queues)
        lease.generation = next(self._generations)
        self._leases.push(now_ms + request.lease_ms, lease)
        return lease, records, attempts

    def serve(self, subscription: Subscription) -> None:
        """Give what is ready to those who wait, first come first served."""
        if subscription.is_exclusive:
            self._serve_each(subscription)
            return
        while subscription.parked:
            waiting = next(iter(subscription.parked))
            delivered = self._take(subscription, waiting.request)
            if delivered is None:
                return
            self._finish(waiting, delivered)

    def group_changed(self, group: GroupConfig) -> None:
        """Let a group that was paused wait, and one that goes on have what is ready."""
        for subscription in self._subscriptions.values():
            config = subscription.config
            if config.group == group.group and config.is_paused != group.is_paused:
                # The rest of it becomes valid with the next receive.
                subscription.config = replace(config, is_paused=group.is_paused)
                self.serve(subscription)

    def drop(
        self, is_gone: Callable[[Subscription], bool], refusal: StoreError
    ) -> list[ProcessQueue]:
        """Forget subscriptions with their leases; who waits is answered with ``refusal``."""
        dropped: list[ProcessQueue] = []
        for subscription in [each for each in self._subscriptions.values() if is_gone(each)]:
            del self._subscriptions[subscription.group, subscription.topic]
            self._exclusive.pop(subscription, None)
            for source in subscription.sources:
                queue = source.queue
                del self._process_queues[subscription.group, queue.topic, queue.queue_id]
                # Serving may go through the list just now.
                queue.arrivals = [each for each in queue.arrivals if each != subscription.arrived]
                source.begin_again()
            dropped += subscription.sources
            for parked in list(subscription.parked):
                self._finish(parked, _NOTHING._replace(refusal=refusal))
        return dropped

    def _serve_each(self, subscription: Subscription) -> None:
        """What is ready for one member of an exclusive group says nothing about the others."""
        for waiting in list(subscription.parked):
            delivered = None if waiting.is_done else self._take(subscription, waiting.request)
            if delivered is not None:
                self._finish(waiting, delivered)

    def _finish(self, parked: Parked, delivered: Delivered | None) -> None:
        parked.is_done = True
        del parked.subscription.parked[parked]
        self.parked_count -= 1
        if delivered is not None:
            parked.answer(delivered)

    def cancel(self, parked: Parked, *, answer: bool) -> None:
        """End a wait: with an empty answer, or (the connection is gone) with none."""
        if not parked.is_done:
            self._finish(parked, _NOTHING if answer else None)

    def restore(
        self,
        group: GroupConfig,
        topic: str,
        queues: list[ConsumeQueue],
        retry_queue: ConsumeQueue | None,
    ) -> None:
        """Know a group's progress again after a start, so that receipts from before can be
        settled. ``retry_queue``: for messages of the topic, if one had failed.
        """
        subscription = self.subscribe(group, topic, queues)
        if retry_queue is not None and subscription.retry is None:
            self.add_retry(subscription, retry_queue)

    # Members --------------------------------------------------------------------------------

    def _heard(self, subscription: Subscription, member_id: str) -> None:
        self._exclusive[subscription] = None
        if subscription.members.heard(member_id, self._clock.monotonic_ms()):
            self.serve(subscription)

    def leave(self, group: str, topic: str, member_id: str) -> None:
        """A member is gone: others read its queues from now on."""
        subscription = self._subscriptions.get((group, topic))
        if subscription is not None and subscription.members.leave(member_id):
            self.serve(subscription)

    def _look_after_members(self, now_ms: int) -> None:
        """Whoever waits is there; who has long been silent is not."""
        for subscription in list(self._exclusive):
            for waiting in subscription.parked:
                subscription.members.heard(waiting.request.member_id, now_ms)
            if subscription.members.expire(now_ms):
                self.serve(subscription)
            if not len(subscription.members):
                del self._exclusive[subscription]

    # Time -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """End leases and waits whose time has come. Called every tick."""
        now_ms = self._clock.monotonic_ms()
        for lease in self._leases.pop_due(now_ms):
            for process_queue, queue_offsets in lease.parts:
                for queue_offset in queue_offsets:
                    if process_queue.inflight.get(queue_offset) is lease:
                        # RocketMQ revives these at once; only a nack waits.
                        ended = process_queue, queue_offset, lease.generation, 0, "lease ended"
                        self._fail(Failure(*ended, lease.began_ms, self._clock.now_ms()))
        for subscription in set(self._delays.pop_due(now_ms)):
            self.serve(subscription)
        if now_ms >= self._members_next_ms:
            self._members_next_ms = now_ms + SECOND_MS
            self._look_after_members(now_ms)
        for parked in self._waits.pop_due(now_ms):
            self._finish(parked, _NOTHING)

    def ready_at(self, process_queue: ProcessQueue, ready_ms: int) -> None:
        """Serve those who wait when a message of the queue is ready again (monotonic, ms)."""
        self._delays.push(ready_ms, process_queue.owner)

    def moved(self, failures: list[Failure]) -> None:
        """Messages that failed have another place now, and are settled in the old one."""
        owners: set[Subscription] = set()
        for failure in failures:
            failure.process_queue.forget(failure.queue_offset, 1)
            owners.add(failure.process_queue.owner)
        for subscription in owners:
            self.serve(subscription)

    @property
    def subscriptions(self) -> Iterable[Subscription]:
        return self._subscriptions.values()

    def find(self, group: str, topic: str) -> Subscription | None:
        return self._subscriptions.get((group, topic))

    def new_floor(self) -> int:
        """A generation that no lease has: those before are lower, those to come are higher."""
        return next(self._generations)

    # Numbers --------------------------------------------------------------------------------

    @property
    def acked_count(self) -> int:
        return self._settling.acked_count

    @property
    def inflight_count(self) -> int:
        """Messages under a lease; costs a look at every queue of every group."""
        subscriptions = self._subscriptions.values()
        return sum([len(queue.inflight) for each in subscriptions for queue in each.sources])


_NOTHING = Delivered(0, 0, [], [])
