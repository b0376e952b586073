"""One subscription of a session: fetches under credit, hands out tags, settles what comes back.

    store.receive ──▶ outstanding[tag] ──▶ msgs frame ──▶ client
         ▲ credit            │ ack, nack, lease end
         └───────────────────┴──▶ one store.settle per loop tick

Invariants: credit + outstanding never exceeds the caps; a message takes its credit when it is
fetched and returns it when it is settled or its lease ends; at most one fetch is under way, plus
one batch that is being sent, so a client that stops reading holds two batches and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mqservice.delivery.filters import WantedFilter
from mqservice.delivery.limits import (
    CREDIT_BYTES_MAX,
    CREDIT_MSGS_MAX,
    FRAME_MESSAGES_MAX,
)
from mqservice.delivery.socket import frames, pushes
from mqservice.delivery.socket.held import Delivery, Held, nack_of
from mqservice.delivery.socket.membership import Membership
from mqservice.delivery.socket.owner import Session
from mqservice.delivery.socket.settlement import Command, Settlement
from mqservice.errors import problem_from_store
from mqservice.groups.routes import GroupRoute
from mqservice.store import (
    GroupNotFound,
    Nack,
    Received,
    ReceiveRequest,
    Record,
    StoreError,
    SubscriptionConflict,
    TopicNotFound,
    shown_record,
)
from mqservice.topics.routes import TopicRoute

log = logging.getLogger(__name__)

_RETRY_MS_MIN: Final = 100
_RETRY_MS_MAX: Final = 2_000
# A batch that waited longer than this for the socket gets its lease anew once it is sent.
_HANDOVER_MS_MAX: Final = 1_000
_NACK_COUNT_MAX: Final = 1_000


class Subscription:
    """See the module's docstring. One event loop uses it."""

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
        client_id: str,
        credit: frames.Credit,
    ) -> None:
        self.sid = sid
        self.is_fetching = True
        self._session = session
        self._topic = topic
        self._group = group
        self._lease_ms = lease_ms
        self._auto_extend_ms = auto_extend_ms
        self.membership = Membership(
            store=session.context.store,
            group=group.engine_name,
            topic=topic.engine_name,
            member_id=f"{session.member_id}-{sid}",
            wanted=wanted,
            lease_ms=lease_ms,
            client_id=client_id,
        )
        self._credit_msgs = credit.msgs
        self._credit_bytes = credit.bytes
        self._has_credit = asyncio.Event()
        self._held = Held()
        self._flow = self._flow_told = "open"
        self._sent_upto = 0
        self._pushing: asyncio.Task[None] | None = None
        self._fetch: asyncio.Task[tuple[Received, int]] | None = None
        self._settlement = Settlement(self, session)
        self._credit_changed()

    @property
    def outstanding_count(self) -> int:
        return len(self._held.outstanding)

    @property
    def is_drained(self) -> bool:
        """Whether it pushes nothing more and the client holds nothing more."""
        return not (self.is_fetching or self._held.outstanding)

    @property
    def credit(self) -> frames.Credit:
        """What may still be delivered; bytes fall below zero after one large message."""
        return frames.Credit(self._credit_msgs, self._credit_bytes)

    # Pushing ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to push."""
        self._pushing = asyncio.get_running_loop().create_task(self._push())

    async def _push(self) -> None:
        try:
            await self._push_batches()
        except OSError:
            log.debug("The client is gone", extra={"action": "push_ended"})
        except Exception:
            log.exception("A subscription failed", extra={"action": "push_failed"})
            self._session.end(1011, "the subscription failed")

    async def _push_batches(self) -> None:
        """Until cancelled. Survives the engine; ends when topic or group is gone, or the group has
        another filter by now.
        """
        retry_ms = _RETRY_MS_MIN
        while True:
            if self._fetch is None:
                await self._has_credit.wait()
                self._fetch = self._begin_fetch()
            # ``wait`` leaves the fetch alone when this task is cancelled, for ``stop_fetching``.
            await asyncio.wait({self._fetch})
            try:
                received, received_ms = self._fetch.result()
            except (TopicNotFound, GroupNotFound, SubscriptionConflict) as exc:
                self._fetch = None
                problem = problem_from_store(exc)
                codec = self._session.codec
                err = codec.Err(None, problem.code, False, problem.detail)
                await self._session.send_frame(codec.encode(err))
                return
            except StoreError as exc:
                self._fetch = None
                log.debug("A fetch failed", extra={"action": "fetch_failed", "error": str(exc)})
                await asyncio.sleep(retry_ms / 1_000)
                with contextlib.suppress(StoreError):
                    await self._session.context.store.wait_connected(_RETRY_MS_MAX)
                retry_ms = min(2 * retry_ms, _RETRY_MS_MAX)
                continue
            retry_ms = _RETRY_MS_MIN
            first_tag = self._register(received)
            # The next fetch is under way while this batch is encoded and sent.
            has_credit = self._has_credit.is_set()
            self._fetch = self._begin_fetch() if has_credit else None
            if received.records:
                shown = [shown_record(record) for record in received.records]
                await self._send_messages(first_tag, shown, received.head.attempts)
                self._renew_if_late(first_tag, len(received.records), received_ms)

    def _begin_fetch(self) -> asyncio.Task[tuple[Received, int]]:
        session = self._session
        request = self.membership.order(
            messages_max=min(self._credit_msgs, FRAME_MESSAGES_MAX),
            # A quarter is left for what JSON adds.
            bytes_max=min(self._credit_bytes, session.frame_bytes_max * 3 // 4),
        )
        return asyncio.get_running_loop().create_task(self._fetch_once(request))

    async def _fetch_once(self, request: ReceiveRequest) -> tuple[Received, int]:
        context = self._session.context
        received = await context.store.receive(request)
        return received, context.clock.monotonic_ms()

    def _register(self, received: Received) -> int:
        """Give tags to the messages; the first one is returned, the others follow it."""
        first_tag = self._held.next_tag
        extend_until_ms = 0
        if self._auto_extend_ms:
            # The engine ends a delivery there whatever is asked for.
            extend_ms = min(self._auto_extend_ms, self._group.consume_timeout_ms)
            extend_until_ms = self._session.context.clock.now_ms() + extend_ms
        added = self._held.add(received, extend_until_ms)
        self._credit_msgs -= added.msgs
        self._credit_bytes -= added.body_bytes
        self._credit_changed()
        return first_tag

    async def _send_messages(
        self, first_tag: int, records: Sequence[Record], attempts: Sequence[int]
    ) -> None:
        session = self._session
        frame = session.codec.encode_messages(self.sid, first_tag, records, attempts)
        if len(frame) <= session.frame_bytes_max or len(records) == 1:
            await session.send_frame(frame)
            self._sent_upto = first_tag + len(records) - 1
            return
        half = len(records) // 2
        await self._send_messages(first_tag, records[:half], attempts[:half])
        await self._send_messages(first_tag + half, records[half:], attempts[half:])

    def _renew_if_late(self, first_tag: int, count: int, received_ms: int) -> None:
        if self._session.context.clock.monotonic_ms() - received_ms > _HANDOVER_MS_MAX:
            self.extend(range(first_tag, first_tag + count), self._lease_ms, None)

    # Credit -------------------------------------------------------------------------------------

    def add_credit(self, msgs: int, bytes_count: int) -> None:
        """Permits on top, up to the caps for what is free and outstanding together."""
        outstanding = self._held.outstanding
        outstanding_bytes = sum(d.body_bytes for d in outstanding.values())
        self._credit_msgs = min(self._credit_msgs + msgs, CREDIT_MSGS_MAX - len(outstanding))
        self._credit_bytes = min(
            self._credit_bytes + bytes_count, CREDIT_BYTES_MAX - outstanding_bytes
        )
        self._credit_changed()

    def _credit_changed(self) -> None:
        if self.is_fetching and self._credit_msgs > 0 and self._credit_bytes > 0:
            self._has_credit.set()
        else:
            self._has_credit.clear()

    def flow_change(self) -> str | None:
        """What the client is to be told of why it gets messages or not; once each second.

        A state that has passed by the next call is not told: credit is used up all the time.
        """
        state = "open" if self._has_credit.is_set() else "credit"
        is_steady, self._flow = state == self._flow, state
        if not is_steady or state == self._flow_told or not self.is_fetching:
            return None
        self._flow_told = state
        return state

    # Settling -----------------------------------------------------------------------------------

    async def wait_ready(self) -> None:
        """Until the engine has caught up with what the client settles."""
        if self._settlement.is_busy:
            await self._settlement.wait_ready()

    def ack(self, tags: list[int], command_id: int | None) -> None:
        """Settle ``tags``; the answer is sent once the engine has confirmed."""
        command = Command(command_id, "acked")
        pending = self._pending(tags)
        taken = self._take(tags, command)
        self._settlement.add_acks(command, taken)
        if pending:
            self._settlement.join(command, pending)

    def tags_upto(self, upto: int) -> list[int]:
        """Outstanding tags that are not greater than ``upto``, and those still being settled."""
        outstanding = [tag for tag in self._held.outstanding if tag <= upto]
        return outstanding + [tag for tag in self._settlement.settling if tag <= upto]

    def is_late(self, tag: int) -> bool:
        """Whether ``tag`` can still be settled although its credit has been returned."""
        return self._held.is_late(tag)

    def _pending(self, tags: list[int]) -> list[int]:
        settling = self._settlement.settling
        return [tag for tag in tags if tag in settling] if settling else []

    def nack(self, items: list[frames.NackItem], command_id: int | None) -> None:
        """Give messages back, each after its delay."""
        by_tag = {item.t: item for item in items}
        self._give_up(
            list(by_tag),
            Command(command_id, "nacked"),
            lambda tag, given: nack_of(given, by_tag[tag].delay_ms, by_tag[tag].reason or ""),
        )

    def dead_letter(self, items: list[frames.DeadLetterItem], command_id: int | None) -> None:
        """Send messages to the group's DLQ."""
        reasons = {item.t: item.reason or "" for item in items}
        self._give_up(
            list(reasons),
            Command(command_id, "dead_lettered"),
            lambda tag, given: nack_of(given, None, reasons[tag], is_dead=True),
        )

    def _release(self, tags: list[int]) -> None:
        """Give back what the client has never had."""
        release = Command(None, "nacked")
        reason = "not sent"
        self._give_up(tags, release, lambda _, given: nack_of(given, 0, reason, is_release=True))

    def _give_up(
        self, tags: list[int], command: Command, nack: Callable[[int, Delivery], Nack]
    ) -> None:
        pending = self._pending(tags)
        taken = self._take(tags, command)
        nacks = [nack(tag, delivery) for tag, delivery in taken]
        self._settlement.add_nacks(command, taken, nacks)
        if pending:
            self._settlement.join(command, pending)

    def extend(self, tags: Iterable[int], lease_ms: int, command_id: int | None) -> None:
        """Let the leases of ``tags`` end ``lease_ms`` from now; they stay outstanding."""
        command = Command(command_id, "extended")
        found: list[tuple[int, Delivery]] = []
        for tag in tags:
            delivery = self._held.outstanding.get(tag)
            if delivery is None:
                command.failures.append(pushes.TagFailure(tag, "LEASE_EXPIRED"))
            else:
                found.append((tag, delivery))
        self._settlement.add_extends(command, found, lease_ms)

    def extended(self, tag: int, until_ms: int) -> None:
        """The engine has moved the end of a lease."""
        self._held.extended(tag, until_ms)

    def remember_late(self, deliveries: Iterable[tuple[int, Delivery]]) -> None:
        """Keep what may still be settled although its credit has been returned."""
        self._held.remember_late(deliveries)

    def _take(self, tags: Iterable[int], command: Command) -> list[tuple[int, Delivery]]:
        """Take ``tags`` out of the outstanding ones and return their credit."""
        taken = self._held.take(tags, command.failures)
        self._credit_msgs += taken.msgs
        self._credit_bytes += taken.body_bytes
        self._credit_changed()
        return taken.deliveries

    def expire(self, now_ms: int) -> list[int]:
        """Tags whose lease has ended by ``now_ms``; their credit is returned."""
        ended = self._held.ended(now_ms)
        if ended:
            self.remember_late(self._take(ended, Command(None, "acked")))
        return ended

    def extend_by_itself(self, now_ms: int) -> None:
        """Extend the leases that end soon, as long as the subscription asked for."""
        if self._auto_extend_ms:
            ahead_ms = max(self._lease_ms // 2, 2 * self._session.context.times.tick_ms)
            tags = self._held.to_extend(now_ms, ahead_ms)
            if tags:
                self.extend(tags, self._lease_ms, None)

    async def stop_fetching(self) -> None:
        """Push nothing more; what was fetched and has not been sent is given back."""
        self.is_fetching = False
        self._credit_changed()
        if self._pushing is not None:
            self._pushing.cancel()
            await asyncio.wait({self._pushing})
            self._pushing = None
        fetch, self._fetch = self._fetch, None
        if fetch is not None:
            # The engine frees the parked place and takes back what the reply may have leased.
            fetch.cancel()
            await asyncio.wait({fetch})
            if not fetch.cancelled() and fetch.exception() is None:
                self._register(fetch.result()[0])
        unsent = [tag for tag in self._held.outstanding if tag > self._sent_upto]
        if unsent:
            self._release(unsent)
        await self.membership.leave()

    async def close(self, reason: str) -> None:
        """Give everything back at once."""
        await self.stop_fetching()
        await self._settlement.finish()
        outstanding = list(self._held.outstanding.values())
        self._held.outstanding.clear()
        for start in range(0, len(outstanding), _NACK_COUNT_MAX):
            # Not what a client of a broadcast group fails to consume, which would be dropped.
            nacks = [
                nack_of(delivery, 0, reason, is_release=self._group.is_broadcast)
                for delivery in outstanding[start : start + _NACK_COUNT_MAX]
            ]
            try:
                await self._session.context.store.settle(self.membership.settle(nacks=nacks))
            except StoreError as exc:
                log.info(
                    "Could not give leases back; they will end by themselves",
                    extra={"action": "give_back_failed", "error": str(exc), "count": len(nacks)},
                )
                return
