"""Which messages of one queue must wait for others of their message group.

    new, its group idle ──▶ held ──── settled ──▶ forgotten; the group's next one is ready
                             │  ▲
                  given back ▼  │ taken, when it is the first of its group and none is held
    new, its group busy ──▶ waiting

A message group is the exact text of the property, so no two share an order by chance. Each has a
heap of its waiting offsets; its lowest one, the head, stands in a heap of heads while nothing of
the group is held. So neither a settle nor a take looks at more than it changes. Entries of both
heaps that are no more true are dropped when they come to the top. A group of which nothing is held
or waiting is forgotten. Loop thread only.
"""

from __future__ import annotations

import heapq
from collections.abc import Container

from storage_engine.delivery.lease import Lease


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
    """See the module's docstring.

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

    # Taking ---------------------------------------------------------------------------------

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

    # What becomes of them -------------------------------------------------------------------

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

    # ----------------------------------------------------------------------------------------

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
