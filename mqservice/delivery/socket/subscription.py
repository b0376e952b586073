"""One subscription of a session: which message has which tag, and how it is settled.

    Pusher ── fetched ──▶ outstanding[tag] ── msgs frame ──▶ client
       ▲ credit               │ ack, nack, lease end, lost
       └──────────────────────┴──▶ one store.settle per loop tick

Invariants: credit + outstanding never exceeds the caps; a message takes its credit when it is
fetched and returns it when it is settled, its lease ends or it is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, cast

from mqservice.delivery.consumers import Consumer
from mqservice.delivery.filters import WantedFilter
from mqservice.delivery.limits import ANNOUNCE_MS, BLOCKED_MS
from mqservice.delivery.socket.credit import Credits
from mqservice.delivery.socket.fetches import Fetches
from mqservice.delivery.socket.leased_batch import Delivery, LeasedBatch
from mqservice.delivery.socket.leased_messages import LeasedMessages, extend_of, nack_of
from mqservice.delivery.socket.membership import Membership
from mqservice.delivery.socket.owner import Session
from mqservice.errors import problem_from_store
from mqservice.groups.routes import GroupRoute
from mqservice.lib.problem import Problem
from mqservice.protocol import frames
from mqservice.store import (
    Extend,
    GroupNotFound,
    LeaseRef,
    Nack,
    NamespaceMoved,
    Notice,
    NoticeKind,
    Received,
    Record,
    SettleReply,
    StoreError,
    SubscriptionConflict,
    TopicNotFound,
    error_from_code,
    is_shown_as_it_is,
    shown_record,
)
from mqservice.topics.routes import TopicRoute

log = logging.getLogger(__name__)

_FLUSH_COUNT_MAX: Final = 64
_GATHERED_COUNT_MAX: Final = 256  # commands of one request
_GATHER_TURNS_MAX: Final = 16  # of the loop


@dataclass(slots=True, eq=False)
class Command:
    """A command that settles; ``outcome`` names the count in its answer."""

    id: int | None
    outcome: Literal["acked", "nacked", "dead_lettered", "extended"]
    count: int = 0
    failures: list[frames.TagFailure] = field(default_factory=list)


class _Part:
    """What one command added to the request of a tick."""

    __slots__ = ("_leased", "command", "tags")

    def __init__(self, command: Command, held: LeasedBatch | list[tuple[int, Delivery]]) -> None:
        self.command = command
        self._leased = held
        self.tags: Sequence[int] = (
            held.tags if isinstance(held, LeasedBatch) else [tag for tag, _ in held]
        )

    @property
    def deliveries(self) -> list[tuple[int, Delivery]]:
        return (
            list(self._leased.deliveries())
            if isinstance(self._leased, LeasedBatch)
            else self._leased
        )


class _Batch:
    """The request of one tick in the making."""

    def __init__(self) -> None:
        self.acks: dict[tuple[str, int, int], list[int]] = {}
        self.nacks: list[Nack] = []
        self.extends: list[Extend] = []
        self.parts: list[_Part] = []
        self.extended_tags: list[int] = []
        self.joined: list[tuple[Command, list[int]]] = []


class SettleBatches:
    """The settles of one subscription, collected while the client is read, and their confirmations.

        ack, ack, nack ──▶ one SettleRequest, one LeaseRef per queue and delivery
        SettleReply ──▶ ok for each command that has an id, with the tags that had no effect

    What the engine could not be told stays with the subscription as late, so that the client can
    settle it again.
    """

    def __init__(self, subscription: Subscription, session: Session) -> None:
        self._subscription = subscription
        self._session = session
        self._batch: _Batch | None = None
        self._flushes: set[asyncio.Task[None]] = set()
        self._unconfirmed: set[int] = set()  # tags the engine has not answered for yet

    @property
    def is_busy(self) -> bool:
        """Whether so many settles wait for the engine that the client should be read no further."""
        return len(self._flushes) >= _FLUSH_COUNT_MAX

    async def wait_ready(self) -> None:
        """Until it is no longer busy."""
        while self.is_busy:
            await asyncio.wait(self._flushes, return_when=asyncio.FIRST_COMPLETED)

    def add_acks(self, command: Command, deliveries: list[tuple[int, Delivery]]) -> None:
        batch = self._open(command, deliveries)
        acks = batch.acks
        for _, (topic, queue_id, generation, queue_offset, _, _, _, _) in deliveries:
            key = (topic, queue_id, generation)
            offsets = acks.get(key)
            if offsets is None:
                acks[key] = [queue_offset]
            else:
                offsets.append(queue_offset)

    def add_batch(self, command: Command, held: LeasedBatch) -> None:
        """The same of all that was pushed in one frame."""
        acks = self._open(command, held).acks
        for topic, queue_id, offsets in held.places():
            acks.setdefault((topic, queue_id, held.lease_generation), []).extend(offsets)

    def add_nacks(
        self, command: Command, deliveries: list[tuple[int, Delivery]], nacks: list[Nack]
    ) -> None:
        self._open(command, deliveries).nacks += nacks

    def add_extends(
        self, command: Command, deliveries: list[tuple[int, Delivery]], lease_ms: int
    ) -> None:
        batch = self._open(command, deliveries)
        batch.extends += [extend_of(delivery, lease_ms) for _, delivery in deliveries]
        batch.extended_tags += [tag for tag, _ in deliveries]

    @property
    def unconfirmed(self) -> set[int]:
        """Tags that were settled and whose outcome is not known yet."""
        return self._unconfirmed

    def join(self, command: Command, tags: list[int]) -> None:
        """Let a command that was just added wait for the outcome of ``tags`` settled before it.

        Confirming it earlier would promise what the engine may still refuse.
        """
        assert self._batch is not None
        self._batch.joined.append((command, tags))

    async def finish(self) -> None:
        """Wait until everything added so far has been told to the engine or has failed."""
        while self._flushes:
            await asyncio.wait(self._flushes)

    def _open(self, command: Command, held: LeasedBatch | list[tuple[int, Delivery]]) -> _Batch:
        batch = self._batch
        if batch is None:
            batch = self._batch = _Batch()
            # The task starts in the next tick, after all commands that arrived in this one.
            flush = asyncio.get_running_loop().create_task(self._flush())
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)
        part = _Part(command, held)
        command.count = len(part.tags)
        if command.outcome != "extended":
            self._unconfirmed.update(part.tags)
        batch.parts.append(part)
        return batch

    async def _flush(self) -> None:
        batch = self._batch
        assert batch is not None
        # What else the client has sent already goes to the engine with this.
        budget = self._session.budget
        for _ in range(_GATHER_TURNS_MAX):
            if not budget.is_waiting or len(batch.parts) >= _GATHERED_COUNT_MAX:
                break
            await asyncio.sleep(0)
        self._batch = None
        subscription = self._subscription
        earlier = self._flushes - {cast("asyncio.Task[None]", asyncio.current_task())}
        try:
            if batch.joined and earlier:
                await asyncio.wait(earlier)
            if batch.acks or batch.nacks or batch.extends:
                reply = await self._settle(batch)
                self._apply(batch, reply)
        except StoreError as exc:
            for part in batch.parts:
                if part.command.outcome != "extended":
                    subscription.leased.remember_late(part.deliveries)
            self._discard(batch)
            await self._confirm_failed(batch, exc)
            return
        self._discard(batch)
        for command, tags in batch.joined:
            command.failures += [
                frames.TagFailure(tag, "OUTCOME_UNKNOWN")
                for tag in tags
                if subscription.leased.is_late(tag)
            ]
        await self._confirm(batch)

    def _discard(self, batch: _Batch) -> None:
        for part in batch.parts:
            if part.command.outcome != "extended":
                self._unconfirmed.difference_update(part.tags)

    async def _settle(self, batch: _Batch) -> SettleReply:
        try:
            return await self._settle_once(batch)
        except NamespaceMoved:
            await self._subscription.follow_namespace()
            return await self._settle_once(batch)

    async def _settle_once(self, batch: _Batch) -> SettleReply:
        context, store = self._session.context, self._subscription.membership.store
        request = self._subscription.membership.settle(
            acks=[
                LeaseRef(
                    topic=topic,
                    queue_id=queue_id,
                    lease_generation=generation,
                    queue_offsets=offsets,
                )
                for (topic, queue_id, generation), offsets in batch.acks.items()
            ],
            nacks=batch.nacks,
            extends=batch.extends,
        )
        if context.spans is None:
            return await store.settle(request)
        span = context.spans.of_settle(request.group)
        try:
            reply = await store.settle(request)
        except StoreError as error:
            span.failed(error)
            raise
        span.settled([(request, reply)])
        return reply

    def _apply(self, batch: _Batch, reply: SettleReply) -> None:
        settled = sum([len(offsets) for offsets in batch.acks.values()]) + len(batch.nacks)
        self._session.meter.release(settled)
        for tag, until_ms in zip(batch.extended_tags, reply.extended_until_ms, strict=True):
            if until_ms:
                self._subscription.extended(tag, until_ms)
        if not reply.failures:
            return
        failed = {
            (f.topic, f.queue_id, f.lease_generation, f.queue_offset): f.code
            for f in reply.failures
        }
        for part in batch.parts:
            for tag, delivery in part.deliveries:
                code = failed.get(delivery[:4])
                if code is not None:
                    problem = problem_from_store(
                        error_from_code(code, "rejected by the storage engine")
                    )
                    part.command.failures.append(frames.TagFailure(tag, problem.code))
                    part.command.count -= 1

    async def _confirm(self, batch: _Batch) -> None:
        codec = self._session.codec
        for part in batch.parts:
            command = part.command
            if command.id is None:
                continue
            result = frames.Settled(failed=command.failures, **{command.outcome: command.count})
            await self._send(codec.encode(codec.Ok(command.id, result)))

    async def _confirm_failed(self, batch: _Batch, exc: StoreError) -> None:
        codec = self._session.codec
        problem = problem_from_store(exc)
        for part in batch.parts:
            if part.command.id is not None:
                err = codec.Err(part.command.id, problem.code, problem.retryable, problem.detail)
                await self._send(codec.encode(err))

    async def _send(self, frame: bytes) -> None:
        try:
            await self._session.send_frame(frame)
        except OSError:
            # The client is gone; its session ends by itself, and the settle counts all the same.
            log.debug(
                "The client disconnected before its settles were confirmed",
                extra={"action": "confirmation_unsent"},
            )


_RETRY_MS_MIN: Final = 100
_RETRY_MS_MAX: Final = 2_000
# A batch that waited longer than this for the socket gets its lease anew once it is sent.
_HANDOVER_MS_MAX: Final = 1_000


class Pusher:
    """Fetches messages for one subscription under its credit, and sends them to the client.

        credit ──▶ fetches ──▶ tags ──▶ msgs frame ──▶ client
                      ▲          │ the next fetches are under way meanwhile
                      └──────────┘

    At most two fetches are under way, plus one batch that is being sent, so a client that stops
    reading holds three batches and no more. ``sent_upto`` is the last tag whose frame was sent.
    """

    __slots__ = ("_pushing", "_session", "_subscription", "fetches", "sent_upto")

    def __init__(self, subscription: Subscription, session: Session) -> None:
        self._subscription = subscription
        self._session = session
        self.fetches = Fetches(subscription.membership, subscription.credits, session)
        self.sent_upto = 0
        self._pushing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to push."""
        self._pushing = asyncio.get_running_loop().create_task(self._push())

    def end(self) -> None:
        """Push nothing more, without waiting for what is under way; ``stop`` still follows."""
        if self._pushing is not None:
            self._pushing.cancel()

    async def stop(self) -> None:
        """Push nothing more; what was fetched meanwhile has its tags, and has not been sent."""
        if self._pushing is not None:
            self._pushing.cancel()
            await asyncio.wait({self._pushing})
            self._pushing = None
        for received in await self.fetches.stop():
            self._subscription.register(received)

    async def _push(self) -> None:
        try:
            await self._push_batches()
        except OSError:
            log.debug("The client disconnected during a push", extra={"action": "push_ended"})
        except Exception:
            log.exception(
                "A subscription failed with an unexpected error", extra={"action": "push_failed"}
            )
            self._session.end(1011, "the subscription failed", is_kept=False)

    async def _push_batches(self) -> None:
        """Until cancelled. Survives the engine; ends when topic or group is gone, or the group has
        another filter by now.
        """
        subscription = self._subscription
        available = subscription.credits.available
        retry_ms = _RETRY_MS_MIN
        while True:
            if not self.fetches:
                await available.wait()
                self.fetches.start()
            fetch = await self.fetches.next()
            try:
                received = fetch.result()
            except (TopicNotFound, GroupNotFound, SubscriptionConflict) as exc:
                await subscription.refuse(exc)
                return
            except StoreError as exc:
                if isinstance(exc, NamespaceMoved) and await subscription.follow_namespace():
                    continue
                log.debug(
                    "Could not fetch messages for a subscription; trying again",
                    extra={"action": "fetch_failed", "error": str(exc)},
                )
                await asyncio.sleep(retry_ms / 1_000)
                with contextlib.suppress(StoreError):
                    await subscription.membership.store.wait_connected(_RETRY_MS_MAX)
                    await subscription.announce()  # what was told meanwhile is not known here
                retry_ms = min(2 * retry_ms, _RETRY_MS_MAX)
                continue
            retry_ms = _RETRY_MS_MIN
            first_tag = subscription.register(received)
            # The next fetches are under way while this batch is encoded and sent.
            has_begun = self.fetches.start()
            if received.count:
                if has_begun:
                    # Two turns of the loop: in the first the fetch is written, in the second sent.
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                tags = range(first_tag, first_tag + received.count)
                await self._send_in_span(tags, received)
                self._renew_if_late(tags, fetch.received_ms)
                for notice in fetch.missed:
                    subscription.apply(notice)
            del fetch, received  # the next may be long in coming, and a batch is large

    async def _send_in_span(self, tags: Sequence[int], received: Received) -> None:
        spans = self._session.context.spans
        if spans is None:
            await self._send(tags, received)
            return
        membership = self._subscription.membership
        span = spans.of_push(membership.topic, membership.group)
        # Before its messages are sent, so that a quick client's settles find them.
        span.received(received, membership.group)
        await self._send(tags, received)
        span.end()

    async def _send(self, tags: Sequence[int], received: Received) -> None:
        """By columns, where the messages are alike and fit one frame."""
        sid, session = self._subscription.sid, self._session
        columns, attempts = received.columns, received.head.attempts
        if columns is not None and is_shown_as_it_is(columns.properties):
            frame = session.codec.encode_columns(sid, tags, columns, attempts)
            if len(frame) <= session.frame_bytes_max:
                await session.send_frame(frame)
                self._sent(tags[-1])
                return
        records = received.records
        shown = [shown_record(each) if each.properties else each for each in records]
        await send_messages(session, sid, tags, shown, attempts, self._sent)

    def _sent(self, last_tag: int) -> None:
        self.sent_upto = last_tag

    def _renew_if_late(self, tags: Sequence[int], received_ms: int) -> None:
        if self._session.context.clock.monotonic_ms() - received_ms > _HANDOVER_MS_MAX:
            self._subscription.extend(tags, self._subscription.lease_ms, None)


