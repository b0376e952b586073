"""Applies the settles of members: acks, nacks and extensions, each on its own.

    server ── SettleRequest ──▶ [Settler] ───┬─ acks ──▶ consumer_offsets (journal)
                                             ├─ nacks ──▶ retries
                                             ├─ extends ──▶ leases
                                             └─ acks up to ──▶ [Batches] ──▶ acks

A failure of one message never touches another. Loop thread only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import chain, islice
from typing import Final

from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.offset_bits import runs_of
from storage_engine.delivery.subscription import (
    Failure,
    Lease,
    ProcessQueue,
    Subscription,
    Subscriptions,
    Verdict,
)
from storage_engine.errors import BatchUnknown, LeaseExpired
from storage_engine.wire.deliveries import (
    AckUpTo,
    Extend,
    LeaseRef,
    Nack,
    SettleFailure,
    SettleReply,
    SettleRequest,
)

_BATCHES_MAX: Final = 1_000  # remembered after they were acked in this way; the latest ones
_LOOK_MAX: Final = 2_000  # messages in flight; about 0.1 ms
_Place = tuple[str, int, int, int]  # topic, queue id, lease generation, queue offset


class Batches:
    """Acks with ``up_to``: which messages a receive delivered before a given one.

    RocketMQ's ``ackIndex``, by receipt. It covers the messages of one reply in the order in which
    they were given out, from whatever queues they are. Left out is what the same request names
    otherwise, and what the member has given back before. What came together is known while a
    message of it is still under its lease, and a while longer for a request that is repeated
    because its answer was lost; not after a restart of the engine, when each message can still be
    acked by its own receipt.
    """

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._find = subscriptions.find_queue
        self._acked: OrderedDict[int, Lease] = OrderedDict()

    def acks_of(self, request: SettleRequest, failures: list[SettleFailure]) -> list[LeaseRef]:
        """The messages meant, each once; an ``AckUpTo`` without effect is added to ``failures``."""
        named = _named(request)
        acks: list[LeaseRef] = []
        for up_to in request.ack_up_tos:
            process_queue = self._find(request.group, up_to.topic, up_to.queue_id)
            if process_queue is None:
                failures.append(_failure(up_to, up_to.queue_offset, LeaseExpired.code))
                continue
            lease = self._batch_of(process_queue, up_to)
            if lease is None:
                failures.append(_failure(up_to, up_to.queue_offset, BatchUnknown.code))
                continue
            self._remember(lease)
            acks += _refs(lease, process_queue, up_to, named)
        return acks

    def _batch_of(self, process_queue: ProcessQueue, up_to: AckUpTo) -> Lease | None:
        generation = up_to.lease_generation
        lease = process_queue.inflight.get(up_to.queue_offset)
        if lease is None or lease.generation != generation:
            lease = self._acked.get(generation) or _find_lease(process_queue, generation)
        if lease is None:
            return None
        first = lease.first
        place = process_queue, up_to.queue_offset
        is_in_it = any(
            queue is place[0] and place[1] in queue_offsets for queue, queue_offsets in first.parts
        )
        return first if is_in_it else None

    def _remember(self, lease: Lease) -> None:
        self._acked[lease.generation] = lease
        self._acked.move_to_end(lease.generation)
        if len(self._acked) > _BATCHES_MAX:
            self._acked.popitem(last=False)


def _find_lease(process_queue: ProcessQueue, generation: int) -> Lease | None:
    """One that has the generation, by way of another message of it that is in flight.

    Bounded, since whoever repeats old receipts makes it look at all that there is.
    """
    others = [each for each in process_queue.owner.sources if each is not process_queue]
    leases = chain.from_iterable(each.inflight.values() for each in (process_queue, *others))
    for lease in islice(leases, _LOOK_MAX):
        if lease.generation == generation:
            return lease
    return None


def _named(request: SettleRequest) -> set[_Place]:
    """The messages that a request names by themselves."""
    named = {
        (ack.topic, ack.queue_id, ack.lease_generation, queue_offset)
        for ack in request.acks
        for queue_offset in ack.queue_offsets
    }
    others: list[Nack | Extend] = [*request.nacks, *request.extends]
    for each in others:
        named.add((each.topic, each.queue_id, each.lease_generation, each.queue_offset))
    return named


def _refs(
    lease: Lease, last_queue: ProcessQueue, up_to: AckUpTo, named: set[_Place]
) -> list[LeaseRef]:
    """The messages of a batch up to a given one that were not named yet; now they are."""
    refs: list[LeaseRef] = []
    refused = lease.refused or ()
    for process_queue, queue_offsets in lease.parts:
        queue = process_queue.queue
        is_last = process_queue is last_queue and up_to.queue_offset in queue_offsets
        end = queue_offsets.index(up_to.queue_offset) + 1 if is_last else len(queue_offsets)
        wanted = []
        for queue_offset in queue_offsets[:end]:
            place = queue.topic, queue.queue_id, lease.generation, queue_offset
            if place not in named and (process_queue, queue_offset) not in refused:
                named.add(place)
                wanted.append(queue_offset)
        if wanted:
            refs.append(
                LeaseRef(
                    topic=queue.topic,
                    queue_id=queue.queue_id,
                    lease_generation=lease.generation,
                    queue_offsets=wanted,
                )
            )
        if is_last:
            break
    return refs


class Settler:
    """See the module's docstring. ``fail`` takes a message that its member gave back."""

    def __init__(
        self, parts: EngineParts, subscriptions: Subscriptions, fail: Callable[[Failure], None]
    ) -> None:
        self._config = parts.config
        self._clock = parts.clock
        self._consumer_offsets = parts.consumer_offsets
        self._first_generation = subscriptions.first_generation
        self._find = subscriptions.find_queue
        self._lease_until = subscriptions.leases.push
        self._fail = fail
        self._batches = Batches(subscriptions)
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
                # The group, or the topic, was deleted and made again since: no lease is left of it.
                failures += [
                    _failure(ack, offset, LeaseExpired.code) for offset in ack.queue_offsets
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
                owner.serve()
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
            process_queue, queue_offset = self._place_of(request.group, nack)
            lease = process_queue.inflight.get(queue_offset) if process_queue else None
            if process_queue is None or lease is None or lease.generation != nack.lease_generation:
                failures.append(_failure(nack, nack.queue_offset, LeaseExpired.code))
                continue
            if nack.is_release and lease.is_repeated:
                continue  # its member has asked again, and got it with the second answer
            dead_lettered_count += nack.is_dead
            nacked_count += not nack.is_dead
            if nack.is_release or (lease.is_retaken and not nack.is_dead):
                now_ms = self._clock.monotonic_ms()
                process_queue.release(queue_offset, now_ms, is_attempt=False)
                released.add(process_queue.owner)
                continue
            lease.first.refuse(process_queue, queue_offset)
            failure = Failure(
                process_queue,
                queue_offset,
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
            owner.serve()
        return nacked_count, dead_lettered_count

    def _extend(self, request: SettleRequest, failures: list[SettleFailure]) -> list[int]:
        extended = []
        for extend in request.extends:
            until_ms = self._extended_until_ms(request.group, extend)
            if not until_ms:
                failures.append(_failure(extend, extend.queue_offset, LeaseExpired.code))
            extended.append(until_ms)
        return extended

    def _extended_until_ms(self, group: str, extend: Extend) -> int:
        """When its lease ends now, wall clock; 0 if it has ended before."""
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        process_queue, queue_offset = self._place_of(group, extend)
        if process_queue is None:
            return 0
        lease = process_queue.inflight.get(queue_offset)
        if lease is None and extend.may_be_over:
            deadline_ms = now_ms + process_queue.owner.config.consume_timeout_ms
            lease = Lease(extend.lease_generation, "", wall_ms, deadline_ms)
            lease.is_retaken = lease.is_unnamed = True
            is_moved = process_queue.queue.topic != extend.topic
            if not process_queue.retake(queue_offset, lease, is_moved=is_moved):
                return 0
        if lease is None or lease.generation != extend.lease_generation:
            return 0
        lease_ms = min(max(extend.lease_ms, self._config.lease_ms_min), self._config.lease_ms_max)
        lease_ms = max(min(lease_ms, lease.deadline_ms - now_ms), 0)
        # Same generation, so receipts stay good; an own lease, since the others end when they did.
        longer = lease.renewed()
        longer.until_ms, longer.ends_ms = wall_ms + lease_ms, now_ms + lease_ms
        process_queue.move(queue_offset, longer)
        self._lease_until(longer.ends_ms, longer)
        return longer.until_ms

    def _place_of(self, group: str, of: Nack | Extend) -> tuple[ProcessQueue | None, int]:
        process_queue = self._find(group, of.topic, of.queue_id)
        if process_queue is None:
            return None, of.queue_offset
        return process_queue.place_of(of.queue_offset, of.lease_generation)


def _are_leased(process_queue: ProcessQueue, ack: LeaseRef) -> bool:
    """Whether all of them have that lease still: so it is of nearly all acks, which come by the
    batch. ``ProcessQueue.can_settle`` says the same of each.
    """
    leases = set(map(process_queue.inflight.get, ack.queue_offsets))
    return all(each is not None and each.generation == ack.lease_generation for each in leases)


def _failure(of: LeaseRef | AckUpTo | Nack | Extend, queue_offset: int, code: int) -> SettleFailure:
    return SettleFailure(
        topic=of.topic,
        queue_id=of.queue_id,
        lease_generation=of.lease_generation,
        queue_offset=queue_offset,
        code=code,
    )
