"""Applies the settles of members: acks, nacks and extensions, each on its own.

    server ── SettleRequest ──▶ [Settler] ───┬─ acks ──▶ consumer_offsets (journal)
                                             ├─ nacks ──▶ retries
                                             └─ extends ──▶ leases

A failure of one message never touches another. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.delivery.batches import Batches
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.failure import Failure
from storage_engine.delivery.offset_runs import runs_of
from storage_engine.delivery.subscription import Lease, ProcessQueue, Subscription, Verdict
from storage_engine.errors import LeaseExpired, QueueNotFound
from storage_engine.wire.deliveries import (
    Extend,
    LeaseRef,
    Nack,
    SettleFailure,
    SettleReply,
    SettleRequest,
)

Find = Callable[[str, str, int], ProcessQueue | None]  # group, topic, queue id


class Settler:
    """See the module's docstring.

    ``first_generation``: leases below it are from before this start. ``fail`` takes a message that
    its member gave back, ``lease_until`` ends a lease at a time (monotonic, ms), ``serve`` gives
    what has become ready to those who wait.
    """

    def __init__(
        self,
        config: StoreConfig,
        clock: Clock,
        consumer_offsets: ConsumerOffsets,
        first_generation: int,
        find: Find,
        fail: Callable[[Failure], None],
        lease_until: Callable[[int, Lease], None],
        serve: Callable[[Subscription], None],
    ) -> None:
        self._config = config
        self._clock = clock
        self._consumer_offsets = consumer_offsets
        self._first_generation = first_generation
        self._find = find
        self._fail = fail
        self._lease_until = lease_until
        self._serve = serve
        self._batches = Batches(find)
        self.acked_count = 0

    def settle(self, request: SettleRequest) -> SettleReply:
        """Ack, give back, extend; each message on its own, failures listed.

        Acks are journaled (one write) before anything changes. Raises ``DiskFull``, nothing
        settled.
        """
        failures: list[SettleFailure] = []
        good: dict[ProcessQueue, list[int]] = {}
        acked_count = 0
        acks = request.acks
        if request.ack_up_tos:
            acks = [*acks, *self._batches.acks_of(request, failures)]
        for ack in acks:
            process_queue = self._find(request.group, ack.topic, ack.queue_id)
            if process_queue is None:
                failures += [
                    _failure(ack, offset, QueueNotFound.code) for offset in ack.queue_offsets
                ]
                continue
            own = good.setdefault(process_queue, [])
            if _are_leased(process_queue, ack):
                own += ack.queue_offsets
                continue
            for queue_offset in ack.queue_offsets:
                verdict = process_queue.can_settle(
                    queue_offset, ack.lease_generation, self._first_generation
                )
                if verdict is Verdict.SETTLE:
                    own.append(queue_offset)
                elif verdict is Verdict.MOVED:
                    verdict, retry, retry_offset = process_queue.find_moved(queue_offset)
                    if verdict is Verdict.SETTLE:
                        good.setdefault(retry, []).append(retry_offset)
                if verdict is Verdict.EXPIRED:
                    failures.append(_failure(ack, queue_offset, LeaseExpired.code))
                elif verdict is Verdict.SETTLED:
                    acked_count += 1
        settled = [(each, runs_of(found)) for each, found in good.items() if found]
        acked_count += sum([count for _, runs in settled for _, count in runs])
        if settled:
            self._consumer_offsets.settle([(each.progress, runs) for each, runs in settled])
            for process_queue, runs in settled:
                for first, count in runs:
                    process_queue.forget(first, count)
            for owner in {process_queue.owner for process_queue, _ in settled}:
                self._serve(owner)
        nacked_count, dead_lettered_count = self._nack(request, failures)
        extended = self._extend(request, failures) if request.extends else []
        self.acked_count += acked_count
        return SettleReply(
            acked_count=acked_count,
            nacked_count=nacked_count,
            dead_lettered_count=dead_lettered_count,
            extended_until_ms=extended,
            failures=failures,
        )

    def _nack(self, request: SettleRequest, failures: list[SettleFailure]) -> tuple[int, int]:
        """Returns how many messages were released, and how many were dead-lettered."""
        nacked_count = dead_lettered_count = 0
        released: set[Subscription] = set()
        for nack in request.nacks:
            process_queue = self._find(request.group, nack.topic, nack.queue_id)
            lease = process_queue.inflight.get(nack.queue_offset) if process_queue else None
            if process_queue is None or lease is None or lease.generation != nack.lease_generation:
                failures.append(_failure(nack, nack.queue_offset, LeaseExpired.code))
                continue
            if nack.is_release and lease.is_repeated:
                continue  # its member has asked again, and got it with the second answer
            dead_lettered_count += nack.is_dead
            nacked_count += not nack.is_dead
            if nack.is_release:
                now_ms = self._clock.monotonic_ms()
                process_queue.release(nack.queue_offset, now_ms, is_attempt=False)
                released.add(process_queue.owner)
                continue
            lease.first.refuse(process_queue, nack.queue_offset)
            failure = Failure(
                process_queue,
                nack.queue_offset,
                lease.generation,
                None if nack.delay_ms is None or nack.has_vanished else max(nack.delay_ms, 0),
                nack.reason,
                lease.started_ms,
                self._clock.now_ms(),
                nack.is_dead,
                lease.member_id,
                nack.has_vanished,
            )
            self._fail(failure)
        for owner in released:
            self._serve(owner)
        return nacked_count, dead_lettered_count

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
            lease_ms = max(min(lease_ms, lease.deadline_ms - now_ms), 0)
            # Same generation, so receipts stay good; an own lease, since the others end when they
            # did.
            longer = lease.renewed()
            longer.until_ms, longer.ends_ms = wall_ms + lease_ms, now_ms + lease_ms
            process_queue.move(extend.queue_offset, longer)
            self._lease_until(longer.ends_ms, longer)
            extended.append(wall_ms + lease_ms)
        return extended


def _are_leased(process_queue: ProcessQueue, ack: LeaseRef) -> bool:
    """Whether all of them have that lease still: so it is of nearly all acks, which come by the
    batch. ``ProcessQueue.can_settle`` says the same of each.
    """
    leases = set(map(process_queue.inflight.get, ack.queue_offsets))
    return all(each is not None and each.generation == ack.lease_generation for each in leases)


def _failure(of: LeaseRef | Nack | Extend, queue_offset: int, code: int) -> SettleFailure:
    return SettleFailure(
        topic=of.topic,
        queue_id=of.queue_id,
        lease_generation=of.lease_generation,
        queue_offset=queue_offset,
        code=code,
    )