async def send_messages(
    session: Session,
    sid: int,
    tags: Sequence[int],
    records: Sequence[Record],
    attempts: Sequence[int],
    sent: Callable[[int], None],
) -> None:
    """In one ``msgs`` frame, or in more where the client does not take so large a one.

    ``sent`` is called with the last tag of each frame that has gone out.
    """
    frame = session.codec.encode_messages(sid, tags, records, attempts)
    if len(frame) <= session.frame_bytes_max or len(records) == 1:
        await session.send_frame(frame)
        sent(tags[-1])
        return
    half = len(records) // 2
    await send_messages(session, sid, tags[:half], records[:half], attempts[:half], sent)
    await send_messages(session, sid, tags[half:], records[half:], attempts[half:], sent)


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
            store=session.context.stores[group.shard],
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

    @property
    def shard(self) -> str:
        return self.group.shard

    # Receiving ----------------------------------------------------------------------------------

    async def announce(self) -> None:
        """Tell the engine of this member; see ``Membership.announce``. Raises StoreError."""
        is_paused = await self.membership.announce()
        if is_paused is not None:
            self.credits.is_paused = is_paused

    async def follow_namespace(self) -> bool:
        """Become a member in the shard that the namespace has gone to; waits while it is on its
        way. Whether it is another shard than before.
        """
        session, before = self._session, self.group
        key = session.tenant_id, session.namespace, before.name
        session.context.caches.routes.drop_group(key)
        try:
            group = await session.group_route(before.name)
        except Problem as problem:
            log.debug(
                "Could not find the shard of a subscription's namespace",
                extra={"action": "namespace_not_found", "error": problem.detail},
            )
            return False
        if self.group is before and group.shard != before.shard:  # nobody else has seen to it
            self.group = group
            store = session.context.stores[group.shard]
            self.membership = replace(self.membership, store=store)
            self.pusher.fetches.membership = self.membership
            session.context.sessions.follow(self)
            with contextlib.suppress(StoreError):  # the next fetch says so again
                await self.announce()
        return self.group.shard != before.shard

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

    async def _follow_deleted(self) -> None:
        await self.follow_namespace()

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
        if notice.kind is NoticeKind.DELETED and notice.code == NamespaceMoved.code:
            # It has no credit, or would have noticed.
            self._session.spawn(self._follow_deleted())
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
                await self.membership.store.settle(self.membership.settle(nacks=nacks))
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
