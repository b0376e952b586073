"""Acks with ``up_to``: which messages a receive delivered before a given one.

    settle ── AckUpTo ──▶ [Batches] ── LeaseRefs ──▶ settled one by one, as if each had been named
                              └── nobody knows what came with it ──▶ failure

RocketMQ's ``ackIndex``, by receipt. It covers the messages of one reply in the order in which they
were given out, from whatever queues they are. Left out is what the same request names otherwise,
and what the member has given back before. What came together is known while a message of it is
still under its lease, and a while longer for a request that is repeated because its answer was
lost; not after a restart of the engine, when each message can still be acked by its own receipt.
Loop thread only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import chain, islice
from typing import Final

from storage_engine.delivery.subscription import Lease, ProcessQueue
from storage_engine.errors import BatchUnknown, QueueNotFound
from storage_engine.wire.deliveries import (
    AckUpTo,
    Extend,
    LeaseRef,
    Nack,
    SettleFailure,
    SettleRequest,
)

_BATCHES_MAX: Final = 1_000  # remembered after they were acked in this way; the latest ones
_LOOK_MAX: Final = 2_000  # messages in flight; about 0.1 ms
_Place = tuple[str, int, int, int]  # topic, queue id, lease generation, queue offset


class Batches:
    """See the module's docstring. ``find`` gives a process queue by group, topic and queue id."""

    def __init__(self, find: Callable[[str, str, int], ProcessQueue | None]) -> None:
        self._find = find
        self._acked: OrderedDict[int, Lease] = OrderedDict()

    def acks_of(self, request: SettleRequest, failures: list[SettleFailure]) -> list[LeaseRef]:
        """The messages meant, each once; an ``AckUpTo`` without effect is added to ``failures``."""
        named = _named(request)
        acks: list[LeaseRef] = []
        for up_to in request.ack_up_tos:
            process_queue = self._find(request.group, up_to.topic, up_to.queue_id)
            if process_queue is None:
                failures.append(_failure(up_to, QueueNotFound.code))
                continue
            lease = self._batch_of(process_queue, up_to)
            if lease is None:
                failures.append(_failure(up_to, BatchUnknown.code))
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


def _failure(up_to: AckUpTo, code: int) -> SettleFailure:
    return SettleFailure(
        topic=up_to.topic,
        queue_id=up_to.queue_id,
        lease_generation=up_to.lease_generation,
        queue_offset=up_to.queue_offset,
        code=code,
    )
