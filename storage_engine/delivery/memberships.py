"""Who of the exclusive groups is there and who is gone; serves those for whom it matters.

receive ── heard ──▶ [Memberships] ──▶ members, readers of the subscription
leave, 120 s of silence ──▶ [Memberships] ── others read its queues now ──▶ serve

Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable

from storage_engine.clock import Clock
from storage_engine.config import SECOND_MS
from storage_engine.delivery.subscription import Subscription
from storage_engine.errors import StoreBusy


class Memberships:
    """See the module's docstring."""

    def __init__(
        self, clock: Clock, serve: Callable[[Subscription], None], member_count_max: int
    ) -> None:
        self._clock = clock
        self._member_count_max = member_count_max
        self._serve = serve
        self._exclusive: dict[Subscription, None] = {}  # with members
        self._next_ms = 0

    def heard(self, subscription: Subscription, member_id: str, zone: str) -> None:
        """Raises ``StoreBusy`` when there are as many members as there may be."""
        members = subscription.members
        if member_id not in members and len(members) >= self._member_count_max:
            raise StoreBusy(f"{len(members)} members of the group read the topic already")
        self._exclusive[subscription] = None
        if members.heard(member_id, self._clock.monotonic_ms(), zone):
            self._serve(subscription)

    def leave(self, subscription: Subscription, member_id: str) -> None:
        """A member is gone: others read its queues from now on, and may have another filter."""
        subscription.readers.leave(member_id)
        if subscription.members.leave(member_id):
            self._serve(subscription)

    def forget(self, subscription: Subscription) -> None:
        """Of a group or topic that is no more."""
        self._exclusive.pop(subscription, None)

    def tick(self, now_ms: int) -> None:
        """Whoever waits is there; who has long been silent is not. Every second is enough."""
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + SECOND_MS
        for subscription in list(self._exclusive):
            for waiting in subscription.parked:
                subscription.members.heard(waiting.request.member_id, now_ms)
            if subscription.members.expire(now_ms):
                self._serve(subscription)
            if not len(subscription.members):
                del self._exclusive[subscription]
