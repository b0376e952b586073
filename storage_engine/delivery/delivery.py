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
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.delivery.consumer_offsets import ConsumerOffsets, Progress, Run, runs_of
from storage_engine.delivery.due_heap import DueHeap
from storage_engine.delivery.failure import Failure
from storage_engine.delivery.process_queue import Lease, ProcessQueue
from storage_engine.delivery.subscription import Delivered, Parked, Subscription
from storage_engine.errors import BadRequest, LeaseExpired, QueueNotFound, StoreBusy
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.wire.protocol import (
    Extend,
    GroupConfig,
    GroupQueueStats,
    LeaseRef,
    Nack,
    ReceiveRequest,
    SettleFailure,
    SettleReply,
    SettleRequest,
    StartFrom,
)

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
        fail: Callable[[Failure], None],
    ) -> None:
        self._damaged = damaged
        self._fail = fail
        self._config = config
        self._clock = clock
        self._consumer_offsets = consumer_offsets
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        self._process_queues: dict[tuple[str, str, int], ProcessQueue] = {}
        self._first_generation = (epoch << _GENERATION_BITS) + 1
        self._generations = itertools.count(self._first_generation)
        self._leases: DueHeap[Lease] = DueHeap(lambda lease: lease.count > 0)
        self._waits: DueHeap[Parked] = DueHeap(lambda parked: not parked.is_done)
        self.parked_count = 0
        self.delivered_count = 0
        self.damaged_count = 0  # messages that nobody can ever read, passed over
        self.acked_count = 0

    # Receiving ------------------------------------------------------------------------------

    def receive(
        self,
        group: GroupConfig,
        queues: list[ConsumeQueue],
        retry_queue: ConsumeQueue,
        request: ReceiveRequest,
        answer: Callable[[Delivered], None],
    ) -> Parked | None:
        """Answer now when something is ready or no wait is asked for, else park.

        ``retry_queue`` is that of the group's retry topic for messages of the topic.

        Raises:
            BadRequest: a limit of the request is out of range.
            StoreBusy: too many receives are parked.
            DiskFull: the group's first position on a queue cannot be written.
        """
        config = self._config
        if not 1 <= request.messages_max <= config.receive_messages_max:
            raise BadRequest(
                f"messages_max is {request.messages_max}, "
                f"1 to {config.receive_messages_max} is allowed"
            )
        if not config.lease_ms_min <= request.lease_ms <= config.lease_ms_max:
            raise BadRequest(
                f"lease_ms is {request.lease_ms}, "
                f"{config.lease_ms_min} to {config.lease_ms_max} is allowed"
            )
        if not 0 <= request.wait_ms <= config.poll_wait_ms_max:
            raise BadRequest(
                f"wait_ms is {request.wait_ms}, 0 to {config.poll_wait_ms_max} is allowed"
            )
        subscription = self._subscribe(group, request.topic, queues, retry_queue)
        delivered = None if subscription.parked else self._take(subscription, request)
        if delivered is None and request.wait_ms > 0:
            if self.parked_count >= config.parked_count_max:
                raise StoreBusy(f"{self.parked_count} receives are parked already")
            parked = Parked(request, subscription, answer)
            subscription.parked[parked] = None
            self.parked_count += 1
            self._waits.push(self._clock.monotonic_ms() + request.wait_ms, parked)
            return parked
        answer(delivered or _NOTHING)
        return None

    def _subscribe(
        self,
        group: GroupConfig,
        topic: str,
        queues: list[ConsumeQueue],
        retry_queue: ConsumeQueue,
    ) -> Subscription:
        subscription = self._subscriptions.get((group.group, topic))
        if subscription is None:
            subscription = self._subscriptions[group.group, topic] = Subscription(group.group)
        if len(subscription.queues) < len(queues) or subscription.retry is None:
            self._begin(group, topic, queues)
            fresh = [
                self._follow(subscription, topic, queue)
                for queue in queues[len(subscription.queues) :]
            ]
            subscription.queues += fresh
            if subscription.retry is None:
                self._begin_retry(group, retry_queue)
                subscription.retry = self._follow(subscription, retry_queue.topic, retry_queue)
            subscription.sources = [*subscription.queues, subscription.retry]
        return subscription

    def _follow(self, subscription: Subscription, topic: str, queue: ConsumeQueue) -> ProcessQueue:
        progress = self._consumer_offsets.find(subscription.group, topic, queue.queue_id)
        assert progress is not None
        process_queue = ProcessQueue(queue, progress, self._config.inflight_span_max, subscription)
        self._process_queues[subscription.group, topic, queue.queue_id] = process_queue
        queue.arrivals.append(partial(self._serve, subscription))
        return process_queue

    def _begin_retry(self, group: GroupConfig, queue: ConsumeQueue) -> None:
        if self._consumer_offsets.find(group.group, queue.topic, queue.queue_id) is None:
            self._consumer_offsets.begin(
                group.group, queue.topic, {queue.queue_id: queue.min_offset}
            )

    def _begin(self, group: GroupConfig, topic: str, queues: list[ConsumeQueue]) -> None:
        """Fix a group's positions when it first reads a topic; queues added later start at 0."""
        offsets = self._consumer_offsets
        at_end = group.start_from is StartFrom.LATEST and not offsets.has_started(
            group.group, topic
        )
        positions = {
            queue.queue_id: queue.max_offset if at_end else queue.min_offset
            for queue in queues
            if offsets.find(group.group, topic, queue.queue_id) is None
        }
        if positions:
            offsets.begin(group.group, topic, positions)

    def _take(self, subscription: Subscription, request: ReceiveRequest) -> Delivered | None:
        """Lease what is ready; records that cannot be read as written are settled instead."""
        while (delivered := self._lease(subscription, request)) is not None:
            lease, records, attempts = delivered
            damaged = self._damaged(records)
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
        self._consumer_offsets.settle([(queue.progress, runs) for queue, runs in settled])
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
        queues = subscription.sources
        first = subscription.rotor
        for index in range(first, first + len(queues)):
            process_queue = queues[index % len(queues)]
            room = self._config.inflight_count_max - len(process_queue.inflight)
            count = min(request.messages_max - len(records), room)
            if count <= 0:
                continue
            taken = process_queue.take(lease, now_ms, count, bytes_left, is_first=not records)
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

    def _serve(self, subscription: Subscription) -> None:
        """Give what is ready to those who wait, first come first served."""
        while subscription.parked:
            waiting = next(iter(subscription.parked))
            delivered = self._take(subscription, waiting.request)
            if delivered is None:
                return
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

    # Settling -------------------------------------------------------------------------------

    def settle(self, request: SettleRequest) -> SettleReply:
        """Ack, give back, extend; each message on its own, failures listed.

        Acks are journaled (one write) before anything changes. Raises ``DiskFull``, nothing
        settled.
        """
        failures: list[SettleFailure] = []
        settled: list[tuple[Progress, list[Run]]] = []
        done: list[tuple[ProcessQueue, list[Run]]] = []
        acked_count = 0
        for ack in request.acks:
            process_queue = self._find(request.group, ack.topic, ack.queue_id)
            if process_queue is None:
                failures += [
                    _failure(ack, offset, QueueNotFound.code) for offset in ack.queue_offsets
                ]
                continue
            good = []
            for queue_offset in ack.queue_offsets:
                verdict = process_queue.can_settle(
                    queue_offset, ack.lease_generation, self._first_generation
                )
                if verdict:
                    good.append(queue_offset)
                elif verdict is None:
                    acked_count += 1
                elif (late := self._late(process_queue, queue_offset, ack)) is not None:
                    settled.append(late)
                    acked_count += 1
                else:
                    failures.append(_failure(ack, queue_offset, LeaseExpired.code))
            if good:
                good = sorted(set(good))
                runs = runs_of(good)
                settled.append((process_queue.progress, runs))
                done.append((process_queue, runs))
                acked_count += len(good)
        if settled:
            self._consumer_offsets.settle(settled)
            for process_queue, runs in done:
                for first, count in runs:
                    process_queue.forget(first, count)
            for process_queue, _ in done:
                self._serve(process_queue.owner)
        nacked_count = self._nack(request, failures) if request.nacks else 0
        extended = self._extend(request, failures) if request.extends else []
        self.acked_count += acked_count
        return SettleReply(
            acked_count=acked_count,
            nacked_count=nacked_count,
            extended_until_ms=extended,
            failures=failures,
        )

    def _late(
        self, process_queue: ProcessQueue, queue_offset: int, ack: LeaseRef
    ) -> tuple[Progress, list[Run]] | None:
        """What an ack settles that came after its lease: the message's new place.

        None when somebody has it there, or had it.
        """
        moved = process_queue.moved_to(queue_offset)
        retry = process_queue.owner.retry
        if moved is None or retry is None or moved[0] != ack.lease_generation:
            return None
        _, retry_offset = moved
        if retry_offset < 0 or not retry.is_ready(retry_offset):
            return None
        return retry.progress, [(retry_offset, 1)]

    def _nack(self, request: SettleRequest, failures: list[SettleFailure]) -> int:
        count = 0
        for nack in request.nacks:
            process_queue = self._find(request.group, nack.topic, nack.queue_id)
            lease = process_queue.inflight.get(nack.queue_offset) if process_queue else None
            if process_queue is None or lease is None or lease.generation != nack.lease_generation:
                failures.append(_failure(nack, nack.queue_offset, LeaseExpired.code))
                continue
            delay_ms = None if nack.delay_ms is None else max(nack.delay_ms, 0)
            self._fail(
                _failed(
                    process_queue, nack.queue_offset, lease, delay_ms, nack.reason, nack.is_dead
                )
            )
            count += 1
        return count

    def _extend(self, request: SettleRequest, failures: list[SettleFailure]) -> list[int]:
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        extended = []
        for extend in request.extends:
            process_queue = self._find(request.group, extend.topic, extend.queue_id)
            lease = process_queue.inflight.get(extend.queue_offset) if process_queue else None
            if (
                process_queue is None
                or lease is None
                or lease.generation != extend.lease_generation
            ):
                failures.append(_failure(extend, extend.queue_offset, LeaseExpired.code))
                extended.append(0)
                continue
            lease_ms = min(
                max(extend.lease_ms, self._config.lease_ms_min), self._config.lease_ms_max
            )
            # Same generation, so receipts stay good; an own lease, since the others end when they
            # did.
            longer = Lease(lease.generation, lease.member_id)
            process_queue.move(extend.queue_offset, longer)
            self._leases.push(now_ms + lease_ms, longer)
            extended.append(wall_ms + lease_ms)
        return extended

    def _find(self, group: str, topic: str, queue_id: int) -> ProcessQueue | None:
        return self._process_queues.get((group, topic, queue_id))

    def restore(
        self,
        group: GroupConfig,
        topic: str,
        queues: list[ConsumeQueue],
        retry_queue: ConsumeQueue,
    ) -> None:
        """Know a group's progress again after a start, so that receipts from before can be
        settled.
        """
        self._subscribe(group, topic, queues, retry_queue)

    # Time -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """End leases and waits whose time has come. Called every tick."""
        now_ms = self._clock.monotonic_ms()
        for lease in self._leases.pop_due(now_ms):
            for process_queue, queue_offsets in lease.parts:
                for queue_offset in queue_offsets:
                    if process_queue.inflight.get(queue_offset) is lease:
                        self._fail(
                            _failed(process_queue, queue_offset, lease, 0, "lease ended", False)
                        )
        for parked in self._waits.pop_due(now_ms):
            self._finish(parked, _NOTHING)

    def moved(self, failures: list[Failure]) -> None:
        """Messages that failed have another place now, and are settled in the old one."""
        owners: set[Subscription] = set()
        for failure in failures:
            failure.process_queue.forget(failure.queue_offset, 1)
            owners.add(failure.process_queue.owner)
        for subscription in owners:
            self._serve(subscription)

    @property
    def subscriptions(self) -> Iterable[Subscription]:
        return self._subscriptions.values()

    # Numbers --------------------------------------------------------------------------------

    @property
    def inflight_count(self) -> int:
        """Messages under a lease; costs a look at every queue of every group."""
        subscriptions = self._subscriptions.values()
        return sum([len(queue.inflight) for each in subscriptions for queue in each.sources])

    def stats(self, group: str) -> list[GroupQueueStats]:
        """Progress of a group on every queue it has read, by topic and queue id."""
        found = []
        for (name, _), subscription in sorted(self._subscriptions.items()):
            if name != group:
                continue
            found += [
                GroupQueueStats(
                    topic=process_queue.queue.topic,
                    queue_id=process_queue.queue.queue_id,
                    min_offset=process_queue.queue.min_offset,
                    max_offset=process_queue.queue.max_offset,
                    consumer_offset=process_queue.progress.consumer_offset,
                    inflight_count=len(process_queue.inflight),
                )
                for process_queue in subscription.sources
            ]
        return found


_NOTHING = Delivered(0, 0, [], [])


def _failure(of: LeaseRef | Nack | Extend, queue_offset: int, code: int) -> SettleFailure:
    return SettleFailure(
        topic=of.topic,
        queue_id=of.queue_id,
        lease_generation=of.lease_generation,
        queue_offset=queue_offset,
        code=code,
    )


def _failed(
    process_queue: ProcessQueue,
    queue_offset: int,
    lease: Lease,
    delay_ms: int | None,
    reason: str,
    is_dead: bool,
) -> Failure:
    retry = process_queue.owner.retry
    assert retry is not None
    return Failure(
        process_queue.owner.group,
        process_queue,
        queue_offset,
        retry.queue.queue_id,
        lease.generation,
        delay_ms,
        reason,
        lease.began_ms,
        is_dead,
    )
