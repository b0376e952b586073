"""Takes messages for ordered groups: one batch per queue, or one per message group.

    exclusive dispatch ──▶ [take_in_order]          one batch of the queue at a time
    shared dispatch ─────▶ [take_by_message_group]  one batch of each message group at a time

What fails keeps its place: it comes again, when its delay is over, before anything behind it, which
is the queue or the message group. A message without a message group has no order in shared
dispatch. A member that settles in order, and gives back what is behind a failure, sees order in all
that is settled; with batches of one, every member does. Loop thread only.
"""

from __future__ import annotations

import heapq

from storage_engine.delivery.filter_scan import SettlingScan
from storage_engine.delivery.lease import Lease
from storage_engine.delivery.message_groups import MessageGroups
from storage_engine.delivery.process_queue import NEVER, ProcessQueue, Taken
from storage_engine.records.message_group import message_group_of


def take_in_order(
    process_queue: ProcessQueue,
    lease: Lease,
    now_ms: int,
    messages_max: int,
    bytes_max: int,
    *,
    is_first: bool,
    look: SettlingScan | None = None,
) -> list[Taken]:
    """As ``ProcessQueue.take``: the next batch of the queue, once the last one is settled."""
    if process_queue.message_groups is not None:
        process_queue.leave_message_groups()
    if process_queue.progress.consumer_offset < process_queue.queue.min_offset:
        process_queue.forget_below_min()
    taken: list[Taken] = []
    if process_queue.inflight:
        return taken
    again = process_queue.released
    is_held_up = False
    for queue_offset in sorted(again):
        physical_offset, record_bytes, _ = process_queue.queue.unit(queue_offset)
        is_held_up = (
            again[queue_offset][0] > now_ms
            or len(taken) >= messages_max
            or (record_bytes > bytes_max and not (is_first and not taken))
        )
        if is_held_up:
            break
        del again[queue_offset]
        process_queue.inflight[queue_offset] = lease
        taken.append((queue_offset, physical_offset, record_bytes, 1))
        bytes_max -= record_bytes
    process_queue.ready_heap = sorted((ready_ms, at) for at, (ready_ms, _) in again.items())
    count = 0 if is_held_up else messages_max - len(taken)
    if count and look is None:
        process_queue.take_new(taken, lease, count, bytes_max, is_first=is_first)
    elif count and look is not None:
        process_queue.take_filtered(taken, lease, count, bytes_max, look, is_first=is_first)
    return process_queue.leased(taken, lease)


def take_by_message_group(
    process_queue: ProcessQueue,
    lease: Lease,
    now_ms: int,
    messages_max: int,
    bytes_max: int,
    *,
    is_first: bool,
    look: SettlingScan | None = None,
    waiting_max: int,
) -> list[Taken]:
    """As ``ProcessQueue.take``: of each message group the next batch, once the last is settled.

    Known ones first, then new ones; what comes in one batch stands in the order of the queue.
    ``look`` reads each new message once. ``waiting_max``: see ``MessageGroups``.
    """
    assert look is not None
    if process_queue.progress.consumer_offset < process_queue.queue.min_offset:
        process_queue.forget_below_min()
    groups = process_queue.message_groups
    if groups is None:
        groups = process_queue.message_groups = _known_groups(process_queue, waiting_max, look)
    order = ByMessageGroup(groups, lease, process_queue.owner.config.batch_per_group)
    taken: list[Taken] = []
    room = messages_max
    queue, again, heap = process_queue.queue, process_queue.released, process_queue.ready_heap
    while heap and heap[0][0] <= now_ms:
        ready_ms, queue_offset = heap[0]
        if again.get(queue_offset, NEVER)[0] == ready_ms and queue_offset not in groups:
            physical_offset, record_bytes, _ = queue.unit(queue_offset)
            if not room or (record_bytes > bytes_max and not (is_first and not taken)):
                return process_queue.leased(sorted(taken), lease)
            del again[queue_offset]
            process_queue.inflight[queue_offset] = lease
            taken.append((queue_offset, physical_offset, record_bytes, 1))
            bytes_max -= record_bytes
            room -= 1
        heapq.heappop(heap)
        groups.due(queue_offset)
    while room and (head := order.find_ready()) is not None:
        if again.get(head, NEVER)[0] > now_ms:
            groups.suspend()
            continue
        physical_offset, record_bytes, _ = queue.unit(head)
        if record_bytes > bytes_max and not (is_first and not taken):
            return process_queue.leased(sorted(taken), lease)
        again.pop(head, None)
        groups.take_ready(lease)
        process_queue.inflight[head] = lease
        taken.append((head, physical_offset, record_bytes, 1))
        bytes_max -= record_bytes
        room -= 1
    if room and not order.is_full:
        process_queue.take_filtered(
            taken, lease, room, bytes_max, look, is_first=is_first, order=order
        )
    return process_queue.leased(sorted(taken), lease)


class ByMessageGroup:
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


def _known_groups(
    process_queue: ProcessQueue, waiting_max: int, look: SettlingScan
) -> MessageGroups:
    """With what is in flight, or was given back, while the queue was not read by message groups.

    Reads these once, some us each.
    """
    groups = MessageGroups(waiting_max)
    for queue_offset in sorted({*process_queue.inflight, *process_queue.released}):
        properties = look.read(*process_queue.queue.unit(queue_offset)[:2])
        text = b"" if properties is None else message_group_of(properties)
        if text:
            groups.adopt(text, queue_offset, process_queue.inflight.get(queue_offset))
    return groups
