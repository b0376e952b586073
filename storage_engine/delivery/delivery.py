"""Delivers messages to the members of groups and records their settles.

    receive ──▶ [Delivery] ── take ──▶ ProcessQueue of each queue ── records ──▶ reply
       └─ nothing ready: parked ── new message, nack delay, lease end ──▶ served in order of arrival
    settle ──▶ [Delivery] ──▶ consumer_offsets (journal) ──▶ reply
    nack, lease end ──▶ [Delivery] ── Failure ──▶ retries
    what a filter does not want ──▶ skipped, settled without having been in flight

Shared dispatch: any member of a group may lease from any queue, in an ordered one what its message
group lets go. Leases and parked receives (``waiting_receives.py``) are looked at every tick. A
message whose delivery failed goes to another place (``retries.py``) and comes from there again.
Every wait, lease and number in flight has a maximum in ``StoreConfig``. Loop thread only.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from storage_engine.config import SECOND_MS, StoreConfig
from storage_engine.delivery.clients import split_reader
from storage_engine.delivery.due_heap import DueHeap
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.lease_messages import MessageLeaser
from storage_engine.delivery.settle import Settler
from storage_engine.delivery.subscription import (
    Delivered,
    Failure,
    Lease,
    ProcessQueue,
    StartOf,
    Subscription,
    Subscriptions,
    WaitingReceive,
    min_offset_of,
    start_at,
    start_of,
)
from storage_engine.delivery.waiting_receives import DeliveryBlockers, FilterScans, WaitingReceives
from storage_engine.errors import BadRequest, FilterInvalid, StoreBusy, StoreError
from storage_engine.filters.message_filter import EVERYTHING, known_filter
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.wire.deliveries import ReceiveRequest, SubscribeRequest
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.notices import Notice, NoticeKind

log = logging.getLogger(__name__)


_ATTEMPT_ID_CHARS_MAX: Final = 128


def check_limits(config: StoreConfig, request: ReceiveRequest) -> None:
    """Raises ``BadRequest`` if a limit in the request is out of range, or the member is empty."""
    if not request.member_id:
        raise BadRequest("member_id is empty: name the member that receives the messages")
    for name, value, low, high in (
        ("messages_max", request.messages_max, 1, config.receive_messages_max),
        ("lease_ms", request.lease_ms, config.lease_ms_min, config.lease_ms_max),
        ("wait_ms", request.wait_ms, 0, config.poll_wait_ms_max),
        ("auto_extend_ms", request.auto_extend_ms, 0, config.auto_extend_ms_max),
    ):
        if not low <= value <= high:
            raise BadRequest(f"{name} is {value}, it must be {low} to {high}")
    if len(request.attempt_id) > _ATTEMPT_ID_CHARS_MAX:
        raise BadRequest(
            f"attempt_id has {len(request.attempt_id)} characters, "
            f"at most {_ATTEMPT_ID_CHARS_MAX} are allowed"
        )


class Memberships:
    """Members of exclusive groups that join or leave, and the receives this affects.

    receive ── heard ──▶ [Memberships] ──▶ members, readers of the subscription
    leave, 120 s of silence ──▶ [Memberships] ── others read its queues now ──▶ serve
                                     └─ queues that a member reads no more ──▶ REVOKED notices

    What a member holds of a queue that it reads no more stays under its lease: it may still
    settle it, and an ordered queue waits for that.
    """

    def __init__(self, parts: EngineParts, subscriptions: Subscriptions) -> None:
        self._clock = parts.clock
        self._member_count_max = parts.config.member_count_max
        self._notify = parts.notices.notify
        self._subscriptions = subscriptions
        self._exclusive: dict[Subscription, None] = {}  # with members
        self._next_ms = 0

    def member_seen(self, subscription: Subscription, member_id: str, zone: str) -> None:
        """Raises ``StoreBusy`` when there are as many members as there may be."""
        members = subscription.members
        if member_id not in members and len(members) >= self._member_count_max:
            raise StoreBusy(
                f"{len(members)} members of the group read the topic already, which is the limit"
            )
        self._exclusive[subscription] = None
        if members.member_seen(member_id, self._clock.monotonic_ms(), zone):
            self._notify_revoked(subscription)
            subscription.serve()

    def refresh_member(self, subscription: Subscription, member_id: str) -> None:
        """Record that a member is alive although it cannot receive at the moment."""
        if member_id in subscription.members:
            subscription.members.member_seen(member_id, self._clock.monotonic_ms())

    def leave(self, subscription: Subscription, member_id: str) -> None:
        """Remove a member: others read its queues from now on, and may use another filter.

        It is not while another of its receives waits: two sockets may be one consumer.
        """
        if any(waiting.request.member_id == member_id for waiting in subscription.waiting_receives):
            return
        subscription.readers.leave(member_id)
        if subscription.members.leave(member_id):
            self._notify_revoked(subscription)
            subscription.serve()

    def _notify_revoked(self, subscription: Subscription) -> None:
        """Tell members which queues they have lost, if they hold messages of them."""
        members, queues = subscription.members, subscription.queues
        config = subscription.config
        revoked = members.pop_revoked(len(queues), config.strategy, config.assignment)
        for member_id, queue_ids in revoked.items():
            held = [
                queue_id
                for queue_id in queue_ids
                if queue_id < len(queues) and _has_leases(member_id, queues[queue_id])
            ]
            if held:
                self._notify(
                    Notice(
                        kind=NoticeKind.REVOKED,
                        group=subscription.group,
                        topic=subscription.topic,
                        member_id=member_id,
                        queue_ids=tuple(held),
                        lease_floor=self._subscriptions.next_generation(),
                        assignment=members.generation,
                    )
                )

    def forget(self, subscription: Subscription) -> None:
        """Of a group or topic that is no more."""
        self._exclusive.pop(subscription, None)

    def tick(self, now_ms: int) -> None:
        """Whoever waits is there; who has long been silent is not. Every second is enough."""
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + SECOND_MS
        for subscription in list(self._exclusive):
            for waiting in subscription.waiting_receives:
                subscription.members.member_seen(waiting.request.member_id, now_ms)
            has_expired = bool(subscription.members.expire(now_ms))
            self._notify_revoked(subscription)  # of another number of queues or strategy too
            if has_expired:
                subscription.serve()
            if not len(subscription.members):
                del self._exclusive[subscription]


def _has_leases(member_id: str, process_queue: ProcessQueue) -> bool:
    return any(lease.member_id == member_id for lease in process_queue.inflight.values())


class Delivery:
    """See the module's docstring. Times of leases and waits are monotonic.

    ``epoch``: the number of this run of the engine; ``fail`` takes a message whose delivery failed.
    """

    def __init__(self, parts: EngineParts, epoch: int, fail: Callable[[Failure], None]) -> None:
        self.epoch = epoch
        self._fail = fail
        self._config = parts.config
        self._clock = parts.clock
        self._commit_log = parts.commit_log
        self._consumer_offsets = parts.consumer_offsets
        self._notify = parts.notices.notify
        self.subscriptions = Subscriptions(epoch)
        self._delays: DueHeap[Subscription] = DueHeap(lambda subscription: True)
        self._memberships = Memberships(parts, self.subscriptions)
        self.blockers = DeliveryBlockers(parts)
        self.leaser = MessageLeaser(parts, self.subscriptions)
        self.settler = Settler(parts, self.subscriptions, fail)
        self.settle = self.settler.settle
        self.filter_scans = FilterScans(parts)
        self.waiting_receives = WaitingReceives(parts, self.leaser, self.filter_scans)

    # Receiving ------------------------------------------------------------------------------

    def receive(
        self,
        group: GroupConfig,
        queues: list[ConsumeQueue],
        request: ReceiveRequest,
        answer: Callable[[Delivered], None],
    ) -> WaitingReceive | None:
        """Reply now if messages are ready or the receive does not wait; otherwise let it wait.

        Raises:
            BadRequest: a limit of the request is out of range.
            StoreBusy: too many receives are parked, or an exclusive group has too many members.
            FilterInvalid, SubscriptionConflict: see ``join``.
            DiskFull: the group's first position on a queue cannot be written.
            NotLocal: what comes next only the bucket has; to be asked again when it is here.
        """
        check_limits(self._config, request)
        subscription = self.join(group, queues, request)
        subscription.config = group
        if subscription.is_exclusive:
            self._memberships.member_seen(subscription, request.member_id, request.zone)
        if subscription.waiting_receives and not subscription.is_exclusive:
            return self.waiting_receives.reply_or_wait(subscription, request, None, answer)
        look = (
            self.filter_scans.start_scan(subscription) if subscription.reads_before_taking else None
        )
        try:
            delivered = self.leaser.take(subscription, request, look)
            return self.waiting_receives.reply_or_wait(subscription, request, delivered, answer)
        finally:
            if look is not None:
                self.filter_scans.finish_scan(subscription, look)

    def join(
        self,
        group: GroupConfig,
        queues: list[ConsumeQueue],
        request: ReceiveRequest | SubscribeRequest,
    ) -> Subscription:
        """Hear of a member, and read through the filter that it brings; see ``Subscription.join``.

        Raises ``FilterInvalid``, ``SubscriptionConflict``, ``DiskFull``.
        """
        wanted = known_filter(request.filter, request.filter_kind) if request.filter else EVERYTHING
        subscription = self.subscribe(group, request.topic, queues)
        now_ms = self._clock.monotonic_ms()
        is_unnamed = isinstance(request, ReceiveRequest) and request.is_unnamed
        if subscription.join(request.member_id, wanted, now_ms, is_unnamed=is_unnamed):
            self._consumer_offsets.save_filter(group.group, request.topic, wanted.kind, wanted.text)
            # Whoever waits is the same member, which does not want this any more.
            for parked in list(subscription.waiting_receives):
                self.waiting_receives.finish(parked)
        return subscription

    def announce(
        self, group: GroupConfig, queues: list[ConsumeQueue], request: SubscribeRequest
    ) -> None:
        """Hear of a member that does not receive yet, or cannot at the moment; see ``join``."""
        self._memberships.refresh_member(self.join(group, queues, request), request.member_id)

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
        subscription = self.subscriptions.find(group.group, topic)
        if subscription is None:
            subscription = Subscription(group, topic, self.serve)
            self.subscriptions.add(subscription)
        if len(subscription.queues) < len(queues):
            has_started = self._consumer_offsets.has_started(group.group, topic)
            start = min_offset_of if has_started else start_of(group, self._commit_log)
            is_later = has_started and not positions
            self._add_queues(
                subscription, queues, start_at(positions or {}, start), is_later=is_later
            )
        return subscription

    def _add_queues(
        self,
        subscription: Subscription,
        queues: list[ConsumeQueue],
        start: StartOf,
        *,
        is_later: bool = True,
    ) -> None:
        """``is_later``: to those that were read before, from their beginnings."""
        known = self._consumer_offsets, self._config.inflight_span_max
        # A thousand clients at once would take seconds. Nothing of theirs is ever moved, which is
        # what needs the position: begun again they begin at the same place.
        is_synced = not (is_later and subscription.config.dispatch is Dispatch.BROADCAST)
        added = subscription.add_queues(queues, *known, start, is_synced=is_synced)
        self.subscriptions.follow(added)

    def add_retry(self, subscription: Subscription, queue: ConsumeQueue) -> None:
        """Deliver from the queue of the retry topic too. Raises ``DiskFull``, ``SyncFailed``."""
        known = self._consumer_offsets, self._config.inflight_span_max
        self.subscriptions.follow(subscription.add_retry(queue, *known))

    def queues_added(self, topic: str, queues: list[ConsumeQueue]) -> None:
        """Let those who wait on a topic be woken by its new queues too."""
        for subscription in self.subscriptions:
            if subscription.topic == topic and subscription.waiting_receives:
                try:
                    self._add_queues(subscription, queues, min_offset_of)
                except StoreError as exc:
                    log.warning(
                        "Could not attach new queues to a waiting group",
                        extra={"action": "queue_attach_failed", "reason": str(exc)},
                    )

    def serve(self, subscription: Subscription) -> None:
        """See ``WaitingReceives.serve``."""
        if subscription.waiting_receives:
            self.waiting_receives.serve(subscription)

    def group_changed(self, group: GroupConfig) -> None:
        """Let the receives of a paused group wait; deliver what is ready to a resumed group."""
        has_changed = False
        for subscription in self.subscriptions:
            config = subscription.config
            if split_reader(config.group)[0] == group.group and config.is_paused != group.is_paused:
                # The rest of it becomes valid with the next receive.
                subscription.config = replace(config, is_paused=group.is_paused)
                self.serve(subscription)
                has_changed = True
        if has_changed:
            kind = NoticeKind.PAUSED if group.is_paused else NoticeKind.UNPAUSED
            self._notify(Notice(kind=kind, group=group.group))

    def drop(
        self, is_gone: Callable[[Subscription], bool], refusal: StoreError
    ) -> list[ProcessQueue]:
        """Forget subscriptions with their leases; who waits is answered with ``refusal``."""
        dropped: list[ProcessQueue] = []
        gone = [each for each in self.subscriptions if is_gone(each)]
        self.subscriptions.remove(gone)
        for subscription in gone:
            self._memberships.forget(subscription)
            for source in subscription.sources:
                source.restart()
            dropped += subscription.sources
            for parked in list(subscription.waiting_receives):
                self.waiting_receives.finish(parked, refusal)
            self._notify(
                Notice(
                    kind=NoticeKind.DELETED,
                    group=subscription.group,
                    topic=subscription.topic,
                    lease_floor=self.subscriptions.next_generation(),
                    code=refusal.code,
                )
            )
        return dropped

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
        kept = self._consumer_offsets.saved_filter(group.group, topic)
        with contextlib.suppress(FilterInvalid):  # of a later version; a member will say it again
            subscription.filter = EVERYTHING if kept is None else known_filter(*kept)
        if retry_queue is not None and subscription.retry is None:
            self.add_retry(subscription, retry_queue)

    def leave(self, group: str, topic: str, member_id: str) -> None:
        """See ``Memberships.leave``."""
        subscription = self.subscriptions.find(group, topic)
        if subscription is not None:
            self._memberships.leave(subscription, member_id)

    # Time -----------------------------------------------------------------------------------

    def tick(self) -> None:
        """End leases and waits whose time has come; look on for those who wait. Every tick."""
        now_ms = self._clock.monotonic_ms()
        for lease in self.subscriptions.leases.pop_due(now_ms):
            if end_ms := lease.extended_to(now_ms):
                self.subscriptions.leases.push(end_ms, lease)
                continue
            self._end(lease, now_ms)
        for subscription in set(self._delays.pop_due(now_ms)):
            self.serve(subscription)
        self._memberships.tick(now_ms)
        self.blockers.tick(now_ms, self.subscriptions)
        self.waiting_receives.tick(now_ms)
        self.filter_scans.tick()
        self._consumer_offsets.write_skipped()

    def _end(self, lease: Lease, now_ms: int) -> None:
        """What is still in flight under the lease has failed, unless its queue was handed over, or
        it had failed before.
        """
        reason = "consume timeout" if lease.ends_ms >= lease.deadline_ms else "lease ended"
        for process_queue, queue_offsets in lease.parts:
            owner = process_queue.owner
            is_no_failure = lease.is_retaken or owner.has_handed_over(
                process_queue, lease.member_id
            )
            for queue_offset in queue_offsets:
                if process_queue.inflight.get(queue_offset) is not lease:
                    continue
                if is_no_failure:
                    process_queue.release(queue_offset, now_ms, is_attempt=False)
                    continue
                # RocketMQ revives these at once; only a nack waits.
                ended = process_queue, queue_offset, lease.generation, 0, reason
                failed = Failure(*ended, lease.started_ms, self._clock.now_ms())
                self._fail(failed._replace(member_id=lease.member_id))
            if is_no_failure:
                self.serve(owner)

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
