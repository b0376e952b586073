"""Reports consumers that wait although there are messages, because too many are in flight.

    waiting receives, full queues ──▶ [DeliveryBlockers] ── every second ──▶ HELD_UP notices

Said again each second while it lasts, so that those who come later hear it too; that it is over
shows by messages that come, or by silence. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from storage_engine.clock import Clock
from storage_engine.config import SECOND_MS, StoreConfig
from storage_engine.delivery.subscription import ProcessQueue, Subscription
from storage_engine.wire.notices import Notice, NoticeKind


class DeliveryBlockers:
    """See the module's docstring."""

    def __init__(self, config: StoreConfig, clock: Clock, tell: Callable[[Notice], None]) -> None:
        self._inflight_count_max = config.inflight_count_max
        self._notify_client = tell
        self._next_ms = clock.monotonic_ms() + SECOND_MS

    def tick(self, now_ms: int, subscriptions: Iterable[Subscription]) -> None:
        """Called every tick; checks once a second, and only subscriptions with waiting receives."""
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + SECOND_MS
        for subscription in subscriptions:
            if subscription.waiting_receives and self.is_inflight_full(subscription.sources):
                self._notify(subscription)

    def is_inflight_full(self, queues: Iterable[ProcessQueue]) -> bool:
        """Whether one has new messages that must wait until some in flight are settled."""
        return any(
            each.position < each.queue.max_offset
            and (len(each.inflight) >= self._inflight_count_max or each.position >= each.span_end)
            for each in queues
        )

    def _notify(self, subscription: Subscription) -> None:
        """To all, or in an exclusive group to those whose own queues are full."""
        members = [""]
        if subscription.is_exclusive:
            waiting = dict.fromkeys(
                each.request.member_id for each in subscription.waiting_receives
            )
            members = [
                member_id
                for member_id in waiting
                if self.is_inflight_full(subscription.sources_of(member_id))
            ]
        for member_id in members:
            self._notify_client(
                Notice(
                    kind=NoticeKind.HELD_UP,
                    group=subscription.group,
                    topic=subscription.topic,
                    member_id=member_id,
                )
            )
