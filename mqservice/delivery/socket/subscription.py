"""One subscription of a session: which message has which tag, and how it is settled.

    Pusher ── fetched ──▶ outstanding[tag] ── msgs frame ──▶ client
       ▲ credit               │ ack, nack, lease end, lost
       └──────────────────────┴──▶ one store.settle per loop tick

Invariants: credit + outstanding never exceeds the caps; a message takes its credit when it is
fetched and returns it when it is settled, its lease ends or it is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from mqservice.delivery.consumers import Consumer
from mqservice.delivery.filters import WantedFilter
from mqservice.delivery.limits import ANNOUNCE_MS, BLOCKED_MS
from mqservice.delivery.socket.credit import Credits
from mqservice.delivery.socket.leased_batch import Delivery
from mqservice.delivery.socket.leased_messages import LeasedMessages, nack_of
from mqservice.delivery.socket.membership import Membership
from mqservice.delivery.socket.owner import Session
from mqservice.delivery.socket.pusher import Pusher
from mqservice.delivery.socket.settle_batches import Command, SettleBatches
from mqservice.errors import problem_from_store
from mqservice.groups.routes import GroupRoute
from mqservice.protocol import frames
from mqservice.store import (
    Nack,
    Notice,
    NoticeKind,
    Received,
    StoreError,
    error_from_code,
)
from mqservice.topics.routes import TopicRoute

log = logging.getLogger(__name__)

NACK_COUNT_MAX: Final = 1_000
_LOST_BY: Final = (NoticeKind.RESET, NoticeKind.REVOKED, NoticeKind.DELETED)


class Subscription:
    """See the module's docstring. One event loop uses it."""

    __slots__ = (
        "_announced_ms",
        "_auto_extend_ms",
        "_has_left",
        "_is_refused",
        "_session",
        "_settlement",
        "credits",
        "group",
        "lease_ms",
        "leased",
        "membership",
        "pusher",
        "sid",
        "topic",
        "wanted",
    )

    def __init__(
        self,
        session: Session,
        *,
        sid: int,
        topic: TopicRoute,
        group: GroupRoute,
        lease_ms: int,
        auto_extend_ms: int,
        wanted: WantedFilter,
        consumer: Consumer,
        credit: frames.Credit,
    ) -> None:
        self.sid = sid
        self.topic = topic
        self.group = group
        self.wanted = wanted
        self.lease_ms = lease_ms
        self._session = session
        self._auto_extend_ms = auto_extend_ms
        self._announced_ms = session.context.clock.monotonic_ms()
        self._has_left = False
        self._is_refused = False
        self.membership = Membership(
            store=session.context.store,
            group=group.engine_name,
            topic=topic.engine_name,
            member_id=consumer.member_id or f"{session.member_id}-{sid}",
            wanted=wanted,
            lease_ms=lease_ms,
            client_id=consumer.client_id,
            zone=consumer.zone,
        )
        self.credits = Credits(credit)
        self.leased = LeasedMessages()
        self.pusher = Pusher(self, session)
        self._settlement = SettleBatches(self, session)

    @property
    def outstanding_count(self) -> int:
        return len(self.leased)

    @property
    def auto_extend_ms(self) -> int:
        return self._auto_extend_ms

    @property
    def is_drained(self) -> bool:
        """Whether it pushes nothing more and the client holds nothing more."""
        return self.credits.is_stopped and not self.leased

    @property
    def _is_over(self) -> bool:
        """Whether nothing will be pushed any more."""
        return self._is_refused or self.credits.is_stopped

    @property
    def engine_group(self) -> str:
        return self.group.engine_name

    # Receiving ----------------------------------------------------------------------------------

    async def announce(self) -> None:
        """Tell the engine of this member; see ``Membership.announce``. Raises StoreError."""
        is_paused = await self.membership.announce()
        if is_paused is not None:
            self.credits.is_paused = is_paused

    def register(self, received: Received) -> int:
        """Give tags to the messages; the first one is returned, the others follow it."""
        extend_until_ms = 0
        if self._auto_extend_ms:
            # The engine ends a delivery there whatever is asked for.
            extend_ms = min(self._auto_extend_ms, self.group.consume_timeout_ms)
            extend_until_ms = self._session.context.clock.now_ms() + extend_ms
        given = self.leased.add(received, extend_until_ms)
        self.credits.held_up_ms = 0
        self.credits.spend(given.msgs, given.body_bytes)
        return given.first_tag

    def add_credit(self, msgs: int, bytes_count: int) -> None:
        """Permits on top, up to the caps for what is free and outstanding together."""
        held = self.leased
        self.credits.add(msgs, bytes_count, held_msgs=len(held), held_bytes=held.body_bytes)

    async def refuse(self, exc: StoreError) -> None:
        """Tell the client that nothing more comes. Once."""
        if self._is_refused:
            return
        self._is_refused = True
        problem = problem_from_store(exc)
        codec = self._session.codec
        err = codec.Err(None, problem.code, False, problem.detail)
        await self._session.send_frame(codec.encode(err))

    # Notices ------------------------------------------------------------------------------------

    def on_notice(self, notice: Notice) -> None:
        """The engine has told something about the group."""
        if notice.client_id not in ("", self.membership.client_id):
            return
        if notice.kind in _LOST_BY:
            self.pusher.fetches.on_notice(notice)
            self.apply(notice)
        elif notice.kind in (NoticeKind.PAUSED, NoticeKind.UNPAUSED):
            self.credits.is_paused = notice.kind is NoticeKind.PAUSED
            self.notify_flow(is_sure=True)
        elif (
            notice.kind is NoticeKind.HELD_UP
            and notice.topic == self.membership.topic
            and notice.member_id in ("", self.membership.member_id)
        ):
            self.credits.held_up_ms = BLOCKED_MS

    def apply(self, notice: Notice) -> None:
        """Tell the client what it has lost. An ack of it goes to the engine all the same, which
        knows whether it still counts.
        """
        if notice.topic != self.membership.topic:
            return
        if notice.kind is NoticeKind.REVOKED and notice.member_id != self.membership.member_id:
            return
        is_deleted = notice.kind is NoticeKind.DELETED
        floor, queue_ids = notice.lease_floor, notice.queue_ids
        has_retries = notice.has_retries
        lost = [
            tag
            for tag, each in self.leased.outstanding.items()
            if each.lease_generation < floor
            and (
                is_deleted
                or (each.queue_id in queue_ids if each.topic == notice.topic else has_retries)
            )
        ]
        self.revoke(lost, notice.kind.value, notice.assignment or None)
        if is_deleted and not self._is_refused:
            self.pusher.end()
            refusal = error_from_code(notice.code, "it was deleted")
            self._session.spawn(self.refuse(refusal))

    def revoke(self, tags: list[int], why: str, generation: int | None = None) -> None:
        """Take tags from the client, return their credit and say so."""
        if tags:
            self.leased.remember_late(self._pop(tags, Command(None, "acked")), why)
            self.notify_lost(tags, why, generation)

    def notify_lost(self, tags: list[int], why: str, generation: int | None = None) -> None:
        """Once more too, where the client may not have heard it."""
        codec = self._session.codec
        lost = codec.Lost(self.sid, tags, why, generation)
        self._session.spawn(self._session.send_frame(codec.encode(lost)))

    # Settling -----------------------------------------------------------------------------------

    async def wait_ready(self) -> None:
        """Until the engine has caught up with what the client settles."""
        if self._settlement.is_busy:
            await self._settlement.wait_ready()

    def ack(self, tags: list[int], command_id: int | None) -> bool:
        """Settle ``tags``; the answer is sent once the engine has confirmed. Whether the client
        holds any of them, as for all that settles.
        """
        command = Command(command_id, "acked")
        batch = self.leased.pop_batch(tags)
        if batch is not None:  # none of it can be settled already
            self.credits.restore(len(batch.tags), batch.body_bytes)
            self._settlement.add_batch(command, batch)
            return True
        pending = self._pending(tags)
        taken = self._pop(tags, command)
        self._settlement.add_acks(command, taken)
        if pending:
            self._settlement.join(command, pending)
        return bool(taken or pending)

    def tags_upto(self, upto: int) -> list[int]:
        """Outstanding tags that are not greater than ``upto``, and those still being settled."""
        outstanding = [tag for tag in self.leased.outstanding if tag <= upto]
        return outstanding + [tag for tag in self._settlement.unconfirmed if tag <= upto]

    def _pending(self, tags: list[int]) -> list[int]:
        settling = self._settlement.unconfirmed
        return [tag for tag in tags if tag in settling] if settling else []

    def nack(self, items: list[frames.NackItem], command_id: int | None) -> bool:
        """Give messages back, each after its delay."""
        by_tag = {item.t: item for item in items}
        return self._dead_letter(
            list(by_tag),
            Command(command_id, "nacked"),
            lambda tag, given: nack_of(given, by_tag[tag].delay_ms, by_tag[tag].reason or ""),
        )

    def dead_letter(self, items: list[frames.DeadLetterItem], command_id: int | None) -> bool:
        """Send messages to the group's DLQ."""
        reasons = {item.t: item.reason or "" for item in items}
        return self._dead_letter(
            list(reasons),
            Command(command_id, "dead_lettered"),
            lambda tag, given: nack_of(given, None, reasons[tag], is_dead=True),
        )

    def _release(self, tags: list[int]) -> None:
        """Give back what the client has never had."""
        release = Command(None, "nacked")
        reason = "not sent"
        self._dead_letter(
            tags, release, lambda _, given: nack_of(given, 0, reason, is_release=True)
        )

    def _dead_letter(
        self, tags: list[int], command: Command, nack: Callable[[int, Delivery], Nack]
    ) -> bool:
        pending = self._pending(tags)
        taken = self._pop(tags, command)
        nacks = [nack(tag, delivery) for tag, delivery in taken]
        self._settlement.add_nacks(command, taken, nacks)
        if pending:
            self._settlement.join(command, pending)
        return bool(taken or pending)

    def extend(self, tags: Iterable[int], lease_ms: int, command_id: int | None) -> bool:
        """Let the leases of ``tags`` end ``lease_ms`` from now; they stay outstanding."""
        command = Command(command_id, "extended")
        found: list[tuple[int, Delivery]] = []
        for tag in tags:
            delivery = self.leased.outstanding.get(tag)
            if delivery is None:
                command.failures.append(frames.TagFailure(tag, "LEASE_EXPIRED"))
            else:
                found.append((tag, delivery))
        self._settlement.add_extends(command, found, lease_ms)
        return bool(found)

    def extended(self, tag: int, until_ms: int) -> None:
        """The engine has moved the end of a lease."""
        self.leased.extended(tag, until_ms)

    def _pop(self, tags: Iterable[int], command: Command) -> list[tuple[int, Delivery]]:
        """Take ``tags`` out of the outstanding ones and return their credit."""
        taken = self.leased.pop(tags, command.failures)
        self.credits.restore(taken.msgs, taken.body_bytes)
        return taken.deliveries

    # Time ---------------------------------------------------------------------------------------

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Extend leases, tell of those that have ended, and of why nothing comes."""
        if self.leased:
            self._extend_leases(wall_ms)
            self.revoke(self.leased.expired(wall_ms), "lease_expired")
        if not self.credits.is_reported_open:
            self.notify_flow()
            left_ms = self.credits.held_up_ms - self._session.context.times.tick_ms
            self.credits.held_up_ms = max(left_ms, 0)
        if self.pusher.fetches:
            self._announced_ms = now_ms
        elif now_ms - self._announced_ms >= ANNOUNCE_MS and not self._is_over:
            self._announced_ms = now_ms
            self._session.spawn(self._announce_again())

    def notify_flow(self, *, is_sure: bool = False) -> None:
        """See ``Credits.flow_change``."""
        state = self.credits.flow_change(is_sure=is_sure)
        if state is not None:
            codec = self._session.codec
            flow = codec.encode(codec.Flow(self.sid, state))
            self._session.spawn(self._session.send_frame(flow))

    def notify_paused(self) -> None:
        """At once, where it is so from the beginning."""
        if self.credits.is_paused:
            self.notify_flow(is_sure=True)

    async def _announce_again(self) -> None:
        """Without credit nothing is fetched, and the engine would take the member for gone."""
        try:
            await self.announce()
        except StoreError as exc:
            log.debug(
                "Could not tell the engine that a paused member is still here",
                extra={"action": "announce_failed", "error": str(exc)},
            )

    def _extend_leases(self, wall_ms: int) -> None:
        """Extend the leases that end soon, as long as the subscription asked for."""
        if self._auto_extend_ms:
            ahead_ms = max(self.lease_ms // 2, 2 * self._session.context.times.tick_ms)
            tags = self.leased.due_for_extension(wall_ms, ahead_ms)
            if tags:
                self.extend(tags, self.lease_ms, None)

    # Ending -------------------------------------------------------------------------------------

    async def stop_fetching(self) -> None:
        """Push nothing more; what was fetched and has not been sent is given back."""
        self.credits.stop()
        await self.leave()

    async def leave(self) -> None:
        """The same, without saying so: it may go on in another session. Idempotent."""
        if self._has_left:
            return
        self._has_left = True
        await self.pusher.stop()
        unsent = [tag for tag in self.leased.outstanding if tag > self.pusher.sent_upto]
        if unsent:
            self._release(unsent)
        await self.membership.leave()

    async def settled(self) -> None:
        """Until the engine has heard of all that was settled, or could not be told."""
        await self._settlement.finish()

    async def close(self, reason: str, *, has_vanished: bool = False) -> None:
        """Give everything back at once; ``has_vanished``: an attempt of each counts."""
        await self.stop_fetching()
        await self._settlement.finish()
        held = self.leased.leased(self._session.context.clock.now_ms())
        self.leased.clear()
        for start in range(0, len(held), NACK_COUNT_MAX):
            some = held[start : start + NACK_COUNT_MAX]
            # Not what a client of a broadcast group fails to consume, which would be dropped.
            is_release = self.group.is_broadcast or not has_vanished
            nacks = [
                nack_of(each, None, reason, is_release=is_release, has_vanished=has_vanished)
                for each in some
            ]
            try:
                await self._session.context.store.settle(self.membership.settle(nacks=nacks))
            except StoreError as exc:
                log.info(
                    "Could not release leases; they expire automatically",
                    extra={"action": "release_failed", "error": str(exc), "count": len(nacks)},
                )
                return


async def close_all(
    subscriptions: Iterable[Subscription], reason: str, *, has_vanished: bool
) -> None:
    """Give back everything that they hold; see ``Subscription.close``."""
    await asyncio.gather(
        *(subscription.close(reason, has_vanished=has_vanished) for subscription in subscriptions)
    )
