"""Members of exclusive groups that join or leave, and the receives this affects.

receive ── heard ──▶ [Memberships] ──▶ members, readers of the subscription
leave, 120 s of silence ──▶ [Memberships] ── others read its queues now ──▶ serve
                                 └─ queues that a member reads no more ──▶ REVOKED notices

What a member holds of a queue that it reads no more stays under its lease: it may still settle it,
and an ordered queue waits for that. Loop thread only.
"""

from __future__ import annotations

from storage_engine.config import SECOND_MS
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.subscription import ProcessQueue, Subscription, Subscriptions
from storage_engine.errors import StoreBusy
from storage_engine.wire.notices import Notice, NoticeKind


class Memberships:
    """See the module's docstring."""

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
