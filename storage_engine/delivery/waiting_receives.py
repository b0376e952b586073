"""Receives that wait for messages, in order of arrival.

    receive ── nothing ready ──▶ [WaitingReceives] ─ something is: serve ──▶ leasing ──▶ answer
                                    └── time over, cancelled, deleted ──▶ an empty answer, or none
    filter not done ──▶ [FilterScans] ── next turn of the loop, in turn with others ──▶ serve
    queues full ──▶ [DeliveryBlockers] ── every second ──▶ HELD_UP notices

Loop thread only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from storage_engine.config import SECOND_MS
from storage_engine.delivery.due_heap import DueHeap
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.filter_scan import FilterScan, SettlingScan
from storage_engine.delivery.lease_messages import MessageLeaser
from storage_engine.delivery.progress import Progress
from storage_engine.delivery.subscription import (
    Delivered,
    ProcessQueue,
    Subscription,
    WaitingReceive,
)
from storage_engine.errors import NotLocal, StoreBusy, StoreError
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.notices import Notice, NoticeKind

# Of the 100 ms between two ticks: a hostile filter leaves two thirds of the loop to everybody else.
_TICK_SHARE_MS: Final = 30
# What a message costs that is delivered without a filter; finding one is no waste of time.
_FOUND_MS: Final = 0.02
_FETCH_AGAIN_S: Final = 1.0  # after the bucket has not answered


class FilterScans:
    """Searches queues through filters in small steps, for those that wait in turn.

    All looks between two ticks together take a part of the time, whatever the filters are.
    """

    def __init__(self, parts: EngineParts) -> None:
        self._clock = parts.clock
        self._settle = parts.consumer_offsets.skip
        self._reading = parts.commit_log.properties, parts.read_checked, self._skip
        self._call_soon = parts.loop.call_soon
        self._ms_left: float = _TICK_SHARE_MS
        self._waiting: dict[Subscription, None] = {}  # those that were not looked through, in turn
        self._is_turn_scheduled = False
        self._is_stopped = False
        self.skipped_count = 0

    def start_scan(self, subscription: Subscription) -> SettlingScan:
        """A look for one take, or for some that follow each other."""
        return SettlingScan(subscription.filter, self._clock, self._ms_left, *self._reading)

    def finish_scan(self, subscription: Subscription, look: FilterScan) -> None:
        """Record the time spent, and continue later if a receive still waits for messages after the
        skipped ones.
        """
        spent_ms = self._clock.monotonic_ms() - look.started_ms - look.found_count * _FOUND_MS
        if subscription.filter.is_all:
            # It looks for no message, but whether each may come yet: what may is no cost of that.
            seen_count = look.found_count + look.discarded_count
            spent_ms *= look.discarded_count / max(seen_count, 1)
        self._ms_left = min(self._ms_left - spent_ms, _TICK_SHARE_MS)
        if look.absent is not None:
            return  # the look goes on once that is here
        if look.is_spent and subscription.waiting_receives and not self._is_stopped:
            self._waiting[subscription] = None
            self._schedule_turn()

    def tick(self) -> None:
        """A new share of time; every tick."""
        self._ms_left = _TICK_SHARE_MS
        if self._waiting and not self._is_turn_scheduled:
            # At once: those who have waited come before the receives of this tick.
            self._turn()

    def stop(self) -> None:
        """Look no more: the files are about to be closed."""
        self._is_stopped = True
        self._waiting.clear()

    def _skip(self, progress: Progress, first: int, count: int) -> None:
        self._settle(progress, first, count)
        self.skipped_count += count

    def _schedule_turn(self) -> None:
        if not self._is_turn_scheduled and self._ms_left > 0:
            self._is_turn_scheduled = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_scheduled = False
        if self._waiting:
            subscription = next(iter(self._waiting))
            del self._waiting[subscription]
            try:
                subscription.serve()
            finally:
                if self._waiting:
                    self._schedule_turn()


class WaitingReceives:
    """See the module's docstring. Waits end at monotonic times."""

    def __init__(self, parts: EngineParts, leasing: MessageLeaser, looking: FilterScans) -> None:
        self._config = parts.config
        self._clock = parts.clock
        self._leasing = leasing
        self._looking = looking
        self._ends: DueHeap[WaitingReceive] = DueHeap(lambda parked: not parked.is_done)
        self._loop = parts.loop
        self._fetching: dict[Subscription, asyncio.Task[None]] = {}
        self.count = 0

    def reply_or_wait(
        self,
        subscription: Subscription,
        request: ReceiveRequest,
        delivered: Delivered | None,
        answer: Callable[[Delivered], None],
    ) -> WaitingReceive | None:
        """Reply with what was delivered, or with nothing if the receive does not wait; otherwise
        let it wait.

        Raises ``StoreBusy`` when too many are parked.
        """
        if delivered is None and request.wait_ms > 0:
            if self.count >= self._config.waiting_receive_count_max:
                raise StoreBusy(
                    f"{self.count} receives are waiting already, which is the limit; try "
                    "again later"
                )
            parked = WaitingReceive(request, subscription, answer)
            subscription.waiting_receives[parked] = None
            self.count += 1
            self._ends.push(self._clock.monotonic_ms() + request.wait_ms, parked)
            return parked
        answer(delivered or _NOTHING)
        return None

    def serve(self, subscription: Subscription) -> None:
        """Give what is ready to those who wait, first come first served. What only the bucket has
        is ready once it is here.
        """
        look = self._looking.start_scan(subscription) if subscription.reads_before_taking else None
        try:
            self._serve(subscription, look)
        except NotLocal as exc:
            self._fetch(subscription, exc)
        finally:
            if look is not None:
                self._looking.finish_scan(subscription, look)

    def _serve(self, subscription: Subscription, look: SettlingScan | None) -> None:
        if subscription.is_exclusive:
            self._serve_each(subscription, look)
        while subscription.waiting_receives and not subscription.is_exclusive:
            waiting = next(iter(subscription.waiting_receives))
            if (delivered := self._leasing.take(subscription, waiting.request, look)) is None:
                break
            self._end(waiting, delivered)

    def _fetch(self, subscription: Subscription, absent: NotLocal) -> None:
        """Serve again when it is here, or a moment after it could not be fetched."""
        if subscription in self._fetching:
            return

        def ended(task: asyncio.Task[None]) -> None:
            self._fetching.pop(subscription, None)
            if not task.cancelled():
                is_here = task.exception() is None
                self._loop.call_later(0 if is_here else _FETCH_AGAIN_S, subscription.serve)

        task = self._fetching[subscription] = self._loop.create_task(absent.fetch())
        task.add_done_callback(ended)

    def stop(self) -> None:
        """Wait for nothing more from the bucket."""
        for task in self._fetching.values():
            task.cancel()

    def _serve_each(self, subscription: Subscription, look: SettlingScan | None) -> None:
        """What is ready for one member of an exclusive group says nothing about the others."""
        done: set[str] = set()  # members who have all that is ready for them
        absent: NotLocal | None = None
        for waiting in list(subscription.waiting_receives):
            member_id = waiting.request.member_id
            if waiting.is_done or member_id in done:
                continue
            try:
                delivered = self._leasing.take(subscription, waiting.request, look)
            except NotLocal as exc:
                absent, delivered = exc, None
            if delivered is None:
                done.add(member_id)
            else:
                self._end(waiting, delivered)
        if absent is not None:
            raise absent

    def replace(
        self, waiting: WaitingReceive, request: ReceiveRequest, answer: Callable[[Delivered], None]
    ) -> WaitingReceive:
        """Let a receive wait where another one did, which is answered with nothing."""
        subscription = waiting.subscription
        parked = WaitingReceive(request, subscription, answer)
        subscription.waiting_receives = OrderedDict(
            (parked if each is waiting else each, None) for each in subscription.waiting_receives
        )
        self._ends.push(self._clock.monotonic_ms() + request.wait_ms, parked)
        waiting.is_done = True
        waiting.reply(_NOTHING)
        return parked

    def cancel(self, parked: WaitingReceive, *, answer: bool) -> None:
        """End a wait: with an empty reply, or without one if the connection is closed."""
        if not parked.is_done:
            self._end(parked, _NOTHING if answer else None)

    def finish(self, parked: WaitingReceive, refusal: StoreError | None = None) -> None:
        """End a wait with nothing, or with a refusal."""
        self._end(parked, _NOTHING if refusal is None else _NOTHING._replace(refusal=refusal))

    def tick(self, now_ms: int) -> None:
        """End waits whose time has come. Every tick."""
        for parked in self._ends.pop_due(now_ms):
            self._end(parked, _NOTHING)

    def _end(self, parked: WaitingReceive, delivered: Delivered | None) -> None:
        parked.is_done = True
        del parked.subscription.waiting_receives[parked]
        self.count -= 1
        if delivered is not None:
            parked.reply(delivered)


_NOTHING: Final = Delivered(0, 0, [], [])


class DeliveryBlockers:
    """Reports consumers that wait although there are messages, because too many are in flight.

    It says so again each second while it lasts, so that those who come later hear it too; that it
    is over shows by messages that come, or by silence.
    """

    def __init__(self, parts: EngineParts) -> None:
        self._inflight_count_max = parts.config.inflight_count_max
        self._notify_client = parts.notices.notify
        self._next_ms = parts.clock.monotonic_ms() + SECOND_MS

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
