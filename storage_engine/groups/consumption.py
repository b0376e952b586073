"""Everything that happens to messages after the log: deliveries, settles, retries, and the
schedule.

    server ── receive, settle ──▶ [Consumption] ──▶ delivery ── failures ──▶ retries ──┐
    server ── commit, reset ──────────┤
                                        └── tick ──▶ schedule ◀── delayed ── the log ◀─┘

Puts these parts together and begins them where the last run ended. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from storage_engine.catalog.catalog import Catalog
from storage_engine.config import SECOND_MS
from storage_engine.delivery.broadcast_clients import BroadcastClients
from storage_engine.delivery.clients import reader_name, split_reader
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.progress import Progress
from storage_engine.delivery.receive import Receiver
from storage_engine.delivery.subscription import Delivered, Failure, WaitingReceive
from storage_engine.errors import GroupNotFound
from storage_engine.groups.broadcast_groups import BroadcastGroups
from storage_engine.groups.deletions import Deletions
from storage_engine.groups.moving_namespaces import MovingNamespaces
from storage_engine.groups.offset_changes import OffsetChanges
from storage_engine.groups.saved_sessions import SavedSessions
from storage_engine.lag.group_progress import GroupProgress
from storage_engine.moves.dead_letters import DeadLetters
from storage_engine.moves.due_moves import DueMoves
from storage_engine.moves.moves import Mover
from storage_engine.moves.retries import Retries
from storage_engine.puts.delay_clock import DelayClock
from storage_engine.puts.engine_puts import EnginePuts
from storage_engine.records.topic_names import LETTERS_GROUP, retry_topic_of
from storage_engine.schedule.level_offsets import LevelOffsets
from storage_engine.schedule.schedule import Schedule
from storage_engine.schedule.scheduled_retries import ScheduledRetries
from storage_engine.wire.deliveries import (
    LeaveRequest,
    ReceiveRequest,
    SettleReply,
    SettleRequest,
    SubscribeReply,
    SubscribeRequest,
)
from storage_engine.wire.groups import (
    Dispatch,
    GroupClients,
    GroupClientsRequest,
    GroupConfig,
    GroupStats,
)
from storage_engine.wire.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetResetReply,
    OffsetResetRequest,
)

# Letters are tried for ever, and as long as SQS lets a delivery last.
_LETTERS: Final = GroupConfig(
    group=LETTERS_GROUP, max_reconsume_times=-1, consume_timeout_ms=12 * 3_600 * SECOND_MS
)
Membership = tuple[str, str, str]  # reader, topic, member


def membership_of(request: SubscribeRequest | ReceiveRequest | LeaveRequest) -> Membership:
    """Who reads, as ``Delivery.leave`` takes it."""
    return reader_name(request.group, request.client_id), request.topic, request.member_id


class Consumption:
    """See the module's docstring. ``epoch``: the number of this run of the engine.

    Raises ``DiskFull``, ``SyncFailed`` when the schedule's first positions cannot be written.
    """

    def __init__(
        self,
        parts: EngineParts,
        catalog: Catalog,
        puts: EnginePuts,
        delay_clock: DelayClock,
        level_offsets: LevelOffsets,
        epoch: int,
    ) -> None:
        offsets = parts.consumer_offsets
        self.clock = parts.clock
        self.notices = parts.notices
        self._catalog = catalog
        self.mover = Mover(puts, offsets)
        self.delivery = Delivery(parts, epoch, self._fail)
        self.retries = Retries(parts, catalog, self.delivery, self.mover, delay_clock)
        self.receiving = Receiver(parts, self.delivery)
        self.clients = BroadcastClients(parts)
        for progress in list(offsets):
            self._restore(progress)
        catalog.queues_added = self.delivery.queues_added
        catalog.group_changed = self.delivery.group_changed
        catalog.is_read = partial(_is_read, offsets)
        self.dead_letters = DeadLetters(parts, catalog, self.mover)
        due_moves = DueMoves(catalog, parts.min_offsets)
        self.schedule = Schedule(parts, delay_clock, self.mover, due_moves, level_offsets)
        self.schedule.follow()
        self._scheduled_retries = ScheduledRetries(parts, self.schedule)
        self._progress = GroupProgress(parts, self.delivery, self._scheduled_retries)
        self._broadcasting = BroadcastGroups(parts, self.clients, self.delivery, self._progress)
        self._offset_changes = OffsetChanges(
            parts, self.delivery, self.retries, self._scheduled_retries
        )
        self.deletions = Deletions(
            parts, catalog, self.delivery, self.retries, self._offset_changes
        )
        self.moving = MovingNamespaces(parts, catalog, self.delivery, self.delete_namespaces)
        self.saved_sessions = SavedSessions(parts, self.delivery, self.settle)

    def _restore(self, progress: Progress) -> None:
        name, client_id = split_reader(progress.group)
        group = self._catalog.groups.get(name)
        is_known = progress.topic in self._catalog.topics
        if client_id and group and is_known:
            client = replace(group, group=progress.group)
            queues = self._catalog.queues_of(progress.topic)
            self.delivery.restore(client, progress.topic, queues, None)
            return
        if group and is_known and progress.topic != retry_topic_of(progress.group):
            queues = self._catalog.queues_of(progress.topic)
            retry_queue = self._catalog.known_retry_queue(group, progress.topic)
            self.delivery.restore(group, progress.topic, queues, retry_queue)

    def _fail(self, failure: Failure) -> None:
        if failure.process_queue.owner.config.dispatch is Dispatch.BROADCAST:
            self._broadcasting.drop(failure)
        else:
            self.retries.fail(failure)

    def receive(
        self, request: ReceiveRequest, answer: Callable[[Delivered], None]
    ) -> WaitingReceive | None:
        """Lease messages, or park.

        Raises ``GroupNotFound``, ``TopicNotFound``, ``BadRequest``, ``StoreBusy``, ``DiskFull``,
        ``FilterInvalid``, ``SubscriptionConflict``, ``ClientLimit``.
        """
        group, queues = self._group(request.group), self._catalog.get_queues(request.topic)
        return self._broadcasting.read(
            group, request, lambda reader: self.receiving.receive(reader, queues, request, answer)
        )

    def subscribe(self, request: SubscribeRequest) -> SubscribeReply:
        """See ``Delivery.announce``.

        Raises ``GroupNotFound``, ``TopicNotFound``, ``ClientLimit`` too.
        """
        group, queues = self._group(request.group), self._catalog.get_queues(request.topic)
        self._broadcasting.read(
            group, request, lambda reader: self.delivery.announce(reader, queues, request)
        )
        return SubscribeReply(is_paused=group.is_paused)

    def leave(self, request: LeaveRequest) -> Membership:
        """See ``Memberships.leave``; who is gone."""
        membership = membership_of(request)
        self.delivery.leave(*membership)
        return membership

    def is_exclusive(self, group: str) -> bool:
        """Whether each queue has one member of the group that reads it."""
        known = self._catalog.groups.get(group)
        return known is not None and known.dispatch is Dispatch.EXCLUSIVE

    def cancel(self, parked: WaitingReceive, *, answer: bool) -> None:
        """See ``Waiting.cancel``."""
        self.delivery.waiting_receives.cancel(parked, answer=answer)

    def settle(self, request: SettleRequest) -> SettleReply:
        """See ``Settler.settle``. Raises ``GroupNotFound``, ``DiskFull``."""
        self._group(request.group)
        if request.client_id:
            reader = self._broadcasting.settling(request.group, request.client_id)
            request = replace(request, group=reader)
        if request.member_id:
            self.receiving.member_seen(request.group, request.member_id)
        return self.delivery.settle(request)

    def group_stats(self, group: str, client_id: str = "") -> GroupStats:
        """Raises ``GroupNotFound``; ``BadRequest`` when it has no such client."""
        config = self._group(group)
        if not client_id and config.dispatch is not Dispatch.BROADCAST:
            queues, topics = self._progress.stats(group)
            return GroupStats(group=group, queues=queues, topics=tuple(topics))
        queues, topics = self._broadcasting.stats(config, client_id)
        return GroupStats(
            group=group,
            queues=queues,
            topics=tuple(topics),
            dropped_count=self._broadcasting.dropped_count(group, client_id),
        )

    def group_clients(self, request: GroupClientsRequest) -> GroupClients:
        """See ``BroadcastGroups.clients``. Raises ``GroupNotFound`` too."""
        self._group(request.group)
        return self._broadcasting.clients(request)

    def group_delete(self, group: str) -> None:
        """See ``Deletions.group_delete``."""
        self.deletions.group_delete(group)
        self._broadcasting.forget_group(group)

    def delete_namespaces(self, is_gone: Callable[[str], bool]) -> tuple[int, int]:
        """See ``Deletions.delete_namespaces``; how many topics and groups."""
        topic_count, groups = self.deletions.delete_namespaces(is_gone)
        for group in groups:
            self._broadcasting.forget_group(group)
        return topic_count, len(groups)

    def offset_commit(self, request: OffsetCommitRequest) -> OffsetCommitReply:
        """See ``OffsetChanges.commit``. Raises ``GroupNotFound``, ``TopicNotFound`` too."""
        group, queues = self._group(request.group), self._catalog.get_queues(request.topic)
        return self._broadcasting.read(
            group, request, lambda reader: self._offset_changes.commit(reader, queues, request)
        )

    def offset_reset(self, request: OffsetResetRequest) -> OffsetResetReply:
        """See ``OffsetChanges.reset``. Raises ``GroupNotFound``, ``TopicNotFound`` too."""
        group, queues = self._group(request.group), self._catalog.get_queues(request.topic)
        readers = self._broadcasting.readers(group, request.topic, request.client_id)
        return self._offset_changes.reset(readers, queues, request)

    def check_group(self, name: str) -> None:
        """Raises ``GroupNotFound`` unless there is such a group."""
        self._group(name)

    def _group(self, name: str) -> GroupConfig:
        group = _LETTERS if name == LETTERS_GROUP else self._catalog.groups.get(name)
        if group is None:
            raise GroupNotFound(f"group {name} does not exist")
        return group

    def stop(self) -> None:
        """Begin nothing any more by itself; the engine is stopping."""
        self.delivery.filter_scans.stop()
        self.delivery.waiting_receives.stop()
        self.delivery.leaser.stop()
        self.schedule.stop()

    def tick(self) -> None:
        """Leases and waits that end, what has failed, what is due."""
        self.delivery.tick()
        self.saved_sessions.tick()
        self.retries.tick()
        self.schedule.tick()
        self._scheduled_retries.tick()
        self._broadcasting.tick()


def _is_read(consumer_offsets: ConsumerOffsets, group: str) -> bool:
    return any(split_reader(progress.group)[0] == group for progress in consumer_offsets)
