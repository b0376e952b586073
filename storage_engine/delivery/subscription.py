"""One group on one topic: its queues, and the receives that wait for them.

What waits is answered in order of arrival; ``delivery.py`` decides when.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.lease import Lease
from storage_engine.delivery.members import SILENCE_MS_MAX, Members
from storage_engine.delivery.process_queue import ProcessQueue
from storage_engine.delivery.readers import Readers
from storage_engine.delivery.start_positions import StartOf, min_offset_of
from storage_engine.errors import StoreError, SubscriptionConflict
from storage_engine.filters.message_filter import EVERYTHING, Filter
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.groups import Dispatch, GroupConfig


class Delivered(NamedTuple):
    """What a receive got. ``records`` are (physical_offset, record_bytes); attempts run along.

    ``refusal``: nothing, because what it waited for was deleted. ``first_until_ms``: as in
    ``ReceiveHead``. ``content``: the records back to back, where they have been read already.
    """

    lease_generation: int
    lease_until_ms: int
    records: list[tuple[int, int]]
    attempts: list[int]
    refusal: StoreError | None = None
    lease: Lease | None = None
    first_until_ms: int = 0
    content: bytes | None = None

    def read(self, read_records: Callable[[list[tuple[int, int]]], bytes]) -> bytes:
        """Its records, back to back."""
        return read_records(self.records) if self.content is None else self.content


class WaitingReceive:
    """A receive that waits. ``reply`` is called exactly once, unless ``cancel`` came first."""

    __slots__ = ("is_done", "reply", "request", "subscription")

    def __init__(
        self,
        request: ReceiveRequest,
        subscription: Subscription,
        reply: Callable[[Delivered], None],
    ) -> None:
        self.request = request
        self.subscription = subscription
        self.reply = reply
        self.is_done = False


class Subscription:
    """One group on one topic: its queues, and who waits for them.

    ``queues`` are the topic's, by queue id; ``retry`` is the queue of the group's retry topic for
    messages of this topic, once one has failed; ``sources`` are all of them. ``config`` is the
    group's as the last receive found it; ``members`` count for an exclusive one only, ``readers``
    for all. ``filter`` is the one of all readers: with two, each message would be tested by whoever
    came first, and lost to the other. ``arrived`` stands in each source's arrivals.
    """

    __slots__ = (
        "_rotor",
        "arrived",
        "config",
        "filter",
        "group",
        "members",
        "queues",
        "readers",
        "retry",
        "sources",
        "topic",
        "waiting_receives",
    )

    def __init__(
        self, config: GroupConfig, topic: str, serve: Callable[[Subscription], None]
    ) -> None:
        self.config = config
        self.group = config.group
        self.members = Members()
        self.readers = Readers()
        self.filter = EVERYTHING
        self.topic = topic
        self.arrived = partial(serve, self)
        self.queues: list[ProcessQueue] = []
        self.retry: ProcessQueue | None = None
        self.sources: list[ProcessQueue] = []
        self.waiting_receives: OrderedDict[WaitingReceive, None] = (
            OrderedDict()
        )  # in order of arrival
        self._rotor = 0

    def join(
        self, member_id: str, wanted: Filter, now_ms: int, *, is_unnamed: bool = False
    ) -> bool:
        """Hear of a member, and read through its filter; True when that is another than before.

        Raises ``SubscriptionConflict`` while others read the topic through the one of before.
        """
        is_other = wanted is not self.filter and wanted != self.filter
        if is_other:
            others_ms = self._other_members_ms(member_id, now_ms)
            if others_ms:
                conflict = SubscriptionConflict(
                    f"the group reads this topic with the {self.filter.kind} filter "
                    f"{self.filter}; use that filter, use another group, or wait "
                    "until two minutes after the last other member has gone"
                )
                conflict.retry_after_ms = others_ms
                raise conflict
            self.filter = wanted
            for process_queue in self.queues:
                process_queue.judge_again()
        self.readers.reader_seen(member_id, now_ms, is_unnamed=is_unnamed)
        return is_other

    def _other_members_ms(self, member_id: str, now_ms: int) -> int:
        """How long any other member waits, has leases, or counts as present; 0 if there is none. It
        may be shorter, or longer if they send more requests.
        """
        left_ms = self.readers.other_readers_ms(member_id, now_ms)
        for parked in self.waiting_receives:
            request = parked.request
            if request.member_id != member_id:
                there_ms = request.wait_ms if request.is_unnamed else SILENCE_MS_MAX
                left_ms = max(left_ms, there_ms, 1)
        for process_queue in self.sources:
            ends_ms = process_queue.others_leased_until_ms(member_id)
            if ends_ms is not None:
                left_ms = max(left_ms, ends_ms - now_ms, 1)
        return left_ms

    @property
    def is_exclusive(self) -> bool:
        return self.config.dispatch is Dispatch.EXCLUSIVE

    @property
    def reads_before_taking(self) -> bool:
        """Whether each new message is read before it is known if it may be taken."""
        return not self.filter.is_all or (self.config.is_ordered and not self.is_exclusive)

    def sources_of(self, member_id: str) -> list[ProcessQueue]:
        """What a member may read now. Retries have no order, so they are for all."""
        if not self.is_exclusive:
            return self.sources
        found = [self.queues[queue_id] for queue_id in self.queue_ids_of(member_id)]
        return [*found, self.retry] if self.retry and len(self.members) else found

    def has_handed_over(self, process_queue: ProcessQueue, member_id: str) -> bool:
        """Whether a member that is still there reads the queue no more: others do now. What it
        leaves behind there is no failure of its own.
        """
        return (
            self.is_exclusive
            and member_id in self.members
            and process_queue not in self.sources_of(member_id)
        )

    def rotor_of(self, member_id: str) -> int:
        """Which of ``sources_of`` to look at first, so that none starves."""
        return self.members.rotor_of(member_id) if self.is_exclusive else self._rotor

    def turn(self, member_id: str, rotor: int) -> None:
        """Set ``rotor_of``."""
        if self.is_exclusive:
            self.members.turn(member_id, rotor)
        else:
            self._rotor = rotor

    def queue_ids_of(self, member_id: str) -> list[int]:
        """The queues that are assigned to a member of an exclusive group."""
        config = self.config
        return self.members.queues_of(
            member_id, len(self.queues), config.strategy, config.assignment
        )

    def add_queues(
        self,
        queues: list[ConsumeQueue],
        offsets: ConsumerOffsets,
        span_max: int,
        start_of: StartOf,
        *,
        is_synced: bool = True,
    ) -> list[ProcessQueue]:
        """Read the queues of the topic that are not read yet; those queues.

        The group's positions there are fixed now, where ``start_of`` says. Raises ``DiskFull``,
        ``SyncFailed``, with nothing changed.
        """
        new = queues[len(self.queues) :]
        added = self._read(self.topic, new, offsets, span_max, start_of, is_synced=is_synced)
        self.queues += added
        return self._sourced(added)

    def add_retry(
        self, queue: ConsumeQueue, offsets: ConsumerOffsets, span_max: int
    ) -> list[ProcessQueue]:
        """Read the queue of the retry topic too. Raises ``DiskFull``, ``SyncFailed``."""
        added = self._read(queue.topic, [queue], offsets, span_max, min_offset_of)
        (self.retry,) = added
        return self._sourced(added)

    def _read(
        self,
        topic: str,
        queues: list[ConsumeQueue],
        offsets: ConsumerOffsets,
        span_max: int,
        start_of: StartOf,
        *,
        is_synced: bool = True,
    ) -> list[ProcessQueue]:
        positions = {
            queue.queue_id: start_of(queue)
            for queue in queues
            if offsets.find(self.group, topic, queue.queue_id) is None
        }
        if positions:
            offsets.start_group(self.group, topic, positions, is_synced=is_synced)
        added = []
        for queue in queues:
            progress = offsets.find(self.group, topic, queue.queue_id)
            assert progress is not None
            added.append(ProcessQueue(queue, progress, span_max, self))
        return added

    def _sourced(self, added: list[ProcessQueue]) -> list[ProcessQueue]:
        self.sources = [*self.queues, self.retry] if self.retry else self.queues.copy()
        return added

    def count_retries(
        self,
        lease: Lease,
        records: list[tuple[int, int]],
        attempts: list[int],
        damaged: list[int],
        retries_before: Callable[[tuple[int, int]], int],
    ) -> None:
        """Add to the attempts what came before the records from the retry queue."""
        at = 0
        for process_queue, queue_offsets in lease.parts if self.retry is not None else ():
            end = at + len(queue_offsets)
            for index in range(at, end) if process_queue is self.retry else ():
                if index not in damaged:
                    attempts[index] += retries_before(records[index])
            at = end
